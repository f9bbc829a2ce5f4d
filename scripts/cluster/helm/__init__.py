"""A real Helm, built from its Go module where a proof needs one."""

import re
from pathlib import Path

from scripts.cluster.binaries import Say, tell
from scripts.cluster.pinned import built

HERE = Path(__file__).parent
MODULE = "helm.sh/helm/v4"
VERSION_PACKAGE = f"{MODULE}/internal/version"


def find_helm(*, say: Say = tell) -> Path:
    """The program, built if need be: the first time takes some minutes, and says so."""
    folder = built(
        HERE,
        name="helm",
        version=helm_version(),
        package=f"{MODULE}/cmd/helm",
        flags=f"-s -w -X {VERSION_PACKAGE}.version={helm_version()}",
        about="four minutes",
        say=say,
    )
    return folder / "helm"


def helm_version() -> str:
    """As `go.mod` here pins it."""
    found = re.search(rf"{re.escape(MODULE)} (v\S+)", (HERE / "go.mod").read_text())
    assert found
    return found[1]
