"""Key pairs in folders: published so that a reader never sees half of one, and watched for changes.

The layout is the kubelet's: files are links into `..data`, itself a link that is swapped by a rename. So the
same reader serves a mounted Secret (cert-manager, files) and the memory-backed folder between our processes.
"""

import asyncio
import contextlib
import ctypes
import os
import secrets
import shutil
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from certs.key_pair import CertificateError, KeyPair

T = TypeVar("T")

CERTIFICATE, KEY, BUNDLE = "tls.crt", "tls.key", "ca.crt"
"""A Secret of type kubernetes.io/tls has these keys, and so has a folder that it is mounted at."""

_DATA = "..data"
_SIZE_LIMIT = 1 << 20
"""A Secret holds at most 1 MiB; what is larger is no certificate."""


def publish(folder: Path, files: Mapping[str, bytes]) -> None:
    """Swap all files at once; readers see the old ones or the new ones, also after a crash in between."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"..{secrets.token_hex(8)}"
    fresh.mkdir(mode=0o700)
    for name, content in files.items():
        descriptor = os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    link = folder / f"..link-{fresh.name[2:]}"
    link.symlink_to(fresh.name)
    previous = (folder / _DATA).readlink() if (folder / _DATA).is_symlink() else None
    link.replace(folder / _DATA)
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path(_DATA) / name)
    if previous is not None:
        shutil.rmtree(folder / previous, ignore_errors=True)


def read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        with path.open("rb") as file:
            content = file.read(_SIZE_LIMIT + 1)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror or error}") from error
    if len(content) > _SIZE_LIMIT:
        raise CertificateError(f"{path}: larger than {_SIZE_LIMIT} bytes")
    return content


def consistently(folder: Path, take: Callable[[Path], T]) -> T:
    """What `take` makes of the folder behind one reading of `..data`: a swap cannot mix two pairs.

    Whoever swaps removes the old folder: what fails while that happens is taken again from the new one.
    """
    while True:
        source = _settled(folder)
        try:
            return take(source)
        except CertificateError:
            if _settled(folder) == source:
                raise


def _settled(folder: Path) -> Path:
    data = folder / _DATA
    with contextlib.suppress(OSError):  # no link: a plain folder
        return folder / data.readlink()
    return folder


def read_pair(folder: Path) -> KeyPair:
    """The folder's pair; raises where it is missing, half-written or mismatched."""
    return consistently(
        folder,
        lambda source: KeyPair.checked(
            certificate=read(source, CERTIFICATE), key=read(source, KEY), origin=str(folder)
        ),
    )


def read_with_bundle(folder: Path) -> tuple[KeyPair, bytes]:
    """The pair and the authorities beside it, empty where there are none."""

    def take(source: Path) -> tuple[KeyPair, bytes]:
        pair = KeyPair.checked(
            certificate=read(source, CERTIFICATE), key=read(source, KEY), origin=str(folder)
        )
        return pair, read(source, BUNDLE) if (source / BUNDLE).exists() else b""

    return consistently(folder, take)


async def changes(folder: Path, *, recheck: float = 60.0) -> AsyncIterator[None]:
    """Once the watch stands, then for each change of the folder, and at least every `recheck` seconds.

    The recheck is for what no event tells: a clock that jumped, a file system without inotify. inotify is
    called through ctypes because the packages that wrap it bring threads or an event loop of their own.
    """
    woken = asyncio.Event()
    with _inotify(folder, woken):
        while True:
            yield
            with contextlib.suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with a change.
                async with asyncio.timeout(recheck):
                    await woken.wait()
            woken.clear()


_IN_CREATE, _IN_MOVED_TO, _IN_CLOSE_WRITE, _IN_DELETE = 0x100, 0x80, 0x8, 0x200
_IN_NONBLOCK, _IN_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENT_HEADER = struct.calcsize("iIII")


@contextlib.contextmanager
def _inotify(folder: Path, woken: asyncio.Event) -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):  # not Linux: the recheck alone has to do
        yield
        return
    descriptor = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
    if descriptor < 0:
        raise CertificateError(f"{folder}: cannot be watched: {os.strerror(ctypes.get_errno())}")
    loop = asyncio.get_running_loop()

    def drain() -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(descriptor, 64 * (_EVENT_HEADER + 256))
        woken.set()

    try:
        mask = _IN_CREATE | _IN_MOVED_TO | _IN_CLOSE_WRITE | _IN_DELETE
        if libc.inotify_add_watch(descriptor, os.fsencode(folder), mask) < 0:
            raise CertificateError(f"{folder}: cannot be watched: {os.strerror(ctypes.get_errno())}")
        loop.add_reader(descriptor, drain)
        yield
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
