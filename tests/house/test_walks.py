"""The two ways through the house that docs/architecture.md tells of, walked by the real code and compared."""

import asyncio
import json
import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS
from tests.sidecars.pair_in_memory import ARGOCD, Pair, project
from tests.sidecars.wire.listening_principal import until as eventually
from webhook.admission.access_reviews import AccessReviews
from webhook.admission.cluster_state import ClusterState, Scope
from webhook.admission.decisions import Decisions
from webhook.keeper.worker_reports import WorkerReporter
from webhook.server.asgi import ReviewApp
from webhook.server.background import WorkerBackground
from webhook.server.composition import endpoints_of
from webhook.server.metrics import WorkerMetrics

MOST_MODULES = {"A review": 33, "A project from hub to spoke": 44}
"""More hands than these nobody follows: join two that are needlessly apart before another one is added."""

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
LEFT_OUT = (".venv/", "tests/", "kube/embedded/")
"""What is no part of the way: the test itself, and the inside of the store that stands for an API server."""
REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "argoproj.io", "version": "v1alpha1", "kind": "AppProject"},
        "resource": {"group": "argoproj.io", "version": "v1alpha1", "resource": "appprojects"},
        "name": "web",
        "namespace": "argocd",
        "operation": "CREATE",
        "userInfo": {"username": "dev"},
        "object": {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": "web", "namespace": "argocd"},
            "spec": {
                "sourceRepos": [f"https://git.example.com/{uuid.uuid4()}.git"],  # remembered by no other test
                "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "web-*"}],
            },
        },
    },
}


@contextmanager
def walked() -> Iterator[list[tuple[str, str]]]:
    """File and function of every call into the house."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            file = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
            if not file.startswith(("/", "<", *LEFT_OUT)):
                calls.append((file, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def told(heading: str) -> tuple[int, list[tuple[str, str]]]:
    """How many modules the page counts, and the functions that it lists."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    count = re.search(r"\*\*(\d+) modules\*\*", section)
    assert count
    return int(count[1]), re.findall(r"^\d+\. `([\w/.]+): ([\w.<>]+)`", section, re.MULTILINE)


def compare(heading: str, calls: list[tuple[str, str]]) -> None:
    count, listed = told(heading)
    assert count <= MOST_MODULES[heading]
    rest = iter(calls)
    missing = [f"{file}: {function}" for file, function in listed if (file, function) not in rest]
    assert len(listed) > 10
    assert missing == [], "not called, or not in this order"
    assert len({file for file, _ in calls}) <= count, sorted({file for file, _ in calls})


async def test_a_review_goes_the_way_that_the_page_tells(tmp_path: Path) -> None:
    store = EmbeddedStore()
    reporter = WorkerReporter(tmp_path)
    metrics = WorkerMetrics(reporter)
    state = ClusterState(store, Scope(), told=metrics.troubled)
    background = WorkerBackground(state, metrics=metrics, reporter=reporter)
    application = ReviewApp(
        endpoints=endpoints_of(Decisions(state, access_reviews=AccessReviews(store))),
        folder=tmp_path,
        background=background,
        observer=metrics,
        drain_seconds=0,
    )
    body = json.dumps(REVIEW).encode()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    request = {
        "type": "http",
        "path": "/validate",
        "method": "POST",
        "headers": headers,
        "query_string": b"",
    }
    await background.start()
    try:
        with walked() as calls:
            await application(request, receive, send)
    finally:
        await background.stop()
    assert json.loads(sent[1]["body"])["response"]["allowed"] is True
    compare("A review", calls)


async def test_a_project_goes_the_way_that_the_page_tells() -> None:
    pair = Pair()
    await pair.hub.know("agent-a")
    async with pair.together() as (principal, agent), asyncio.timeout(30):
        await eventually(lambda: bool(list(principal.known_agents)))
        (known,) = principal.known_agents
        for queue in (known.link.outbox, agent.link.outbox, known.link.inbox, agent.link.inbox):
            await queue.settled()
        with walked() as calls:
            await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
            await eventually(
                lambda: ("sidecars/principal/link_handler.py", "PrincipalLinkHandler.done") in calls
            )
    compare("A project from hub to spoke", calls)
