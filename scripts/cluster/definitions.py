"""Argo CD's three kinds: its own definitions from its Go module, or small ones of ours where Go is absent."""

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.cluster.binaries import cache_folder
from tiphys.errors import SurroundingsError

MODULE = "github.com/argoproj/argo-cd/v3"
VERSION = "v3.5.6"
CHECKSUM = "h1:twzdsPiPufKLRtEqD1Jg3FqtuZmSHLTIxs7t6fSkjlk="
"""Of the module's content, as a go.sum would have it; a full go.mod would drag in all that Argo CD needs."""

DOWNLOAD_SECONDS = 120.0
KINDS = {"AppProject": "appprojects", "Application": "applications", "ApplicationSet": "applicationsets"}
SHORT_NAMES = {"AppProject": "appproj", "Application": "app", "ApplicationSet": "appset"}


@dataclass(frozen=True, slots=True)
class Definitions:
    objects: list[dict[str, Any]]
    origin: str


def find_definitions() -> Definitions:
    cached = cache_folder() / f"argo-cd-{VERSION}.json"
    if not cached.exists():
        try:
            objects = _from_module()
        except SurroundingsError as error:
            return Definitions(_of_our_own(), f"small definitions of our own ({error})")
        _write(
            cached, objects
        )  # as JSON: reading the ApplicationSet's 1.4 MB of YAML takes a second each time
    return Definitions(json.loads(cached.read_bytes()), f"Argo CD {VERSION}")


def _from_module() -> list[dict[str, Any]]:
    return read_definitions(module_folder(module=MODULE, version=VERSION, checksum=CHECKSUM))


def read_definitions(folder: Path) -> list[dict[str, Any]]:
    """Those that a module of Argo CD brings."""
    files = sorted((folder / "manifests" / "crds").glob("*-crd.yaml"))
    return [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in files]


def module_folder(*, module: str, version: str, checksum: str) -> Path:
    """The module's content, downloaded by Go where it is not in its cache."""
    go = shutil.which("go")
    if not go:
        raise SurroundingsError("Go is not installed")
    try:
        done = subprocess.run(
            [go, "mod", "download", "-json", f"{module}@{version}"],
            capture_output=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
            env=os.environ | {"GOWORK": "off"},
            cwd=tempfile.gettempdir(),  # outside any module
        )
        downloaded = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired) as error:
        raise SurroundingsError(f"{module}@{version} cannot be downloaded") from error
    if done.returncode:
        raise SurroundingsError(f"{module}@{version} cannot be downloaded: {downloaded.get('Error', '')}")
    if downloaded["Sum"] != checksum:
        raise SurroundingsError(f"{module}@{version} has the checksum {downloaded['Sum']}, not {checksum}")
    return Path(downloaded["Dir"])


def _write(path: Path, objects: list[dict[str, Any]]) -> None:
    """In one step: several test processes may start at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(objects, file)
    Path(file.name).replace(path)


def _of_our_own() -> list[dict[str, Any]]:
    return [_small_definition(kind, plural) for kind, plural in KINDS.items()]


def _small_definition(kind: str, plural: str) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {
        "type": "object",
        "required": ["metadata", "spec"],
        "properties": {"spec": anything, "status": anything},
    }
    if kind == "Application":
        schema["properties"] = {"spec": anything, "status": anything, "operation": anything}
    version: dict[str, Any] = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if kind == "ApplicationSet":  # the only one of the three whose status is a subresource
        version["subresources"] = {"status": {}}
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": [SHORT_NAMES[kind], f"{SHORT_NAMES[kind]}s"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.argoproj.io"},
        "spec": {"group": "argoproj.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
