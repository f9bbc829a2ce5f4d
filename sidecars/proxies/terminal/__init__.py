"""A terminal: between whoever sits at the control plane and a container of an agent's cluster."""
