"""The sidecar beside the control plane's Argo CD: what its agents shall have, and what they tell."""
