"""Live from the control plane: requests to an agent's cluster, and what it answers. `requests` and `dispatcher` are
the two ends of the lane; each proxy has a module on either side.
"""
