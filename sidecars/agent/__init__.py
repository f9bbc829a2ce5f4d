"""The sidecar beside a workload cluster's Argo CD: takes what its principal gives, tells what it sees."""
