"""Our decisions beside what real peers did in recorded exchanges; skipped where there are no recordings.

Where the peers do more than is needed, or lose something, the test says so and expects ours.
"""

import base64
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from argocd import names
from argocd.agents.checksums import inventory_checksum, resource_key, spec_checksum
from argocd.agents.copies import (
    application_at_principal,
    application_copied,
    application_updated,
    copied,
    mirror_updated,
    operation_applied,
    status_applied,
    terminated,
    updated,
)
from argocd.agents.messages import application_sendings, project_sendings
from argocd.agents.project_copies import project_at_principal, project_for_agent
from argocd.agents.resync import UpdateRequest, answer_to
from argocd.agents.routing import AgentIndex, AgentMapping
from argocd.agents.vocabulary import TRACKED_AS, Message, Mode, Target

HERE = Path(__file__).resolve().parent


def _load() -> Any:
    # By path, as the answers are: an installed package called `tests` must not stand in the way.
    spec = importlib.util.spec_from_file_location("tiphys_oracle_recordings", HERE / "recordings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


recordings = _load()

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not recordings.WIRE.is_dir(), reason="no recorded exchanges beside the repository"),
]

SERVERS_OWN = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
BY_NAMESPACE = AgentMapping.NAMESPACE


@pytest.fixture(scope="module")
def managed() -> Any:
    return recordings.read("managed")


@pytest.fixture(scope="module")
def autonomous() -> Any:
    return recordings.read("autonomous")


def content(item: Any) -> Any:
    """An object less what its API server or the hour gave it, and less Go's empty structures."""
    metadata = {key: part for key, part in item.get("metadata", {}).items() if key not in SERVERS_OWN}
    annotations = {
        key: part for key, part in metadata.pop("annotations", {}).items() if key != names.LAST_UPDATED
    }
    if annotations:
        metadata["annotations"] = annotations
    parts = {key: item[key] for key in ("spec", "operation", "data") if item.get(key)}
    status = {key: part for key, part in item.get("status", {}).items() if part and not _is_empty(part)}
    return {"metadata": metadata, **parts, **({"status": status} if status else {})}


def _is_empty(part: Any) -> bool:
    return part == "" or (isinstance(part, dict) and all(_is_empty(inner) for inner in part.values()))


def then(recording: Any, number: int) -> Any:
    """What stood there: the entry of that line of the recording."""
    entry = recording.entries[number]
    assert entry.what == "then"
    return entry.stored


def payload(recording: Any, number: int) -> Any:
    found = recording.entries[number].payload
    assert found is not None
    return found


def index(agent: str, mode: Mode) -> AgentIndex:
    known = AgentIndex(mapped_by=BY_NAMESPACE)
    known.put(agent, mode)
    return known


def steps_on_hub(recording: Any, kind: str, until: int) -> Any:
    """What was done to objects of a kind on the hub: the version before, the version after, the line."""
    before: dict[str, Any] = {}
    for entry in recording.entries[:until]:
        stored = entry.stored or {}
        if entry.side != "hub" or stored.get("kind") != kind:
            continue
        name = stored["metadata"]["name"]
        if entry.what != "then":
            yield before.get(name), stored, entry.number
        before[name] = stored


# -- a managed agent -----------------------------------------------------------------------------------------


def test_projects_are_told_as_the_principal_told_them(managed: Any) -> None:
    stopped = next(entry.number for entry in managed.entries if entry.what == "agent stopped")
    ours = [
        (sending.message.word, sending.object["metadata"]["name"], sending.object["spec"])
        for old, new, _ in steps_on_hub(managed, "AppProject", stopped)
        for sending in project_sendings(old, new, agents=index("agent-a", Mode.MANAGED))
    ]
    theirs = [
        (entry.type, entry.payload["metadata"]["name"], entry.payload["spec"])
        for entry in managed.entries[:stopped]
        if entry.target == "appproject"
    ]
    assert ours == theirs
    assert [message for message, *_ in ours] == ["create", "spec-update", "delete", "create"]


def test_a_project_that_no_longer_matches_is_withdrawn(managed: Any) -> None:
    step, message = managed.entries[267], managed.entries[268]
    old = managed.last_before(267, "hub", "team")
    [sending] = project_sendings(old, step.stored, agents=index("agent-a", Mode.MANAGED))
    assert (sending.message.word, sending.object["spec"]) == (message.type, message.payload["spec"])


