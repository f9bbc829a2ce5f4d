"""The ground that every room stands on: version, errors, logs, metrics, settings, running."""

__version__ = "0.1.0"
