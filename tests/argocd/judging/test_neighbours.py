"""A neighbourhood that nobody knows."""

import inspect

from argocd.judging.neighbours import Neighbours, Nothing


def test_nothing_is_known_where_nothing_was_seen() -> None:
    unknown: Neighbours = Nothing()
    for name, question in inspect.getmembers(unknown, inspect.ismethod):
        arguments = [""] * len(inspect.signature(question).parameters)
        assert question(*arguments) is None, name
