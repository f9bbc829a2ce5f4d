from typing import Any

import pytest

from argocd import names
from argocd.applications import sync_annotations


@pytest.mark.parametrize(
    ("annotations", "wave"),
    [
        ({}, 0),
        ({names.SYNC_WAVE: "7"}, 7),
        ({names.SYNC_WAVE: "-7", names.HELM_HOOK_WEIGHT: "3"}, -7),
        ({names.SYNC_WAVE: "first", names.HELM_HOOK_WEIGHT: "3"}, 3),
        ({names.SYNC_WAVE: "1.5"}, 0),
        ({names.SYNC_WAVE: 7}, 0),
        ({names.HELM_HOOK_WEIGHT: "+4"}, 4),
    ],
)
def test_the_wave_of_an_object(annotations: dict[str, Any], wave: int) -> None:
    assert sync_annotations.wave(annotations) == wave


def test_a_comma_list_is_trimmed() -> None:
    assert list(sync_annotations.items(" PreSync,, Sync ,")) == ["PreSync", "Sync"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("createnamespace=TRUE", "CreateNamespace=true"),
        (" CreateNamespace = true", "CreateNamespace=true"),
        ("Nonsense=true", ""),
        ("", ""),
    ],
)
def test_the_right_spelling_is_found(text: str, meant: str) -> None:
    assert sync_annotations.spelling(text, sync_annotations.APPLICATION_OPTIONS) == meant


def test_helm_hooks_are_hooks_too() -> None:
    assert sync_annotations.is_hook({names.HOOK: "Skip"})
    assert sync_annotations.is_hook({names.HELM_HOOK: "pre-install"})
    assert not sync_annotations.is_hook({names.SYNC_WAVE: "1"})


def test_annotations_of_an_object_of_any_shape() -> None:
    assert sync_annotations.annotations_of({"metadata": {"annotations": {"a": "b"}}}) == {"a": "b"}
    assert sync_annotations.annotations_of({"metadata": []}) == {}