def test_applications_are_told_once(managed: Any) -> None:
    stopped = next(entry.number for entry in managed.entries if entry.what == "agent stopped")
    ours = [
        (sending.message, number)
        for old, new, number in steps_on_hub(managed, "Application", stopped)
        for sending in application_sendings(old, new, agents=index("agent-a", Mode.MANAGED))
    ]
    assert ours == [
        (Message.CREATE, 36),
        (Message.SPEC_UPDATE, 40),
        (Message.SET_OPERATION, 52),
        (Message.SPEC_UPDATE, 63),
        (Message.SET_OPERATION, 79),
        (Message.TERMINATE_OPERATION, 90),
    ]
    theirs = [
        entry.number
        for entry in managed.entries[:stopped]
        if entry.target == "application" and entry.side == "principal"
    ]
    # 44 and 87 say nothing new after a status of the agent's own, 53 and 80 accompany an operation.
    assert sorted({*theirs} - {44, 53, 80, 87}) == [37, 41, 55, 64, 82, 91]


@pytest.mark.parametrize(
    ("message", "stood"), [pytest.param(14, 16, id="created"), pytest.param(28, 30, id="created again")]
)
def test_a_created_project_is_the_agents_copy(managed: Any, message: int, stood: int) -> None:
    copy = copied(payload(managed, message), namespace="argocd")
    assert content(copy) == content(then(managed, stood))


def test_an_updated_project_is_the_agents_copy(managed: Any) -> None:
    copy = copied(payload(managed, 20), namespace="argocd")
    assert content(updated(then(managed, 16), copy, content="spec")) == content(then(managed, 22))


def test_a_created_application_is_the_agents_copy(managed: Any) -> None:
    uid = managed.entries[37].attributes["principaluid"]
    copy = application_copied(payload(managed, 37), namespace="argocd", principal_uid=uid)
    assert content(copy) == content(then(managed, 39))


@pytest.mark.parametrize(
    ("before", "messages", "after"),
    [
        pytest.param(39, (41,), 47, id="spec"),
        pytest.param(48, (55,), 57, id="operation"),
        pytest.param(59, (64,), 68, id="refresh"),
    ],
)
def test_an_updated_application_is_the_agents_copy(
    managed: Any, before: int, messages: tuple[int, ...], after: int
) -> None:
    local = managed.entries[before].stored
    for number in messages:
        uid = managed.entries[number].attributes.get("principaluid", "")
        copy = application_copied(payload(managed, number), namespace="argocd", principal_uid=uid)
        local = application_updated(local, copy)
    assert content(local) == content(then(managed, after))


def test_an_operation_is_ended(managed: Any) -> None:
    ended = terminated(managed.entries[84].stored)
    assert ended is not None
    assert content(ended) == content(then(managed, 95))


@pytest.mark.parametrize(
    ("hub", "message", "after"),
    [
        pytest.param(40, 49, 51, id="status"),
        pytest.param(52, 60, 62, id="operation done"),
        pytest.param(63, 71, 73, id="refresh done"),
        pytest.param(79, 85, 89, id="operation running"),
    ],
)
def test_a_status_is_applied_on_the_hub(managed: Any, hub: int, message: int, after: int) -> None:
    result = status_applied(managed.entries[hub].stored, payload(managed, message))
    assert content(result) == content(then(managed, after))


@pytest.mark.parametrize(("message", "stood"), [(97, 99), (103, 105), (111, 113)])
def test_repositories_and_keys_are_copied(managed: Any, message: int, stood: int) -> None:
    assert content(copied(payload(managed, message), namespace="argocd")) == content(then(managed, stood))


SPOKE = {
    "guestbook": (TRACKED_AS[Target.APPLICATION], 95),
    "team": (TRACKED_AS[Target.PROJECT], 35),
    "creds-1": (TRACKED_AS[Target.REPOSITORY], 105),
    "repo-1": (TRACKED_AS[Target.REPOSITORY], 109),
    "argocd-gpg-keys-cm": (TRACKED_AS[Target.GPG_KEYS], 113),
}
"""What the agent had when it was stopped."""


