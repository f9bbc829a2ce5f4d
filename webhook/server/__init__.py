"""Processes, sockets and the ASGI application."""
