"""What an update changes."""

from typing import Any

import pytest

from argocd.judging.case import path_of
from argocd.judging.ratchet import PASSING_ANNOTATIONS, changes_only_what_passes, differs

SUBSCRIPTION = "notifications.argoproj.io/subscribe.on-sync-failed.slack"


@pytest.mark.parametrize(
    ("read", "path"),
    [
        ("spec", ("spec",)),
        ("spec.roles", ("spec", "roles")),
        (
            "metadata.annotations[argocd.argoproj.io/hook]",
            ("metadata", "annotations", "argocd.argoproj.io/hook"),
        ),
    ],
)
def test_a_read_is_dotted_with_a_key_in_brackets(read: str, path: tuple[str, ...]) -> None:
    assert path_of(read) == path


def application(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"project": "default"}, **parts}


@pytest.mark.parametrize(
    "after",
    [
        application(),
        application(status={"health": {}}),
        application(operation={"sync": {}}),
        application(metadata={"name": "a", "finalizers": ["x"]}),
        *(application(metadata={"name": "a", "annotations": {key: "x"}}) for key in PASSING_ANNOTATIONS),
        application(metadata={"name": "a", "annotations": {}, "managedFields": [{}], "resourceVersion": "2"}),
        application(metadata={"name": "a", "generation": 2}),
    ],
)
def test_writes_of_argocd_through_the_main_resource_pass(after: dict[str, Any]) -> None:
    assert changes_only_what_passes(application(), after)
    assert changes_only_what_passes(after, application())


@pytest.mark.parametrize(
    "after",
    [
        application(spec={"project": "other"}),
        application(metadata={"name": "a", "labels": {"x": "y"}}),
        application(metadata={"name": "a", "annotations": {"x": "y"}}),
        application(metadata={"name": "a", "annotations": {SUBSCRIPTION: "shop"}}),
        application(data={}),
        "text",
        None,
    ],
)
def test_other_writes_do_not(after: Any) -> None:
    assert not changes_only_what_passes(application(), after)
    assert not changes_only_what_passes(after, application())


def test_annotations_that_are_no_mapping_are_compared_as_they_are() -> None:
    before, after = {"metadata": {"annotations": "x"}}, {"metadata": {"annotations": ["y"]}}
    assert differs(before, after, ("metadata", "annotations"))
    assert not differs(before, before, ("metadata", "annotations"))
