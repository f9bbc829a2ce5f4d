"""An agent in a process of its own that sends one event of any size: `python -m … PORT FOLDER BYTES`.

It prints the code with which its stream ended. What it does to memory is seen at the other end alone.
"""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from grpc import aio

from certs.key_pair import KeyPair, Material
from sidecars.wire.tls import channel_credentials
from tests.sidecars.wire.listening_principal import login, refusal, subscribe

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"


async def flood(port: int, folder: Path, size: int) -> str:
    pair = KeyPair((folder / CERTIFICATE).read_bytes(), (folder / KEY).read_bytes())
    material = Material(pair, (folder / AUTHORITIES).read_bytes())
    options = [("grpc.max_send_message_length", -1)]
    async with aio.secure_channel(
        f"localhost:{port}", channel_credentials(material), options=options
    ) as channel:
        token = (await login(channel)).accessToken
        call = subscribe(channel, ("authorization", token))
        await call.wait_for_connection()
        with suppress(aio.AioRpcError):
            await call.write(bytes(size))
        while True:
            with suppress(AssertionError):  # whatever the principal says first
                return str((await refusal(call.read()))[0].name)


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(flood(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
