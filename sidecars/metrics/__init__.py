"""Figures of the sidecars."""
