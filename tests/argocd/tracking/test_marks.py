"""Reading and writing marks as Argo CD does."""

from typing import Any

import pytest

from argocd import names
from argocd.settings.argocd_cm import Settings, TrackingMethod
from argocd.tracking.ids import TruncationError
from argocd.tracking.marks import (
    TrackingMarks,
    application_of,
    forbids_pruning,
    is_crd,
    is_hook,
    is_of_this_installation,
    is_prune_candidate,
    is_root,
    is_self_referencing,
    marks_for,
    tracking_id,
)

RELEASED = (3, 5, 1)
HEAD = (3, 6)
METHODS = list(TrackingMethod)


def service(
    *,
    labels: dict[str, str] | None = None,
    name: str = "web",
    owned: bool = False,
    **annotations: str,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "labels": labels or {}}
    keys = {"id": names.TRACKING_ID, "installation": names.INSTALLATION_ID, "options": names.SYNC_OPTIONS}
    metadata["annotations"] = {keys[key]: value for key, value in annotations.items()}
    if owned:
        metadata["ownerReferences"] = [{"name": "parent"}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata}


OWN_ID = "app:/Service:shop/web"
COPIED_ID = "app:/Service:shop/other"


@pytest.mark.parametrize(
    ("method", "installation", "marks"),
    [
        (TrackingMethod.LABEL, "x", TrackingMarks(labels={names.INSTANCE_LABEL: "app"})),
        (TrackingMethod.ANNOTATION, None, TrackingMarks(annotations={names.TRACKING_ID: OWN_ID})),
        (TrackingMethod.ANNOTATION, "", TrackingMarks(annotations={names.TRACKING_ID: OWN_ID})),
        (
            TrackingMethod.ANNOTATION,
            "x",
            TrackingMarks(annotations={names.TRACKING_ID: OWN_ID, names.INSTALLATION_ID: "x"}),
        ),
        (TrackingMethod.UNKNOWN, None, TrackingMarks(annotations={names.TRACKING_ID: OWN_ID})),
        (
            TrackingMethod.ANNOTATION_AND_LABEL,
            None,
            TrackingMarks(labels={names.INSTANCE_LABEL: "app"}, annotations={names.TRACKING_ID: OWN_ID}),
        ),
    ],
)
def test_the_method_decides_what_is_written(
    method: TrackingMethod, installation: str | None, marks: TrackingMarks
) -> None:
    settings = Settings(tracking_method=method, installation_id=installation)
    assert marks_for(service(), application="app", settings=settings) == marks


def test_only_annotation_and_label_cuts_the_name() -> None:
    def label(method: TrackingMethod) -> str:
        settings = Settings(tracking_method=method, instance_label="example.com/app")
        return marks_for(service(), application="a" * 70, settings=settings).labels["example.com/app"]

    assert label(TrackingMethod.LABEL) == "a" * 70
    assert label(TrackingMethod.ANNOTATION_AND_LABEL) == "a" * 63
    settings = Settings(tracking_method=TrackingMethod.ANNOTATION_AND_LABEL)
    with pytest.raises(TruncationError):
        marks_for(service(), application="-" * 70, settings=settings)


@pytest.mark.parametrize(
    ("setting", "on_object", "before_fix", "after_fix"),
    [
        (None, None, True, True),
        ("", None, True, True),
        ("", "x", False, True),
        ("x", None, False, False),
        ("x", "x", True, True),
        ("x", "y", False, False),
    ],
)
def test_the_installation_id_decides_differently_before_and_after_the_fix(
    setting: str | None, on_object: str | None, *, before_fix: bool, after_fix: bool
) -> None:
    settings = Settings(installation_id=setting)
    marked = service(id=OWN_ID) if on_object is None else service(id=OWN_ID, installation=on_object)
    assert is_of_this_installation(marked, settings=settings, version=(2, 13)) is before_fix
    assert bool(tracking_id(marked, settings=settings, version=RELEASED)) is before_fix
    assert bool(tracking_id(marked, settings=settings, version=HEAD)) is after_fix


def test_older_versions_know_no_installation_ids() -> None:
    assert is_of_this_installation(
        service(installation="y"), settings=Settings(installation_id="x"), version=(2, 12)
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_method_decides_what_is_read(method: TrackingMethod) -> None:
    marked = service(labels={names.INSTANCE_LABEL: "by-label"}, id="by-id:/Service:shop/web")
    settings = Settings(tracking_method=method)
    expected = "by-label" if method is TrackingMethod.LABEL else "by-id"
    assert application_of(marked, settings=settings, version=RELEASED) == expected


def test_a_malformed_id_tracks_nothing() -> None:
    assert application_of(service(id="app"), settings=Settings(), version=RELEASED) == ""
    assert application_of({}, settings=Settings(), version=RELEASED) == ""
    assert application_of(None, settings=Settings(), version=RELEASED) == ""


@pytest.mark.parametrize(
    ("live", "method", "expected"),
    [
        (service(id=OWN_ID), TrackingMethod.ANNOTATION, True),
        (service(id=COPIED_ID), TrackingMethod.ANNOTATION, False),
        (service(id=COPIED_ID), TrackingMethod.ANNOTATION_AND_LABEL, False),
        (service(id=COPIED_ID), TrackingMethod.LABEL, True),
        (service(id=COPIED_ID), TrackingMethod.UNKNOWN, True),
        (service(id="broken"), TrackingMethod.ANNOTATION, True),
        (service(id=COPIED_ID, installation="other"), TrackingMethod.ANNOTATION, True),
        (None, TrackingMethod.ANNOTATION, True),
    ],
)
def test_a_copied_id_is_noticed_where_it_can_be(
    live: dict[str, Any] | None, method: TrackingMethod, *, expected: bool
) -> None:
    settings = Settings(tracking_method=method)
    assert is_self_referencing(live, settings=settings, version=RELEASED) is expected


def test_a_prune_candidate_is_a_root_that_is_tracked_by_its_own_id_and_not_protected() -> None:
    def candidate(thing: dict[str, Any]) -> bool:
        return is_prune_candidate(thing, settings=Settings(), version=RELEASED)

    assert candidate(service(id=OWN_ID))
    assert not candidate(service())
    assert not candidate(service(id=COPIED_ID))
    assert not candidate(service(id=OWN_ID, owned=True))
    assert not candidate(service(id=OWN_ID, options="Validate=false, Prune=false"))
    assert candidate(service(id=OWN_ID, options="Prune=confirm"))


def test_small_facts_about_objects() -> None:
    assert is_root(service())
    assert not is_root(service(owned=True))
    assert forbids_pruning(service(options="Prune=false"))
    assert not forbids_pruning(service(options="prune=false"))
    assert is_crd({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"})
    assert not is_crd({"apiVersion": "v1", "kind": "CustomResourceDefinition"})
    assert is_hook({"metadata": {"annotations": {names.HOOK: "PreSync"}}})
    assert is_hook({"metadata": {"annotations": {names.HELM_HOOK: "pre-install"}}})
    assert not is_hook(service())
