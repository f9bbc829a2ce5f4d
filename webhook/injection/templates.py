"""Injection templates: what an admin writes into the ConfigMap, checked and made complete.

One key of the ConfigMap for each role. What a container needs to be accepted under Pod Security "restricted"
is added here and cannot be weakened by the template.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argocd import reading
from tiphys import safe_yaml
from tiphys.errors import CallError
from webhook.injection.quantities import exceeds

Object = dict[str, Any]

CONFIG_MAP = "tiphys-injection"
ROLES = ("agent", "principal", "replica")

CREDENTIALS_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where every Kubernetes client looks for its token; the sidecar's own is mounted here, in it alone."""

VOLUME_PREFIX = "tiphys-"
"""No volume of Argo CD's pods begins with it; a template's volumes must."""

_TEMPLATE_KEYS = frozenset({"native", "container", "volumes", "credentials"})
_CREDENTIALS_KEYS = frozenset({"secretName"})
_CONTAINER_KEYS = frozenset(
    {
        "name", "image", "imagePullPolicy", "command", "args", "env", "envFrom", "ports", "resources",
        "volumeMounts", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
        "terminationMessagePolicy",
    }
)  # fmt: skip
_VOLUME_SOURCES = frozenset({"configMap", "downwardAPI", "emptyDir", "projected", "secret"})
"""Those that Pod Security "restricted" allows and that hold nothing of the node."""

SECURITY_CONTEXT: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Argo CD's pods leave the pod level empty, so the container must bring all of it."""

DEFAULT_REQUESTS = {"cpu": "20m", "memory": "96Mi"}
"""A namespace with a quota refuses containers without requests."""


class TemplateError(CallError):
    """The template is bad; the last good one stays."""


@dataclass(frozen=True, slots=True)
class Template:
    role: str
    native: bool
    body: Mapping[str, Any]
    volumes: Sequence[Object]

    @property
    def name(self) -> str:
        return f"tiphys-{self.role}"

    @property
    def ports(self) -> Sequence[Mapping[str, Any]]:
        return reading.sequence(self.body, "ports")

    def container(self) -> Object:
        """A fresh copy, complete with security context, requests and credentials."""
        container: Object = {"name": self.name, **copy.deepcopy(dict(self.body))}
        if self.native:
            container["restartPolicy"] = "Always"
        return container


def parse_template(role: str, text: str, *, origin: str) -> Template:
    """`origin` names the ConfigMap and key in every complaint."""
    if role not in ROLES:
        raise TemplateError(f"{origin}: no such role; known: {', '.join(ROLES)}")
    try:
        document = safe_yaml.load(text)
    except safe_yaml.YamlError as error:
        said = str(error)
        raise TemplateError(
            f"{origin}: not YAML{' at ' if said.startswith('line ') else ': '}{said}"
        ) from error
    if not isinstance(document, dict):
        raise TemplateError(f"{origin}: must be a mapping with `container`")
    _refuse_unknown(document, _TEMPLATE_KEYS, origin)
    native = document.get("native", True)
    if not isinstance(native, bool):
        raise TemplateError(f"{origin}: native must be true or false")
    volumes = [
        _volume(volume, f"{origin}: volumes[{index}]")
        for index, volume in enumerate(_list(document, "volumes", origin))
    ]
    volumes.append(_credentials(role, _secret_name(document.get("credentials"), f"{origin}: credentials")))
    container = _container(document.get("container"), f"{origin}: container")
    container["volumeMounts"] = [
        *container.get("volumeMounts", []),
        {"name": volumes[-1]["name"], "mountPath": CREDENTIALS_FOLDER, "readOnly": True},
    ]
    return Template(role=role, native=native, body=container, volumes=volumes)


def _secret_name(credentials: Any, origin: str) -> str:
    """Empty for the pod's own account, which no slip must end in."""
    if not isinstance(credentials or {}, dict):
        raise TemplateError(f"{origin}: must be a mapping with `secretName`")
    _refuse_unknown(credentials or {}, _CREDENTIALS_KEYS, origin)
    name = reading.value(credentials, "secretName") or ""
    if not isinstance(name, str):
        raise TemplateError(f"{origin}: secretName must be a text")
    return name


def _container(container: Any, origin: str) -> Object:
    if not isinstance(container, dict):
        raise TemplateError(f"{origin}: must be a container")
    _refuse_unknown(container, _CONTAINER_KEYS, origin)
    if not reading.text(container, "image"):
        raise TemplateError(f"{origin}: image is missing")
    for index, port in enumerate(_list(container, "ports", origin)):
        if not isinstance(port, dict) or not isinstance(port.get("containerPort"), int):
            raise TemplateError(f"{origin}: ports[{index}].containerPort must be a number")
    for key in ("env", "volumeMounts"):
        for index, item in enumerate(_list(container, key, origin)):
            if not reading.text(item, "name"):
                raise TemplateError(f"{origin}: {key}[{index}].name is missing")
    resources = container.get("resources") or {}
    if not isinstance(resources, dict):
        raise TemplateError(f"{origin}: resources must be a mapping")
    complete = {
        **container,
        "resources": {**resources, "requests": _requests(resources, origin)},
        "securityContext": copy.deepcopy(dict(SECURITY_CONTEXT)),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    complete.pop("name", None)  # the role names it
    return complete


def _requests(resources: Mapping[str, Any], origin: str) -> Object:
    limits = reading.mapping(resources, "limits")
    least = {
        key: limits[key] if exceeds(value, limits.get(key)) else value
        for key, value in DEFAULT_REQUESTS.items()
    }
    requests = {**least, **reading.mapping(resources, "requests")}
    for key, value in requests.items():
        if exceeds(value, limits.get(key)):
            raise TemplateError(
                f"{origin}: resources: the request of {key} {value} is more than its limit {limits[key]}"
            )
    return requests


def _volume(volume: Any, origin: str) -> Object:
    name = reading.text(volume, "name")
    if not isinstance(volume, dict) or not name.startswith(VOLUME_PREFIX):
        raise TemplateError(
            f"{origin}: name must begin with {VOLUME_PREFIX}, so that it cannot meet one of the pod's"
        )
    sources = set(volume) - {"name"}
    if len(sources) != 1 or not sources <= _VOLUME_SOURCES:
        raise TemplateError(f"{origin}: must have one source of {', '.join(sorted(_VOLUME_SOURCES))}")
    return volume


def _credentials(role: str, secret: str) -> Object:
    """The pod's account by a token of the sidecar's own, which works without automounting too; or a Secret's.

    The default mode stays: without an fsGroup the files belong to root, and the container is not root.
    """
    name = f"{VOLUME_PREFIX}{role}-credentials"
    if secret:
        return {"name": name, "secret": {"secretName": secret}}
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources}}


def _list(source: Mapping[str, Any], key: str, origin: str) -> list[Any]:
    found = source.get(key) or []
    if not isinstance(found, list):
        raise TemplateError(f"{origin}: {key} must be a list")
    return found


def _refuse_unknown(source: Mapping[str, Any], known: frozenset[str], origin: str) -> None:
    unknown = sorted(str(key) for key in source if key not in known)
    if unknown:
        raise TemplateError(f"{origin}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
