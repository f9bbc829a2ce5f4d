from typing import Any

import pytest

from argocd import names
from argocd.judging.case import User
from argocd.judging.neighbours import KnownCluster
from argocd.settings.argocd_cm import Settings, TrackingMethod
from tests.argocd.fake_neighbours import Neighbourhood, Nothing
from tests.argocd.rules.asking import CONTROLLER, application, ask

GIT = "https://git.example.com/shop.git"


@pytest.mark.parametrize(
    ("rule", "spec", "message"),
    [
        (
            "application/destination-twice",
            {"destination": {"name": "east", "server": "https://east"}},
            "application destination can't have both name and server defined: east https://east",
        ),
        ("application/destination-missing", {}, "Destination server missing from app spec"),
        (
            "application/source-incomplete",
            {"source": {"repoURL": GIT}},
            "spec.source.repoURL and either spec.source.path or spec.source.chart are required",
        ),
        (
            "application/source-incomplete",
            {"sources": [{"repoURL": GIT}]},
            (
                "spec.source.repoURL and either source.path, source.chart, or source.ref are required for source "
                "spec.sources[0]"
            ),
        ),
        (
            "application/chart-revision",
            {"source": {"chart": "shop"}},
            "spec.source.targetRevision is required if the manifest source is a helm chart",
        ),
        (
            "application/hydrator",
            {"sourceHydrator": {"drySource": {"repoURL": GIT}}},
            "spec.sourceHydrator.syncSource.targetBranch is required",
        ),
        (
            "application/source-types",
            {"source": {"helm": {}, "directory": {}}},
            "multiple application sources defined: Helm,Directory",
        ),
        (
            "application/source-ref-repeated",
            {"sources": [{"ref": "a"}, {"ref": "a"}]},
            "invalid sources: multiple sources had the same `ref` key",
        ),
        (
            "application/source-name-repeated",
            {"sources": [{"name": "a"}, {"name": "a"}]},
            "application shop has duplicate source name: a",
        ),
    ],
)
def test_what_argo_cd_refuses_is_told_in_its_words(rule: str, spec: dict[str, Any], message: str) -> None:
    assert [finding.message for finding in ask(rule, application(**spec))] == [message]


@pytest.mark.parametrize("writer", [User(), User(user="ada")])
def test_an_operation_is_for_argo_cd_to_write(writer: User) -> None:
    running = application() | {"operation": {"sync": {}}}
    assert ask("application/operation", running, writer=writer)
    assert not ask("application/operation", running, writer=CONTROLLER)


def test_a_move_to_another_project_is_noticed() -> None:
    before, after = application(project="shop"), application(project="warehouse")
    assert ask("application/project-changed", after, old=before)
    assert not ask("application/project-changed", after, old=before, writer=CONTROLLER)
    assert not ask("application/project-changed", after)


def test_an_empty_project_and_default_are_the_same() -> None:
    assert not ask("application/project-changed", application(project="default"), old=application(project=""))
    assert ask("application/default-project", application())


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ("/a,/b", "paths are separated by ;"),
        (".;;/b", "an empty path"),
        ("/..", "out of the repository"),
        ("/a/../../b", "out of the repository"),
    ],
)
def test_paths_that_hide_changes_are_told(paths: str, reason: str) -> None:
    annotated = application({"annotations": {names.MANIFEST_GENERATE_PATHS: paths}})
    (finding,) = ask("application/generate-paths", annotated)
    assert reason in finding.message


@pytest.mark.parametrize("paths", [".", "/a;/b", "../other", "/a/./b/..", " . ; /b "])
def test_paths_that_show_changes_are_fine(paths: str) -> None:
    annotated = application({"annotations": {names.MANIFEST_GENERATE_PATHS: paths}})
    assert not ask("application/generate-paths", annotated)
    assert not ask("application/generate-paths", application())


@pytest.mark.parametrize(
    "finalizer",
    [
        "resources-finalizer.argocd.argoproj.io",
        "resources-finalizer.argocd.argoproj.io/background",
        "post-delete-finalizer.argocd.argoproj.io/cleanup",
        "somebody.else/finalizer",
        7,
    ],
)
def test_finalizers_of_argo_cd_and_of_others_are_fine(finalizer: object) -> None:
    assert not ask("application/finalizer", application({"finalizers": [finalizer]}))


def test_automation_that_is_off_names_its_useless_switches() -> None:
    automated = {"enabled": False, "prune": True, "selfHeal": True}
    (finding,) = ask("application/automation-off", application(syncPolicy={"automated": automated}))
    assert finding.message.endswith("prune, selfHeal")
    only_off = application(syncPolicy={"automated": {"enabled": False}})
    assert not ask("application/automation-off", only_off)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("createNamespace=true", "Write CreateNamespace=true."),
        ("CreateNamespace = true", "Write CreateNamespace=true."),
        ("Nonsense", "See the sync options"),
        (7, "See the sync options"),
        ({"CreateNamespace": True}, "See the sync options"),
    ],
)
def test_a_sync_option_that_argo_cd_ignores(option: object, hint: str) -> None:
    spec = application(syncPolicy={"syncOptions": ["Validate=false", option]})
    (finding,) = ask("application/sync-option", spec)
    assert finding.path == "spec.syncPolicy.syncOptions[1]"
    assert finding.hint.startswith(hint)


