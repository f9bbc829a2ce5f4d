"""Argo CD and kube-controller-manager, built once from pinned modules; redis-server and git from the system."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from scripts.cluster.binaries import Say, kubernetes_version, platform_name, tell
from scripts.cluster.building import kubernetes_flags
from scripts.cluster.pinned import built
from tiphys.errors import SurroundingsError

HERE = Path(__file__).parent
KUBERNETES = HERE.parent
MODULE = "github.com/argoproj/argo-cd/v3"
CLI = "argocd"
CONTROLLER_MANAGER = "kube-controller-manager"
INSTALL = "install.yaml"
SYSTEM_PROGRAMS = ("redis-server", "git")
LIST_SECONDS = 60.0


class NoArgoCdError(SurroundingsError):
    """No Argo CD can be had on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Programs:
    argocd: Path
    """One program for all components: its role is the name that it is called by."""
    install: Path
    """Argo CD's own manifest of that version."""
    controller_manager: Path
    redis: Path


def find_programs(*, say: Say = tell) -> Programs:
    """The programs, built if need be: the first time takes a quarter of an hour, and says so."""
    missing = [name for name in SYSTEM_PROGRAMS if not shutil.which(name)]
    if missing:
        raise NoArgoCdError(f"no {' and no '.join(missing)}: apt-get install redis-server git")
    try:
        kubernetes = built(
            KUBERNETES,
            name=CONTROLLER_MANAGER,
            version=kubernetes_version(),
            package="k8s.io/kubernetes/cmd/kube-controller-manager",
            flags=kubernetes_flags(kubernetes_version()),
            about="five minutes, or one where the API server was built here",
            say=say,
        )
        argocd = built(
            HERE,
            name=CLI,
            version=argocd_version(),
            package=f"{MODULE}/cmd",
            flags=f"-s -w -X {MODULE}/common.version={argocd_version().removeprefix('v')}",
            about="ten minutes",
            say=say,
            add=_add_manifest,
        )
    except SurroundingsError as error:
        raise NoArgoCdError(f"no Argo CD {argocd_version()} for {platform_name()}: {error}") from error
    redis = shutil.which("redis-server")
    assert redis
    return Programs(
        argocd=argocd / CLI,
        install=argocd / INSTALL,
        controller_manager=kubernetes / CONTROLLER_MANAGER,
        redis=Path(redis),
    )


def argocd_version() -> str:
    """As `go.mod` here pins it."""
    found = re.search(rf"{re.escape(MODULE)} (v\S+)", (HERE / "go.mod").read_text())
    assert found
    return found[1]


def _add_manifest(folder: Path) -> None:
    done = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", MODULE],
        cwd=HERE,
        env=os.environ | {"GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=LIST_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SurroundingsError(f"go list -m {MODULE}: {done.stderr.strip()}")
    shutil.copyfile(Path(done.stdout.strip()) / "manifests" / INSTALL, folder / INSTALL)
