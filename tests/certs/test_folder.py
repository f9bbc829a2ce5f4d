"""Pairs in folders: swapped whole, watched, and taken into a live context."""

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import Authority, LeafSubject
from certs.folder import CERTIFICATE, KEY, changes, publish, read, read_pair
from certs.key_pair import CertificateError, KeyPair
from certs.tls import FolderContext, load, server_context


def issue(*, lifetime: timedelta = timedelta(days=1)) -> KeyPair:
    now = datetime.now(UTC)
    return Authority.create("a", now=now).issue(
        LeafSubject("localhost", dns_names=["localhost"]), now=now, lifetime=lifetime
    )


def put(folder: Path, pair: KeyPair) -> None:
    publish(folder, {CERTIFICATE: pair.certificate, KEY: pair.key})


def test_a_published_pair_is_read_back_and_replaced_whole(tmp_path: Path) -> None:
    for pair in (issue(), issue()):
        put(tmp_path, pair)
        assert read_pair(tmp_path) == pair
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == [
        "tls.crt",
        "tls.key",
    ]
    assert len([path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]) == 1
    assert (tmp_path / KEY).stat().st_mode & 0o077 == 0


def test_a_reader_beside_a_writer_never_meets_a_missing_or_mixed_pair(tmp_path: Path) -> None:
    pairs = [issue(), issue()]
    put(tmp_path, pairs[0])
    context = server_context(tmp_path)

    def swap() -> None:
        for turn in range(300):
            put(tmp_path, pairs[turn % 2])

    with ThreadPoolExecutor() as threads:
        swapping = threads.submit(swap)
        while not swapping.done():
            assert read_pair(tmp_path) in pairs
            assert load(context, tmp_path) in pairs
        swapping.result()


def test_a_missing_file_and_one_that_is_too_large_are_named(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"tls\.crt: No such file"):
        read(tmp_path, CERTIFICATE)
    (tmp_path / CERTIFICATE).write_bytes(b"x" * (1 << 20) + b"y")
    with pytest.raises(CertificateError, match=r"tls\.crt: larger than"):
        read(tmp_path, CERTIFICATE)


async def test_each_swap_is_noticed(tmp_path: Path) -> None:
    put(tmp_path, issue())
    seen = changes(tmp_path)
    async with asyncio.timeout(60):
        await anext(seen)
        for pair in (issue(), issue()):
            put(tmp_path, pair)
            await anext(seen)
            assert read_pair(tmp_path) == pair
    await seen.aclose()  # type: ignore[attr-defined]


async def test_without_an_event_the_folder_is_looked_at_now_and_then(tmp_path: Path) -> None:
    looks = 0
    async with asyncio.timeout(60):
        async for _ in changes(tmp_path, recheck=0.01):
            looks += 1
            if looks == 3:
                break
    assert looks == 3


async def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot be watched"):
        await anext(changes(tmp_path / "nowhere"))


def test_a_context_is_built_from_a_good_pair_or_not_at_all(tmp_path: Path) -> None:
    put(tmp_path, issue())
    assert server_context(tmp_path).minimum_version is ssl.TLSVersion.TLSv1_3
    put(tmp_path, issue(lifetime=timedelta(seconds=0)))
    with pytest.raises(CertificateError, match="expired at"):
        server_context(tmp_path)


async def test_a_bad_pair_is_reported_and_a_good_one_loaded_once(tmp_path: Path) -> None:
    first, second = issue(), issue()
    put(tmp_path, first)
    context = FolderContext(tmp_path)
    told: asyncio.Queue[str] = asyncio.Queue()
    following = asyncio.create_task(
        context.follow(
            loaded=lambda pair: told.put_nowait(pair.fingerprint),
            refused=lambda error: told.put_nowait(str(error)),
        )
    )
    async with asyncio.timeout(60):
        assert await told.get() == first.fingerprint
        publish(tmp_path, {CERTIFICATE: second.certificate, KEY: first.key})
        assert "does not belong to the key" in await told.get()
        put(tmp_path, second)
        while (said := await told.get()) != second.fingerprint:
            assert "does not belong" in said
    following.cancel()


async def test_a_watch_ends_when_it_is_cancelled_in_the_moment_of_a_change(tmp_path: Path) -> None:
    seen = asyncio.Event()

    async def follow() -> None:
        async for _ in changes(tmp_path):
            seen.set()

    for _ in range(3):
        watching = asyncio.create_task(follow())
        async with asyncio.timeout(60):
            await seen.wait()
        await asyncio.sleep(0)
        (tmp_path / "change").touch()
        (tmp_path / "change").unlink()
        asyncio.get_running_loop().call_soon(watching.cancel)
        done, _ = await asyncio.wait({watching}, timeout=60)
        assert done
        seen.clear()
