"""Certificates, wherever they come from, and what becomes of bad ones."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from certs.key_pair import CertificateError, KeyPair, Material
from certs.sources import (
    CertificateSource,
    Files,
    Joined,
    LeafFolder,
    LeafSecret,
    Secrets,
    follow,
    secret_data,
)
from kube.cache import Cache
from kube.embedded import EmbeddedStore
from kube.resources import SECRETS
from kube.store import PatchKind
from tests.sidecars.wire.listening_principal import until
from tiphys.errors import SurroundingsError, TiphysError
from tiphys.metrics import REGISTRY

HOME = "default"
PATIENCE = 10.0


def authority() -> Authority:
    return Authority.create("an authority", now=datetime.now(UTC))


def leaf(signed_by: Authority, *, begins: timedelta = timedelta(), days: float = 1) -> KeyPair:
    subject = LeafSubject("localhost", dns_names=["localhost"])
    return signed_by.issue(subject, now=datetime.now(UTC) + begins, lifetime=timedelta(days=days))


async def put(store: EmbeddedStore, name: str, **parts: bytes) -> None:
    """`tls_crt` is the part tls.crt."""
    data = {key.replace("_", "."): b64encode(part).decode() for key, part in parts.items()}
    await store.patch(
        SECRETS, {"data": data}, name=name, namespace=HOME, kind=PatchKind.APPLY, field_manager="somebody"
    )


class Looks:
    """What a source hands over and what it refuses, in turn."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Material | str] = asyncio.Queue()

    async def take(self, material: Material) -> None:
        await self.told.put(material)

    def refuse(self, error: TiphysError) -> None:
        self.told.put_nowait(str(error))

    async def next(self) -> Material | str:
        async with asyncio.timeout(PATIENCE):
            return await self.told.get()


@asynccontextmanager
async def looking(source: CertificateSource) -> AsyncIterator[Looks]:
    looks = Looks()
    following = asyncio.ensure_future(source.follow(looks.take, refuse=looks.refuse))
    try:
        yield looks
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_a_certificate_from_a_secret_and_authorities_from_a_file_are_both_followed(
    tmp_path: Path,
) -> None:
    store, ours, other = EmbeddedStore(), authority(), authority()
    old, new = leaf(ours), leaf(ours)
    await put(store, "tls", tls_crt=old.certificate, tls_key=old.key)
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(ours.pair.certificate)
    source = Joined(
        Secrets(store=store, namespace=HOME, pair="tls", authorities=""),
        Files(certificate=None, key=None, authorities=bundle),
    )
    held = await source.load()
    assert held == Material(old, ours.pair.certificate)
    seen: asyncio.Queue[Material] = asyncio.Queue()
    # Before anybody follows.
    await put(store, "tls", tls_crt=new.certificate, tls_key=new.key)
    following = asyncio.ensure_future(follow(source, seen.put, held=held, certificate="test"))
    try:
        async with asyncio.timeout(PATIENCE):
            assert await seen.get() == Material(new, ours.pair.certificate)
            replaced = tmp_path / "new"
            replaced.write_bytes(other.pair.certificate)
            replaced.replace(bundle)
            assert await seen.get() == Material(new, other.pair.certificate)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_while_the_certificate_is_broken_new_authorities_are_taken_all_the_same(tmp_path: Path) -> None:
    store, ours, other = EmbeddedStore(), authority(), authority()
    pair = leaf(ours)
    await put(store, "tls", tls_crt=pair.certificate, tls_key=pair.key)
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(ours.pair.certificate)
    source = Joined(
        Secrets(store=store, namespace=HOME, pair="tls", authorities=""),
        Files(certificate=None, key=None, authorities=bundle),
    )
    await source.load()
    await put(store, "tls", tls_crt=pair.certificate, tls_key=b"half")
    bundle.write_bytes(other.pair.certificate)
    async with looking(source) as looks:
        told = [await looks.next(), await looks.next()]
    assert Material(pair, other.pair.certificate) in told
    assert [text for text in told if isinstance(text, str)] == [
        "Secret default/tls: the key is not an unencrypted PEM key: write a whole tls.key"
    ]


@pytest.mark.parametrize("broken", [b"", b"half a bundle"])
async def test_without_an_authority_in_the_bundle_the_old_ones_stay(tmp_path: Path, broken: bytes) -> None:
    bundle = tmp_path / "ca.crt"
    store, good = EmbeddedStore(), authority().pair.certificate
    for source in (
        Files(certificate=None, key=None, authorities=bundle),
        Secrets(store=store, namespace=HOME, pair="", authorities="ca"),
    ):
        bundle.write_bytes(good)
        await put(store, "ca", ca_crt=good)
        assert (await source.load()).roots == good
        async with looking(source) as looks:
            bundle.write_bytes(broken)
            await put(store, "ca", ca_crt=broken)
            while isinstance(told := await looks.next(), Material):
                assert told.roots == good
        assert told.endswith("ca.crt has no certificate in PEM")
        with pytest.raises(CertificateError, match="has no certificate in PEM"):
            await source.load()


async def test_a_secret_that_is_missing_or_lacks_a_part_is_one_line() -> None:
    store = EmbeddedStore()
    source = Secrets(store=store, namespace=HOME, pair="tls", authorities="")
    with pytest.raises(SurroundingsError, match="Secret default/tls does not exist: create it"):
        await source.load()
    await put(store, "tls", tls_crt=leaf(authority()).certificate)
    with pytest.raises(SurroundingsError, match=r"Secret tls has no tls\.key"):
        await source.load()


