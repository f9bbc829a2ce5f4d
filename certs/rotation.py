"""An authority and its leaf kept in two Secrets, renewed and rolled over by whoever leads.

Only the leader writes. A new authority first joins the bundle; the leaf moves to it once the bundle has been
read back from wherever clients take it; the old one leaves when the last leaf it signed has expired. Every
step starts from what the cluster holds, so a crash between two of them, a deleted Secret or a half-written
one is repaired by the next.
"""

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509

from certs.authority import AUTHORITY_LIFETIME, LEAF_LIFETIME, Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY
from certs.key_pair import CertificateError, KeyPair, due, fingerprint, split_bundle, trusted, verifies
from kube import queries
from kube.errors import AlreadyExistsError, ConflictError
from kube.resources import SECRETS
from kube.secrets import decoded_data
from kube.store import Object, Store

RETIRES = "tiphys.dev/retires"
"""Annotation on the authority's Secret: `FINGERPRINT=TIME` for each old authority still in the bundle."""

RECHECK = timedelta(minutes=1)
"""Timers stop while a machine is suspended: the wall clock is read at least this often."""

Published = Callable[[bytes], Awaitable[bool]]
"""Whether clients trust this authority's certificate by now (read back from where they take their bundle)."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    authority: timedelta = AUTHORITY_LIFETIME
    leaf: timedelta = LEAF_LIFETIME


@dataclass(frozen=True, slots=True)
class Custody:
    """What the authority's Secret says. `coming` waits in the bundle until clients trust it."""

    authority: Authority
    coming: Authority | None = None
    retiring: dict[str, datetime] = field(default_factory=dict)
    bundle: bytes = b""


@dataclass(frozen=True, slots=True)
class RotationStep:
    """What one step left behind: the bundle to publish, the leaf to serve, when to come again, what it did."""

    bundle: bytes
    leaf: KeyPair
    again: datetime
    did: tuple[str, ...]


