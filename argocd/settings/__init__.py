"""argocd-cm, and the Secrets of clusters and repositories."""
