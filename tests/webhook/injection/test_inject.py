"""Injection: golden files for every case (`TIPHYS_GOLDEN=write` renews them), properties, a real API server."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.cluster.controlplane import Cluster
from webhook.injection.inject import InjectionReason, inject
from webhook.injection.templates import SECURITY_CONTEXT, Template, TemplateError, parse_template

GOLDEN = Path(__file__).parents[1] / "golden" / "injection"
CASES = sorted(path.stem for path in GOLDEN.glob("*.yaml") if path.stem != "templates")
TEMPLATES = {
    role: parse_template(role, text, origin=f"templates.yaml {role}")
    for role, text in yaml.safe_load((GOLDEN / "templates.yaml").read_text()).items()
}


def pod_of(case: str) -> dict[str, Any]:
    pod: dict[str, Any] = yaml.safe_load((GOLDEN / f"{case}.yaml").read_text())
    return pod


@pytest.mark.parametrize("case", CASES)
def test_a_pod_gets_what_the_golden_file_says_and_a_second_pass_adds_nothing(case: str) -> None:
    pod = pod_of(case)
    before = copy.deepcopy(pod)
    result = inject(pod, TEMPLATES)
    told = {
        "reason": result.reason,
        "role": result.role,
        "warnings": list(result.warnings),
        "patch": list(result.patch),
    }
    expected = GOLDEN / f"{case}.json"
    if os.environ.get("TIPHYS_GOLDEN") == "write":
        expected.write_text(json.dumps(told, indent=2) + "\n")
    assert told == json.loads(expected.read_text())
    assert pod == before
    patched = jsonpatch.JsonPatch(list(result.patch)).apply(pod)
    again = inject(patched, TEMPLATES)
    assert not again.patch
    if result.reason is InjectionReason.INJECTED:
        assert again.reason is InjectionReason.ALREADY_INJECTED


def test_every_reason_has_a_golden_case() -> None:
    told = {json.loads((GOLDEN / f"{case}.json").read_text())["reason"] for case in CASES}
    assert told == {reason.value for reason in InjectionReason}


@pytest.mark.parametrize("case", ["native-sidecar", "plain-container-with-its-own-credentials"])
def test_the_security_context_is_complete(case: str) -> None:
    result = inject(pod_of(case), TEMPLATES)
    added = result.patch[0]["value"]
    container = added[0] if isinstance(added, list) else added
    assert container["securityContext"] == SECURITY_CONTEXT
    assert container["resources"]["requests"] == {"cpu": "20m", "memory": "96Mi"}


@pytest.mark.parametrize(
    ("annotations", "requests", "limits", "warned"),
    [
        ({"memory-limit": "64Mi"}, {"cpu": "20m", "memory": "64Mi"}, {"memory": "64Mi"}, False),
        ({"memory-limit": "1Gi"}, {"cpu": "20m", "memory": "96Mi"}, {"memory": "1Gi"}, False),
        ({"memory-request": "300Mi"}, {"cpu": "20m", "memory": "96Mi"}, {"memory": "256Mi"}, True),
        (
            {"memory-request": "300Mi", "memory-limit": "1Gi"},
            {"cpu": "20m", "memory": "300Mi"},
            {"memory": "1Gi"},
            False,
        ),
        ({"cpu-limit": "10m"}, {"cpu": "10m", "memory": "96Mi"}, {"cpu": "10m", "memory": "256Mi"}, False),
    ],
)
def test_overrides_never_leave_a_request_above_its_limit(
    annotations: dict[str, str], requests: dict[str, str], limits: dict[str, str], *, warned: bool
) -> None:
    pod = pod_of("native-sidecar")
    asked = {f"tiphys.dev/inject-{key}": value for key, value in annotations.items()}
    pod["metadata"]["annotations"].update(asked)
    result = inject(pod, TEMPLATES)
    assert result.patch[0]["value"][0]["resources"] == {"requests": requests, "limits": limits}
    assert bool(result.warnings) is warned


def test_a_template_with_a_small_limit_gets_no_larger_request() -> None:
    text = "container: {image: i, resources: {limits: {memory: 64Mi}}}"
    container = parse_template("agent", text, origin="x").container()
    assert container["resources"]["requests"] == {"cpu": "20m", "memory": "64Mi"}


@pytest.mark.parametrize("automount", [True, False])
@pytest.mark.parametrize("role", ["agent", "principal"])
def test_injected_pods_pass_pod_security_restricted_on_a_real_api_server(
    cluster: Cluster, role: str, *, automount: bool
) -> None:
    namespace = cluster.create_namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    security = {**SECURITY_CONTEXT, "runAsUser": 999}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "controller",
            "namespace": namespace,
            "annotations": {"tiphys.dev/inject": role},
        },
        "spec": {
            "automountServiceAccountToken": automount,
            "containers": [{"name": "c", "image": "example.test/argocd:1", "securityContext": security}],
        },
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    patched = jsonpatch.JsonPatch(list(inject(pod, TEMPLATES).patch)).apply(pod)
    stored = cluster.request("POST", path, patched)
    mounts = {
        mount["name"]
        for held in [*stored["spec"].get("initContainers", []), *stored["spec"]["containers"]]
        if held["name"] == f"tiphys-{role}"
        for mount in held["volumeMounts"]
        if mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    }
    assert mounts == {f"tiphys-{role}-credentials"}
    assert not inject(stored, TEMPLATES).patch
    cluster.drop_namespace(namespace)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML at line"),
        ("[" * 100_000, "nested deeper"),
        ("- 1", "must be a mapping with `container`"),
        ("{}", "container: must be a container"),
        ("container: {image: ''}", "container: image is missing"),
        ("contianer: {}", "unknown key 'contianer'"),
        ("native: sure\ncontainer: {image: i}", "native must be true or false"),
        ("container: {image: i, securityContext: {privileged: true}}", "unknown key 'securityContext'"),
        ("container: {image: i, ports: [{containerPort: x}]}", "containerPort must be a number"),
        ("container: {image: i, ports: 1}", "ports must be a list"),
        ("container: {image: i, env: [{value: v}]}", r"env\[0\].name is missing"),
        ("container: {image: i, resources: []}\nvolumes: []", None),
        ("container: {image: i, resources: [1]}", "resources must be a mapping"),
        (
            "container: {image: i, resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}",
            "the request of cpu 2 is more than its limit 1500m",
        ),
        ("container: {image: i}\nvolumes: [{name: tmp, emptyDir: {}}]", "must begin with tiphys-"),
        ("container: {image: i}\ncredentials: {secretName: s}", None),
        ('container: {image: i}\ncredentials: {secretName: ""}', None),
        ("container: {image: i}\ncredentials: mine", "credentials: must be a mapping with `secretName`"),
        ("container: {image: i}\ncredentials: {secret: s}", "credentials: unknown key 'secret'"),
        ("container: {image: i}\ncredentials: {secretName: [s]}", "credentials: secretName must be a text"),
        (
            "container: {image: i}\nvolumes: [{name: tiphys-x, hostPath: {path: /}}]",
            "must have one source of",
        ),
    ],
)
def test_a_bad_template_is_refused_in_one_line_that_names_it(text: str, said: str | None) -> None:
    if said is None:
        assert isinstance(parse_template("agent", text, origin="x"), Template)
        return
    with pytest.raises(TemplateError, match=said) as caught:
        parse_template("agent", text, origin="ConfigMap tiphys-system/tiphys-injection, key agent")
    assert str(caught.value).startswith("ConfigMap tiphys-system/tiphys-injection, key agent")
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["containers", "initContainers", "volumes", "hostNetwork", "ephemeralContainers"]),
        JSON,
    ),
    st.sampled_from(["tiphys.dev/inject-cpu-limit", "tiphys.dev/inject-log-level", "other"]),
    st.text(max_size=20),
)
def test_no_pod_makes_it_raise_and_annotations_reach_only_resources_and_the_log_level(
    spec: dict[str, Any], annotation: str, value: str
) -> None:
    pod = {"metadata": {"annotations": {"tiphys.dev/inject": "agent", annotation: value}}, "spec": spec}
    result = inject(pod, TEMPLATES)
    if not result.patch:
        return
    added = result.patch[0]["value"]
    container = added[0] if isinstance(added, list) else added
    closed = TEMPLATES["agent"].container()
    assert {key: container[key] for key in container if key not in {"resources", "env"}} == {
        key: closed[key] for key in closed if key not in {"resources", "env"}
    }
