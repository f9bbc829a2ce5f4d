"""Argo CD's Go module, where a build has left it in the module cache; nothing of it is copied."""

import os
import re
from pathlib import Path

import pytest

_VERSION = re.compile(r"v3@v(\d+)\.(\d+)\.(\d+)")


def argocd_module() -> Path:
    """The newest one that is there; a test that needs it is skipped where there is none."""
    home = Path(os.environ.get("GOPATH") or Path.home() / "go")
    cache = Path(os.environ.get("GOMODCACHE") or home / "pkg" / "mod")
    folder = cache / "github.com" / "argoproj" / "argo-cd"
    found = [path for path in folder.glob("v3@v*") if _VERSION.fullmatch(path.name)]
    if not found:
        pytest.skip(
            "Argo CD is not in the Go module cache: go mod download github.com/argoproj/argo-cd/v3@v3.2.6"
        )
    return max(found, key=_numbers)


def _numbers(path: Path) -> tuple[int, ...]:
    version = _VERSION.fullmatch(path.name)
    assert version
    return tuple(map(int, version.groups()))
