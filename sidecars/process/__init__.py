"""Leadership, pages and certificates of a sidecar's process."""
