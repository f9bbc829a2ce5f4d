"""What carries state between clusters: the wire, delivery, principal, agent."""
