"""Who is calling, and whether that still counts."""
