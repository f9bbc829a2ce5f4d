"""An agent's way to its principal."""
