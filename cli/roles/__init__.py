"""What `tiphys rbac` prints."""
