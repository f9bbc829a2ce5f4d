"""Agents as cluster Secrets and keys of the blocklist."""

import json
from base64 import b64decode, b64encode, encodebytes
from datetime import UTC, datetime
from typing import Any

import pytest

from argocd import names
from argocd.agents.copies import error_shown
from argocd.agents.vocabulary import Mode
from certs.authority import Authority, KeyType, LeafSubject
from kube.embedded import EmbeddedStore
from kube.errors import NotFoundError
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, NAMESPACES, SECRETS
from kube.store import Object
from sidecars.fleet.agents import Fleet, Registered, registered
from sidecars.fleet.pki import Pki
from sidecars.principal import agent_status
from tests.sidecars.pair_in_memory import Pair, application, project, until
from tiphys.errors import CallError

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
async def fleet() -> Fleet:
    store = EmbeddedStore(namespaces=["argocd"])
    await Pki(store=store, namespace="argocd").init(now=NOW, key_type=KeyType.EC, replace=False)
    return Fleet(store=store, namespace="argocd")


async def create(fleet: Fleet, name: str = "agent-a", **changes: Any) -> Registered:
    usual: dict[str, Any] = {"proxy_address": "proxy:9090", "labels": {}, "create_namespace": True}
    return await fleet.create(name, now=NOW, key_type=KeyType.EC, **{**usual, **changes})


async def secret(fleet: Fleet) -> Object:
    return await fleet.store.get(SECRETS, name="cluster-agent-a", namespace="argocd")


async def test_an_agent_is_a_cluster_of_argo_cd(fleet: Fleet) -> None:
    made = await create(fleet, labels={"env": "prod"})

    there = await secret(fleet)
    assert there["metadata"]["labels"] == {
        "env": "prod",
        names.SECRET_TYPE: "cluster",
        names.AGENT_NAME: "agent-a",
    }
    assert there["metadata"]["annotations"] == {
        "managed-by": "argocd-agent",
        names.SKIP_RECONCILE: "true",
    }
    data = {key: b64decode(value).decode() for key, value in there["data"].items()}
    assert data["name"] == "agent-a"
    assert data["server"] == made.server == "https://proxy:9090?agentName=agent-a"
    tls = json.loads(data["config"])["tlsClientConfig"]
    assert set(tls) == {"insecure", "certData", "keyData", "caData"}
    assert made.proxy is not None
    assert made.proxy.common_names == ("agent-a",)
    home = await fleet.store.get(NAMESPACES, name="agent-a")
    assert home["metadata"]["labels"][names.TIPHYS_AGENT] == "agent-a"


async def test_a_namespace_that_is_there_is_labelled_and_none_is_made_unasked(fleet: Fleet) -> None:
    await fleet.store.create(NAMESPACES, {"metadata": {"name": "agent-a", "labels": {"team": "shop"}}})
    await create(fleet, create_namespace=False)
    home = await fleet.store.get(NAMESPACES, name="agent-a")
    labels = home["metadata"]["labels"]
    assert (labels["team"], labels[names.TIPHYS_AGENT]) == ("shop", "agent-a")
    await create(fleet, "agent-b", create_namespace=False)
    with pytest.raises(NotFoundError):
        await fleet.store.get(NAMESPACES, name="agent-b")


async def test_what_is_told_of_an_agent_has_no_key_in_it(fleet: Fleet) -> None:
    made = await create(fleet)

    key = json.loads(b64decode((await secret(fleet))["data"]["config"]))["tlsClientConfig"]["keyData"]
    assert "PRIVATE" not in repr(made)
    assert key not in repr(made)


async def test_an_agent_is_made_once(fleet: Fleet) -> None:
    await create(fleet)
    with pytest.raises(CallError, match="agent agent-a exists already"):
        await create(fleet)


async def test_a_secret_in_the_way_is_left_alone(fleet: Fleet) -> None:
    body = {"metadata": {"name": "cluster-agent-a"}, "stringData": {"password": "hunter2"}}
    before = await fleet.store.create(SECRETS, body, namespace="argocd")
    with pytest.raises(CallError, match="is no agent's cluster"):
        await create(fleet)
    assert await secret(fleet) == before


async def test_blocking_names_every_certificate_that_is_known(fleet: Fleet) -> None:
    made = await create(fleet)
    assert made.proxy is not None
    assert await fleet.note_issued("agent-a", "A" * 64)
    assert await fleet.note_issued("agent-a", "B" * 64)
    known = (await fleet.get("agent-a")).fingerprints
    assert set(known) == {"A" * 64, "B" * 64, made.proxy.fingerprint}

    await fleet.block(known)
    await fleet.block(["C" * 64])
    there = await fleet.store.get(CONFIG_MAPS, name="argocd-agent-tls-blocklist", namespace="argocd")
    assert there["data"] == dict.fromkeys([*known, "C" * 64], "")
    await fleet.unblock(known)
    assert (await fleet.blocked()).fingerprints == {"C" * 64}


