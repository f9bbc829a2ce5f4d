"""What a rule is, what it may look at, and Tiphys's configuration."""
