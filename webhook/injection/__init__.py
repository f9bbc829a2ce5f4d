"""A sidecar put into a pod."""
