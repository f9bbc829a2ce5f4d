"""The authority of a fleet and the certificates that it signs, in argocd-agent's Secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from argocd import names
from argocd.kubernetes_names import is_dns_label
from argocd.reading import mapping, text
from certs.authority import Authority, KeyType, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY
from certs.key_pair import CertificateError, KeyPair, due, fingerprint
from certs.sources import secret_data
from kube import queries
from kube.errors import AlreadyExistsError
from kube.resources import SECRETS
from kube.secrets import decoded
from kube.store import Object, PatchKind, Store
from sidecars.wire.auth.tokens import generate_key
from tiphys.errors import CallError

AUTHORITY_NAME = "argocd-agent-ca"
JWT_KEY = "jwt.key"
TLS_TYPE = "kubernetes.io/tls"
REDIS_CLIENT = "argocd-server"

# Nobody renews these by himself: an operator replaces an authority once in ten years, leaves once a year.
AUTHORITY_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What may be told about a certificate; `renew` is when two thirds of its life are over."""

    where: str
    common_names: tuple[str, ...]
    names: tuple[str, ...]
    issuer: str
    begins: datetime
    ends: datetime
    renew: datetime
    fingerprint: str
    key: str
    authority: bool

    def state(self, now: datetime) -> str:
        if now >= self.ends:
            return "expired"
        if now < self.begins:
            return "not yet valid"
        return "renew it soon" if now >= self.renew else "valid"


