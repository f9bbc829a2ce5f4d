"""What an operator does about agents: certificates, cluster Secrets, the blocklist; argocd-agentctl's objects."""