async def test_a_certificate_of_a_stranger_is_noted_nowhere(fleet: Fleet) -> None:
    assert not await fleet.note_issued("agent-x", "A" * 64)


async def test_nothing_is_blocked_where_there_is_no_list(fleet: Fleet) -> None:
    assert not (await fleet.blocked()).fingerprints
    await fleet.unblock(["A" * 64])


async def test_a_removed_agent_is_locked_out_and_its_applications_are_counted(fleet: Fleet) -> None:
    made = await create(fleet)
    await fleet.store.create(APPLICATIONS, application("shop"), namespace="agent-a")

    removed, left = await fleet.remove("agent-a", block=True)
    assert (removed.name, left) == ("agent-a", 1)
    assert (await fleet.blocked()).fingerprints == set(made.fingerprints)
    with pytest.raises(NotFoundError):
        await secret(fleet)
    with pytest.raises(CallError, match=r"no agent agent-a: no Secret in argocd has the label"):
        await fleet.get("agent-a")


async def test_agents_of_argocd_agentctl_are_listed_too(fleet: Fleet) -> None:
    """Whatever their config holds."""
    for name, config in (("agent-b", "{}"), ("agent-a", "no json"), ("agent-c", '{"tlsClientConfig": 7}')):
        body = {
            "metadata": {
                "name": f"cluster-{name}",
                "labels": {names.SECRET_TYPE: "cluster", names.AGENT_NAME: name},
            },
            "stringData": {"name": name, "server": "https://proxy", "config": config},
        }
        await fleet.store.create(SECRETS, body, namespace="argocd")
    assert [(each.name, each.fingerprints) for each in await fleet.all()] == [
        ("agent-a", ()),
        ("agent-b", ()),
        ("agent-c", ()),
    ]


async def test_the_newest_error_of_an_agents_applications_is_its_last(fleet: Fleet) -> None:
    agent = await create(fleet)
    for name, when in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-02-01T00:00:00Z")):
        shown = error_shown(application(name), message=f"the {name} one", now=when)
        await fleet.store.create(APPLICATIONS, shown, namespace="agent-a")
    elsewhere = error_shown(application("x"), message="by destination", now="2026-03-01T00:00:00Z")
    await fleet.store.create(APPLICATIONS, application("fine"), namespace="agent-a")
    assert (await fleet.troubles([agent]))["agent-a"].message == "the new one"
    await fleet.store.create(APPLICATIONS, elsewhere, namespace="argocd")
    assert (await fleet.troubles([agent]))["agent-a"].message == "by destination"


async def test_the_principals_page_tells_how_its_agents_stand() -> None:
    pair = Pair(mode=Mode.MANAGED)
    await pair.hub.know("agent-a")
    await pair.hub.store.create(APP_PROJECTS, project("web"), namespace="argocd")
    async with pair.together() as (principal, _):
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)
        told = agent_status.read(json.loads(agent_status.page(principal.known_agents).body))
        assert (told["agent-a"].mode, told["agent-a"].connected) == ("managed", True)


async def test_what_an_absent_agent_has_not_heard_is_its_queue() -> None:
    pair = Pair(mode=Mode.MANAGED)
    await pair.hub.know("agent-a")
    await pair.hub.store.create(APP_PROJECTS, project("web"), namespace="argocd")
    async with pair.principal_alone() as principal:
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)
        made = await pair.hub.store.create(APP_PROJECTS, project("late"), namespace="argocd")
        await principal.hub_state.projects.reached(made["metadata"]["resourceVersion"])
        told = agent_status.read(json.loads(agent_status.page(principal.known_agents).body))["agent-a"]
        assert not told.connected
        assert told.queue >= 1
        assert told.queue_bytes > 0


@pytest.mark.parametrize("told", [None, [], {"agents": 7}, {"agents": [7, {"name": 3}, {}]}])
def test_a_page_of_something_else_tells_nothing(told: Any) -> None:
    assert agent_status.read(told) == {}


def test_a_certificate_that_was_wrapped_by_hand_is_still_seen() -> None:
    authority = Authority.create("an authority", now=NOW)
    pair = authority.issue(LeafSubject("agent-a"), now=NOW, server=False, client=True)
    wrapped = encodebytes(pair.certificate).decode()
    assert "\n" in wrapped.strip()
    config = json.dumps({"tlsClientConfig": {"certData": wrapped}}).encode()
    body = {"metadata": {"name": "cluster-agent-a"}, "data": {"config": b64encode(config).decode()}}
    seen = registered(body).proxy
    assert seen is not None
    assert seen.fingerprint == pair.fingerprint
