"""The status page in a real browser: readable on a phone, in light and dark, and without JavaScript."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from scripts.pictures import axe
from scripts.pictures.chromium import Tab, tab

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE, DESK = (390, 844), (1280, 900)
READABLE = 4.5
"""Contrast of text, by WCAG's level AA."""
PNG = b"\x89PNG"
EMPTY_BYTES = 20_000
"""A picture of nothing is a tenth of this, one of the page three times as large."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a demonstration that has refused a few things."""
    folder = tmp_path_factory.mktemp("demonstration")
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "demo"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)},
    )
    assert process.stdout
    try:
        while "status page" not in (line := process.stdout.readline()):
            assert line, "it ended by itself"
        yield line.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    """One for all of them: it takes seconds to start."""
    assert CHROMIUM
    async with tab(CHROMIUM, tmp_path_factory.mktemp("browser")) as opened:
        yield opened


async def test_scripts_are_off_in_these_tests(chromium: Tab, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><p id=p>plain</p><script>p.textContent = 'changed'</script>")
    await chromium.open(page.as_uri(), size=DESK, dark=False)
    assert ">plain</p>" in await chromium.markup()
    await chromium.open(page.as_uri(), size=DESK, dark=False, scripts=True)
    assert ">changed</p>" in await chromium.markup()


async def test_without_scripts_it_shows_state_denials_and_rules(page: str, chromium: Tab) -> None:
    await chromium.open(page, size=DESK, dark=False)
    shown = await chromium.markup()
    assert "<script" not in shown
    assert not re.search(r"\son[a-z]+=", shown)
    for text in (
        "Tiphys webhook",
        "ready",
        "Last denials",
        "The last hour",
        "Rules that spoke most",
        "project/source-repo-format",
        "agent/mirror-changed",
    ):
        assert text in shown


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_nothing_is_wider_than_the_window(page: str, chromium: Tab, size: tuple[int, int]) -> None:
    await chromium.open(page, size=size, dark=False)
    assert await chromium.width() <= size[0]
    await chromium.unfold()  # the lists that are folded away count too
    assert await chromium.width() <= size[0]
    await chromium.open(f"{page.rstrip('/')}/rules/project/source-repo-format", size=size, dark=False)
    assert await chromium.width() <= size[0]
    assert "What it asks for, and why" in await chromium.markup()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_it_can_be_read_in_light_and_dark(
    page: str, chromium: Tab, size: tuple[int, int], *, dark: bool, tmp_path: Path
) -> None:
    """`TIPHYS_PICTURES=folder` keeps the pictures."""
    await chromium.open(page, size=size, dark=dark)
    style = await chromium.style("body")
    ground, letters = luminance(style["background-color"]), luminance(style["color"])
    assert (ground < letters) is dark
    lighter, darker = max(ground, letters), min(ground, letters)
    assert (lighter + 0.05) / (darker + 0.05) >= READABLE
    taken = await chromium.picture()
    assert taken.startswith(PNG)
    assert len(taken) > EMPTY_BYTES
    folder = Path(os.environ.get("TIPHYS_PICTURES") or tmp_path)
    (folder / f"status-{size[0]}-{'dark' if dark else 'light'}.png").write_bytes(taken)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("path", ["", "rules/project/source-repo-format"], ids=["status", "rule"])
async def test_axe_finds_nothing(
    page: str, chromium: Tab, axe_script: str, path: str, size: tuple[int, int], *, dark: bool
) -> None:
    await chromium.open(f"{page.rstrip('/')}/{path}", size=size, dark=dark, scripts=True)
    await chromium.evaluate(axe_script)
    assert await chromium.evaluate(axe.FINDINGS) == []


def luminance(colour: str) -> float:
    """As WCAG defines it, of rgb(…) as browsers write it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
