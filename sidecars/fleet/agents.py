"""Agents as objects of the principal's namespace: cluster Secrets and the blocklist."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509

from argocd import names
from argocd.agents.copies import AGENT_ERROR
from argocd.agents.modes import kept_mode, labelled_mode, with_mode
from argocd.agents.vocabulary import Mode
from argocd.reading import mapping, sequence, text
from certs.authority import KeyType
from certs.key_pair import KeyPair, fingerprint
from kube import queries
from kube.errors import AlreadyExistsError, NotFoundError
from kube.resources import APPLICATIONS, CONFIG_MAPS, NAMESPACES, SECRETS
from kube.secrets import decoded_data
from kube.store import Object, PatchKind, Store
from sidecars.fleet.pki import LEAF_LIFETIME, Certificate, Pki, check_agent_name, described
from sidecars.wire.auth.blocklist import Blocklist
from tiphys.errors import CallError


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """An agent as its cluster Secret tells of it. `proxy` is the certificate for the resource proxy."""

    name: str
    secret: str
    server: str
    self_registered: bool
    issued: tuple[str, ...]
    proxy: Certificate | None
    mode: Mode | None
    """None where nobody has said so yet: that of the first login counts."""

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Every certificate that names this agent and is known here: each could log in as it."""
        return tuple(dict.fromkeys([*self.issued, *([self.proxy.fingerprint] if self.proxy else [])]))


@dataclass(frozen=True, slots=True)
class Trouble:
    """The newest error that an agent's Applications show."""

    when: str
    application: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    store: Store
    namespace: str

    async def create(
        self,
        agent: str,
        *,
        proxy_address: str,
        labels: Mapping[str, str],
        mode: Mode | None = None,
        create_namespace: bool,
        now: datetime,
        lifetime: timedelta = LEAF_LIFETIME,
        key_type: KeyType,
    ) -> Registered:
        """Its cluster Secret, with a certificate with which Argo CD calls the resource proxy."""
        pki = Pki(store=self.store, namespace=self.namespace)
        pair, authority = await pki.issue_client(agent, now=now, lifetime=lifetime, key_type=key_type)
        if await self._secrets_of(agent):
            raise CallError(f"agent {agent} exists already: see `tiphys agents inspect {agent}`")
        body = cluster_secret(
            agent, proxy_address=proxy_address, labels=labels, pair=pair, authority=authority
        )
        if mode is not None:
            body = with_mode(body, mode)
        try:
            stored = await self.store.create(SECRETS, body, namespace=self.namespace)
        except AlreadyExistsError as error:
            name = body["metadata"]["name"]
            raise CallError(f"Secret {self.namespace}/{name} exists and is no agent's cluster") from error
        await self._label_namespace(agent, create=create_namespace)
        return registered(stored)

    async def all(self) -> list[Registered]:
        kept = await self._kept_modes()
        found = [registered(secret, kept_modes=kept) for secret in await self._secrets()]
        return sorted(found, key=lambda each: each.name)

    async def get(self, agent: str) -> Registered:
        found = await self._secrets_of(agent)
        if not found:
            raise CallError(
                f"no agent {agent}: no Secret in {self.namespace} has the label {names.AGENT_NAME}={agent}"
            )
        return registered(found[0], kept_modes=await self._kept_modes())

    async def set_mode(self, agent: str, mode: Mode) -> Registered:
        """How it was; from now on its label says it, whatever its first login did."""
        there = await self.get(agent)
        patch = {"metadata": {"labels": {names.TIPHYS_MODE: mode.value}}}
        await self.store.patch(
            SECRETS, patch, name=there.secret, namespace=self.namespace, kind=PatchKind.MERGE
        )
        return there

    async def _kept_modes(self) -> Object | None:
        return await queries.find(self.store, CONFIG_MAPS, name=names.AGENT_MODES, namespace=self.namespace)

    async def note_issued(self, agent: str, certificate: str) -> bool:
        """Remembers a fingerprint with the agent, so that `block` needs nothing but a name."""
        found = await self._secrets_of(agent)
        if not found:
            return False
        told = dict.fromkeys([*registered(found[0]).issued, certificate])
        patch = {"metadata": {"annotations": {names.TIPHYS_CERTIFICATES: " ".join(told)}}}
        name = found[0]["metadata"]["name"]
        await self.store.patch(SECRETS, patch, name=name, namespace=self.namespace, kind=PatchKind.MERGE)
        return True

    async def remove(self, agent: str, *, block: bool) -> tuple[Registered, int]:
        """Returns also how many Applications of its namespace stay behind."""
        there = await self.get(agent)
        if block and there.fingerprints:
            await self.block(there.fingerprints)
        for secret in await self._secrets_of(agent):
            await self.store.delete(
                SECRETS,
                name=secret["metadata"]["name"],
                namespace=self.namespace,
                uid=secret["metadata"]["uid"],
            )
        if kept_mode(await self._kept_modes(), agent) is not None:
            await self.store.patch(
                CONFIG_MAPS,
                {"data": {agent: None}},
                name=names.AGENT_MODES,
                namespace=self.namespace,
                kind=PatchKind.MERGE,
            )
        left = [len(page) async for page in queries.pages(self.store, APPLICATIONS, namespace=agent)]
        return there, sum(left)

    # The blocklist.

    async def blocked(self) -> Blocklist:
        held = await self._held_blocklist()
        return Blocklist() if held is None else Blocklist.of(held)

    async def block(self, fingerprints: Iterable[str]) -> None:
        data = dict.fromkeys(fingerprints, "")
        try:
            await self._patch_blocklist({"data": data})
        except NotFoundError:
            body = {"metadata": {"name": names.TLS_BLOCKLIST}, "data": data}
            try:
                await self.store.create(CONFIG_MAPS, body, namespace=self.namespace)
            except AlreadyExistsError:
                await self._patch_blocklist({"data": data})

    async def unblock(self, fingerprints: Iterable[str]) -> None:
        """Keys may stand there in lower case, which a principal of ours takes too."""
        unwanted = set(fingerprints)
        there = await self._held_blocklist()
        gone = {key: None for key in mapping(there, "data") if key.upper() in unwanted}
        if gone:
            await self._patch_blocklist({"data": gone})

    async def _held_blocklist(self) -> Object | None:
        return await queries.find(self.store, CONFIG_MAPS, name=names.TLS_BLOCKLIST, namespace=self.namespace)

    async def _patch_blocklist(self, patch: Object) -> None:
        await self.store.patch(
            CONFIG_MAPS, patch, name=names.TLS_BLOCKLIST, namespace=self.namespace, kind=PatchKind.MERGE
        )

    # Applications.

    async def troubles(self, agents: Iterable[Registered], *, only: str = "") -> dict[str, Trouble]:
        """By agent, from the condition that a principal leaves on an Application that an agent refused."""
        known = {each.name for each in agents}
        found: dict[str, Trouble] = {}
        pages = queries.pages(self.store, APPLICATIONS, namespace=only or None)
        errors = (
            (application, condition)
            async for page in pages
            for application in page
            for condition in sequence(application, "status", "conditions")
            if text(condition, "type") == AGENT_ERROR
        )
        async for application, condition in errors:
            namespace = text(application, "metadata", "namespace")
            agent = namespace if namespace in known else text(application, "spec", "destination", "name")
            when = text(condition, "lastTransitionTime")
            if agent in known and (agent not in found or found[agent].when < when):
                name = f"{namespace}/{text(application, 'metadata', 'name')}"
                found[agent] = Trouble(when, name, text(condition, "message"))
        return found

    async def _secrets_of(self, agent: str) -> list[Object]:
        check_agent_name(agent, principal_namespace=self.namespace)
        return await self._secrets(f"={agent}")

    async def _secrets(self, value: str = "") -> list[Object]:
        selector = f"{names.SECRET_TYPE}={names.SECRET_TYPE_CLUSTER},{names.AGENT_NAME}{value}"
        pages = queries.pages(self.store, SECRETS, namespace=self.namespace, label_selector=selector)
        return [secret async for page in pages for secret in page]

    async def _label_namespace(self, agent: str, *, create: bool) -> None:
        """By the label the webhook knows that what is in it must not pass unseen."""
        labelled = {"metadata": {"labels": {names.TIPHYS_AGENT: agent}}}
        try:
            await self.store.patch(NAMESPACES, labelled, name=agent, kind=PatchKind.MERGE)
        except NotFoundError:
            if create:
                await self.store.create(NAMESPACES, {"metadata": {"name": agent, **labelled["metadata"]}})


