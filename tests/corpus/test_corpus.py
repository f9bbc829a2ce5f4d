"""Every manifest of the corpus is judged as `tiphys check` judges files."""

from pathlib import Path

import pytest

from argocd.rules.catalogue import CATALOGUE
from tests.corpus.entries import Entry, corpus, findings

ENTRIES = corpus()
FEWEST = 150


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.title) for entry in ENTRIES])
def test_an_entry_gives_the_findings_that_it_is_marked_with(entry: Entry, tmp_path: Path) -> None:
    assert findings(entry, tmp_path) == sorted(entry.expected)


def test_the_corpus_is_large_and_well_formed() -> None:
    assert len(ENTRIES) >= FEWEST
    titles = [entry.title for entry in ENTRIES]
    assert sorted(titles) == sorted(set(titles))
    assert [entry.title for entry in ENTRIES if entry.is_good == bool(entry.expected)] == []


def test_every_rule_that_the_corpus_names_exists() -> None:
    assert {rule for entry in ENTRIES for rule, _ in entry.expected} <= {rule.id for rule in CATALOGUE}
