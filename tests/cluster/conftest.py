"""Both ends of the sidecars on real API servers."""

from collections.abc import AsyncIterator

import pytest

from scripts.cluster.testing import Clusters
from tests.cluster.sidecar_ends import Ends, two_ends


@pytest.fixture
async def ends(clusters: Clusters) -> AsyncIterator[Ends]:
    async with two_ends(clusters) as both:
        yield both
