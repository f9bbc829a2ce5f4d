"""The ground that every room stands on: version, errors, logs, metrics, settings, running, a guarded reader of YAML, a small HTTP server."""

__version__ = "0.1.0"
