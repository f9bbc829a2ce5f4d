"""A container's log: from the API server beside an agent to whoever reads it at the control plane."""
