"""A data folder for etcd that already holds Argo CD's definitions and the roles that every API server writes.

Without it each cluster spends two seconds on installing the definitions, and kube-apiserver holds back the first
write to a definition for two more. What tells clusters apart, such as the uid of `kube-system`, is not in it.
"""

import base64
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.cluster.api import Api
from scripts.cluster.binaries import Binaries, cache_folder
from scripts.cluster.definitions import Definitions

if TYPE_CHECKING:
    from scripts.cluster.controlplane import Cluster

KEPT = {
    "apiregistration.k8s.io",
    "apiextensions.k8s.io",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
}
FORGOTTEN_SECONDS = 30 * 24 * 3600.0  # 65 MB that nobody has used for a month
LAYOUT = "2"  # raise it when what is kept changes


def seed_folder(binaries: Binaries, definitions: Definitions) -> Path:
    """Other binaries or definitions have another one; it may not exist yet."""
    marks = [LAYOUT, json.dumps(definitions.objects)]
    for path in (binaries.etcd, binaries.api_server):
        found = path.stat()
        marks.append(f"{path.name} {found.st_size} {found.st_mtime_ns}")
    return cache_folder() / f"seed-{hashlib.sha256(' '.join(marks).encode()).hexdigest()[:16]}"


def sow(seed: Path, target: Path) -> bool:
    """False where there is nothing to sow."""
    try:
        os.utime(seed)
        shutil.copytree(seed, target)
    except (FileNotFoundError, shutil.Error):  # the latter: somebody removes it while we copy
        shutil.rmtree(target, ignore_errors=True)
        return False
    return True


def harvest(cluster: "Cluster", seed: Path) -> None:
    """Takes the seed from a cluster that has just started, and ends it."""
    cluster.end_api_server()
    _forget_the_rest(cluster.etcd_port)
    data = cluster.end_etcd()
    with tempfile.TemporaryDirectory(dir=seed.parent) as scratch:
        ready = Path(scratch) / "ready"
        shutil.copytree(data, ready, ignore=shutil.ignore_patterns("*.tmp"))
        ready.rename(seed)
    cluster.stop()
    for other in seed.parent.glob("seed-*"):
        if time.time() - other.stat().st_mtime > FORGOTTEN_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


def _forget_the_rest(etcd_port: int) -> None:
    etcd = Api(port=etcd_port)
    try:
        everything = {"key": _encoded("/registry/"), "range_end": _encoded("/registry0"), "keys_only": True}
        keys = [
            base64.b64decode(each["key"]).decode()
            for each in etcd.request("POST", "/v3/kv/range", everything)["kvs"]
        ]
        for kind in {key.split("/")[2] for key in keys} - KEPT:
            # "0" is the character after "/": the range of all that begins so.
            span = {"key": _encoded(f"/registry/{kind}/"), "range_end": _encoded(f"/registry/{kind}0")}
            etcd.request("POST", "/v3/kv/deleterange", span)
    finally:
        etcd.close()


def _encoded(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
