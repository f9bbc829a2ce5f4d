"""Whose an object is, by which evidence."""

from typing import Any

import pytest

from argocd import names
from argocd.judging.case import User
from argocd.judging.configuration import TrackingFormat
from argocd.judging.neighbours import KnownCluster
from argocd.settings.argocd_cm import TrackingMethod
from argocd.tracking.completion import NOTHING, Completion
from tests.argocd.tracking.completion_case import (
    ADA,
    ARGOCD,
    COPIED_ID,
    OPEN,
    OWN_ID,
    REMOTE_ARGOCD,
    application,
    by,
    completed,
    config_map,
    in_format,
)


def test_an_object_that_an_application_lists_gets_that_applications_id() -> None:
    assert completed(config_map(), listing=[application()]) == Completion(
        annotations={names.TRACKING_ID: OWN_ID}
    )


def test_an_application_of_another_namespace_carries_its_namespace() -> None:
    found = completed(config_map(), listing=[application(namespace="team-a")])
    assert found.annotations == {names.TRACKING_ID: "team-a_shop:/ConfigMap:shop/colours"}


def test_an_application_may_have_a_method_of_its_own() -> None:
    own = application()
    own["metadata"]["annotations"] = {names.TIPHYS_TRACKING_METHOD: "label"}
    assert completed(config_map(), listing=[own]).labels == {names.INSTANCE_LABEL: "shop"}
    assert completed(config_map(), owner="shop", known=[own]).labels == {names.INSTANCE_LABEL: "shop"}


def test_two_applications_that_list_an_object_are_both_named_and_nothing_is_added() -> None:
    found = completed(config_map(), listing=[application("shop"), application("blue", namespace="team-a")])
    assert found == Completion(
        warnings=("not tracked: the applications shop and team-a_blue list this object",)
    )


@pytest.mark.parametrize(
    ("destination", "clusters", "here"),
    [
        ({"server": names.IN_CLUSTER_SERVER}, [], True),
        ({"name": "in-cluster"}, [], True),
        ({"server": "https://c1"}, [], False),
        ({"name": "edge"}, [], False),
        ({"name": "edge"}, [KnownCluster(server="https://c1", name="edge")], False),
        ({"name": "me"}, [KnownCluster(server=names.IN_CLUSTER_SERVER, name="me")], True),
        ({"name": "a", "server": "b"}, [], False),
        ({"server": names.IN_CLUSTER_SERVER}, None, True),
        ({"name": "in-cluster"}, None, True),
        ({"name": "edge"}, None, False),
    ],
)
def test_an_application_for_another_cluster_is_no_owner(
    destination: dict[str, str], clusters: list[KnownCluster] | None, *, here: bool
) -> None:
    found = completed(config_map(), listing=[application(destination=destination)], clusters=clusters)
    assert bool(found.annotations) is here


@pytest.mark.parametrize(
    "project",
    [
        None,
        {},
        {**OPEN, "destinations": [{"server": "*", "namespace": "elsewhere"}]},
        {**OPEN, "destinations": [*OPEN["destinations"], {"server": "*", "namespace": "!shop"}]},
        {**OPEN, "destinations": [{"server": "https://c1", "namespace": "*"}]},
        {**OPEN, "namespaceResourceBlacklist": [{"group": "", "kind": "ConfigMap"}]},
        {**OPEN, "namespaceResourceWhitelist": [{"group": "apps", "kind": "*"}]},
        {**OPEN, "sourceNamespaces": ["team-b"]},
    ],
)
def test_a_listing_in_a_status_is_no_evidence_of_what_the_project_does_not_permit(
    project: dict[str, Any] | None,
) -> None:
    listing = [application(namespace="team-a")]
    assert completed(config_map(), listing=listing, project=project) == NOTHING
    named = completed(config_map(), listing=listing, project=project, owner="shop")
    assert named.annotations[names.TRACKING_ID] == OWN_ID


def test_what_argocd_writes_is_completed() -> None:
    found = completed(
        config_map({names.TRACKING_ID: OWN_ID}),
        writer=ARGOCD,
        settings=by(TrackingMethod.ANNOTATION_AND_LABEL, installation_id="x"),
        configuration=in_format(TrackingFormat.BOTH),
    )
    assert found == Completion(
        labels={names.INSTANCE_LABEL: "shop"},
        annotations={
            names.INSTALLATION_ID: "x",
            names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/colours",
            names.PROPOSED_INSTALLATION_ID: "x",
        },
    )