async def test_data_that_is_no_base64_is_one_line_without_the_data() -> None:
    store = EmbeddedStore()
    body = {"metadata": {"name": "odd"}, "data": {"tls.key": "not base64!"}}
    await store.create(SECRETS, body, namespace=HOME)
    with pytest.raises(SurroundingsError) as raised:
        await secret_data(store, namespace=HOME, name="odd")
    assert str(raised.value) == "Secret default/odd: its data is not base64"


async def test_a_leaf_in_its_secret_is_handed_over_only_while_it_may_be_served() -> None:
    store, ours = EmbeddedStore(), authority()
    good, better, roots = leaf(ours), leaf(ours), ours.pair.certificate
    source = LeafSecret(store, namespace=HOME, name="leaf")
    async with looking(source) as looks:
        await put(store, "leaf", tls_crt=good.certificate, tls_key=good.key, ca_crt=roots)
        assert await looks.next() == Material(good, roots)
        await put(store, "leaf", tls_crt=good.certificate, tls_key=better.key, ca_crt=roots)
        assert "does not belong to the key" in str(await looks.next())
        expired = leaf(ours, begins=-timedelta(days=3))
        await put(store, "leaf", tls_crt=expired.certificate, tls_key=expired.key, ca_crt=roots)
        assert str(await looks.next()).startswith("Secret default/leaf: the certificate expired at ")
        stranger = authority().pair.certificate
        await put(store, "leaf", tls_crt=good.certificate, tls_key=good.key, ca_crt=stranger)
        assert await looks.next() == "Secret default/leaf: ca.crt does not verify tls.crt"
        await put(store, "leaf", tls_crt=good.certificate, tls_key=good.key, ca_crt=roots)
        assert await looks.next() == Material(good, roots), "the same one, good again, is told"


async def test_a_leaf_whose_secret_is_deleted_is_told_when_it_comes_back() -> None:
    store, ours = EmbeddedStore(), authority()
    old, new, roots = leaf(ours), leaf(ours), ours.pair.certificate
    await put(store, "leaf", tls_crt=old.certificate, tls_key=old.key, ca_crt=roots)
    source = LeafSecret(store, namespace=HOME, name="leaf")
    async with looking(source) as looks:
        assert await looks.next() == Material(old, roots)
        await store.delete(SECRETS, name="leaf", namespace=HOME)
        await put(store, "leaf", tls_crt=new.certificate, tls_key=new.key, ca_crt=roots)
        assert await looks.next() == Material(new, roots)
        assert source.cache.health.error == ""


async def test_a_leaf_in_a_folder_is_handed_over_only_while_it_may_be_served(tmp_path: Path) -> None:
    ours = authority()
    good, roots = leaf(ours), ours.pair.certificate
    publish(tmp_path, {CERTIFICATE: good.certificate, KEY: good.key, BUNDLE: roots})
    async with looking(LeafFolder(tmp_path)) as looks:
        assert await looks.next() == Material(good, roots)
        publish(tmp_path, {CERTIFICATE: good.certificate, KEY: good.key[:40], BUNDLE: roots})
        while isinstance(told := await looks.next(), Material):
            assert told == Material(good, roots)
        assert told == f"{tmp_path}: the key is not an unencrypted PEM key: write a whole tls.key"


async def test_an_authoritys_key_is_not_even_decoded() -> None:
    store = EmbeddedStore(namespaces=[HOME])
    ours = authority()
    data = {"tls.crt": b64encode(ours.pair.certificate).decode(), "tls.key": "no base64"}
    await store.create(SECRETS, {"metadata": {"name": "ca"}, "data": data}, namespace=HOME)
    held = await Secrets(store=store, namespace=HOME, pair="", authorities="ca").load()
    assert (held.pair, held.roots) == (None, ours.pair.certificate)


async def test_an_authoritys_key_is_neither_kept_nor_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = EmbeddedStore(namespaces=[HOME])
    ours = authority()
    data = {"tls.crt": ours.pair.certificate, "tls.key": ours.pair.key}
    body = {"metadata": {"name": "ca"}, "data": {key: b64encode(part).decode() for key, part in data.items()}}
    await store.create(SECRETS, body, namespace=HOME)
    kept: list[object] = []
    original = Cache.__init__

    def watched(self: Cache[object], *given: object, projection: object, **named: object) -> None:
        def project(item: object) -> object:
            kept.append(projection(item))  # type: ignore[operator]
            return kept[-1]

        original(self, *given, projection=project, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Cache, "__init__", watched)
    source = Secrets(store=store, namespace=HOME, pair="", authorities="ca")
    held = await source.load()
    assert held.roots == ours.pair.certificate
    following = asyncio.ensure_future(follow(source, _never, held=held, certificate="test"))
    await until(lambda: bool(kept))
    following.cancel()
    assert b64encode(ours.pair.key).decode() not in str(kept)


async def test_reloads_are_counted_from_nought_so_that_the_first_is_an_increase() -> None:
    store = EmbeddedStore(namespaces=[HOME])
    ours = authority()
    await put(store, "ca", ca_crt=ours.pair.certificate)
    source = Secrets(store=store, namespace=HOME, pair="", authorities="ca")
    held = await source.load()
    following = asyncio.ensure_future(follow(source, _never, held=held, certificate="from-nought"))

    def counted(result: str) -> float | None:
        labels = {"certificate": "from-nought", "result": result}
        return REGISTRY.get_sample_value("tiphys_certs_reloads_total", labels)

    await until(lambda: counted("refused") == counted("taken") == 0)
    following.cancel()


async def _never(_material: Material) -> None:
    raise AssertionError
