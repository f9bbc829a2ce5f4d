"""Tracking ids: how Argo CD writes on an object whose it is, in the released and in the proposed format.

Released: `app:group/kind:namespace/name` in its own annotation. Proposed in 2021 and never released:
`app;group/kind/namespace/name` in an annotation named like the instance label.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from argocd import reading
from argocd.kubernetes_names import LABEL_LIMIT

TRUNCATION_ERROR = "unable to truncate label to not end with a special character"


class TruncationError(ValueError):
    """The name cannot be cut to a label: nothing before the limit is a letter or a digit."""

    def __init__(self) -> None:
        super().__init__(TRUNCATION_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingId:
    """`application` is the instance name: `app`, or `namespace_app` outside Argo CD's namespace."""

    application: str
    group: str
    kind: str
    namespace: str
    name: str

    @property
    def released(self) -> str:
        return f"{self.application}:{self.group}/{self.kind}:{self.namespace}/{self.name}"

    @property
    def proposed(self) -> str:
        return f"{self.application};{self.group}/{self.kind}/{self.namespace}/{self.name}"

    def is_about(self, thing: Mapping[str, Any]) -> bool:
        """Whether it names this object; the namespace of a cluster-scoped object's id means nothing.

        The application takes no part: Argo CD does not ask for it here either.
        """
        namespace = reading.text(thing, "metadata", "namespace")
        return (
            namespace in {"", self.namespace}
            and reading.text(thing, "metadata", "name") == self.name
            and group_of(thing) == self.group
            and reading.text(thing, "kind") == self.kind
        )


def group_of(thing: Mapping[str, Any]) -> str:
    """The API group of an object, empty for the core group."""
    group, slash, _ = reading.text(thing, "apiVersion").partition("/")
    return group if slash else ""


def id_for(
    thing: Mapping[str, Any], *, application: str, destination_namespace: str = "", group: str | None = None
) -> TrackingId:
    """The id that Argo CD would write: an object without a namespace gets that of the destination.

    `group` is given where the object was converted on its way here: the id keeps the one asked for.
    """
    return TrackingId(
        application=application,
        group=group_of(thing) if group is None else group,
        kind=reading.text(thing, "kind"),
        namespace=reading.text(thing, "metadata", "namespace") or destination_namespace,
        name=reading.text(thing, "metadata", "name"),
    )


def parse_released(text: str) -> TrackingId | None:
    """None where Argo CD finds a format error, which it swallows: the object is then not tracked."""
    parts = text.split(":", 2)
    if len(parts) != 3 or parts[1].count("/") != 1 or parts[2].count("/") != 1:  # noqa: PLR2004 - app, kind, name
        return None
    group, kind = parts[1].split("/")
    namespace, name = parts[2].split("/")
    return TrackingId(application=parts[0], group=group, kind=kind, namespace=namespace, name=name)


def parse_proposed(text: str) -> TrackingId | None:
    application, semicolon, rest = text.partition(";")
    if not semicolon or rest.count("/") != 3:  # noqa: PLR2004 - between four parts
        return None
    group, kind, namespace, name = rest.split("/")
    return TrackingId(application=application, group=group, kind=kind, namespace=namespace, name=name)


def truncate(name: str) -> str:
    """The name as a label's value, cut as `annotation+label` cuts it: up to 63 bytes it stays as it is."""
    data = name.encode(errors="surrogatepass")
    if len(data) <= LABEL_LIMIT:
        return name
    cut = re.search(rb"\A.*[A-Za-z0-9]", data[:LABEL_LIMIT], re.DOTALL)
    if cut is None:
        raise TruncationError
    return cut[0].decode(errors="replace")


def instance_name(name: str, *, namespace: str, argocd_namespace: str) -> str:
    """How an application is called on its objects."""
    return name if namespace in {"", argocd_namespace} else f"{namespace}_{name}"


def split_instance(instance: str, *, default_namespace: str = "") -> tuple[str, str]:
    """Name and namespace of the application; Kubernetes's names have no underscore, so the first one parts."""
    namespace, underscore, name = instance.partition("_")
    return (name, namespace) if underscore else (instance, default_namespace)


def split_qualified(text: str, *, default_namespace: str = "") -> tuple[str, str]:
    """Name and namespace of an application as the CLI and `tiphys.dev/tracking-application` write it."""
    namespace, slash, name = text.partition("/")
    return (name, namespace) if slash else (text, default_namespace)
