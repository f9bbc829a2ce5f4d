"""Decisions without a server: what each endpoint answers to a review."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import jsonpatch
import orjson
import pytest

from argocd.engine.configuration_file import parse_configuration
from argocd.engine.directory import Directory, Shelf
from argocd.judging.case import Surroundings
from argocd.settings.argocd_cm import read_settings
from tests.webhook.conftest import ROOT, review
from webhook.admission.cluster_state import Snapshot
from webhook.admission.decisions import Decisions
from webhook.admission.offline import FixedState
from webhook.admission.review import Review, ReviewAnswer, decode
from webhook.injection.inject import InjectionReason
from webhook.injection.templates import parse_template

CONTROLLER = "system:serviceaccount:argocd:argocd-application-controller"
PRINCIPAL = "system:serviceaccount:argocd:tiphys-principal"


def decisions(
    *,
    configuration: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
    namespace: Mapping[str, Any] | None = None,
    neighbours: Directory | None = None,
) -> Decisions:
    read, problems = parse_configuration(configuration or {})
    assert not problems
    snapshot = Snapshot(
        surroundings=Surroundings(
            settings=read_settings({"data": settings or {}}, configuration=read),
            configuration=read,
            neighbours=neighbours or Directory(argocd_namespace="argocd", known=[Shelf.PROJECTS]),
        ),
        namespace=lambda _: namespace or {},
        templates={"agent": parse_template("agent", "container: {image: i}", origin="t")},
    )
    return Decisions(FixedState(snapshot), today=lambda: date(2026, 11, 1))


def project(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "sample", "namespace": "argocd", **metadata},
        "spec": spec,
    }


def asked(**request: Any) -> Review:
    return decode(review(**request))


def answered(answer: Any) -> ReviewAnswer:
    assert isinstance(answer, ReviewAnswer)
    return answer


def test_a_denial_lists_every_finding_with_path_rule_and_page() -> None:
    bad = project({"sourceRepos": ["!*"], "destinations": [{"server": "!*", "namespace": "a"}]})
    answer = answered(decisions().validate(asked(object=bad)))
    assert not answer.allowed
    assert answer.message.startswith("Tiphys refuses this AppProject sample: 2 findings\n")
    for part in (
        "spec.sourceRepos[0]: ",
        "[project/source-repo-format]",
        "tiphys explain rule project/source-repo-format",
    ):
        assert part in answer.message
    assert "project/destination-format=deny" in answer.audit["findings"]
    assert {judgement.finding.rule for judgement in answer.judgements} >= {"project/destination-format"}


def test_with_enforcement_warn_the_same_object_passes_with_warnings() -> None:
    bad = project({"sourceRepos": ["!*"]})
    answer = answered(decisions(configuration={"enforcement": "warn"}).validate(asked(object=bad)))
    assert answer.allowed
    assert any("project/source-repo-format" in line for line in answer.warnings)


def test_an_exemption_silences_and_is_told_in_the_audit() -> None:
    exemption = {"rules": ["project/*"], "names": ["sample"], "reason": "ticket 4711"}
    bad = project({"sourceRepos": ["!*"]})
    answer = answered(decisions(configuration={"exemptions": [exemption]}).validate(asked(object=bad)))
    assert answer.allowed
    assert not answer.warnings
    assert "project/source-repo-format: ticket 4711" in answer.audit["exemptions"]


def test_a_dry_run_gets_the_same_answer() -> None:
    bad = project({"sourceRepos": ["!*"]})
    real, dry = (decisions().validate(asked(object=bad, dryRun=dry)) for dry in (False, True))
    assert real == dry


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"jwtTokensByRole": {}}},
        {"operation": {"sync": {}}},
        {"metadata": {"name": "sample", "namespace": "argocd", "finalizers": ["x/y"]}},
        {
            "metadata": {
                "name": "sample",
                "namespace": "argocd",
                "annotations": {"argocd.argoproj.io/refresh": "hard"},
            }
        },
    ],
    ids=["status", "operation", "finalizers", "refresh"],
)
def test_argo_cds_own_writes_pass_on_objects_that_break_rules_already(change: dict[str, Any]) -> None:
    bad = project({"sourceRepos": ["!*"]})
    request = asked(
        operation="UPDATE", object={**bad, **change}, oldObject=bad, userInfo={"username": CONTROLLER}
    )
    assert answered(decisions().validate(request)).allowed


def test_what_is_being_deleted_can_be_finished_and_not_be_changed_otherwise() -> None:
    going = project({"sourceRepos": ["!*"]}, deletionTimestamp="2026-11-01T00:00:00Z")
    bad = {**going, "spec": {"sourceRepos": ["!*"], "destinations": [{"server": "!*"}]}}
    finished = {**going, "metadata": {**going["metadata"], "finalizers": []}, "status": {"a": "b"}}

    def allowed(thing: dict[str, Any]) -> bool:
        return answered(
            decisions().validate(asked(operation="UPDATE", object=thing, oldObject=going))
        ).allowed

    assert allowed(finished)
    assert not allowed(bad)


@pytest.mark.parametrize("request_", [{"operation": "CONNECT"}, {"subResource": "status"}, {"object": None}])
def test_what_no_rule_is_about_passes(request_: dict[str, Any]) -> None:
    assert decisions().validate(asked(**request_)) == ReviewAnswer()


def test_a_secret_that_loses_its_label_is_judged_as_what_it_was() -> None:
    old = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "c",
            "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": "cluster"},
        },
        "data": {},
    }
    new = {**old, "metadata": {"name": "c", "namespace": "argocd"}}
    kind = {"group": "", "version": "v1", "kind": "Secret"}
    answer = answered(decisions().validate(asked(operation="UPDATE", object=new, oldObject=old, kind=kind)))
    assert answer.allowed


def patched(thing: dict[str, Any], answer: ReviewAnswer) -> dict[str, Any]:
    result: dict[str, Any] = jsonpatch.JsonPatch(list(answer.patch)).apply(orjson.loads(orjson.dumps(thing)))
    return result


def deployment(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "my-deployment", "namespace": "default", **metadata},
    }


def complete(thing: dict[str, Any], made: Decisions, **request: Any) -> ReviewAnswer:
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    return made.mutate(asked(object=thing, kind=kind, namespace="default", **request))


@pytest.mark.parametrize("metadata", [{}, {"annotations": {"kept": "yes"}, "labels": {"kept": "yes"}}])
def test_the_admins_word_completes_an_object_and_keeps_it_from_being_pruned(metadata: dict[str, Any]) -> None:
    owner = {
        "metadata": {
            "name": "default",
            "labels": {"tiphys.dev/tracking": "enabled"},
            "annotations": {"tiphys.dev/tracking-application": "my-application"},
        }
    }
    made = decisions(
        configuration={"tracking": {"format": "proposed"}},
        settings={"installationID": "guid-1"},
        namespace=owner,
    )
    thing = deployment(**metadata)
    result = patched(thing, complete(thing, made))
    annotations = result["metadata"]["annotations"]
    assert annotations["app.kubernetes.io/instance"] == "my-application;apps/Deployment/default/my-deployment"
    assert annotations["argo-cd.argoproj.io/installation-id"] == "guid-1"
    assert annotations["argocd.argoproj.io/sync-options"] == "Prune=false"
    assert annotations["argocd.argoproj.io/compare-options"] == "IgnoreExtraneous"
    assert set(metadata.get("annotations", {})) <= set(annotations)
    assert complete(result, made).patch == []


def test_whose_an_object_is_is_found_out_within_a_budget() -> None:
    """The project was stored before there was one, or past us."""
    known = Directory(argocd_namespace="argocd", known=list(Shelf))
    patterns = [{"server": f"https://{{a*,b?*,{number}*c*}}", "namespace": "*"} for number in range(300)]
    anything = {"server": "https://kubernetes.default.svc", "namespace": "*"}
    known.put_project(project({"destinations": [*patterns, anything]}))
    resource = {"group": "apps", "kind": "Deployment", "namespace": "default", "name": "my-deployment"}
    known.put_application(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"project": "sample", "destination": {"server": "https://kubernetes.default.svc"}},
            "status": {"resources": [{**resource, "version": "v1", "status": "Synced"}]},
        }
    )
    owner = {"metadata": {"name": "default", "labels": {"tiphys.dev/tracking": "enabled"}}}
    assert complete(deployment(), decisions(namespace=owner, neighbours=known)).patch
    limits = {"limits": {"review-steps": 1000}}
    answer = complete(deployment(), decisions(namespace=owner, neighbours=known, configuration=limits))
    assert (answer.allowed, answer.patch) == (True, [])
    assert answer.warnings == ("not tracked: to find out whose this object is takes too long",)


def test_without_an_owner_nothing_is_added() -> None:
    assert complete(deployment(), decisions(namespace={"metadata": {"name": "default"}})).patch == []


def test_an_agents_project_is_settled_once_and_never_renamed() -> None:
    made = decisions(configuration={"agents": {"autonomous": ["agent-*"]}})
    thing = project(
        {
            "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "web"}],
            "sourceNamespaces": ["x"],
        },
        annotations={"tiphys.dev/agent": "agent-b"},
        name="agent-b-ops",
    )
    answer = made.mutate(asked(object=thing, userInfo={"username": PRINCIPAL}))
    result = patched(thing, answer)
    assert result["metadata"]["name"] == "agent-b-ops"
    assert result["spec"]["sourceNamespaces"] == ["agent-b"]
    assert result["spec"]["destinations"][0]["name"] == "agent-b"
    assert made.mutate(asked(object=result, userInfo={"username": PRINCIPAL})).patch == []


@pytest.mark.parametrize("agent", ["a" * 100_000, "a" * 200])
def test_a_project_is_not_made_many_times_as_large(agent: str) -> None:
    """By the name of an agent that nobody has, or that each of many policies would get."""
    policy = "p,proj:b:r,logs,get,b/*,allow"
    thing = project(
        {"roles": [{"name": "r", "policies": [policy] * 60_000}]},
        annotations={"tiphys.dev/agent": agent},
        name=f"{agent[:200]}-b",
    )
    answer = decisions().mutate(asked(object=thing))
    assert not answer.patch
    refused = answered(decisions().validate(asked(object=thing)))
    assert not refused.allowed


def test_a_deletion_and_a_subresource_are_never_patched() -> None:
    for request in (
        {"operation": "DELETE", "oldObject": deployment(), "object": None},
        {"subResource": "scale"},
    ):
        assert decisions().mutate(asked(**request)) == ReviewAnswer()


def test_a_pod_is_injected_and_the_reason_told() -> None:
    made = decisions()
    pod = {"metadata": {"annotations": {"tiphys.dev/inject": "agent"}}, "spec": {"containers": []}}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    answer = made.inject(asked(object=pod, kind=kind))
    assert answer.audit == {"injection": "injected"}
    again = made.inject(asked(object=patched(pod, answer), kind=kind))
    assert again.audit == {"injection": "already-injected"}
    reasons = [answer.injection, again.injection]
    assert reasons == [InjectionReason.INJECTED, InjectionReason.ALREADY_INJECTED]
    assert made.inject(asked(object=pod)) == ReviewAnswer()
    odd = {**pod, "spec": {"containers": [{"ports": [{"containerPort": []}, {"protocol": {}}]}]}}
    assert made.inject(asked(object=odd, kind=kind)).injection is InjectionReason.INJECTED


def unread(**request: Any) -> Review:
    read = asked(**request)
    read.object, read.old, read.unread = None, None, "nested too deeply"
    return read


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_an_object_that_was_not_read_is_refused_with_a_reason(operation: str) -> None:
    answer = answered(decisions().validate(unread(operation=operation)))
    assert not answer.allowed
    assert "the object was not read: nested too deeply [object/not-read]" in answer.message
    assert answer.message.endswith("Make it smaller or flatter.")
    assert "\n## Which objects are not read?\n" in (ROOT / "docs/webhook.md").read_text()


def test_one_that_was_not_read_may_go_and_is_left_alone_by_mutation() -> None:
    assert answered(decisions().validate(unread(operation="DELETE"))).allowed
    collector = {"username": "system:serviceaccount:kube-system:generic-garbage-collector"}
    assert answered(decisions().validate(unread(operation="UPDATE", userInfo=collector))).allowed
    for decide in (decisions().mutate, decisions().inject):
        answer = decide(unread())
        assert answer.allowed
        assert not answer.patch


def test_one_that_was_not_read_passes_by_an_exemption_or_in_a_careful_first_week() -> None:
    exemption = {"rules": ["object/*"], "names": ["sample"], "reason": "ticket 2"}
    assert answered(decisions(configuration={"exemptions": [exemption]}).validate(unread())).allowed
    answer = answered(decisions(configuration={"enforcement": "warn"}).validate(unread()))
    assert answer.allowed
    assert "object/not-read" in answer.warnings[0]


def test_what_stands_before_the_host_of_a_url_is_told_to_nobody() -> None:
    secret = "https://bot:ghp_MARKER@example.test/a"
    answer = answered(decisions().validate(asked(object=project({"sourceRepos": [secret, secret]}))))
    assert "https://[removed]@example.test/a" in answer.message
    assert "MARKER" not in answer.message + "".join(answer.warnings)
