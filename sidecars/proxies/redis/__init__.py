"""argocd-server's Redis: the control plane's own, with the trees and managed resources of agents shown through it."""
