"""What Argo CD and argocd-agent mean, as pure functions over plain dicts."""
