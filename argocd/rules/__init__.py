"""The rules, a module for each group; each has a tuple `RULES` that `argocd.rules.catalogue` lists."""
