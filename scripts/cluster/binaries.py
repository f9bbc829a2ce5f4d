"""Where etcd, kube-apiserver and kubectl come from: the first of four places that has them.

1. the folder that `KUBEBUILDER_ASSETS` names, as for Go's envtest;
2. the user's cache folder, by version;
3. the official envtest bundle, where it can be downloaded;
4. a build with Go from the module sources that `go.mod` and `go.sum` here pin.
"""

import fcntl
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.cluster.building import build
from scripts.cluster.bundle import download
from tiphys.errors import SurroundingsError

HERE = Path(__file__).parent
NAMES = ("etcd", "kube-apiserver", "kubectl")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}

Say = Callable[[str], None]


class NoBinariesError(SurroundingsError):
    """No API server can be had on this machine; the message says what was tried."""


@dataclass(frozen=True, slots=True)
class Binaries:
    folder: Path
    origin: str

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def api_server(self) -> Path:
        return self.folder / "kube-apiserver"

    @property
    def kubectl(self) -> Path:
        return self.folder / "kubectl"


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def find_binaries(*, say: Say = tell) -> Binaries:
    """The binaries, downloaded or built if need be: the first time may take minutes, and says so."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return _assets(Path(assets))
    version = kubernetes_version()
    folder = cache_folder() / f"{version}-{platform_name()}"
    if _complete(folder):
        return Binaries(folder, "the cache")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_suffix(".lock"), say=say):
        if _complete(folder):  # another process had the lock and has built them
            return Binaries(folder, "the cache")
        failures = []
        for origin, fetch in (("the envtest bundle", download), ("a build with Go", build)):
            try:
                fetch(version=version, platform=platform_name(), folder=folder, say=say)
            except SurroundingsError as error:
                failures.append(f"{origin}: {error}")
                say(f"cluster: {failures[-1]}")
            else:
                return Binaries(folder, origin)
    raise NoBinariesError(
        f"no kube-apiserver {version} for {platform_name()}: {'; '.join(failures)};"
        " set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl, or install Go"
    )


def kubernetes_version() -> str:
    """As `go.mod` pins it, for every source alike."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert found
    return found[1]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tiphys" / "cluster"


def platform_name() -> str:
    machine = platform.machine()
    return f"{platform.system().lower()}-{MACHINES.get(machine, machine)}"


def _assets(folder: Path) -> Binaries:
    if not _complete(folder):
        missing = [name for name in NAMES if not os.access(folder / name, os.X_OK)]
        raise NoBinariesError(f"KUBEBUILDER_ASSETS={folder} has no {', '.join(missing)}")
    return Binaries(folder, "KUBEBUILDER_ASSETS")


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in NAMES)


@contextmanager
def locked(path: Path, *, say: Say) -> Iterator[None]:
    """One download or build at a time; the lock goes with the process that holds it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("cluster: waiting for another process that prepares the binaries")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
