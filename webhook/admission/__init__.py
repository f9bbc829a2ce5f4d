"""A review in, an answer out."""
