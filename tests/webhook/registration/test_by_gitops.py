"""A GitOps tool owns the registration: re-applied in every way it keeps its caBundle, and owners are named."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.crowd import crowd
from tests.webhook.guarded_cluster import until
from tests.webhook.registration.test_register_and_unregister import BAD
from tests.webhook.webhook_process import Guard
from webhook.registration.register import LEADER_LEASE, UNREGISTERED
from webhook.registration.table import Registration, mutating, validating

KINDS = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
SERVER_SIDE = ("--server-side", "--field-manager=argocd-controller", "--force-conflicts")

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def guard(shared_guard: Guard) -> Iterator[Guard]:
    """A leader that may write the caBundle, and nothing registered."""
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{shared_guard.home}/leases/{LEADER_LEASE}"
    unmarked = {"metadata": {"annotations": {UNREGISTERED: None}}}
    shared_guard.cluster.request("PATCH", lease, unmarked, content_type="application/merge-patch+json")
    yield shared_guard
    shared_guard.unregister()


def manifests(guard: Guard, *, seconds: int = 5, annotations: dict[str, str] | None = None) -> str:
    """The component `registration` for this guard, which the API server finds by a URL."""
    registration = Registration(argocd_namespace=guard.argocd, home=guard.home, url=guard.url)
    configurations = [validating(registration), mutating(registration)]
    for configuration in configurations:
        configuration["metadata"]["annotations"] = annotations or {}
        for entry in configuration["webhooks"]:
            assert "caBundle" not in entry["clientConfig"]
            entry["timeoutSeconds"] = min(seconds, entry["timeoutSeconds"])
    return yaml.safe_dump_all(configurations)


def bundles(answer: str) -> set[str]:
    told: dict[str, Any] = json.loads(answer)
    return {
        entry["clientConfig"].get("caBundle", "")
        for configuration in told.get("items", [told])
        for entry in configuration["webhooks"]
    }


def held(guard: Guard) -> set[str]:
    return bundles(guard.cluster.kubectl("get", KINDS, "-o", "json").stdout)


def apply(guard: Guard, text: str, *arguments: str) -> set[str]:
    """The bundles in the answer to the write itself, before anybody could have repaired them."""
    return bundles(guard.cluster.kubectl("apply", *arguments, "-f", "-", "-o", "json", stdin=text).stdout)


def is_filled(guard: Guard) -> Callable[[], bool]:
    return lambda: "" not in held(guard)


def bad_project(guard: Guard) -> str:
    done = guard.cluster.kubectl(
        "apply", "--dry-run=server", "-n", guard.argocd, "-f", "-", stdin=BAD, check=False
    )
    return done.stderr


@pytest.mark.parametrize("first", [(), SERVER_SIDE], ids=["client-side", "server-side"])
def test_re_applying_in_either_way_does_not_lose_the_ca_bundle(guard: Guard, first: tuple[str, ...]) -> None:
    assert apply(guard, manifests(guard), *first) == {""}
    until(is_filled(guard), what="the leader fills in the caBundle")
    right = held(guard)
    assert len(right) == 1
    for seconds, arguments in ((4, ()), (3, SERVER_SIDE), (4, ()), (5, SERVER_SIDE)):
        assert apply(guard, manifests(guard, seconds=seconds), *arguments) == right
    until(lambda: "Tiphys refuses" in bad_project(guard), what="a bad project is refused")


def test_a_replacement_loses_it_and_is_repaired_within_five_seconds(guard: Guard) -> None:
    apply(guard, manifests(guard))
    until(is_filled(guard), what="the leader fills in the caBundle")
    right = held(guard)
    begin = time.monotonic()
    replaced = guard.cluster.kubectl("replace", "-f", "-", "-o", "json", stdin=manifests(guard)).stdout
    assert "caBundle" not in replaced
    until(lambda: held(guard) == right, what="the leader repairs the caBundle")
    assert time.monotonic() - begin < 5 * crowd()


@pytest.mark.parametrize(
    ("arguments", "annotations", "owner"),
    [
        ((), {}, "kubectl-client-side-apply"),
        (SERVER_SIDE, {}, "argocd-controller"),
        (
            SERVER_SIDE,
            {"argocd.argoproj.io/tracking-id": "guards:admissionregistration.k8s.io/X:/tiphys"},
            "Argo CD application guards",
        ),
    ],
)
def test_unregister_names_who_will_put_it_back(
    guard: Guard, arguments: tuple[str, ...], annotations: dict[str, str], owner: str
) -> None:
    apply(guard, manifests(guard, annotations=annotations), *arguments)
    until(is_filled(guard), what="the leader fills in the caBundle")
    told = guard.tiphys("webhook", "unregister").stdout
    assert f"it is also managed by {owner}, which may put it back" in told
    assert "without a caBundle" in told


def test_what_only_register_made_has_no_other_owner(guard: Guard) -> None:
    guard.register()
    assert "managed by" not in guard.tiphys("webhook", "unregister").stdout


def test_after_unregister_a_busy_leader_makes_and_repairs_nothing_until_register(guard: Guard) -> None:
    cluster, leaf = guard.cluster, f"/api/v1/namespaces/{guard.home}/secrets/tiphys-webhook-tls"
    guard.register()
    guard.tiphys("webhook", "unregister")

    def renewed() -> None:
        """The leader has had a reason to look at the registration, and has done so."""
        before = cluster.request("GET", leaf)["metadata"]["uid"]
        cluster.request("DELETE", leaf)

        def uid() -> str:
            listed = cluster.request("GET", leaf.rpartition("/")[0])["items"]
            return "".join(
                secret["metadata"]["uid"]
                for secret in listed
                if secret["metadata"]["name"] == "tiphys-webhook-tls"
            )

        until(lambda: uid() not in {"", before}, what="the leader renews the leaf")

    renewed()
    assert cluster.kubectl("get", KINDS, "-o", "name").stdout == ""
    assert bad_project(guard) == ""
    apply(guard, manifests(guard))
    renewed()
    assert held(guard) == {""}
    problems = guard.status()["problems"]
    assert "argocd.validate.tiphys.dev has no caBundle: its calls fail" in problems
    weaknesses = guard.status()["weaknesses"]
    assert "unregistered: nobody repairs the caBundle until `tiphys webhook register`" in weaknesses
    guard.register()
    until(lambda: "Tiphys refuses" in bad_project(guard), what="a bad project is refused")
    assert guard.status()["problems"] == []
