"""Ports for servers that are started, killed and started again on this machine."""

import fcntl
import socket
from contextlib import suppress

from scripts.cluster.binaries import cache_folder

FIRST, LAST = 25_000, 32_766
"""Below those that the system gives to whoever dials, or a server that was killed may find its own taken. Above the
demonstration's. argocd-agent takes none above 32767."""

LOOPBACK = "127.0.0.1"

_LONGEST = 5  # digits of a port


def free_port() -> int:
    """Offered to no other process of this user before all the others were: it may be bound late, and again."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "last-port").open("a+b") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        read = counter.read(_LONGEST)
        last = int(read) if read.isdigit() else LAST  # whatever else is in it
        for _ in range(LAST - FIRST + 1):
            last = last + 1 if FIRST <= last < LAST else FIRST
            with suppress(OSError), socket.create_server((LOOPBACK, last)):
                break
        else:
            raise OSError(f"no free port between {FIRST} and {LAST} on {LOOPBACK}")
        counter.truncate(0)
        counter.write(b"%d" % last)
        counter.flush()
    return last
