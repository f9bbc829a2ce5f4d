"""Moving from one tracking method to another."""

from typing import Any

import pytest

from argocd import names
from argocd.settings.argocd_cm import Settings, TrackingMethod
from argocd.tracking.marks import TrackingMarks
from argocd.tracking.migration import Migration, Risk, migrate

VERSION = (3, 5)
OWN_ID = "shop:/Service:shop/web"
LABEL = Settings(tracking_method=TrackingMethod.LABEL)
ANNOTATION = Settings(tracking_method=TrackingMethod.ANNOTATION)
BOTH = Settings(tracking_method=TrackingMethod.ANNOTATION_AND_LABEL)


def service(*, label: str = "", tracking_id: str = "", **metadata: Any) -> dict[str, Any]:
    labels = {names.INSTANCE_LABEL: label} if label else {}
    annotations = {names.TRACKING_ID: tracking_id} if tracking_id else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "labels": labels,
            "annotations": annotations,
            **metadata,
        },
    }


def moved(thing: dict[str, Any], before: Settings, after: Settings) -> Migration:
    return migrate(thing, before=before, after=after, version=VERSION)


@pytest.mark.parametrize("after", [ANNOTATION, BOTH])
def test_from_label_to_annotation_an_object_needs_its_id(after: Settings) -> None:
    found = moved(service(label="shop"), LABEL, after)
    assert (found.before, found.after, found.risk) == ("shop", "", Risk.NONE)
    assert found.prepare.annotations == {names.TRACKING_ID: OWN_ID}


def test_the_label_stays_behind_when_only_annotations_count() -> None:
    assert moved(service(label="shop"), LABEL, ANNOTATION).leftovers == (names.INSTANCE_LABEL,)
    assert moved(service(label="shop", tracking_id=OWN_ID), BOTH, ANNOTATION).leftovers == (
        names.INSTANCE_LABEL,
    )
    assert moved(service(label="shop"), LABEL, BOTH).leftovers == ()
    assert moved(service(tracking_id=OWN_ID), BOTH, ANNOTATION).leftovers == ()


def test_from_annotation_to_label_an_object_needs_its_label_and_keeps_the_id() -> None:
    assert moved(service(tracking_id=OWN_ID), ANNOTATION, LABEL) == Migration(
        before="shop",
        after="",
        prepare=TrackingMarks(labels={names.INSTANCE_LABEL: "shop"}),
        leftovers=(names.TRACKING_ID,),
    )


def test_an_object_with_both_marks_moves_by_itself() -> None:
    thing = service(label="shop", tracking_id=OWN_ID)
    assert moved(thing, ANNOTATION, LABEL).risk is Risk.NONE
    assert moved(thing, ANNOTATION, LABEL).prepare == TrackingMarks()
    assert moved(thing, LABEL, BOTH) == Migration(before="shop", after="shop")


@pytest.mark.parametrize("name", ["a" * 64, "not a label"])
def test_a_name_that_is_no_label_is_lost(name: str) -> None:
    found = moved(service(tracking_id=f"{name}:/Service:shop/web"), ANNOTATION, LABEL)
    assert found.risk is Risk.LOST


def test_a_name_that_cannot_be_cut_is_lost() -> None:
    found = moved(service(label="-" * 64), LABEL, BOTH)
    assert (found.risk, found.prepare) == (Risk.LOST, TrackingMarks())


def test_a_copied_label_makes_an_object_a_prune_candidate() -> None:
    assert moved(service(label="shop"), ANNOTATION, LABEL).risk is Risk.TAKEN


def test_an_object_with_an_owner_is_in_no_danger() -> None:
    thing = service(label="shop", ownerReferences=[{"name": "parent"}])
    assert moved(thing, ANNOTATION, LABEL).risk is Risk.NONE


def test_a_copied_label_on_a_protected_object_is_in_no_danger() -> None:
    thing = service(label="shop")
    thing["metadata"]["annotations"][names.SYNC_OPTIONS] = "Prune=false"
    found = moved(thing, ANNOTATION, LABEL)
    assert (found.risk, found.after) == (Risk.NONE, "shop")


@pytest.mark.parametrize("hook", [names.HOOK, names.HELM_HOOK])
def test_a_copied_label_on_a_hook_is_in_no_danger(hook: str) -> None:
    thing = service(label="shop")
    thing["metadata"]["annotations"][hook] = "PostSync"
    assert moved(thing, ANNOTATION, LABEL).risk is Risk.NONE


def test_marks_that_disagree_move_the_object() -> None:
    thing = service(label="chart", tracking_id=OWN_ID)
    assert moved(thing, ANNOTATION, LABEL).risk is Risk.MOVED


def test_a_cluster_scoped_object_gets_the_destinations_namespace() -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader", "labels": {names.INSTANCE_LABEL: "shop"}},
    }
    found = migrate(role, before=LABEL, after=ANNOTATION, version=VERSION, destination_namespace="shop")
    assert found.prepare.annotations == {
        names.TRACKING_ID: "shop:rbac.authorization.k8s.io/ClusterRole:shop/reader"
    }
