"""What the API server is told to ask us."""
