"""The official envtest bundle: the three binaries in one archive, with a checksum in a published index."""

import hashlib
import io
import shutil
import tarfile
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tiphys.errors import SurroundingsError

INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/main/envtest-releases.yaml"
CONNECT_SECONDS = 5.0  # without a network nobody should wait longer for the next place
DOWNLOAD_SECONDS = 300.0  # for the whole archive, about 60 MB
NAMES = ("etcd", "kube-apiserver", "kubectl")


def download(*, version: str, platform: str, folder: Path, say: Callable[[str], None]) -> None:
    """Fetches, verifies and unpacks the bundle of this version, or else of its newest sibling patch."""
    say(f"cluster: looking for the envtest bundle {version} (at most {CONNECT_SECONDS:g} s)")
    index = yaml.safe_load(_fetch(INDEX, within=CONNECT_SECONDS))
    release, entry = _choose(index, version=version, platform=platform)
    say(f"cluster: downloading the envtest bundle {release}")
    archive = _fetch(entry["selfLink"], within=DOWNLOAD_SECONDS)
    if hashlib.sha512(archive).hexdigest() != entry["hash"]:
        raise SurroundingsError(f"{entry['selfLink']} does not have the checksum that its index promises")
    _unpack(archive, folder)


def _choose(index: Any, *, version: str, platform: str) -> tuple[str, dict[str, str]]:
    series = version.rsplit(".", 1)[0] + "."
    releases = [name for name in index["releases"] if name.startswith(series) and name.count(".") == 2]  # noqa: PLR2004 - v1.2.3, no v1.2.3-rc.0
    releases.sort(key=lambda name: (name == version, int(name.removeprefix(series))), reverse=True)
    for release in releases:
        entry = index["releases"][release].get(f"envtest-{release}-{platform}.tar.gz")
        if entry:
            return release, entry
    raise SurroundingsError(f"{INDEX} lists no bundle of {series}x for {platform}")


def _fetch(address: str, *, within: float) -> bytes:
    """In a thread: a lookup of a name has no timeout of its own, and a slow sender is never silent for long."""
    outcome: list[bytes | Exception] = []
    late = threading.Event()

    def read() -> None:
        try:
            outcome.append(_read(address, late))
        except Exception as error:  # noqa: BLE001 - raised again below
            outcome.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(within)
    late.set()
    if not outcome:
        raise SurroundingsError(f"{address} took longer than {within:g} s")
    if isinstance(outcome[0], Exception):
        raise SurroundingsError(f"{address} cannot be downloaded ({outcome[0]})") from outcome[0]
    return outcome[0]


def _read(address: str, late: threading.Event) -> bytes:
    content = io.BytesIO()
    with urllib.request.urlopen(address, timeout=CONNECT_SECONDS) as response:  # noqa: S310 - https, above
        while not late.is_set() and (block := response.read(1 << 20)):
            content.write(block)
    return content.getvalue()


def _unpack(archive: bytes, folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as scratch,
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files,
    ):
        ready = Path(scratch) / "ready"
        ready.mkdir()
        for member in files:
            name = Path(member.name).name
            content = files.extractfile(member) if name in NAMES else None
            if content:
                (ready / name).write_bytes(content.read())
                (ready / name).chmod(0o755)
        missing = [name for name in NAMES if not (ready / name).exists()]
        if missing:
            raise SurroundingsError(f"the envtest bundle has no {', '.join(missing)}")
        shutil.rmtree(folder, ignore_errors=True)
        ready.rename(folder)
