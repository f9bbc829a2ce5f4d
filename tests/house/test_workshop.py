"""The runners of benchmarks and generated pages, and the ports of what the workshop starts."""

import importlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from scripts.bench.__main__ import table
from scripts.bench.figures import Figure, awaited_side_by_side, side_by_side
from scripts.ports import FIRST, LAST, free_port


def test_a_table_shows_ratios_and_missed_goals() -> None:
    figures = [
        Figure("write", 2.6, "ms", than="bare aiohttp", theirs=2.0, goal=1.2),
        Figure("memory", 41.0, "MiB", goal=64.0),
        Figure("reviews", 1500.0, "1/s", goal=-1000.0),
    ]
    assert table(figures) == [
        "           ours       theirs  ratio  goal",
        "  write    2.6 ms     2 ms    1.30x  ≤ 1.2x       MISSED  than bare aiohttp",
        "  memory   41 MiB                    ≤ 64 MiB     met",
        "  reviews  1,500 1/s                 ≥ 1,000 1/s  met",
    ]


def test_two_things_are_measured_in_turns() -> None:
    calls: list[str] = []

    side_by_side(lambda: calls.append("ours"), lambda: calls.append("theirs"), rounds=2)

    assert calls == ["theirs", "ours", "ours", "theirs"]


async def test_two_awaited_things_are_measured_in_turns() -> None:
    calls: list[str] = []

    async def call(name: str) -> None:
        calls.append(name)

    await awaited_side_by_side(lambda: call("ours"), lambda: call("theirs"), rounds=2)

    assert calls == ["theirs", "ours", "ours", "theirs"]


@pytest.fixture
def docs() -> ModuleType:
    return importlib.import_module("scripts.docs.__main__")


def test_a_page_that_differs_is_stale(
    docs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    stale = docs.stale_pages()
    assert "docs/commands.md" in stale

    for page, text in stale.items():
        path = docs.ROOT / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert docs.stale_pages() == {}
    (docs.ROOT / "docs" / "commands.md").write_text("")
    assert list(docs.stale_pages()) == ["docs/commands.md"]


def test_no_port_is_offered_twice_however_many_ask_at_once() -> None:
    with ThreadPoolExecutor(4) as askers:  # a file's lock keeps threads apart as it does processes
        offered = list(askers.map(lambda _: free_port(), range(200)))

    assert len(set(offered)) == 200
    assert all(FIRST <= port <= LAST for port in offered)


@pytest.mark.parametrize("left", [b"", b"25000x", b"\xff\xfe", b"9" * 5000])
def test_a_broken_note_of_the_last_port_does_not_matter(
    left: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    note = tmp_path / "tiphys" / "cluster" / "last-port"
    note.parent.mkdir(parents=True)
    note.write_bytes(left)

    assert FIRST <= free_port() <= LAST
    assert note.read_bytes().isdigit()