@pytest.mark.parametrize("text", ["5m", "90", "1h30m", "-5", ""])
def test_backoffs_that_argo_cd_reads(text: str) -> None:
    retry = {"backoff": {"duration": text, "maxDuration": text}}
    assert not ask("application/retry-backoff", application(syncPolicy={"retry": retry}))


@pytest.mark.parametrize("text", ["5 minutes", "1d", "m5", "9" * 300])
def test_backoffs_that_argo_cd_cannot_read(text: str) -> None:
    spec = application(syncPolicy={"retry": {"backoff": {"maxDuration": text}}})
    (finding,) = ask("application/retry-backoff", spec)
    assert finding.message == f"{text} is not valid duration string"


@pytest.mark.parametrize(
    ("project", "revision", "found"),
    [
        ("shop-prod", "HEAD", 1),
        ("shop-prod", "", 1),
        ("Live.shop", "main", 1),
        ("product", "HEAD", 0),
        ("shop-prod", "v1.2.3", 0),
    ],
)
def test_production_follows_tags(project: str, revision: str, found: int) -> None:
    source = {"repoURL": GIT, "path": ".", "targetRevision": revision}
    assert len(ask("application/floating-revision", application(project=project, source=source))) == found


def test_a_chart_may_have_any_revision_in_production() -> None:
    source = {"repoURL": GIT, "chart": "shop"}
    assert not ask("application/floating-revision", application(project="prod", source=source))


EAST = KnownCluster(server="https://east.example.com", name="east")


def test_a_cluster_that_argo_cd_does_not_have_is_told() -> None:
    known = Neighbourhood(clusters=[EAST])
    lost = application(destination={"server": "https://east.example.com/"})
    (finding,) = ask("application/cluster-unknown", lost, neighbours=known)
    assert 'cluster "https://east.example.com/" not found' in finding.message
    assert not ask("application/cluster-unknown", lost, neighbours=Nothing())


@pytest.mark.parametrize("destination", [{}, {"name": "a", "server": "b"}])
def test_a_destination_that_is_wrong_by_itself_is_told_once(destination: dict[str, str]) -> None:
    known = Neighbourhood(clusters=[EAST])
    assert not ask("application/cluster-unknown", application(destination=destination), neighbours=known)


def test_its_own_cluster_may_be_switched_off() -> None:
    here = application(destination={"name": "in-cluster"})
    assert not ask("application/cluster-unknown", here, neighbours=Neighbourhood())
    switched_off = Settings(in_cluster=False)
    assert ask("application/cluster-unknown", here, neighbours=Neighbourhood(), settings=switched_off)


def test_a_project_that_is_not_known_to_be_absent_is_not_missed() -> None:
    assert not ask("application/project-unknown", application(project="shop"))
    (finding,) = ask("application/project-unknown", application(project="webb"), neighbours=Neighbourhood())
    assert finding.message == "Application referencing project webb which does not exist"


def parent(*, prune: object) -> dict[str, Any]:
    return application({"name": "apps"}, syncPolicy={"automated": {"prune": prune}})


CHILD = {names.TRACKING_ID: "apps:argoproj.io/Application:argocd/shop"}


@pytest.mark.parametrize(
    ("metadata", "known", "found"),
    [
        ({"annotations": CHILD}, [parent(prune=True)], 1),
        ({"annotations": CHILD}, [parent(prune=False)], 0),
        ({"annotations": CHILD}, [], 0),
        ({"annotations": CHILD, "finalizers": ["some.finalizer"]}, [parent(prune=True)], 0),
        ({"annotations": CHILD | {names.SYNC_OPTIONS: "Prune=false"}}, [parent(prune=True)], 0),
        ({}, [parent(prune=True)], 0),
    ],
)
def test_a_child_of_a_pruning_application_takes_its_objects_along(
    metadata: dict[str, Any],
    known: list[dict[str, Any]],
    found: int,
) -> None:
    neighbours = Neighbourhood(applications=list(known))
    child = application(metadata)
    assert len(ask("application/child-without-finalizer", child, neighbours=neighbours)) == found


def test_a_child_is_told_by_its_label_too() -> None:
    child = application({"labels": {"app.kubernetes.io/instance": "apps"}})
    neighbours = Neighbourhood(applications=[parent(prune=True)])
    by_label = Settings(tracking_method=TrackingMethod.LABEL)
    assert ask("application/child-without-finalizer", child, neighbours=neighbours, settings=by_label)
    assert not ask("application/child-without-finalizer", child, neighbours=neighbours)


def test_a_twin_is_named() -> None:
    source = {"repoURL": GIT, "path": "."}
    twin = application({"name": "older"}, source=source)
    (finding,) = ask("application/twin", application(source=source), neighbours=Neighbourhood(similar=[twin]))
    assert "argocd/older" in finding.message
    assert not ask("application/twin", application(source=source))


def test_the_project_default_always_exists() -> None:
    empty = Neighbourhood()
    assert ask("application/project-unknown", application(project="webb"), neighbours=empty)
    for project in ("default", ""):
        assert not ask("application/project-unknown", application(project=project), neighbours=empty)
