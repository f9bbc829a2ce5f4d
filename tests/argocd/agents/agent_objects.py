"""Small objects of the agents' world, and Hypothesis strategies for them."""

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from argocd import names

NAMES = ("agent-a", "agent-b", "prod", "prod-eu", "a", "a-b")

PATTERNS = st.sampled_from(
    [
        "*",
        "agent-*",
        "agent-a",
        "prod*",
        "!prod-*",
        "!*",
        "{agent-a,prod}",
        "a?b",
        "[",
        "[!a]*",
        "",
        "a{}",
        "é",
    ]
) | st.text(alphabet="ab-*?!{},[]\\", max_size=6)
SERVERS = st.sampled_from(
    ["", "*", "https://hub?agentName=agent-*", "?agentName=prod", "%zz", names.IN_CLUSTER_SERVER]
)
NAMESPACES = st.sampled_from(["", "*", "shop", "!kube-system", "guest-*"])
LINES = st.sampled_from(
    [
        "p, proj:shop:r, applications, get, shop/*, allow",
        "p, proj:shop:r, logs, get, shop/*, deny",
        "p, proj:agent-a-shop:r, applications, get, agent-a-shop/agent-a/*, allow",
        "p,proj:shop:r,exec,create,shop/*,allow",
        "p, proj:shop:r, repositories, get, shop/*, allow",
        "g, someone, proj:shop:r",
        "",
    ]
)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "spec",
                    "status",
                    "operation",
                    "data",
                    "annotations",
                    "labels",
                    "name",
                    "namespace",
                    "uid",
                    "destinations",
                    "destination",
                    "server",
                    "sourceNamespaces",
                    "roles",
                    "policies",
                    "project",
                    "resources",
                    "operationState",
                    "finalizers",
                    "destinationServiceAccounts",
                    "kind",
                    names.SOURCE_UID,
                    names.PRINCIPAL_UID,
                    names.REFRESH,
                    names.TIPHYS_AGENT,
                    names.IGNORE_SYNC,
                    names.NAMESPACE_REMAPPED,
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)
OBJECTS = ANYTHING.map(
    lambda part: {key: deepcopy(part) for key in ("metadata", "spec", "status", "data")}
) | (
    st.dictionaries(
        st.sampled_from(["metadata", "spec", "status", "operation", "data", "stringData", "kind"]), ANYTHING
    )
)
"""Objects of any shape, with the keys that matter in all the wrong places."""


@st.composite
def destinations(draw: st.DrawFn) -> dict[str, Any]:
    parts = {"name": draw(PATTERNS), "server": draw(SERVERS), "namespace": draw(NAMESPACES)}
    return {key: part for key, part in parts.items() if part or draw(st.booleans())}


@st.composite
def projects(draw: st.DrawFn) -> dict[str, Any]:
    annotations = draw(
        st.sampled_from([{}, {"note": "x"}, {names.SOURCE_UID: "u"}, {names.LAST_APPLIED: "{}"}])
    )
    labels = draw(st.sampled_from([{}, {names.IGNORE_SYNC: "true"}, {names.IGNORE_SYNC: "false"}]))
    roles = draw(
        st.lists(
            st.fixed_dictionaries({"name": st.just("r"), "policies": st.lists(LINES, max_size=3)}), max_size=2
        )
    )
    return project(
        name=draw(st.sampled_from(["shop", "agent-a-shop", "default"])),
        annotations=annotations,
        labels=labels,
        destinations=draw(st.lists(destinations(), max_size=4)),
        sourceNamespaces=draw(st.lists(PATTERNS | st.just("/^agent-/"), max_size=3)),
        roles=roles,
    )


def project(
    *,
    name: str = "shop",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "argocd",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
    }
    if annotations:
        metadata["annotations"] = annotations
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": spec}


def application(
    *,
    name: str = "web",
    namespace: str = "agent-a",
    destination: dict[str, str] | None = None,
    **parts: Any,
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "7"}
    metadata.update(parts.pop("metadata", {}))
    spec = {"project": "shop", "destination": destination or {"name": "agent-a", "namespace": "guest"}}
    spec.update(parts.pop("spec", {}))
    return {"metadata": metadata, "spec": spec, **parts}


def repository(
    *,
    name: str = "repo",
    kind: str = "repository",
    project: str | None = "shop",
    labels: dict[str, str] | None = None,
    namespace: str = "argocd",
) -> dict[str, Any]:
    return {
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {names.SECRET_TYPE: kind, **(labels or {})},
        },
        "stringData": {} if project is None else {"project": project},
    }
