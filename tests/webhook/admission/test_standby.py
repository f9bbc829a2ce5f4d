"""On a standby of a pair the webhook explains who is active instead, as the principal's record says."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import yaml

from argocd import names
from kube.embedded import EmbeddedStore
from kube.resources import CONFIG_MAPS
from sidecars.replication.record import HaRecord, HaRole, RecordStore
from tests.sidecars.wire.listening_principal import until as eventually
from tests.webhook.conftest import ROOT, review
from tests.webhook.guarded_cluster import Guarded, until
from webhook.admission.cluster_state import ClusterState, Scope
from webhook.admission.decisions import Decisions
from webhook.admission.review import ReviewAnswer, decode

ARGOCD = names.DEFAULT_NAMESPACE
PRINCIPAL = f"system:serviceaccount:{ARGOCD}:tiphys-principal"
PEER = "principal-a.example.com:443"
RECORD = HaRecord(
    pair="p", principal="b", role=HaRole.STANDBY, epoch=2, peer="a", peer_address=PEER, peer_epoch=3
)
FENCE = ROOT / "manifests" / "components" / "high-availability" / "fence.yaml"


def project(name: str = "web") -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name, "namespace": ARGOCD},
        "spec": {"sourceRepos": ["https://git.example.org/web.git"]},
    }


def asked(decisions: Decisions, *, user: str, groups: tuple[str, ...] = (), **request: Any) -> ReviewAnswer:
    info = {"userInfo": {"username": user, "groups": list(groups)}}
    answer = decisions.validate(decode(review(**{"object": project(), **info, **request})))
    assert isinstance(answer, ReviewAnswer)
    return answer


async def test_the_record_of_the_principal_says_whether_this_is_a_standby_and_of_whom() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD, names.TIPHYS_NAMESPACE])
    records = RecordStore(store, namespace=ARGOCD)
    held = await records.create(RECORD)
    state = ClusterState(store, Scope(), told=lambda _what, _trouble: None)
    decisions = Decisions(state)
    await state.start()
    try:
        refused = asked(decisions, user="dora")
        assert not refused.allowed
        assert f"this cluster is a standby of {PEER} (epoch 3)" in refused.message
        assert "[agent/standby]" in refused.message
        gone = asked(decisions, user="dora", operation="DELETE", object=None, oldObject=project())
        assert not gone.allowed
        by_argocd = asked(decisions, user=f"system:serviceaccount:{ARGOCD}:argocd-application-controller")
        assert not by_argocd.allowed
        assert asked(decisions, user=PRINCIPAL).allowed
        assert asked(decisions, user="jo", groups=(names.HA_BREAK_GLASS,)).allowed
        # Promoted, it is nobody's standby any more; demoted, it is again.
        active = await records.change(replace(held, role=HaRole.ACTIVE))
        await eventually(lambda: asked(decisions, user="dora").allowed)
        await records.change(replace(active, role=HaRole.STANDBY))
        await eventually(lambda: not asked(decisions, user="dora").allowed)
        await store.delete(CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
        await eventually(lambda: asked(decisions, user="dora").allowed)
    finally:
        await state.stop()


def fence(guarded: Guarded) -> list[dict[str, Any]]:
    """The policy as manifests/ has it, for this namespace alone: others share the API server."""
    text = FENCE.read_text().replace(f"serviceaccount:{ARGOCD}:", f"serviceaccount:{guarded.argocd}:")
    policy, binding = list(yaml.safe_load_all(text))[:2]
    selector = {"matchLabels": {"kubernetes.io/metadata.name": guarded.argocd}}
    policy["spec"]["matchConstraints"]["namespaceSelector"] = selector
    name = f"{names.HA_FENCE}-{guarded.argocd}"
    policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = name
    binding["spec"]["paramRef"]["namespace"] = guarded.argocd
    return [policy, binding]


@pytest.mark.cluster
def test_policy_and_webhook_refuse_the_same_and_name_the_active_side(guarded: Guarded) -> None:
    body = {**project("on-standby"), "metadata": {"name": "on-standby"}}

    def written(writer: str = "") -> str:
        return guarded.write(body, "--dry-run=server", writer=writer, check=False).stderr

    def refused(*, by: str) -> Callable[[], bool]:
        return lambda: by in (told := written()) and PEER in told and "epoch 3" in told

    data = {"role": "standby", "epoch": "2", "peerAddress": PEER, "peerEpoch": "3"}
    guarded.config_map(names.HA_RECORD, guarded.argocd, data)
    policies = fence(guarded)
    try:
        until(refused(by="[agent/standby]"), what="the webhook refuses, without a policy")
        guarded.write(policies)
        until(refused(by="ValidatingAdmissionPolicy"), what="the policy refuses before the webhook is asked")
        assert written(writer=guarded.principal) == ""
        guarded.config_map(names.HA_RECORD, guarded.argocd, {**data, "role": "active"})
        until(lambda: not written(), what="promoted, both let everybody in")
    finally:
        for policy in reversed(policies):
            guarded.kubectl("delete", policy["kind"], policy["metadata"]["name"], "--ignore-not-found")
        guarded.config_map(names.HA_RECORD, guarded.argocd, None)
