"""What grpc prints by itself, past our logs."""

import asyncio
import os
import sys

import pytest

from tests.sidecars.wire import stale_agent
from tests.sidecars.wire.listening_principal import PATIENCE

UNSET = ("GRPC_VERBOSITY", "GRPC_SSL_CIPHER_SUITES")


@pytest.mark.parametrize("wish", [None, "INFO"], ids=["as we set it", "as the user set it"])
async def test_handshakes_that_fail_are_printed_by_grpc_only_for_who_wants_it(wish: str | None) -> None:
    environment = {key: text for key, text in os.environ.items() if key not in UNSET}
    if wish is not None:
        environment["GRPC_VERBOSITY"] = wish
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", stale_agent.__name__),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            codes, printed = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert codes.decode().split() == ["UNAVAILABLE"] * stale_agent.TRIES
    if wish is None:
        assert printed == b""
    else:
        assert printed.count(b"certificate has expired") >= stale_agent.TRIES
