"""A real Argo CD, and the controllers that it waits for, beside a local API server.

`ArgoCd(cluster, programs=find_programs()).start()` is one installation; `tests/cluster/README.md` tells how tests
get one, `make cluster ARGS=--argocd` starts one to try things out.
"""
