"""Fixtures on a real API server; `tests/cluster/README.md` tells how to use them.

With pytest-xdist each worker has clusters of its own: registrations of webhooks and other things without a
namespace would meet each other in a shared one, and a start costs five seconds.
"""

import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from scripts.cluster.binaries import Binaries, NoBinariesError
from scripts.cluster.controlplane import Cluster
from scripts.cluster.preparing import prepare
from scripts.cluster.testing import Clusters, Kubectl
from tiphys import logs

# Machines are noisy: how long an example takes says nothing, and what CI finds must be found again.
settings.register_profile(
    "tiphys",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tiphys")

NO_CLUSTER = "no API server"
REQUIRED = "TIPHYS_REQUIRE_CLUSTER"

_found: pytest.StashKey[Binaries | NoBinariesError] = pytest.StashKey()


def pytest_configure() -> None:
    """A shell's background ignores Ctrl-C, and what tests start would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    if "cluster_binaries" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.cluster)


def pytest_collection_finish(session: pytest.Session) -> None:
    """A first build takes minutes: not within the time limit of whichever test happens to be the first."""
    if session.config.option.collectonly or not any(
        item.get_closest_marker("cluster") for item in session.items
    ):
        return
    try:
        session.config.stash[_found] = prepare()
    except NoBinariesError as error:
        session.config.stash[_found] = error


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """The last line before the counts."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(NO_CLUSTER in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(
            f"TESTS ON A REAL API SERVER SKIPPED: {count}; see `make cluster`,"
            f" {REQUIRED}=1 makes this a failure",
            red=True,
            bold=True,
        )


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """The one place that undoes what a test, or a command that it runs in this process, sets up for good."""
    handlers, number = logging.root.handlers[:], logging.root.level
    before, level = structlog.get_config(), logs._level
    yield
    logs._level = level
    structlog.configure(**before)
    logging.root.handlers = handlers
    logging.root.setLevel(number)  # not by assignment: loggers remember what is enabled


@pytest.fixture(autouse=True)
def garbage_as_before() -> Iterator[None]:
    """A command keeps all that is there when it starts from the collector: in this process, others' garbage."""
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def cluster_binaries(request: pytest.FixtureRequest) -> Binaries:
    found = request.config.stash[_found]
    if isinstance(found, Binaries):
        return found
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{NO_CLUSTER}, and {REQUIRED}=1: {found}")
    pytest.skip(f"{NO_CLUSTER}: {found}")


@pytest.fixture(scope="session")
def clusters(cluster_binaries: Binaries) -> Iterator[Clusters]:
    """Three shared control planes: `.control_plane`, `.standby`, `.workload`."""
    shared = Clusters(cluster_binaries)
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def cluster(clusters: Clusters) -> Cluster:
    """The shared control plane."""
    return clusters.control_plane


@pytest.fixture
def private_cluster(cluster_binaries: Binaries) -> Iterator[Cluster]:
    """One of the test's own, to kill and to restart."""
    with Cluster(name="private", binaries=cluster_binaries) as own:
        yield own


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace of the shared control plane, with its `default` service account."""
    name = cluster.create_namespace()
    yield name
    cluster.drop_namespace(name)


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    """The real one, as the shared control plane's administrator unless told otherwise."""
    return Kubectl(cluster)
