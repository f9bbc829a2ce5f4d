"""The only door to a Kubernetes API."""
