"""What a new agent's cluster needs: its certificate, where the principal is, and the agent itself."""

from base64 import b64encode
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from argocd import names
from argocd.agents.vocabulary import Mode
from argocd.reading import sequence, text
from certs.folder import BUNDLE, CERTIFICATE, KEY
from certs.key_pair import KeyPair
from kube import queries
from kube.resources import SECRETS, SERVICES
from kube.store import Object, Store
from sidecars.fleet.pki import TLS_TYPE, certificates_in
from tiphys.errors import CallError

_ADDRESS_FLAG = "--server-address="
_NAMESPACE_FLAG = "--namespace="
DEFAULT_PORT = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    agent: str
    mode: Mode
    namespace: str
    """Argo CD's on the agent's cluster."""
    address: str
    port: int
    image: str
    """Empty for the manifests' own."""
    pair: KeyPair
    authority: bytes

    def objects(self) -> list[Object]:
        """For `kubectl apply`: the Secrets first, because the agent waits for them."""
        read = resources.files("sidecars.fleet").joinpath(f"agent-{self.mode.value}.yaml").read_text()
        return [*self._secrets(), *(self._placed(each) for each in yaml.safe_load_all(read))]

    def helm_values(self) -> Object:
        """For the chart in manifests/chart."""
        values: Object = {
            "argocd": {"namespace": self.namespace},
            "webhook": {"enabled": False},  # as in the stream; who wants it there too says so
            "agent": {
                "enabled": True,
                "mode": self.mode.value,
                "principal": {"address": self.address, "port": self.port},
                "certificate": {
                    "authority": self.authority.decode(),
                    "certificate": self.pair.certificate.decode(),
                    "key": self.pair.key.decode(),
                },
            },
        }
        if self.image:
            values["image"] = _image_values(self.image)
        return values

    def _secrets(self) -> list[Object]:
        pair = {CERTIFICATE: self.pair.certificate, KEY: self.pair.key}
        return [
            self._secret(names.AGENT_CA_SECRET, {BUNDLE: self.authority}, secret_type="Opaque"),  # noqa: S106 - a type
            self._secret(names.AGENT_TLS_SECRET, pair, secret_type=TLS_TYPE),
        ]

    def _secret(self, name: str, data: dict[str, bytes], *, secret_type: str) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "type": secret_type,
            "data": {key: b64encode(value).decode() for key, value in data.items()},
        }

    def _placed(self, thing: Object) -> Object:
        if "namespace" in thing["metadata"]:
            thing["metadata"]["namespace"] = self.namespace
        for subject in thing.get("subjects", ()):
            subject["namespace"] = self.namespace
        if thing["kind"] == "Deployment":
            [container] = thing["spec"]["template"]["spec"]["containers"]
            container["args"] = list(self._arguments(container["args"]))
            container["image"] = self.image or container["image"]
        return thing

    def _arguments(self, given: list[str]) -> Any:
        for argument in given:
            if argument.startswith(_NAMESPACE_FLAG):
                yield f"{_NAMESPACE_FLAG}{self.namespace}"
            elif argument.startswith(_ADDRESS_FLAG):
                yield f"{_ADDRESS_FLAG}{self.address}"
                if self.port != DEFAULT_PORT:
                    yield f"--server-port={self.port}"
            else:
                yield argument


async def address_of_principal(store: Store, *, namespace: str) -> str:
    """Where its Service is reached from outside."""
    where = f"Service {namespace}/{names.PRINCIPAL_SERVICE}"
    service = await queries.find(store, SERVICES, name=names.PRINCIPAL_SERVICE, namespace=namespace)
    for ingress in sequence(service, "status", "loadBalancer", "ingress"):
        if found := text(ingress, "hostname") or text(ingress, "ip"):
            return found
    why = "has no address outside yet" if service else "does not exist"
    raise CallError(f"{where} {why}: say where agents reach the principal, --server-address NAME")


async def check_certificate(store: Store, *, namespace: str, address: str) -> None:
    """An agent would refuse a principal whose certificate does not name what it dialled."""
    where = f"Secret {namespace}/{names.PRINCIPAL_TLS_SECRET}"
    secret = await queries.find(store, SECRETS, name=names.PRINCIPAL_TLS_SECRET, namespace=namespace)
    if secret is None:
        raise CallError(f"{where} does not exist: `tiphys pki issue principal --dns {address}` makes it")
    told = [name for found in certificates_in(secret, where=where) for name in found.names]
    wildcard = f"*.{address.partition('.')[2]}"
    if address not in told and wildcard not in told:
        raise CallError(
            f"the certificate in {where} names {', '.join(told) or 'nobody'} and not {address}:"
            f" `tiphys pki issue principal --dns {address} --replace`, or --ip"
        )


def _image_values(image: str) -> Object:
    repository, at, digest = image.partition("@")
    if at:
        return {"repository": repository, "digest": digest}
    front, colon, tag = image.rpartition(":")
    if colon and "/" not in tag:
        return {"repository": front, "tag": tag}
    return {"repository": image}
