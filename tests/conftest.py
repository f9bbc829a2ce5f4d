"""Fixtures on a real API server; `tests/cluster/README.md` tells how to use them.

With pytest-xdist each worker has clusters of its own: registrations of webhooks and other things without a
namespace would meet each other in a shared one, and a start costs five seconds.
"""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator
from typing import NoReturn

import pytest
import structlog
from hypothesis import HealthCheck, settings

from scripts.cluster.argocd.installation import ArgoCd
from scripts.cluster.argocd.programs import NoArgoCdError, Programs, find_programs
from scripts.cluster.binaries import Binaries, NoBinariesError
from scripts.cluster.controlplane import Cluster
from scripts.cluster.preparing import prepare
from scripts.cluster.testing import Clusters, Kubectl
from scripts.pictures import axe
from tiphys import logs

# Machines are noisy: how long an example takes says nothing, and what CI finds must be found again.
settings.register_profile(
    "tiphys",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tiphys")

PROOF = "proof"
NO_CLUSTER = "no API server"
NO_ARGOCD = "no real Argo CD"
REQUIRED = "TIPHYS_REQUIRE_CLUSTER"
RESYNC_SECONDS = 10  # 120 by default: what Argo CD does at rest is seen within a test

_found: pytest.StashKey[Binaries | NoBinariesError] = pytest.StashKey()
_argocd: pytest.StashKey[Programs | NoArgoCdError] = pytest.StashKey()


def pytest_configure() -> None:
    """A shell's background ignores Ctrl-C, and what tests start would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Proofs take minutes each: only `-m` with their marker in it runs them."""
    if PROOF in config.option.markexpr:
        return
    proofs = [item for item in items if item.get_closest_marker(PROOF)]
    if proofs:
        config.hook.pytest_deselected(items=proofs)
        items[:] = [item for item in items if not item.get_closest_marker(PROOF)]


def pytest_itemcollected(item: pytest.Item) -> None:
    if "cluster_binaries" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.cluster)
    if "argocd_programs" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.argocd)


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
    if any(item.get_closest_marker("argocd") for item in session.items):
        try:
            session.config.stash[_argocd] = find_programs()
        except NoArgoCdError as error:
            session.config.stash[_argocd] = error


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """The last line before the counts."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, what, command in (
        (NO_CLUSTER, "API SERVER", "make cluster"),
        (NO_ARGOCD, "ARGO CD", "make cluster ARGS=--argocd"),
    ):
        count = sum(reason in str(report.longrepr) for report in skipped)
        if count:
            terminalreporter.write_line(
                f"TESTS ON A REAL {what} SKIPPED: {count}; see `{command}`,"
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
    if isinstance(found, NoBinariesError):
        _do_without(NO_CLUSTER, found)
    return found


@pytest.fixture(scope="session")
def argocd_programs(request: pytest.FixtureRequest) -> Programs:
    found = request.config.stash[_argocd]
    if isinstance(found, NoArgoCdError):
        _do_without(NO_ARGOCD, found)
    return found


@pytest.fixture(scope="session")
def axe_script() -> str:
    """For a page in a browser to run."""
    try:
        return axe.script()
    except axe.NoAxeError as error:
        _do_without("no axe-core", error)


def _do_without(what: str, why: Exception) -> NoReturn:
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{what}, and {REQUIRED}=1: {why}")
    pytest.skip(f"{what}: {why}")


@pytest.fixture(scope="session")
def argo_cd(argocd_programs: Programs, cluster_binaries: Binaries) -> Iterator[ArgoCd]:
    """A whole Argo CD on a cluster of its own, with the controllers that it waits for."""
    with Cluster(name="argocd", binaries=cluster_binaries) as own:
        yield ArgoCd(own, programs=argocd_programs, resync_seconds=RESYNC_SECONDS).start()


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
