"""Whether an agent is managed or autonomous is its principal's word, not the agent's."""

import asyncio
from typing import Any

import grpc
import pytest

from argocd import names
from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import CONFIG_MAPS, SECRETS
from kube.store import PatchKind
from sidecars.fleet.agents import Fleet
from sidecars.principal.registration import RegistrationGate
from sidecars.wire.auth.authenticator import Admission
from sidecars.wire.refusals import RefusedError
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub, until
from tests.sidecars.processes import PATIENCE, Pki
from tests.sidecars.wire.listening_principal import until as eventually

SENTENCE = "logs in as autonomous, but is managed here: tiphys agents set-mode agent-a autonomous"


async def logged_in(gate: RegistrationGate, mode: Mode, *, agent: str = "agent-a") -> str | None:
    admission = Admission(
        agent=agent, mode=mode, version="0.9.0", agent_namespace="argocd", address="", fingerprint=""
    )
    return await gate.admit(admission)


async def refusal(gate: RegistrationGate, mode: Mode) -> str:
    with pytest.raises(RefusedError) as caught:
        await logged_in(gate, mode)
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
    return caught.value.message


def hub(**settings: Any) -> Hub:
    return Hub(EmbeddedStore(namespaces=[ARGOCD, "agent-a"]), **settings)


async def test_the_first_login_decides_and_another_mode_is_refused_with_a_sentence() -> None:
    there = hub()
    await there.know("agent-a")
    async with there.running():
        gate = there.gate
        assert await logged_in(gate, Mode.MANAGED) is None
        kept = await there.store.get(CONFIG_MAPS, name=names.AGENT_MODES, namespace=ARGOCD)
        assert kept["data"] == {"agent-a": "managed"}
        assert SENTENCE in await refusal(gate, Mode.AUTONOMOUS)
        assert SENTENCE in (gate.knows("agent-a", Mode.AUTONOMOUS) or "")
        assert gate.knows("agent-a", Mode.MANAGED) is None
    async with there.running():  # after a restart too
        gate = there.gate
        assert SENTENCE in await refusal(gate, Mode.AUTONOMOUS)
        assert await logged_in(gate, Mode.MANAGED) is None


async def test_of_two_first_logins_at_once_one_decides() -> None:
    there = hub()
    await there.know("agent-a")
    async with there.running():
        gate = there.gate
        told = await asyncio.gather(
            *(logged_in(gate, mode) for mode in (Mode.MANAGED, Mode.AUTONOMOUS)), return_exceptions=True
        )
        assert [isinstance(each, RefusedError) for each in told] == [False, True]


async def test_an_operators_label_counts_more_than_the_first_login() -> None:
    there = hub()
    await there.know("agent-a")
    fleet = Fleet(store=there.store, namespace=ARGOCD)
    async with there.running():
        gate = there.gate
        assert await logged_in(gate, Mode.MANAGED) is None
        before = await fleet.set_mode("agent-a", Mode.AUTONOMOUS)
        assert before.mode is Mode.MANAGED
        await eventually(lambda: gate.knows("agent-a", Mode.AUTONOMOUS) is None)
        assert await logged_in(gate, Mode.AUTONOMOUS) is None
        assert "logs in as managed, but is autonomous here" in await refusal(gate, Mode.MANAGED)
    assert (await fleet.get("agent-a")).mode is Mode.AUTONOMOUS


async def test_removing_an_agent_forgets_its_first_login() -> None:
    there = hub()
    await there.know("agent-a")
    async with there.running():
        gate = there.gate
        assert await logged_in(gate, Mode.MANAGED) is None
    fleet = Fleet(store=there.store, namespace=ARGOCD)
    await fleet.remove("agent-a", block=False)
    kept = await there.store.get(CONFIG_MAPS, name=names.AGENT_MODES, namespace=ARGOCD)
    assert not kept.get("data")


async def test_an_agent_that_registers_itself_has_its_mode_on_its_secret() -> None:
    there = hub(register_agents=True)
    async with there.running():
        gate = there.gate
        assert await logged_in(gate, Mode.AUTONOMOUS) is None
        secret = await there.store.get(SECRETS, name="cluster-agent-a", namespace=ARGOCD)
        assert secret["metadata"]["labels"][names.TIPHYS_MODE] == "autonomous"
        assert "but is autonomous here" in await refusal(gate, Mode.MANAGED)


async def test_an_agent_may_choose_its_mode_where_that_is_wanted() -> None:
    there = hub(trust_agent_mode=True)
    await there.know("agent-a")
    async with there.running():
        gate = there.gate
        for mode in (Mode.MANAGED, Mode.AUTONOMOUS):
            assert await logged_in(gate, mode) is None
            assert gate.knows("agent-a", mode) is None


async def test_over_a_real_connection_another_mode_is_read_by_the_agent_and_set_mode_cuts_the_stream() -> (
    None
):
    store, workload, pki = (
        EmbeddedStore(namespaces=[ARGOCD, "agent-a"]),
        EmbeddedStore(namespaces=[ARGOCD]),
        Pki(),
    )
    await Hub(store).know("agent-a")
    async with processes.principal(store, pki) as principal:
        async with processes.connected_agent(workload, pki, name="agent-a", port=principal.port) as agent:
            await until(store, CONFIG_MAPS, lambda there: names.AGENT_MODES in there)
            patch = {"metadata": {"labels": {names.TIPHYS_MODE: "autonomous"}}}
            await store.patch(SECRETS, patch, name="cluster-agent-a", namespace=ARGOCD, kind=PatchKind.MERGE)
            await eventually(lambda: "but is autonomous here" in agent.link.error)
            assert principal.server is not None
            assert len(principal.server.sessions) == 0
        other = processes.agent(workload, port=principal.port, mode=Mode.AUTONOMOUS)
        async with processes.started(other), asyncio.timeout(PATIENCE):
            await other.connected.wait()