def test_an_id_in_the_proposed_format_is_evidence_too() -> None:
    found = completed(config_map({names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/colours"}), writer=ARGOCD)
    assert found.annotations == {names.TRACKING_ID: OWN_ID}


def test_an_argocd_elsewhere_does_not_get_the_id_of_the_one_here() -> None:
    found = completed(
        config_map({names.TRACKING_ID: OWN_ID}),
        writer=REMOTE_ARGOCD,
        settings=by(TrackingMethod.ANNOTATION_AND_LABEL, installation_id="x"),
    )
    assert found == Completion(labels={names.INSTANCE_LABEL: "shop"})


def test_what_carries_an_id_gets_no_label_that_would_track_it() -> None:
    thing = config_map({names.TRACKING_ID: OWN_ID})
    assert completed(thing, writer=REMOTE_ARGOCD, settings=by(TrackingMethod.LABEL)) == NOTHING


@pytest.mark.parametrize(
    ("writer", "annotations"),
    [
        (ADA, {names.TRACKING_ID: OWN_ID}),
        (ARGOCD, {names.TRACKING_ID: COPIED_ID}),
        (ARGOCD, {names.TRACKING_ID: ":/ConfigMap:shop/colours"}),
        (ARGOCD, {}),
    ],
)
def test_an_id_that_argocd_did_not_write_about_the_object_is_no_evidence(
    writer: User, annotations: dict[str, str]
) -> None:
    settings = by(TrackingMethod.ANNOTATION_AND_LABEL)
    assert completed(config_map(annotations), writer=writer, settings=settings) == NOTHING


def test_an_instance_label_alone_is_evidence_of_nothing() -> None:
    assert completed(config_map(labels={names.INSTANCE_LABEL: "shop"})) == NOTHING


@pytest.mark.parametrize(
    ("named", "instance"),
    [
        ("shop", "shop"),
        ("team-a/shop", "team-a_shop"),
        ("argocd/shop", "shop"),
        ("team-a_shop", "team-a_shop"),
    ],
)
def test_the_admins_word_adds_an_id_and_forbids_pruning(named: str, instance: str) -> None:
    assert completed(config_map(), owner=named) == Completion(
        annotations={
            names.TRACKING_ID: f"{instance}:/ConfigMap:shop/colours",
            names.SYNC_OPTIONS: "Prune=false",
            names.COMPARE_OPTIONS: "IgnoreExtraneous",
        }
    )


def test_the_admins_word_needs_no_second_ban_on_pruning() -> None:
    options = {names.SYNC_OPTIONS: "Prune=false,Delete=false", names.COMPARE_OPTIONS: "IgnoreExtraneous"}
    assert completed(config_map(options), owner="shop").annotations == {names.TRACKING_ID: OWN_ID}


def test_what_may_not_be_pruned_must_not_make_its_application_out_of_sync_either() -> None:
    found = completed(config_map({names.SYNC_OPTIONS: "Prune=false"}), owner="shop")
    assert found.annotations == {names.TRACKING_ID: OWN_ID, names.COMPARE_OPTIONS: "IgnoreExtraneous"}


@pytest.mark.parametrize(
    ("key", "options", "lacks"),
    [
        (names.SYNC_OPTIONS, "Validate=false", "Prune=false"),
        (names.SYNC_OPTIONS, "", "Prune=false"),
        (names.COMPARE_OPTIONS, "ServerSideDiff=true", "IgnoreExtraneous"),
    ],
)
def test_the_admins_word_is_not_enough_where_argo_cd_cannot_be_kept_away(
    key: str, options: str, lacks: str
) -> None:
    assert completed(config_map({key: options}), owner="shop") == Completion(
        warnings=(f"not tracked: {key} is set and lacks {lacks}",)
    )


def test_an_application_that_lists_the_object_counts_before_the_admins_word() -> None:
    found = completed(config_map(), owner="other", listing=[application()])
    assert found.annotations == {names.TRACKING_ID: OWN_ID}
