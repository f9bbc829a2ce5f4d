"""Ports of this machine that whoever is told of them listens on later."""

import socket
from contextlib import suppress
from random import SystemRandom

from tiphys.errors import SurroundingsError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Below those that systems give to whoever dials, so that a principal that was killed finds its own again."""
    for port in SystemRandom().sample(range(20_000, 25_000), k=50):
        with suppress(OSError), socket.create_server((LOOPBACK, port)):
            return port
    raise SurroundingsError("no free port among fifty between 20000 and 24999 on the loopback address")
