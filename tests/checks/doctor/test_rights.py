"""What somebody who installs must be allowed is what the manifests hold."""

import subprocess
from pathlib import Path

import pytest
import yaml

from checks.doctor.examined import DoctorOptions
from checks.doctor.rights import needed_to_install
from scripts.cluster.binaries import Binaries

OVERLAYS = Path(__file__).parents[3] / "manifests" / "overlays"
REGISTERED = {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}
"""By `tiphys webhook register`, not by a manifest."""


def plural(kind: str) -> str:
    """As Kubernetes makes them."""
    lower = kind.lower()
    if lower.endswith("y"):
        return f"{lower[:-1]}ies"
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"


@pytest.fixture(scope="module")
def held(cluster_binaries: Binaries) -> set[tuple[str, str, str]]:
    """Group, kind and namespace of whatever the overlays hold."""
    found = set()
    for overlay in sorted(OVERLAYS.iterdir()):
        rendered = subprocess.run(
            [cluster_binaries.kubectl, "kustomize", overlay],
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        )
        for thing in yaml.safe_load_all(rendered.stdout):
            group = thing["apiVersion"].rpartition("/")[0]
            found.add((group, plural(thing["kind"]), thing["metadata"].get("namespace", "")))
    return found


def test_before_an_installation_every_kind_of_the_manifests_is_asked_for(
    held: set[tuple[str, str, str]],
) -> None:
    needed = needed_to_install(DoctorOptions(principal_service="none:1"))
    assert held - {(right.group, right.resource, right.namespace) for right in needed} == set()
    kinds = {(right.group, right.resource) for right in needed if right.resource not in REGISTERED}
    assert kinds == {(group, kind) for group, kind, _ in held}