def test_the_inventory_has_the_agents_checksum(managed: Any) -> None:
    keys = [resource_key(kind, then(managed, number)) for kind, number in SPOKE.values()]
    _, request = managed.messages("request-synced-resource-list", "resourceResync")
    assert inventory_checksum(keys) == base64.b64decode(request.payload["checksum"])


def test_specifications_have_the_agents_checksums(managed: Any) -> None:
    asked = {
        entry.payload["name"]: entry.payload
        for entry in managed.entries[128:135]
        if entry.type == "request-update"
    }
    assert asked.keys() == SPOKE.keys()
    for name, (kind, number) in SPOKE.items():
        stored = then(managed, number)
        assert stored["kind"] in {"Application", "AppProject", "Secret", "ConfigMap"}
        assert spec_checksum(stored) == base64.b64decode(asked[name]["checksum"]), kind


def test_a_project_that_the_agent_has_is_not_sent_again(managed: Any) -> None:
    """argocd-agent compares its own version with the copy, which differs, and sends it every time."""
    asked = payload(managed, 234)
    request = UpdateRequest("AppProject", "team", checksum=base64.b64decode(asked["checksum"]))
    hub = managed.last_before(234, "hub", "team")
    copy = project_for_agent(hub, agent="agent-a", mapped_by=BY_NAMESPACE)
    assert answer_to(request, copy) is None


# -- an autonomous agent -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "stood"),
    [
        pytest.param(14, 16, id="created"),
        pytest.param(18, 20, id="default"),
        pytest.param(22, 24, id="updated"),
        pytest.param(64, 66, id="created again"),
    ],
)
def test_the_hub_mirrors_an_autonomous_project(autonomous: Any, message: int, stood: int) -> None:
    mirror = project_at_principal(payload(autonomous, message), agent="agent-b", namespace="argocd")
    assert content(mirror) == content(then(autonomous, stood))


def test_the_mirror_keeps_its_destinations_when_the_agent_returns(autonomous: Any) -> None:
    """The Go agent answers a resync with a copy for a managed agent; the hub's mirror then has none left."""
    assert "destinations" not in then(autonomous, 107)["spec"]
    ours = project_at_principal(payload(autonomous, 84), agent="agent-b", namespace="argocd")
    assert ours["spec"]["destinations"] == then(autonomous, 66)["spec"]["destinations"]
    request = payload(autonomous, 91)
    checksum = base64.b64decode(request["checksum"])
    assert answer_to(UpdateRequest("AppProject", "agent-b-ops", checksum=checksum), ours) is None


def test_the_hub_mirrors_an_autonomous_application(autonomous: Any) -> None:
    mirror = application_at_principal(payload(autonomous, 29), agent="agent-b", cluster="agent-b")
    assert content(mirror) == content(then(autonomous, 31))


@pytest.mark.parametrize(("hub", "message", "after"), [(31, 33, 35), (35, 37, 41), (52, 54, 58)])
def test_the_hub_follows_an_autonomous_application(
    autonomous: Any, hub: int, message: int, after: int
) -> None:
    told = payload(autonomous, message)
    mirror = application_at_principal(told, agent="agent-b", cluster="agent-b")
    result = mirror_updated(autonomous.entries[hub].stored, mirror, operation=told.get("operation"))
    expected = content(then(autonomous, after))
    ours = content(result)
    # Go adds an empty retry to an operation that it passes on; the hub's own stays as it was written.
    for each in (expected, ours):
        each.get("operation", {}).pop("retry", None)
    assert ours == expected


def test_commands_from_the_hub_reach_an_autonomous_application(autonomous: Any) -> None:
    before = then(autonomous, 44)
    ordered = operation_applied(before, payload(autonomous, 48))
    assert content(ordered) == content(then(autonomous, 50))
    refreshed = operation_applied(ordered, payload(autonomous, 53))
    assert content(refreshed) == content(then(autonomous, 57))


def test_only_commands_are_told_to_an_autonomous_agent(autonomous: Any) -> None:
    stopped = next(entry.number for entry in autonomous.entries if entry.what == "agent stopped")
    ours = [
        (sending.message, number)
        for old, new, number in steps_on_hub(autonomous, "Application", stopped)
        for sending in application_sendings(old, new, agents=index("agent-b", Mode.AUTONOMOUS))
    ]
    assert ours == [(Message.SET_OPERATION, 45), (Message.SPEC_UPDATE, 52)]