def described(certificate: x509.Certificate, *, where: str) -> Certificate:
    subject = [each.value for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    public = certificate.public_key()
    size = getattr(public, "key_size", 0)
    return Certificate(
        where=where,
        common_names=tuple(str(each) for each in subject),
        names=_alternative_names(certificate),
        issuer=certificate.issuer.rfc4514_string(),
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        renew=due(certificate),
        fingerprint=fingerprint(certificate),
        key=f"{type(public).__name__.removesuffix('PublicKey')} {size}".strip(),
        authority=_is_authority(certificate),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pki:
    """The Secrets of the principal's namespace. `replace` overwrites what is there; without it that is an error."""

    store: Store
    namespace: str

    async def init(
        self,
        *,
        now: datetime,
        lifetime: timedelta = AUTHORITY_LIFETIME,
        key_type: KeyType,
        replace: bool,
        key_secret: str = "",
    ) -> tuple[Certificate, bool]:
        """The authority, and whether a key for tokens was made beside it; one that is there stays.

        `key_secret` is a namespace, a slash and a name: there the key is out of the principal's reach.
        """
        authority = Authority.create(AUTHORITY_NAME, now=now, lifetime=lifetime, key_type=key_type)
        if key_secret:
            namespace, name = _place(key_secret)
            data = {CERTIFICATE: authority.pair.certificate.decode(), KEY: authority.pair.key.decode()}
            await write_secret(
                self.store, name, data, namespace=namespace, secret_type=TLS_TYPE, replace=replace
            )
            await write_secret(
                self.store,
                names.AGENT_CA_SECRET,
                {BUNDLE: authority.pair.certificate.decode()},
                namespace=self.namespace,
                secret_type="Opaque",  # noqa: S106 - a type
                replace=replace,
                annotations={names.TIPHYS_AUTHORITY_KEY: key_secret},
            )
        else:
            await self.write(names.AGENT_CA_SECRET, authority.pair, replace=replace)
        fresh = await self._ensure_token_key()
        return described(authority.certificate, where=self._where(names.AGENT_CA_SECRET)), fresh

    async def authority(self) -> Authority:
        namespace, name = self.namespace, names.AGENT_CA_SECRET
        there = await queries.find(self.store, SECRETS, name=name, namespace=namespace)
        if there is None:
            raise CallError(f"there is no authority in {namespace} yet: begin with `tiphys pki init`")
        if elsewhere := text(there, "metadata", "annotations", names.TIPHYS_AUTHORITY_KEY):
            namespace, name = _place(elsewhere)
        where = f"Secret {namespace}/{name}"
        data = await secret_data(self.store, namespace=namespace, name=name)
        if KEY not in data:
            raise CallError(f"{where} has no {KEY}: this is not the cluster with the authority's key")
        pair = KeyPair.checked(certificate=data.get(CERTIFICATE, b""), key=data[KEY], origin=where)
        return Authority.from_pair(pair, origin=where)

    async def issue_server(
        self,
        name: str,
        *,
        service: str,
        dns_names: Sequence[str] = (),
        addresses: Sequence[str] = (),
        now: datetime,
        lifetime: timedelta = LEAF_LIFETIME,
        key_type: KeyType,
        replace: bool,
    ) -> Certificate:
        """For the principal or one of its proxies; the names of its Service are always among those dialled."""
        authority = await self.authority()
        pair = authority.issue(
            self._server_subject(service, service, dns_names, addresses),
            now=now,
            lifetime=lifetime,
            key_type=key_type,
        )
        await self.write(name, pair, replace=replace)
        return described(pair.leaf, where=self._where(name))

    async def issue_paired_principal(
        self,
        identity: str,
        *,
        dns_names: Sequence[str] = (),
        addresses: Sequence[str] = (),
        now: datetime,
        lifetime: timedelta = LEAF_LIFETIME,
        key_type: KeyType,
    ) -> tuple[KeyPair, bytes]:
        """For one of a pair, which its peer knows by this name: a server's certificate and a client's. With the
        authority that both trust.
        """
        check_agent_name(identity, principal_namespace=self.namespace)
        authority = await self.authority()
        subject = self._server_subject(identity, names.PRINCIPAL_SERVICE, dns_names, addresses)
        pair = authority.issue(
            subject, now=now, lifetime=lifetime, server=True, client=True, key_type=key_type
        )
        return pair, authority.pair.certificate

    def _server_subject(
        self, name: str, service: str, dns_names: Sequence[str], addresses: Sequence[str]
    ) -> LeafSubject:
        inside = [service, f"{service}.{self.namespace}", f"{service}.{self.namespace}.svc"]
        return LeafSubject(name, dns_names=list(dict.fromkeys([*inside, *dns_names])), addresses=addresses)

    async def issue_client(
        self,
        agent: str,
        *,
        now: datetime,
        lifetime: timedelta = LEAF_LIFETIME,
        key_type: KeyType,
    ) -> tuple[KeyPair, bytes]:
        """An agent's certificate and the authority that it trusts. Its one common name is the agent's name."""
        check_agent_name(agent, principal_namespace=self.namespace)
        authority = await self.authority()
        pair = authority.issue(
            LeafSubject(agent), now=now, lifetime=lifetime, server=False, client=True, key_type=key_type
        )
        return pair, authority.pair.certificate

    async def issue_redis_client(
        self, *, now: datetime, lifetime: timedelta = LEAF_LIFETIME, key_type: KeyType, replace: bool
    ) -> Certificate:
        """Argo CD's own, for the Redis proxy in front of a Redis without a password."""
        pair = (await self.authority()).issue(
            LeafSubject(REDIS_CLIENT),
            now=now,
            lifetime=lifetime,
            server=False,
            client=True,
            key_type=key_type,
        )
        await self.write(names.REDIS_CLIENT_TLS_SECRET, pair, replace=replace)
        return described(pair.leaf, where=self._where(names.REDIS_CLIENT_TLS_SECRET))

    async def write(self, name: str, pair: KeyPair, *, replace: bool) -> None:
        data = {CERTIFICATE: pair.certificate.decode(), KEY: pair.key.decode()}
        await write_secret(
            self.store, name, data, namespace=self.namespace, secret_type=TLS_TYPE, replace=replace
        )

    async def inspect(self) -> list[Certificate]:
        """All of the fleet's certificates that are in this namespace."""
        found = []
        for name in (
            names.AGENT_CA_SECRET,
            names.PRINCIPAL_TLS_SECRET,
            names.RESOURCE_PROXY_TLS_SECRET,
            names.REDIS_PROXY_TLS_SECRET,
            names.REDIS_CLIENT_TLS_SECRET,
            names.AGENT_TLS_SECRET,
        ):
            secret = await queries.find(self.store, SECRETS, name=name, namespace=self.namespace)
            if secret is not None:
                found += certificates_in(secret, where=self._where(name))
        return found

    async def _ensure_token_key(self) -> bool:
        key = generate_key().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        body = _secret(names.AGENT_JWT_SECRET, {JWT_KEY: key.decode()}, secret_type="Opaque")  # noqa: S106 - a type
        try:
            await self.store.create(SECRETS, body, namespace=self.namespace)
        except AlreadyExistsError:
            return False
        return True

    def _where(self, name: str) -> str:
        return f"Secret {self.namespace}/{name}"


async def deliver_to_agent(
    store: Store, pair: KeyPair, authority: bytes, *, namespace: str, replace: bool
) -> Certificate:
    """Into the agent's own cluster: the authority without its key, and the agent's certificate."""
    await _hand_authority(store, authority, namespace=namespace, replace=replace)
    data = {CERTIFICATE: pair.certificate.decode(), KEY: pair.key.decode()}
    await write_secret(
        store, names.AGENT_TLS_SECRET, data, namespace=namespace, secret_type=TLS_TYPE, replace=replace
    )
    return described(pair.leaf, where=f"Secret {namespace}/{names.AGENT_TLS_SECRET}")


async def _hand_authority(store: Store, authority: bytes, *, namespace: str, replace: bool) -> None:
    """One that is there already stays: beside the principal it holds the only copy of the key."""
    where = f"Secret {namespace}/{names.AGENT_CA_SECRET}"
    there = await queries.find(store, SECRETS, name=names.AGENT_CA_SECRET, namespace=namespace)
    if there is not None:
        if fingerprint(x509.load_pem_x509_certificate(authority)) in {
            each.fingerprint for each in certificates_in(there, where=where)
        }:
            return
        if KEY in mapping(there, "data"):
            raise CallError(f"{where} holds the key of another authority: that is not an agent's namespace")
    data = {BUNDLE: authority.decode()}
    opaque = "Opaque"
    await write_secret(
        store, names.AGENT_CA_SECRET, data, namespace=namespace, secret_type=opaque, replace=replace
    )


async def write_secret(
    store: Store,
    name: str,
    data: dict[str, str],
    *,
    namespace: str,
    secret_type: str,
    replace: bool,
    annotations: Mapping[str, str] | None = None,
) -> None:
    body = _secret(name, data, secret_type=secret_type)
    if annotations:
        body["metadata"]["annotations"] = dict(annotations)
    try:
        await store.create(SECRETS, body, namespace=namespace)
    except AlreadyExistsError as error:
        if not replace:
            raise CallError(
                f"Secret {namespace}/{name} exists already: --replace makes it anew, and what it held is lost"
            ) from error
        patch = {"metadata": {"annotations": dict(annotations or {})}, "data": None, "stringData": data}
        await store.patch(SECRETS, patch, name=name, namespace=namespace, kind=PatchKind.MERGE)


def certificates_in(secret: Object, *, where: str) -> list[Certificate]:
    """Every certificate, never a key; what cannot be read is said in an error that shows nothing of it."""
    found: dict[str, Certificate] = {}
    for key in (CERTIFICATE, BUNDLE):
        pem = decoded(mapping(secret, "data").get(key))
        if pem == b"":
            continue
        try:
            for each in x509.load_pem_x509_certificates(pem or b""):
                told = described(each, where=where)
                found.setdefault(told.fingerprint, told)
        except ValueError:
            raise CertificateError(f"{where}: {key} is no certificate in PEM") from None
    return list(found.values())


def check_agent_name(agent: str, *, principal_namespace: str) -> None:
    if not is_dns_label(agent):
        raise CallError(
            f"{agent!r} is no name for an agent: at most 63 lower-case letters, digits and dashes, such as prod-eu-1"
        )
    if agent == principal_namespace:
        raise CallError(
            f"an agent cannot be named {agent}: that is the principal's namespace, and principals refuse it"
        )


def _place(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (slash and is_dns_label(namespace) and name):
        raise CallError(f"{text!r} names no Secret: write NAMESPACE/NAME")
    return namespace, name


def _secret(name: str, data: dict[str, str], *, secret_type: str) -> Object:
    return {"metadata": {"name": name}, "type": secret_type, "stringData": data}


def _alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(str(each.value) for each in found)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False
