"""A real argocd-agent as a child process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scripts.argocd_agent import BINARY
from tests.sidecars.wire.listening_principal import AUTHORITY, PRINCIPAL
from tests.sidecars.wire.pki import Issued


@asynccontextmanager
async def running(folder: Path, *arguments: str) -> AsyncIterator[Path]:
    """The binary until the end of the block; yields the file that holds its log."""
    log = folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(BINARY, *arguments, stdout=output, stderr=output)
    try:
        yield log
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(20):
            await process.wait()


def said(log: Path) -> str:
    return log.read_text()[-4000:]


def written(folder: Path, *, agent: Issued) -> Path:
    """What argocd-agent reads from files."""
    for name, issued in (("principal", PRINCIPAL), ("agent", agent)):
        pair = issued.pair()
        (folder / f"{name}.crt").write_bytes(pair.certificate)
        (folder / f"{name}.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(AUTHORITY.pem)
    return folder
