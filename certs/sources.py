"""Where certificates come from, Secrets or files, and the news of their renewal."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from certs.authority import Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, changes, read, read_with_bundle
from certs.key_pair import CertificateError, KeyPair, Material, checked_bundle, verifies
from kube import queries
from kube.cache import Cache
from kube.projections import whole
from kube.resources import SECRETS
from kube.secrets import decoded_data
from kube.store import Object, Store
from tiphys import logs, metrics
from tiphys.errors import SurroundingsError, TiphysError

# A process that is not restarted for so long has other troubles.
GENERATED_LIFETIME = timedelta(days=365)

log = logs.get_logger()

EXPIRY = metrics.gauge(
    "tiphys_certs_expiry_timestamp_seconds",
    "When the certificate that a sidecar shows ends.",
    labels=("certificate",),
)
RELOADS = metrics.counter(
    "tiphys_certs_reloads_total",
    "New certificates or authorities while the process ran: taken, or refused because they cannot be used.",
    labels=("certificate", "result"),
)
RELOADED_AT = metrics.gauge(
    "tiphys_certs_last_reload_timestamp_seconds",
    "When new certificates or authorities were last taken.",
    labels=("certificate",),
)
TAKEN, REFUSED = "taken", "refused"

Take = Callable[[Material], Awaitable[object]]
Refuse = Callable[[TiphysError], object]


class CertificateSource(Protocol):
    async def follow(self, take: Take, *, refuse: Refuse) -> None:
        """Until cancelled: hands over what is there now and after each look, or why that cannot be used; a CertificateError
        of `take` says so too.

        There are more looks than changes: the same material may come again.
        """
        ...


class LoadedSource(CertificateSource, Protocol):
    """One whose material is needed before anything can start: `load`, then `follow`."""

    async def load(self) -> Material: ...


async def first(source: LoadedSource, *, certificate: str) -> Material:
    """At the start, where nothing can stay as it was. `certificate` says in metrics whose it is."""
    material = await source.load()
    _note_expiry(material, certificate)
    return material


async def follow(source: CertificateSource, swap: Take, *, held: Material, certificate: str) -> None:
    """Until cancelled: hands over what is not what is `held`. What cannot be used is logged, the old stays."""
    current = held
    for result in (TAKEN, REFUSED):
        RELOADS.labels(certificate, result)  # 0 from the start: Prometheus sees no increase in a first value

    async def take(fresh: Material) -> None:
        nonlocal current
        if fresh != current:
            await swap(fresh)
            current = fresh
            _note_expiry(fresh, certificate)
            RELOADS.labels(certificate, TAKEN).inc()
            RELOADED_AT.labels(certificate).set_to_current_time()

    def refuse(error: TiphysError) -> None:
        RELOADS.labels(certificate, REFUSED).inc()
        log.warning("new certificates cannot be used: the old ones stay", **{logs.ERROR: str(error)})

    await source.follow(take, refuse=refuse)


def _note_expiry(material: Material, certificate: str) -> None:
    """It is used all the same: whoever is shown it says no, and here is why."""
    try:
        if material.pair is not None:
            EXPIRY.labels(certificate).set(material.pair.leaf.not_valid_after_utc.timestamp())
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
        if self.authorities is None:
            return Material(pair, b"")
        return Material(pair, checked_bundle(_read(self.authorities), origin=str(self.authorities)))

    async def follow(self, take: Take, *, refuse: Refuse) -> None:
        folders = {path.parent for path in (self.certificate, self.key, self.authorities) if path is not None}

        async def watch(folder: Path) -> None:
            async for _ in changes(folder):
                await _look(self, take, refuse=refuse)

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
        data = await secret_data(
            self.store, namespace=self.namespace, name=self.authorities, projection=certificates_only
        )
        # argocd-agentctl leaves the authority's own pair there; an agent's copy has ca.crt.
        key = BUNDLE if BUNDLE in data else CERTIFICATE
        origin = f"Secret {self.namespace}/{self.authorities}: {key}"
        return Material(pair, checked_bundle(_part(data, key, self.authorities), origin=origin))

    async def follow(self, take: Take, *, refuse: Refuse) -> None:
        woken = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name in sorted({self.pair, self.authorities} - {""}):
                # Where an authority's key is beside its certificate, it is not ours to have.
                projection = whole if name == self.pair else certificates_only
                cache = secret_cache(self.store, namespace=self.namespace, name=name, projection=projection)
                cache.subscribe(lambda _old, _new: woken.set())
                group.create_task(cache.run(), name=f"Secret {name}")
            while True:
                await woken.wait()
                woken.clear()
                await _look(self, take, refuse=refuse)

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

    async def follow(self, take: Take, *, refuse: Refuse) -> None:
        await asyncio.Event().wait()


class Joined:
    """The certificate of one source and the authorities of another."""

    def __init__(self, pair: LoadedSource, authorities: LoadedSource) -> None:
        self._pair = pair
        self._authorities = authorities
        self._held: Material | None = None

    async def load(self) -> Material:
        self._held = Material((await self._pair.load()).pair, (await self._authorities.load()).roots)
        return self._held

    async def follow(self, take: Take, *, refuse: Refuse) -> None:
        assert self._held is not None, "loaded before it is followed"
        current = self._held

        async def take_pair(material: Material) -> None:
            nonlocal current
            current = replace(current, pair=material.pair)
            await take(current)

        async def take_authorities(material: Material) -> None:
            nonlocal current
            current = replace(current, roots=material.roots)
            await take(current)

        async with asyncio.TaskGroup() as group:
            group.create_task(self._pair.follow(take_pair, refuse=refuse), name="certificate")
            group.create_task(self._authorities.follow(take_authorities, refuse=refuse), name="authorities")


class LeafSecret:
    """A leaf and its bundle in one Secret, as `certs.rotation` writes it: only what may be served now is taken.

    `cache` tells how its watch is; while the Secret is gone, nothing is handed over.
    """

    def __init__(self, store: Store, *, namespace: str, name: str) -> None:
        self._namespace = namespace
        self._name = name
        self._woken = asyncio.Event()
        self.cache = secret_cache(store, namespace=namespace, name=name)
        self.cache.subscribe(lambda _old, _new: self._woken.set())

    async def follow(self, take: Take, *, refuse: Refuse) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cache.run(), name=f"watch of Secret {self._name}")
            while True:
                await self._woken.wait()
                self._woken.clear()
                secret = self.cache.get(self._name, namespace=self._namespace)
                if secret is None:
                    continue
                try:
                    material = self._material(secret)
                except CertificateError as error:
                    refuse(error)
                else:
                    await take(material)

    def _material(self, secret: Object) -> Material:
        data, origin = decoded_data(secret), f"Secret {self._namespace}/{self._name}"
        pair = KeyPair.checked(certificate=data.get(CERTIFICATE, b""), key=data.get(KEY, b""), origin=origin)
        return _servable(pair, bundle=data.get(BUNDLE, b""), origin=origin)


@dataclass(frozen=True, slots=True)
class LeafFolder:
    """A leaf and its bundle in a folder that somebody else renews: only what may be served now is taken."""

    folder: Path

    async def follow(self, take: Take, *, refuse: Refuse) -> None:
        async for _ in changes(self.folder):
            try:
                pair, bundle = read_with_bundle(self.folder)
                material = _servable(pair, bundle=bundle, origin=str(self.folder))
            except CertificateError as error:
                refuse(error)
            else:
                await take(material)


def _servable(pair: KeyPair, *, bundle: bytes, origin: str) -> Material:
    now = datetime.now(UTC)
    pair.check_valid(now=now, origin=origin)
    if bundle and not verifies(bundle, pair.leaf, now=now):
        raise CertificateError(f"{origin}: {BUNDLE} does not verify {CERTIFICATE}")
    return Material(pair, bundle)


def secret_cache(
    store: Store, *, namespace: str, name: str, projection: Callable[[Object], Object] = whole
) -> Cache[Object]:
    """One Secret, followed by its name."""
    return Cache(
        store,
        SECRETS,
        projection=projection,
        namespace=namespace,
        field_selector=f"metadata.name={name}",
    )


def certificates_only(secret: Object) -> Object:
    """Without keys."""
    metadata, data = secret.get("metadata") or {}, secret.get("data") or {}
    return {
        "metadata": {
            key: metadata[key] for key in ("name", "namespace", "resourceVersion", "uid") if key in metadata
        },
        "data": {key: data[key] for key in (CERTIFICATE, BUNDLE) if key in data},
    }


async def secret_data(
    store: Store, *, namespace: str, name: str, projection: Callable[[Object], Object] = whole
) -> dict[str, bytes]:
    secret = await queries.find(store, SECRETS, name=name, namespace=namespace)
    if secret is None:
        raise SurroundingsError(f"Secret {namespace}/{name} does not exist: create it (tiphys pki)")
    secret = projection(secret)
    data = decoded_data(secret)
    if len(data) < len(secret.get("data") or {}):
        raise SurroundingsError(f"Secret {namespace}/{name}: its data is not base64")
    return data


def _part(data: dict[str, bytes], key: str, name: str) -> bytes:
    if key not in data:
        raise CertificateError(f"Secret {name} has no {key}")
    return data[key]


def _read(path: Path) -> bytes:
    return read(path.parent, path.name)


async def _look(source: LoadedSource, take: Take, *, refuse: Refuse) -> None:
    try:
        material = await source.load()
    except TiphysError as error:
        refuse(error)
        return
    try:
        await take(material)
    except CertificateError as error:  # a bundle is read by whoever uses it
        refuse(error)
