"""What a principal is in a pair: the active one, or the other."""
