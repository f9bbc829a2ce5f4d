"""Injection through the API server: pods as kubectl creates them, under Pod Security "restricted"."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.webhook.guarded_cluster import Guarded, Object, until
from webhook.injection.inject import InjectionReason
from webhook.injection.templates import CONFIG_MAP, SECURITY_CONTEXT

GOLDEN = Path(__file__).parents[1] / "golden" / "injection"
TEMPLATES: dict[str, str] = yaml.safe_load((GOLDEN / "templates.yaml").read_text())
ANNOTATION = "injection.inject.tiphys.dev/injection"
"""The API server puts the entry's name before the audit annotation's."""

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def injecting(guarded: Guarded) -> Iterator[Guarded]:
    guarded.config_map(CONFIG_MAP, guarded.guard.home, TEMPLATES)
    namespace = create_namespace(guarded)
    probe = pod("probe")
    until(
        lambda: sidecars(created(guarded, probe, namespace, "--dry-run=server")),
        what="the templates are known",
    )
    guarded.cluster.drop_namespace(namespace)
    yield guarded
    guarded.config_map(CONFIG_MAP, guarded.guard.home, None)


@pytest.fixture(scope="module")
def restricted(injecting: Guarded) -> Iterator[str]:
    name = create_namespace(injecting, **{"pod-security.kubernetes.io/enforce": "restricted"})
    yield name
    injecting.cluster.drop_namespace(name)


@pytest.fixture(scope="module")
def lenient(injecting: Guarded) -> Iterator[str]:
    name = create_namespace(injecting)
    yield name
    injecting.cluster.drop_namespace(name)


def create_namespace(guarded: Guarded, **labels: str) -> str:
    return guarded.cluster.create_namespace(labels={"tiphys.dev/injection": "enabled", **labels})


def pod(name: str, role: str = "agent", metadata: Object | None = None, **spec: Any) -> Object:
    security = {**SECURITY_CONTEXT, "runAsUser": 999}
    container = {"name": "c", "image": "example.test/argocd:1", "securityContext": security}
    annotations = {"tiphys.dev/inject": role, **(metadata or {}).get("annotations", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {}), "annotations": annotations},
        "spec": {"containers": [container], **spec},
    }


def created(guarded: Guarded, body: Object, namespace: str, *arguments: str) -> Object:
    done = guarded.write(body, "create", *arguments, "-o", "json", namespace=namespace)
    stored: Object = json.loads(done.stdout)
    return stored


def sidecars(stored: Object) -> list[Object]:
    held = [*stored["spec"].get("initContainers", ()), *stored["spec"]["containers"]]
    return [container for container in held if container["name"].startswith("tiphys-")]


def counted(guarded: Guarded, reason: InjectionReason) -> float:
    text = guarded.guard.page("/metrics")[1]
    found = re.findall(rf'^tiphys_webhook_injections_total{{reason="{reason}"}} (\S+)$', text, re.MULTILINE)
    return sum(map(float, found))


def audited(guarded: Guarded, name: str, namespace: str) -> str | None:
    for event in reversed(guarded.cluster.audited()):
        about = event["objectRef"]
        if (about.get("namespace"), about.get("name")) == (namespace, name):
            found: str | None = event.get("annotations", {}).get(ANNOTATION)
            return found
    return None


@pytest.mark.parametrize("automount", [True, False], ids=["with-a-token", "without-a-token"])
@pytest.mark.parametrize("role", ["agent", "principal"], ids=["native", "plain"])
def test_a_pod_gets_its_sidecar_under_pod_security_restricted_and_a_second_apply_changes_nothing(
    injecting: Guarded, restricted: str, role: str, *, automount: bool
) -> None:
    name = f"{role}-{automount}".lower()
    body = pod(name, role, automountServiceAccountToken=automount)
    assert "created" in injecting.write(body, namespace=restricted).stdout
    stored = injecting.get("pod", name, restricted)
    [sidecar] = sidecars(stored)
    assert sidecar["securityContext"] == SECURITY_CONTEXT
    assert sidecar.get("restartPolicy") == ("Always" if role == "agent" else None)
    looks_at = {mount["mountPath"]: mount["name"] for mount in sidecar["volumeMounts"]}
    assert looks_at["/var/run/secrets/kubernetes.io/serviceaccount"] == f"tiphys-{role}-credentials"
    # Its own token only: the pod's is not mounted a second time by the ServiceAccount plugin.
    assert not [volume for volume in looks_at.values() if volume.startswith("kube-api-access")]
    assert stored["metadata"]["annotations"]["tiphys.dev/injected"] == role
    injecting.write(body, namespace=restricted)
    assert injecting.get("pod", name, restricted) == stored, "not even the resource version changes"


def test_a_pod_that_was_injected_is_created_again_as_it_is(injecting: Guarded, restricted: str) -> None:
    first = created(injecting, pod("exported"), restricted)
    again = {
        **first,
        "metadata": {"name": "imported", "annotations": first["metadata"]["annotations"]},
    }
    second = created(injecting, again, restricted)
    assert second["spec"] == first["spec"]
    until(
        lambda: audited(injecting, "imported", restricted) == InjectionReason.ALREADY_INJECTED,
        what="the audit log names the reason",
    )


OF_A_SET = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "u", "controller": True}]
PORTS = [{"containerPort": 8181}]

CASES: dict[InjectionReason, Object] = {
    InjectionReason.INJECTED: pod("set-0", metadata={"ownerReferences": OF_A_SET}),
    InjectionReason.NOT_ASKED: pod("opted-out", "false"),
    InjectionReason.UNKNOWN_ROLE: pod("unknown-role", "oarsman"),
    InjectionReason.NO_TEMPLATE: pod("no-template", "replica"),
    InjectionReason.ALREADY_INJECTED: pod(
        "already", containers=[{"name": "tiphys-agent", "image": "example.test/tiphys:0"}]
    ),
    InjectionReason.HOST_NETWORK: pod("host-network", hostNetwork=True),
    InjectionReason.MIRROR_POD: pod(
        "mirror", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}, nodeName="node"
    ),
    InjectionReason.OTHER_ORDINAL: pod("set-1", metadata={"ownerReferences": OF_A_SET}),
    InjectionReason.VOLUME_CLASH: pod("volume-clash", volumes=[{"name": "tiphys-agent-tls", "emptyDir": {}}]),
    InjectionReason.PORT_CLASH: pod(
        "port-clash", containers=[{"name": "c", "image": "example.test/c:1", "ports": PORTS}]
    ),
}


def test_every_reason_has_a_case() -> None:
    assert set(CASES) == set(InjectionReason)


@pytest.mark.parametrize("reason", CASES, ids=lambda reason: reason.value)
def test_the_reason_is_in_the_audit_log_and_in_the_metric(
    injecting: Guarded, lenient: str, reason: InjectionReason
) -> None:
    body, before = CASES[reason], counted(injecting, reason)
    name = body["metadata"]["name"]
    stored = created(injecting, body, lenient)
    added = {container["name"] for container in sidecars(stored)} - {
        container["name"] for container in body["spec"]["containers"]
    }
    assert added == ({"tiphys-agent"} if reason is InjectionReason.INJECTED else set())
    until(lambda: audited(injecting, name, lenient) == reason, what="the audit log names the reason")
    # A later webhook's change may have the API server ask again.
    assert counted(injecting, reason) > before


def test_a_namespace_that_does_not_ask_is_left_alone(injecting: Guarded) -> None:
    namespace = injecting.cluster.create_namespace()
    assert not sidecars(created(injecting, pod("alone"), namespace))
    assert audited(injecting, "alone", namespace) is None
    injecting.cluster.drop_namespace(namespace)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("container: [", "key agent: not YAML at line"),
        ("container: 7", "key agent: container: must be a container"),
        ("container: {image: i, privileged: true}", "key agent: container: unknown key 'privileged'"),
    ],
)
def test_a_broken_template_keeps_the_last_good_one_and_shows_among_the_troubles(
    injecting: Guarded, lenient: str, broken: str, said: str
) -> None:
    def trouble() -> str:
        told: str = json.loads(injecting.guard.page("/status.json")[1])["troubles"].get("templates", "")
        return told

    injecting.config_map(CONFIG_MAP, injecting.guard.home, {**TEMPLATES, "agent": broken})
    until(lambda: said in trouble(), what="the status page tells the trouble")
    assert trouble().startswith(f"ConfigMap {injecting.guard.home}/{CONFIG_MAP}, ")
    assert trouble().endswith("; the last good template stays")
    stored = created(injecting, pod("still-injected"), lenient, "--dry-run=server")
    assert [container["image"] for container in sidecars(stored)] == ["example.test/tiphys:1"]
    injecting.config_map(CONFIG_MAP, injecting.guard.home, TEMPLATES)
    until(lambda: not trouble(), what="the trouble is over")


def test_a_removed_template_is_gone(injecting: Guarded, lenient: str) -> None:
    def names() -> list[str]:
        stored = created(injecting, pod("p"), lenient, "--dry-run=server")
        return [container["name"] for container in sidecars(stored)]

    rest = {role: text for role, text in TEMPLATES.items() if role != "agent"}
    # What is left out of a server-side apply is removed.
    injecting.config_map(CONFIG_MAP, injecting.guard.home, rest)
    until(lambda: not names(), what="nothing is injected")
    injecting.config_map(CONFIG_MAP, injecting.guard.home, TEMPLATES)
    until(names, what="it is injected again")
