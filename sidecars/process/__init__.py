"""Leadership with its probes, and certificates, of a sidecar's process."""
