"""axe-core, which looks for what keeps people from reading a page: one file from npm, kept in the user's cache."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from scripts.cluster.binaries import cache_folder

VERSION = "4.14.0"
SHA256 = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
"""Of axe.min.js: whatever npm brings, this is what runs."""
NPM_SECONDS = 120

FINDINGS = (
    "axe.run().then((told) => told.violations.map((each) =>"
    " [each.id, each.nodes.map((node) => node.html.slice(0, 120) + ' ' + node.failureSummary)]))"
)
"""What a page that has run the script evaluates; empty where nothing keeps anybody out."""


class NoAxeError(Exception):
    """Why there is none, and what to do."""


def script() -> str:
    """Its text, for a page to run; not part of the repository."""
    kept = cache_folder() / f"axe-core-{VERSION}.min.js"
    if not kept.exists():
        _fetch(kept)
    text = kept.read_bytes()
    if hashlib.sha256(text).hexdigest() != SHA256:
        kept.unlink()
        raise NoAxeError(f"axe-core {VERSION} is not what was pinned: removed from the cache")
    return text.decode()


def _fetch(kept: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoAxeError("no axe-core: apt-get install npm")
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder)
        try:
            done = subprocess.run(
                [npm, "install", *flags, f"axe-core@{VERSION}"],
                capture_output=True,
                text=True,
                timeout=NPM_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NoAxeError(f"npm did not bring axe-core within {NPM_SECONDS} s") from error
        found = Path(folder) / "node_modules/axe-core/axe.min.js"
        if done.returncode or not found.exists():
            last = done.stderr.strip().splitlines()[-1:] or ["nothing"]
            raise NoAxeError(f"npm did not bring axe-core: {last[0]}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".partial")
        shutil.copy(found, partial)
        partial.replace(kept)  # two test processes may fetch it at once
