"""Messages byte for byte, written by hand from the protocol: tag, length, content."""

import pytest

from argocd.agents.vocabulary import Message, Target
from sidecars.wire.envelopes import decode, encode
from sidecars.wire.events import AGENT_SOURCE, Event, acknowledgement, heartbeat, message_event, object_event
from sidecars.wire.payloads import RequestSyncedResourceList, write
from sidecars.wire.proxy_payloads import ResourceRequest

GOLDEN = {
    "spec-update of a project, principal to agent": (
        "0acf021a03312e30222a696f2e6172676f70726f6a2e6172676f63642d6167656e742e6576656e742e737065"
        "632d7570646174652a250a0f64617461636f6e74656e747479706512121a106170706c69636174696f6e2f6a"
        "736f6e2a1a0a0a64617461736368656d61120c2a0a61707070726f6a6563742a170a076576656e746964120c"
        "1a0a7765625f752d315f34322a150a0c7072696e636970616c75696412051a03702d392a170a0a7265736f75"
        "726365696412091a077765625f752d312a220a0673656e74617412181a16323032362d31312d31365430323a"
        "34343a32332e355a2a170a077375626a656374120c1a0a6172676f63642f77656232537b226d657461646174"
        "61223a7b226e616d65223a22776562222c226e616d657370616365223a226172676f6364222c22756964223a"
        "22752d31222c227265736f7572636556657273696f6e223a223432227d7d"
    ),
    "acknowledgement from an agent": (
        "0ad50112156167656e743a2f2f6167656e742d6d616e616765641a03312e302228696f2e6172676f70726f6a"
        "2e6172676f63642d6167656e742e6576656e742e70726f6365737365642a1e0a0a64617461736368656d6112"
        "102a0e6576656e7450726f6365737365642a170a076576656e746964120c1a0a7765625f752d315f34322a15"
        "0a0c7072696e636970616c75696412051a03702d392a170a0a7265736f75726365696412091a077765625f75"
        "2d312a220a0673656e74617412181a16323032362d31312d31365430323a34343a32332e355a3200"
    ),
    "inventory request without a checksum": (
        "0ada0112156167656e743a2f2f6167656e742d6d616e616765641a03312e30223b696f2e6172676f70726f6a"
        "2e6172676f63642d6167656e742e6576656e742e726571756573742d73796e6365642d7265736f757263652d"
        "6c6973742a250a0f64617461636f6e74656e747479706512121a106170706c69636174696f6e2f6a736f6e2a"
        "1e0a0a64617461736368656d6112102a0e7265736f75726365526573796e632a100a076576656e7469641205"
        "1a03722d312a130a0a7265736f75726365696412051a03722d3132117b22636865636b73756d223a6e756c6c"
        "7d"
    ),
    "heartbeat": (
        "0a850112156167656e743a2f2f6167656e742d6d616e616765641a03312e302223696f2e6172676f70726f6a"
        "2e6172676f63642d6167656e742e6576656e742e70696e672a190a0a64617461736368656d61120b2a096865"
        "617274626561742a100a076576656e74696412051a03682d312a130a0a7265736f75726365696412051a0368"
        "2d313200"
    ),
    "resource request": (
        "0abc011a03312e3022034745542a250a0f64617461636f6e74656e747479706512121a106170706c69636174"
        "696f6e2f6a736f6e2a180a0a64617461736368656d61120a2a087265736f757263652a100a076576656e7469"
        "6412051a03712d312a130a0a7265736f75726365696412051a03712d3132487b2275756964223a22712d3122"
        "2c226e616d65223a22706f6473222c2267726f7570223a22222c2276657273696f6e223a227631222c227265"
        "736f75726365223a22706f6473227d"
    ),
}

PROJECT = {"metadata": {"name": "web", "namespace": "argocd", "uid": "u-1", "resourceVersion": "42"}}

UPDATE = object_event(
    Message.SPEC_UPDATE,
    target=Target.PROJECT,
    obj=PROJECT,
    principal_uid="p-9",
    extensions={"sentat": "2026-11-16T02:44:23.5Z"},
)

EVENTS: dict[str, Event] = {
    "spec-update of a project, principal to agent": UPDATE,
    "acknowledgement from an agent": acknowledgement(UPDATE, source=AGENT_SOURCE),
    "inventory request without a checksum": message_event(
        Message.REQUEST_SYNCED_RESOURCE_LIST,
        target=Target.RESOURCE_RESYNC,
        payload=write(RequestSyncedResourceList()),
        source=AGENT_SOURCE,
        new_id=lambda: "r-1",
    ),
    "heartbeat": heartbeat(new_id=lambda: "h-1"),
    "resource request": message_event(
        "GET",
        target=Target.RESOURCE,
        payload=write(ResourceRequest(uuid="q-1", name="pods", version="v1", resource="pods")),
        new_id=lambda: "q-1",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_an_event_becomes_exactly_these_bytes(name: str) -> None:
    assert encode(EVENTS[name]).hex() == GOLDEN[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_these_bytes_become_exactly_this_event(name: str) -> None:
    assert decode(bytes.fromhex(GOLDEN[name])) == EVENTS[name]