class Rotation:
    def __init__(
        self,
        store: Store,
        *,
        namespace: str,
        name: str,
        subject: LeafSubject,
        published: Published,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        lifetimes: Lifetimes | None = None,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self.authority_secret = f"{name}-ca"
        self.leaf_secret = f"{name}-tls"
        self._subject = subject
        self._published = published
        self._now = now
        self._lifetimes = lifetimes or Lifetimes()

    async def step(self) -> RotationStep:
        """Bring both Secrets to where they should be now. Raises `ConflictError` if somebody else writes too."""
        now, did = self._now(), []
        held, leaf_held = await self._get(self.authority_secret), await self._get(self.leaf_secret)
        custody = self._read_custody(held)
        before = custody
        if custody is None or now >= custody.authority.certificate.not_valid_after_utc:
            custody = self._found_authority(leaf_held, now=now)
            did.append("created the authority")
        elif custody.coming is None and now >= due(custody.authority.certificate):
            custody = replace(custody, coming=self._new_authority(now))
            did.append("added the next authority to the bundle")
        elif custody.coming is not None and await self._published(custody.coming.pair.certificate):
            custody = self._hand_over(custody, now=now)
            did.append("moved to the next authority")
        custody = self._prune(custody, now=now)
        if custody != before:
            await self._put(
                self.authority_secret, held, _custody_data(custody), annotations=_retires(custody)
            )
        leaf = await self._usable_leaf(leaf_held, custody, now=now)
        if leaf is None:
            leaf = custody.authority.issue(self._subject, now=now, lifetime=self._lifetimes.leaf)
            did.append("issued the leaf")
        data = {CERTIFICATE: leaf.certificate, KEY: leaf.key, BUNDLE: custody.bundle}
        if decoded_data(leaf_held) != data:
            await self._put(self.leaf_secret, leaf_held, data, kind="kubernetes.io/tls")
        again = min(now + RECHECK, due(leaf.leaf), due(custody.authority.certificate))
        return RotationStep(bundle=custody.bundle, leaf=leaf, again=max(again, now), did=tuple(did))

    def _new_authority(self, now: datetime) -> Authority:
        return Authority.create(
            f"{self._subject.common_name} authority", now=now, lifetime=self._lifetimes.authority
        )

    def _found_authority(self, leaf_held: Object | None, *, now: datetime) -> Custody:
        """Start afresh, but go on trusting what the served leaf hangs on: clients may still meet it."""
        authority = self._new_authority(now)
        retiring = {
            fingerprint(old): now + self._lifetimes.leaf
            for old in trusted(decoded_data(leaf_held).get(BUNDLE, b""), now=now)
        }
        return Custody(
            authority=authority,
            retiring=retiring,
            bundle=authority.pair.certificate + decoded_data(leaf_held).get(BUNDLE, b""),
        )

    def _hand_over(self, custody: Custody, *, now: datetime) -> Custody:
        assert custody.coming is not None
        old = fingerprint(custody.authority.certificate)
        return Custody(
            authority=custody.coming,
            retiring={**custody.retiring, old: now + self._lifetimes.leaf},
            bundle=custody.bundle,
        )

    def _prune(self, custody: Custody, *, now: datetime) -> Custody:
        """The bundle that belongs to this state: signing, coming, and retiring ones whose time is not up."""
        signing = [custody.authority, *([custody.coming] if custody.coming else [])]
        keep = {fingerprint(authority.certificate): authority.pair.certificate for authority in signing}
        retiring = {}
        for certificate, pem in _certificates(custody.bundle, now=now):
            until = custody.retiring.get(certificate)
            if until is not None and now < until and certificate not in keep:
                keep[certificate] = pem
                retiring[certificate] = until
        return replace(custody, retiring=retiring, bundle=b"".join(keep.values()))

    async def _usable_leaf(self, held: Object | None, custody: Custody, *, now: datetime) -> KeyPair | None:
        """The leaf in the Secret if it may stay: fresh and signed by the authority, or by one that clients
        trust while they do not trust the authority yet.
        """
        data = decoded_data(held)
        try:
            pair = KeyPair.checked(
                certificate=data.get(CERTIFICATE, b""),
                key=data.get(KEY, b""),
                origin=f"Secret {self.leaf_secret}",
            )
        except CertificateError:
            return None
        leaf = pair.leaf
        if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc or _names(leaf) != set(
            self._subject.dns_names
        ):
            return None
        if verifies(custody.authority.pair.certificate, leaf, now=now):
            return pair if now < due(leaf) else None
        known = verifies(custody.bundle, leaf, now=now)
        if known and not await self._published(custody.authority.pair.certificate):
            return pair
        return None

    def _read_custody(self, held: Object | None) -> Custody | None:
        """None where the Secret is missing, half-written or not ours to read: then a new one is made."""
        data, origin = decoded_data(held), f"Secret {self.authority_secret}"
        try:
            authority = _authority(data, CERTIFICATE, KEY, origin=origin)
        except CertificateError:
            return None
        try:
            coming = _authority(data, "next.crt", "next.key", origin=origin)
        except CertificateError:
            coming = None
        retiring = {}
        annotations = (held or {}).get("metadata", {}).get("annotations") or {}
        for item in annotations.get(RETIRES, "").split():
            name, _, time = item.partition("=")
            try:
                retiring[name] = datetime.fromisoformat(time)
            except ValueError:
                continue
        return Custody(authority=authority, coming=coming, retiring=retiring, bundle=data.get(BUNDLE, b""))

    async def _get(self, name: str) -> Object | None:
        return await queries.find(self._store, SECRETS, name=name, namespace=self._namespace)

    async def _put(
        self,
        name: str,
        held: Object | None,
        data: dict[str, bytes],
        *,
        kind: str = "Opaque",
        annotations: dict[str, str] | None = None,
    ) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        if held is not None and held.get("type") == kind:
            metadata: dict[str, Any] = {**held["metadata"], "annotations": annotations or {}}
            await self._store.replace(SECRETS, {**held, "metadata": metadata, "data": encoded})
            return
        if held is not None:  # a Secret's type cannot be changed
            await self._store.delete(
                SECRETS, name=name, namespace=self._namespace, uid=held["metadata"]["uid"]
            )
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self._namespace, "annotations": annotations or {}},
            "type": kind,
            "data": encoded,
        }
        try:
            await self._store.create(SECRETS, body, namespace=self._namespace)
        except AlreadyExistsError as error:
            raise ConflictError(str(error)) from error


def _authority(data: dict[str, bytes], certificate: str, key: str, *, origin: str) -> Authority:
    pair = KeyPair.checked(certificate=data.get(certificate, b""), key=data.get(key, b""), origin=origin)
    return Authority.from_pair(pair, origin=origin)


def _custody_data(custody: Custody) -> dict[str, bytes]:
    data = {
        CERTIFICATE: custody.authority.pair.certificate,
        KEY: custody.authority.pair.key,
        BUNDLE: custody.bundle,
    }
    if custody.coming is not None:
        data |= {"next.crt": custody.coming.pair.certificate, "next.key": custody.coming.pair.key}
    return data


def _retires(custody: Custody) -> dict[str, str]:
    items = " ".join(f"{name}={until.isoformat()}" for name, until in sorted(custody.retiring.items()))
    return {RETIRES: items} if items else {}


def _certificates(bundle: bytes, *, now: datetime) -> list[tuple[str, bytes]]:
    return [(fingerprint(found[0]), pem) for pem in split_bundle(bundle) if (found := trusted(pem, now=now))]


def _names(leaf: x509.Certificate) -> set[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return set(names.get_values_for_type(x509.DNSName))
