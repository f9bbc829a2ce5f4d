"""A principal, and an agent whose certificate has expired and who tries three times, in a process of their own.

It prints the codes that the agent sees. What grpc prints by itself goes past Python, to standard error.
"""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its settings when it is first imported

import asyncio
import sys
from datetime import timedelta

from tests.sidecars.wire.listening_principal import AUTHORITY, login, refusal, started
from tests.sidecars.wire.pki import CLIENT, issue

TRIES = 3


async def codes() -> list[str]:
    stale = issue("agent-1", AUTHORITY, usage=[CLIENT], begins=timedelta(hours=-2), ends=timedelta(hours=-1))
    principal = await started()
    found = []
    for _ in range(TRIES):
        async with principal.channel(stale) as channel:
            found.append((await refusal(login(channel)))[0].name)
    await principal.server.stop(grace=0)
    return found


if __name__ == "__main__":
    sys.stdout.write(" ".join(asyncio.run(codes())))
