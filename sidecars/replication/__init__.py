"""A pair of principals: who is active (states, record, controller, fence), and how the other one keeps its copy."""