def cluster_secret(
    agent: str, *, proxy_address: str, labels: Mapping[str, str], pair: KeyPair, authority: bytes
) -> Object:
    config = {
        "tlsClientConfig": {
            "insecure": False,
            "certData": _encoded(pair.certificate),
            "keyData": _encoded(pair.key),
            "caData": _encoded(authority),
        }
    }
    return {
        "metadata": {
            "name": f"{names.AGENT_CLUSTER_SECRET_PREFIX}{agent}",
            "labels": {**labels, names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: agent},
            "annotations": {names.MANAGED_BY: "argocd-agent", names.SKIP_RECONCILE: "true"},
        },
        "type": "Opaque",
        "stringData": {
            "name": agent,
            "server": f"https://{proxy_address}?{names.AGENT_QUERY_PARAMETER}={agent}",
            "config": json.dumps(config),
        },
    }


def registered(secret: Object, *, kept_modes: Object | None = None) -> Registered:
    labels = mapping(secret, "metadata", "labels")
    issued = text(secret, "metadata", "annotations", names.TIPHYS_CERTIFICATES)
    name, data = text(secret, "metadata", "name"), decoded_data(secret)
    agent = text(labels, names.AGENT_NAME)
    return Registered(
        name=agent,
        mode=labelled_mode(secret) or kept_mode(kept_modes, agent),
        secret=name,
        server=data.get("server", b"").decode(errors="replace"),
        self_registered=text(labels, names.SELF_REGISTERED_CLUSTER) == "true",
        issued=tuple(Blocklist.of({"data": dict.fromkeys(issued.split(), "")}).fingerprints),
        proxy=_proxy_certificate(data.get("config", b""), where=f"Secret {name}"),
    )


def _proxy_certificate(config: bytes, *, where: str) -> Certificate | None:
    """None too where somebody's hand has left something else; Argo CD will say so."""
    try:
        told: Any = json.loads(config or b"{}")
        pem = b64decode(text(told, "tlsClientConfig", "certData"))  # with line breaks, as Go takes it
        return described(x509.load_pem_x509_certificate(pem), where=where) if pem else None
    except ValueError:
        return None


async def forget_epochs(store: Store, *, namespace: str) -> dict[str, str]:
    """Of the agent in this namespace, on its own cluster; what it had kept."""
    held = await queries.find(store, CONFIG_MAPS, name=names.AGENT_EPOCHS, namespace=namespace)
    if held is None:
        return {}
    await store.delete(CONFIG_MAPS, name=names.AGENT_EPOCHS, namespace=namespace)
    return {pair: str(epoch) for pair, epoch in mapping(held, "data").items()}


def fingerprint_of(pem: bytes, *, origin: str) -> str:
    try:
        return fingerprint(x509.load_pem_x509_certificate(pem))
    except ValueError:
        raise CallError(f"{origin} is no certificate in PEM") from None


def _encoded(content: bytes) -> str:
    return b64encode(content).decode()
