"""What both sidecars need to keep objects in step."""
