"""Manifests and clusters judged by the rules: `tiphys check` and `tiphys scan`."""
