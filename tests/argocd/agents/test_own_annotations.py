"""Annotations that one side writes for itself."""

from argocd import names
from argocd.agents.own_annotations import BOOKKEEPING, MARKS, annotations_without, requests_on


def test_marks_of_a_copy_are_news_and_no_part_of_what_was_told() -> None:
    annotations = {"team": "shop", names.REFRESH: "normal", names.SOURCE_UID: "u"}
    item = {"metadata": {"annotations": annotations}}
    assert annotations_without(item, BOOKKEEPING) == {"team": "shop", names.SOURCE_UID: "u"}
    assert annotations_without(item, MARKS) == {"team": "shop"}
    assert annotations_without({}, MARKS) == {}


def test_a_request_is_there_until_it_is_answered() -> None:
    annotations = {"team": "shop", names.REFRESH: "hard", names.HYDRATE: "normal", names.NOTIFIED: "{}"}
    asked = {names.REFRESH: "hard", names.HYDRATE: "normal"}
    assert requests_on({"metadata": {"annotations": annotations}}) == asked
    assert requests_on({"metadata": {"annotations": {names.REFRESH: None}}}) == {}
    assert requests_on(None) == {}
