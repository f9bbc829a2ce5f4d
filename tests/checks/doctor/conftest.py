from collections.abc import Iterator

import pytest

from scripts.cluster.binaries import Binaries
from tests.checks.doctor.well_installation import WellInstallation, well_installation


@pytest.fixture(scope="module")
def well(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WellInstallation]:
    """On a cluster of its own: what is broken here is nobody else's."""
    with well_installation(cluster_binaries, tmp_path_factory.mktemp("well")) as made:
        yield made
