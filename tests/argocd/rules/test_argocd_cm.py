from typing import Any

import pytest

from argocd import names
from argocd.judging.configuration import (
    ArgoCD,
    Behaviour,
    Configuration,
    ImpersonationOptions,
    Tracking,
    TrackingFormat,
    Version,
)
from tests.argocd.fake_neighbours import Neighbourhood
from tests.argocd.rules.asking import application, argocd_cm, ask


@pytest.mark.parametrize(
    ("key", "configuration", "found"),
    [
        (names.PROPOSED_IMPERSONATION_KEY, Configuration(), 1),
        (
            names.PROPOSED_IMPERSONATION_KEY,
            Configuration(impersonation=ImpersonationOptions(behaviour=Behaviour.PROPOSAL)),
            0,
        ),
        (names.PROPOSED_TRACKING_METHOD_KEY, Configuration(), 1),
        (
            names.PROPOSED_TRACKING_METHOD_KEY,
            Configuration(tracking=Tracking(format=TrackingFormat.BOTH)),
            0,
        ),
        (names.IMPERSONATION_ENABLED_KEY, Configuration(), 0),
        (names.IMPERSONATION_ENABLED_KEY, Configuration(argocd=ArgoCD(version=(2, 12))), 1),
        (names.IMPERSONATION_ENFORCED_KEY, Configuration(), 0),
        (names.IMPERSONATION_ENFORCED_KEY, Configuration(argocd=ArgoCD(version=(3, 4))), 1),
    ],
)
def test_a_key_that_this_argo_cd_ignores(key: str, configuration: Configuration, found: int) -> None:
    cm = argocd_cm(**{key: "true"})
    assert len(ask("settings/ignored-key", cm, configuration=configuration)) == found


@pytest.mark.parametrize("key", [names.RESOURCE_INCLUSIONS_KEY, names.GLOBAL_PROJECTS_KEY])
def test_lists_that_are_no_yaml(key: str) -> None:
    (finding,) = ask("settings/unreadable", argocd_cm(**{key: "- ["}))
    assert finding.path == f"data[{key}]"
    assert not ask("settings/unreadable", argocd_cm(other="- ["))


def test_an_installation_id_may_be_set_before_there_are_applications() -> None:
    before, after = argocd_cm(), argocd_cm(installationID="east")
    rule = "settings/installation-id"
    assert not ask(rule, after, old=before, neighbours=Neighbourhood())
    assert ask(rule, after, old=before, neighbours=Neighbourhood(applications=[application()]))
    assert ask(rule, after, old=before)
    assert not ask(rule, after, old=after)
    assert not ask(rule, after)


def test_where_labels_decide_an_installation_id_changes_nothing() -> None:
    by_label = {names.TRACKING_METHOD_KEY: "label"}
    before, after = argocd_cm(installationID="east", **by_label), argocd_cm(installationID="west", **by_label)
    assert not ask("settings/installation-id", after, old=before)


@pytest.mark.parametrize(
    ("version", "said"),
    [((3, 5), "counts as untracked"), ((3, 6), "of other installations count as this one's")],
)
def test_an_installation_id_taken_away(version: Version, said: str) -> None:
    configuration = Configuration(argocd=ArgoCD(version=version))
    before, after = argocd_cm(installationID="east"), argocd_cm()
    (finding,) = ask("settings/installation-id", after, old=before, configuration=configuration)
    assert said in finding.message


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({}, {names.INSTANCE_LABEL_KEY: "a"}, 1),
        ({names.INSTANCE_LABEL_KEY: "a"}, {}, 1),
        ({}, {names.INSTANCE_LABEL_KEY: names.INSTANCE_LABEL}, 0),
        ({}, {names.INSTANCE_LABEL_KEY: ""}, 0),
    ],
)
def test_a_change_of_the_instance_label(before: Any, after: Any, found: int) -> None:
    given = argocd_cm(**after)
    assert len(ask("settings/instance-label", given, old=argocd_cm(**before))) == found
    assert not ask("settings/instance-label", given)


def test_global_projects_are_not_missed_where_projects_are_unknown() -> None:
    cm = argocd_cm(globalProjects="- projectName: base")
    assert not ask("settings/global-project", cm)
    assert not ask("settings/global-project", argocd_cm(), neighbours=Neighbourhood())
    assert ask("settings/global-project", cm, neighbours=Neighbourhood())


@pytest.mark.parametrize("text", ["annotation", "label", "annotation+label", ""])
def test_the_three_tracking_methods_and_none_at_all(text: str) -> None:
    assert not ask("settings/tracking-method", argocd_cm(**{names.TRACKING_METHOD_KEY: text}))
