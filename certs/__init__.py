"""Authorities, leaves, renewal and live reload, for whoever serves or dials TLS in this house."""
