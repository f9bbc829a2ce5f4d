"""The principal's port."""
