"""The status page in a real browser: readable on a phone, in light and dark, and without JavaScript."""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE, DESK = (390, 844), (1280, 900)
LIGHT, DARK = 1, 0
PNG = b"\x89PNG"
EMPTY_BYTES = 20_000
"""A picture of nothing is a tenth of this, one of the page three times as large."""

pytestmark = [
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


def browse(address: str, *words: str, size: tuple[int, int], scheme: int = LIGHT) -> str:
    assert CHROMIUM
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
            *("--disable-dev-shm-usage", f"--window-size={size[0]},{size[1]}"),
            f"--blink-settings=preferredColorScheme={scheme}",
            *words,
            address,
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def framed(address: str, folder: Path, *, width: int, height: int) -> str:
    """Chromium's windows are 500 pixels wide at least, frames as narrow as a phone."""
    wrapper = folder / "frame.html"
    wrapper.write_text(
        '<!doctype html><meta name="color-scheme" content="light dark"><body style="margin:0;text-align:center">'
        f'<iframe src="{address}" style="border:0;width:{width}px;height:{height}px"></iframe>'
        "<script>onmessage = told => { document.body.dataset.width = told.data }</script>"
    )
    return wrapper.as_uri()


def test_without_scripts_it_shows_state_denials_and_rules(page: str) -> None:
    shown = browse(page, "--dump-dom", size=DESK)
    assert "<script" not in shown
    assert not re.search(r"\son[a-z]+=", shown)
    for text in (
        "Tiphys webhook",
        "ready",
        "Last denials",
        "project/source-repo-format",
        "agent/mirror-changed",
    ):
        assert text in shown


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_is_wider_than_the_window(page: str, size: tuple[int, int], tmp_path: Path) -> None:
    with urllib.request.urlopen(page, timeout=10) as answer:
        text = answer.read().decode()
    measure = "<script>parent.postMessage(document.documentElement.scrollWidth, '*')</script>"
    copy = tmp_path / "page.html"
    # The lists that are folded away count too.
    copy.write_text(text.replace("<details", "<details open").replace("</body>", f"{measure}</body>"))
    frame = framed(copy.as_uri(), tmp_path, width=size[0], height=size[1])
    shown = browse(frame, "--dump-dom", "--virtual-time-budget=5000", size=DESK)
    found = re.search(r'data-width="(\d+)"', shown)
    assert found
    assert int(found[1]) <= size[0]


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_picture_can_be_taken(page: str, size: tuple[int, int], scheme: int, tmp_path: Path) -> None:
    """`TIPHYS_PICTURES=folder` keeps them."""
    kept = os.environ.get("TIPHYS_PICTURES")
    folder = Path(kept) if kept else tmp_path
    picture = folder / f"status-{size[0]}-{'light' if scheme == LIGHT else 'dark'}.png"
    address = framed(page, tmp_path, width=size[0], height=size[1]) if size == PHONE else page
    window = (max(size[0], 500), size[1])
    browse(address, f"--screenshot={picture}", "--virtual-time-budget=5000", size=window, scheme=scheme)
    taken = picture.read_bytes()
    assert taken.startswith(PNG)
    assert len(taken) > EMPTY_BYTES
