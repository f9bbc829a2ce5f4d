"""Events as both stores take them."""

from datetime import UTC, datetime

from kube.events import KubeEvent, write_event
from kube.resources import EVENTS
from kube.store import Store

NOW = datetime(2027, 1, 1, tzinfo=UTC)


async def test_an_event_says_what_about_whom_and_when(store: Store, home: str) -> None:
    event = KubeEvent(
        reason="NotApplied",
        message="from prod: no such project",
        kind="AppProject",
        namespace=home,
        name="web",
        api_version="argoproj.io/v1alpha1",
    )
    await write_event(store, event, component="tiphys", now=NOW)
    [found] = (await store.list(EVENTS, namespace=home)).items
    assert found["metadata"]["name"].startswith("tiphys-")
    about = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "namespace": home,
        "name": "web",
    }
    assert found["involvedObject"] == about
    assert (found["type"], found["reason"], found["message"], found["count"]) == (
        "Warning",
        "NotApplied",
        "from prod: no such project",
        1,
    )
    assert found["source"]["component"] == "tiphys"
    assert found["firstTimestamp"] == found["lastTimestamp"] == "2027-01-01T00:00:00Z"


async def test_a_long_message_is_cut_to_what_an_api_server_takes(store: Store, home: str) -> None:
    event = KubeEvent(reason="Denied", message="é" * 3000, kind="AppProject", namespace=home, name="web")
    await write_event(store, event, component="tiphys", now=NOW)
    [found] = (await store.list(EVENTS, namespace=home)).items
    assert found["message"] == "é" * 1024
    assert "apiVersion" not in found["involvedObject"]
