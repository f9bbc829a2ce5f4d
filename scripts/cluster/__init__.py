"""A real kube-apiserver on this machine's loopback, for tests and for trying things out.

`with Cluster() as cluster:` starts one in a few seconds; `tests/cluster/README.md` tells how tests get one.
"""
