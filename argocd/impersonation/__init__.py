"""As which service account an Application syncs."""
