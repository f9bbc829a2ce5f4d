"""Admission: bytes in, a verdict by the rules of `argocd`, bytes out; and the server around it."""
