"""The installation id, and moving between tracking methods."""
