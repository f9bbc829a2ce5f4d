"""What Tiphys adds to an object so that it is known whose it is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from argocd import names
from argocd.judging.case import Surroundings, User
from argocd.judging.configuration import ArgoCD, Configuration, Tracking, TrackingFormat
from argocd.settings.argocd_cm import ResourceFilter, Settings, TrackingMethod
from argocd.tracking.completion import NOTHING, Completion, complete
from tests.argocd.tracking.completion_case import (
    ADA,
    ARGOCD,
    COPIED_ID,
    OWN_ID,
    REMOTE_ARGOCD,
    Cluster1,
    application,
    by,
    completed,
    config_map,
    in_format,
    namespace,
)


@pytest.mark.parametrize(
    ("method", "labels", "annotations"),
    [
        (TrackingMethod.LABEL, {names.INSTANCE_LABEL}, set()),
        (TrackingMethod.ANNOTATION, set(), {names.TRACKING_ID, names.INSTALLATION_ID}),
        (TrackingMethod.UNKNOWN, set(), {names.TRACKING_ID, names.INSTALLATION_ID}),
        (
            TrackingMethod.ANNOTATION_AND_LABEL,
            {names.INSTANCE_LABEL},
            {names.TRACKING_ID, names.INSTALLATION_ID},
        ),
    ],
)
def test_the_method_decides_what_is_added(
    method: TrackingMethod, labels: set[str], annotations: set[str]
) -> None:
    found = completed(config_map(), listing=[application()], settings=by(method, installation_id="x"))
    assert (set(found.labels), set(found.annotations)) == (labels, annotations)


@pytest.mark.parametrize(
    ("tracking_format", "annotations"),
    [
        (TrackingFormat.RELEASED, {names.TRACKING_ID: OWN_ID, names.INSTALLATION_ID: "x"}),
        (
            TrackingFormat.PROPOSED,
            {
                names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/colours",
                names.PROPOSED_INSTALLATION_ID: "x",
            },
        ),
        (
            TrackingFormat.BOTH,
            {
                names.TRACKING_ID: OWN_ID,
                names.INSTALLATION_ID: "x",
                names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/colours",
                names.PROPOSED_INSTALLATION_ID: "x",
            },
        ),
    ],
)
def test_the_format_decides_which_annotations_are_added(
    tracking_format: TrackingFormat, annotations: dict[str, str]
) -> None:
    found = completed(
        config_map(),
        listing=[application()],
        settings=Settings(installation_id="x"),
        configuration=in_format(tracking_format),
    )
    assert found.annotations == annotations


@pytest.mark.parametrize("installation", [None, ""])
def test_without_an_installation_id_in_argocd_cm_none_is_written(installation: str | None) -> None:
    found = completed(
        config_map(),
        listing=[application()],
        settings=Settings(installation_id=installation),
        configuration=in_format(TrackingFormat.BOTH),
    )
    assert set(found.annotations) == {names.TRACKING_ID, names.PROPOSED_TRACKING_ID}


def test_an_argocd_that_knows_no_installation_ids_gets_none() -> None:
    found = completed(
        config_map(),
        listing=[application()],
        settings=Settings(installation_id="x"),
        configuration=Configuration(argocd=ArgoCD(version=(2, 12))),
    )
    assert set(found.annotations) == {names.TRACKING_ID}


@pytest.mark.parametrize(
    "annotations",
    [
        {names.TRACKING_ID: "other:/ConfigMap:shop/colours"},
        {names.PROPOSED_TRACKING_ID: "other;/ConfigMap/shop/colours"},
        {names.INSTALLATION_ID: "another"},
    ],
)
def test_an_object_that_says_it_is_anothers_is_left_alone(annotations: dict[str, str]) -> None:
    assert completed(config_map(annotations), listing=[application()]) == NOTHING


def test_present_values_are_never_changed() -> None:
    found = completed(
        config_map({names.TRACKING_ID: "broken"}, labels={names.INSTANCE_LABEL: "chart"}),
        listing=[application()],
        settings=by(TrackingMethod.ANNOTATION_AND_LABEL, installation_id="x"),
    )
    assert found == Completion(annotations={names.INSTALLATION_ID: "x"})


@pytest.mark.parametrize(
    ("method", "label", "warning"),
    [
        (TrackingMethod.ANNOTATION_AND_LABEL, "a" * 63, ()),
        (
            TrackingMethod.LABEL,
            None,
            (f"no label app.kubernetes.io/instance: {'a' * 70} is no label's value",),
        ),
    ],
)
def test_a_long_name_is_cut_only_where_argocd_cuts_it(
    method: TrackingMethod, label: str | None, warning: tuple[str, ...]
) -> None:
    found = completed(config_map(), listing=[application("a" * 70)], settings=by(method))
    assert found.labels.get(names.INSTANCE_LABEL) == label
    assert found.warnings == warning


def test_a_name_that_cannot_be_cut_is_said() -> None:
    found = completed(
        config_map(), listing=[application("-" * 70)], settings=by(TrackingMethod.ANNOTATION_AND_LABEL)
    )
    assert found.labels == {}
    assert found.warnings == (
        "no label app.kubernetes.io/instance: unable to truncate label to not end with a special character",
    )


@pytest.mark.parametrize(
    "thing",
    [
        {**config_map(), "kind": "Pod"},
        {**config_map(), "apiVersion": "example.com/v1"},
        config_map(ownerReferences=[{"name": "parent"}]),
        config_map({names.HOOK: "PreSync"}),
        config_map({names.HELM_HOOK: "pre-install"}),
        config_map(name="", generateName="colours-"),
        config_map(deletionTimestamp="2026-09-01T00:00:00Z"),
    ],
)
def test_other_objects_are_left_alone(thing: dict[str, Any]) -> None:
    assert completed(thing, listing=[application()]) == NOTHING


def test_a_kind_that_argocd_does_not_watch_is_left_alone() -> None:
    settings = Settings(exclusions=(ResourceFilter(kinds=("ConfigMap",)),))
    assert completed(config_map(), listing=[application()], settings=settings) == NOTHING


def test_even_a_listed_crd_is_left_alone() -> None:
    crd = {**config_map(), "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    configuration = in_format(
        TrackingFormat.RELEASED, kinds=("CustomResourceDefinition.apiextensions.k8s.io",)
    )
    assert completed(crd, listing=[application()], configuration=configuration) == NOTHING


def test_kinds_can_be_added() -> None:
    thing = {**config_map(), "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    configuration = in_format(TrackingFormat.RELEASED, kinds=("Rollout.argoproj.io",))
    assert completed(thing, owner="shop") == NOTHING
    found = completed(thing, owner="shop", configuration=configuration)
    assert found.annotations[names.TRACKING_ID] == "shop:argoproj.io/Rollout:shop/colours"


def test_a_namespace_without_the_label_is_left_alone() -> None:
    surroundings = Surroundings(
        settings=Settings(), configuration=Configuration(), neighbours=Cluster1(listing=[application()])
    )
    for around in (namespace(enabled="yes"), {}):
        found = complete(config_map(), namespace=around, writer=ADA, surroundings=surroundings)
        assert found == NOTHING


def test_the_group_of_the_request_counts_for_a_converted_object() -> None:
    ingress = {**config_map(), "apiVersion": "networking.k8s.io/v1", "kind": "Ingress"}
    found = completed(ingress, listing=[application()], group="extensions")
    assert found.annotations == {names.TRACKING_ID: "shop:extensions/Ingress:shop/colours"}


NEUTRALIZING = Configuration(tracking=Tracking(neutralize_copies=True))


def test_copies_stay_by_default() -> None:
    assert completed(config_map({names.TRACKING_ID: COPIED_ID})) == NOTHING


def test_copied_ids_are_removed_where_that_is_wanted() -> None:
    found = completed(
        config_map(
            {
                names.TRACKING_ID: COPIED_ID,
                names.INSTALLATION_ID: "y",
                names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/shapes",
                names.PROPOSED_INSTALLATION_ID: "y",
            }
        ),
        configuration=NEUTRALIZING,
    )
    assert set(found.removed) == {
        names.TRACKING_ID,
        names.INSTALLATION_ID,
        names.PROPOSED_TRACKING_ID,
        names.PROPOSED_INSTALLATION_ID,
    }


def test_a_copied_id_alone_is_removed_alone() -> None:
    found = completed(
        config_map({names.TRACKING_ID: COPIED_ID, names.PROPOSED_TRACKING_ID: "a;/ConfigMap/shop/b"}),
        configuration=NEUTRALIZING,
    )
    assert found.removed == (names.TRACKING_ID, names.PROPOSED_TRACKING_ID)


def test_a_copied_id_gives_way_to_the_right_one() -> None:
    found = completed(
        config_map({names.TRACKING_ID: COPIED_ID}), listing=[application()], configuration=NEUTRALIZING
    )
    assert found == Completion(annotations={names.TRACKING_ID: OWN_ID})


def test_what_argocd_writes_is_never_removed() -> None:
    thing = config_map({names.TRACKING_ID: COPIED_ID})
    assert completed(thing, writer=ARGOCD, configuration=NEUTRALIZING) == NOTHING


@examples(max_examples=400, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [names.TRACKING_ID, names.INSTALLATION_ID, names.PROPOSED_TRACKING_ID, names.SYNC_OPTIONS]
        ),
        st.sampled_from([OWN_ID, COPIED_ID, "shop;/ConfigMap/shop/colours", "x", "", "Prune=false"]),
    ),
    st.sampled_from([TrackingMethod.LABEL, TrackingMethod.ANNOTATION, TrackingMethod.ANNOTATION_AND_LABEL]),
    st.sampled_from(list(TrackingFormat)),
    st.sampled_from(["", "shop"]),
    st.sampled_from([ADA, ARGOCD, REMOTE_ARGOCD]),
    st.booleans(),
)
def test_whatever_the_object_carries_a_second_pass_adds_nothing_and_nothing_becomes_prunable(  # noqa: PLR0917 - one property
    annotations: dict[str, str],
    method: TrackingMethod,
    tracking_format: TrackingFormat,
    owner: str,
    writer: User,
    neutralize: bool,  # noqa: FBT001 - hypothesis gives arguments by position
) -> None:
    completed(
        config_map(annotations),
        owner=owner,
        writer=writer,
        settings=by(method, installation_id="x"),
        configuration=in_format(tracking_format, neutralize_copies=neutralize),
    )
