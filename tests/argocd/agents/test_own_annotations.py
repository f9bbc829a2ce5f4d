"""Annotations that one side writes for itself."""

from argocd import names
from argocd.agents.own_annotations import BOOKKEEPING, MARKS, annotations_without


def test_marks_of_a_copy_are_news_and_no_part_of_what_was_told() -> None:
    annotations = {"team": "shop", names.REFRESH: "normal", names.SOURCE_UID: "u"}
    item = {"metadata": {"annotations": annotations}}
    assert annotations_without(item, BOOKKEEPING) == {"team": "shop", names.SOURCE_UID: "u"}
    assert annotations_without(item, MARKS) == {"team": "shop"}
    assert annotations_without({}, MARKS) == {}
