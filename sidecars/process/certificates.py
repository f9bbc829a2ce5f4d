"""Certificates of a sidecar, from Secrets or files, and the news of their renewal."""

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from argocd.reading import mapping
from certs.authority import Authority, LeafSubject
from certs.folder import changes, read
from certs.key_pair import CertificateError, KeyPair
from kube.cache import Cache
from kube.errors import NotFoundError
from kube.projections import whole
from kube.resources import SECRETS
from kube.store import Object, Store
from sidecars.wire.tls import Material
from tiphys import logs
from tiphys.errors import SurroundingsError, TiphysError

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
# A process that is not restarted for so long has other troubles.
GENERATED_LIFETIME = timedelta(days=365)

log = logs.get_logger()

Swap = Callable[[Material], Awaitable[object]]


class Source(Protocol):
    async def load(self) -> Material: ...

    async def follow(self, swap: Swap, *, held: Material) -> None:
        """Until cancelled: hands over what is not what is `held`. What cannot be used is logged, the old stays."""
        ...


async def first(source: Source) -> Material:
    """At the start, where nothing can stay as it was."""
    material = await source.load()
    _warn_of_expiry(material)
    return material


def _warn_of_expiry(material: Material) -> None:
    """It is used all the same: whoever is shown it says no, and here is why."""
    try:
        if material.pair is not None:
            material.pair.check_valid(now=datetime.now(UTC), origin="ours")
    except CertificateError as error:
        log.warning("nobody will believe our certificate", **{logs.ERROR: str(error)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    certificate: Path | None
    key: Path | None
    authorities: Path | None

    async def load(self) -> Material:
        pair = None
        if self.certificate is not None and self.key is not None:
            pair = KeyPair.checked(
                certificate=_read(self.certificate), key=_read(self.key), origin=str(self.certificate)
            )
        return Material(pair, _read(self.authorities) if self.authorities is not None else b"")

    async def follow(self, swap: Swap, *, held: Material) -> None:
        folders = {path.parent for path in (self.certificate, self.key, self.authorities) if path is not None}
        current = held

        async def watch(folder: Path) -> None:
            nonlocal current
            async for _ in changes(folder):
                fresh = await _usable(self.load)
                if fresh is not None and fresh != current:
                    current = fresh
                    _warn_of_expiry(fresh)
                    await swap(fresh)

        async with asyncio.TaskGroup() as group:
            for folder in sorted(folders):
                group.create_task(watch(folder), name=f"certificates in {folder}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """`pair` may be empty: no certificate of our own is shown."""

    store: Store
    namespace: str
    pair: str
    authorities: str

    async def load(self) -> Material:
        pair = None
        if self.pair:
            data = await self._data(self.pair)
            pair = KeyPair.checked(
                certificate=_part(data, CERTIFICATE, self.pair),
                key=_part(data, KEY, self.pair),
                origin=f"Secret {self.namespace}/{self.pair}",
            )
        if not self.authorities:
            return Material(pair, b"")
        data = await self._data(self.authorities)
        # argocd-agentctl leaves the authority's own pair there; an agent's copy has ca.crt.
        key = AUTHORITIES if AUTHORITIES in data else CERTIFICATE
        return Material(pair, _part(data, key, self.authorities))

    async def follow(self, swap: Swap, *, held: Material) -> None:
        woken = asyncio.Event()
        current = held

        def note(_old: Object | None, _new: Object | None) -> None:
            woken.set()

        async with asyncio.TaskGroup() as group:
            for name in sorted({self.pair, self.authorities} - {""}):
                cache: Cache[Object] = Cache(
                    self.store,
                    SECRETS,
                    projection=whole,
                    namespace=self.namespace,
                    field_selector=f"metadata.name={name}",
                )
                cache.subscribe(note)
                group.create_task(cache.run(), name=f"Secret {name}")
            while True:
                await woken.wait()
                woken.clear()
                fresh = await _usable(self.load)
                if fresh is not None and fresh != current:
                    current = fresh
                    _warn_of_expiry(fresh)
                    await swap(fresh)

    async def _data(self, name: str) -> dict[str, bytes]:
        return await secret_data(self.store, namespace=self.namespace, name=name)


class Generated:
    """A server's certificate that nobody can verify, made anew at every start."""

    def __init__(self, *, now: datetime) -> None:
        authority = Authority.create("generated", now=now, lifetime=GENERATED_LIFETIME)
        subject = LeafSubject("principal", dns_names=["localhost"], addresses=["127.0.0.1"])
        self._pair = authority.issue(subject, now=now, lifetime=GENERATED_LIFETIME)

    async def load(self) -> Material:
        return Material(self._pair, b"")

    async def follow(self, _swap: Swap, *, held: Material) -> None:
        await asyncio.Event().wait()


class Joined:
    """The certificate of one source and the authorities of another."""

    def __init__(self, pair: Source, authorities: Source) -> None:
        self._pair = pair
        self._authorities = authorities

    async def load(self) -> Material:
        return Material((await self._pair.load()).pair, (await self._authorities.load()).roots)

    async def follow(self, swap: Swap, *, held: Material) -> None:
        current = held

        async def swap_pair(material: Material) -> None:
            nonlocal current
            current = replace(current, pair=material.pair)
            await swap(current)

        async def swap_authorities(material: Material) -> None:
            nonlocal current
            current = replace(current, roots=material.roots)
            await swap(current)

        async with asyncio.TaskGroup() as group:
            pair, authorities = Material(held.pair, b""), Material(None, held.roots)
            group.create_task(self._pair.follow(swap_pair, held=pair), name="certificate")
            group.create_task(
                self._authorities.follow(swap_authorities, held=authorities), name="authorities"
            )


async def secret_data(store: Store, *, namespace: str, name: str) -> dict[str, bytes]:
    try:
        secret = await store.get(SECRETS, name=name, namespace=namespace)
    except NotFoundError as error:
        raise SurroundingsError(
            f"Secret {namespace}/{name} does not exist: create it (tiphys pki)"
        ) from error
    try:
        return {key: b64decode(part or "") for key, part in mapping(secret, "data").items()}
    except (Base64Error, TypeError, ValueError):
        raise SurroundingsError(f"Secret {namespace}/{name}: its data is not base64") from None


def _part(data: dict[str, bytes], key: str, name: str) -> bytes:
    if key not in data:
        raise CertificateError(f"Secret {name} has no {key}")
    return data[key]


def _read(path: Path) -> bytes:
    return read(path.parent, path.name)


async def _usable(load: Callable[[], Awaitable[Material]]) -> Material | None:
    try:
        return await load()
    except TiphysError as error:
        log.warning("new certificates cannot be used: the old ones stay", **{logs.ERROR: str(error)})
        return None
