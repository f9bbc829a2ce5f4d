"""What logs and terminals share: which pods may be looked into, what is open, and how the agent calls back."""
