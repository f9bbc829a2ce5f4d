"""What argocd-agent's principal and agents keep in step."""
