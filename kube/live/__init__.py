"""A real API server, through the official client's configuration and session."""

from kube.live.store import LiveStore

__all__ = ["LiveStore"]
