"""A control plane that is somebody else's by now, and asks an agent for everything: answered with a refusal, bounded."""

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from argocd import names
from argocd.agents.vocabulary import Target
from sidecars.proxies import dispatcher
from sidecars.proxies.api_paths import REFUSED_SUBRESOURCES
from sidecars.wire.events import Event, message_event
from tests.sidecars.captured_logs import logged
from tests.sidecars.proxies.pod_scene import AGENT, POD_PATH, PodScene, pod_scene
from tests.sidecars.proxies.pods_api import NAMESPACE, POD


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        await made.agent_comes()
        yield made


async def asked(scene: PodScene, method: str, payload: bytes) -> dict[str, Any]:
    """Past everything that an honest principal tests."""
    event: Event = message_event(method, target=Target.RESOURCE, payload=payload)
    answer = await scene.principal._requests.ask(AGENT, event, seconds=20, mutates=method != "GET")
    found: dict[str, Any] = orjson.loads(answer.payload)
    return found


def parts(**changed: str) -> dict[str, str]:
    """As argocd-agent's principal tells a path."""
    return {"version": "v1", "namespace": NAMESPACE, "resource": "pods", "name": POD, **changed}


MARK = orjson.dumps({names.TRACKING_ID: f"shop:/Pod:{NAMESPACE}/new"})
TWICE = b64encode(b'{"metadata":{"name":"other"},"metadata":{"annotations":%b}}' % MARK).decode()
"""Go's reader makes one of them of both."""

CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "a namespace that leaves": ("GET", parts(namespace=f"{NAMESPACE}/../kube-system"), 400),
    "a name that leaves": ("GET", parts(name=".."), 400),
    "a name with a slash": ("GET", parts(name=f"{POD}/exec"), 400),
    "a name that is encoded twice": ("GET", parts(name="..%2fsecrets"), 400),
    "a resource with a name": ("GET", parts(resource=f"pods/{POD}"), 400),
    "a group with a slash": ("GET", parts(group="a/b"), 400),
    "a version that leaves": ("GET", parts(version="v1/../.."), 400),
    "a subresource without a name": ("GET", parts(name="", subresource="status"), 400),
    "a path that is no API": ("GET", {"path": "/metrics"}, 400),
    "a path that is no UTF-8": ("GET", {"path": f"{POD_PATH}%ff"}, 400),
    "a path beside other parts": ("GET", {**parts(), "path": POD_PATH.replace(POD, "other")}, 404),
    "another method inside": ("GET", {**parts(), "method": "DELETE"}, 405),
    "a method that nobody knows": ("CONNECT", parts(), 405),
    "every object of a kind": ("DELETE", parts(name=""), 405),
    "a change of what can be read": ("POST", {"path": "/apis"}, 405),
    "a watch": ("GET", {**parts(name=""), "params": {"watch": "1"}}, 501),
    "a watch of old": ("GET", {"path": "/api/v1/watch/pods"}, 501),
    "a header within a header": (
        "GET",
        {"path": "/version", "accept": "a\r\nImpersonate-User: system:admin"},
        400,
    ),
    "protobuf": ("GET", {**parts(), "accept": "application/vnd.kubernetes.protobuf"}, 406),
    "an account that no project names": ("GET", {**parts(), "impersonateUser": "system:admin"}, 403),
    "a patch of no kind": ("PATCH", {**parts(), "contentType": "text/html", "body": "e30="}, 415),
    "a body whose name stands there twice": ("POST", {**parts(name=""), "body": TWICE}, 400),
    "a body that is no object": ("PUT", {**parts(), "body": "W10="}, 400),
    **{
        f"the subresource {name}": ("POST", parts(subresource=name), 403)
        for name in sorted(REFUSED_SUBRESOURCES)
    },
}


async def test_whatever_it_sends_is_refused_and_no_mistake_of_ours(scene: PodScene) -> None:
    lines = logged(level="warning")
    for what, (method, request, status) in CASES.items():
        answer = await asked(scene, method, orjson.dumps(request))
        assert answer["status"] == status, (what, answer)
        assert orjson.loads(answer["resource"])["kind"] == "Status", what
    for payload in (b"", b"[]", b"\xff", b'{"params": 1}', b"[" * 100_000, b'{"body": "no base64!"}'):
        assert (await asked(scene, "GET", payload))["status"] == 400, payload[:20]
    assert lines("a request failed") == []
    assert (await asked(scene, "GET", orjson.dumps(parts())))["status"] == 200, "and goes on"


@pytest.mark.parametrize("name", ["", POD])
async def test_a_list_waits_for_a_place_of_its_own_whatever_its_parts_say(scene: PodScene, name: str) -> None:
    handler = scene.processes[AGENT]._agent.dispatcher._served[Target.RESOURCE].handler
    told = {**parts(name=name), "path": POD_PATH.removesuffix(f"/{POD}")}
    event = message_event("GET", target=Target.RESOURCE, payload=orjson.dumps(told))
    assert handler.place(event) is handler._lists.places
    for other in ({**told, "path": POD_PATH}, {**told, "path": "/apis"}, {**told, "path": "/.."}):
        event = message_event("GET", target=Target.RESOURCE, payload=orjson.dumps(other))
        assert handler.place(event) is not handler._lists.places


async def test_bodies_that_are_open_at_once_are_bounded(
    scene: PodScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MAX_OPEN_BYTES", 1 << 20)
    running = scene.processes[AGENT]._agent.dispatcher
    running._bytes = 1 << 19  # others are under way
    large = orjson.dumps({**parts(), "body": "A" * (1 << 20)})
    assert (await asked(scene, "PUT", large))["status"] == 429
    assert (await asked(scene, "GET", orjson.dumps(parts())))["status"] == 200
    assert running._bytes == 1 << 19, "given back"
