"""Both sidecars as they run in a pod: Lease, certificates from Secrets, grpc, health."""

import asyncio
from contextlib import AsyncExitStack

from argocd import names
from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from sidecars.principal import process as principals
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub, application, describe, described, project, until
from tests.sidecars.processes import PATIENCE, Pki
from tests.sidecars.wire.listening_principal import until as eventually


def stores() -> tuple[EmbeddedStore, EmbeddedStore]:
    return EmbeddedStore(namespaces=[ARGOCD, "agent-a"]), EmbeddedStore(namespaces=[ARGOCD])


def fingerprints(process: principals.PrincipalProcess) -> list[str]:
    """Of the certificates of the agents that are connected."""
    assert process.server is not None
    return [session.peer.fingerprint for session in process.server.sessions]


async def test_a_project_and_a_status_cross_a_real_connection() -> None:
    hub, workload = stores()
    pki = Pki()
    await Hub(hub).know("agent-a")
    async with (
        processes.principal(hub, pki, allowed_namespaces=("agent-a",)) as principal,
        processes.connected_agent(workload, pki, name="agent-a", port=principal.port),
    ):
        await hub.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await until(workload, APP_PROJECTS, lambda there: "web" in there)
        await describe(hub, "web", "new")
        await until(workload, APP_PROJECTS, described("web", "new"))
        await hub.create(APPLICATIONS, application(), namespace="agent-a")
        there = await until(workload, APPLICATIONS, lambda there: "shop" in there)
        await workload.replace(APPLICATIONS, {**there["shop"], "status": {"health": {"status": "Healthy"}}})
        await until(hub, APPLICATIONS, lambda there: there["shop"].get("status"), namespace="agent-a")


async def test_an_autonomous_agent_is_mirrored_and_both_say_that_they_are_well() -> None:
    hub, workload = stores()
    pki = Pki()
    await Hub(hub).know("agent-a")
    async with (
        processes.principal(hub, pki) as principal,
        processes.connected_agent(
            workload, pki, name="agent-a", port=principal.port, mode=Mode.AUTONOMOUS
        ) as agent,
    ):
        await workload.create(APP_PROJECTS, project("sample"), namespace=ARGOCD)
        await until(hub, APP_PROJECTS, lambda there: "agent-a-sample" in there)
        assert await processes.fetch(agent.health.port, "/healthz") == (200, "connected\n")
        assert (await processes.fetch(principal.health.port, "/readyz"))[0] == 200
        assert (await processes.fetch(principal.health.port, "/nothing"))[0] == 404
        _, figures = await processes.fetch(principal.metrics.port, "/metrics")
        assert "argocd_principal_connected_agents 1.0" in figures


async def test_an_unknown_agent_is_kept_out_until_somebody_makes_its_secret() -> None:
    hub, workload = stores()
    pki = Pki()
    async with processes.principal(hub, pki) as principal:
        await pki.equip(
            workload,
            namespace=ARGOCD,
            name="argocd-agent-client-tls",
            pair=pki.pair("agent-a", server=False),
        )
        process = processes.agent(workload, port=principal.port)
        async with processes.started(process):
            await process.health.listening.wait()
            await eventually(lambda: bool(process.link.error))
            status, words = await processes.fetch(process.health.port, "/healthz")
            assert status == 503
            assert "UNAUTHENTICATED" in words
            await Hub(hub).know("agent-a")
            async with asyncio.timeout(PATIENCE):
                await process.connected.wait()


async def test_agents_may_register_themselves() -> None:
    hub, workload = stores()
    pki = Pki()
    async with (
        processes.principal(hub, pki, register_agents=True) as principal,
        processes.connected_agent(workload, pki, name="agent-a", port=principal.port),
    ):
        there = await until(hub, SECRETS, lambda there: "cluster-agent-a" in there)
        assert (
            there["cluster-agent-a"]["metadata"]["labels"][
                "argocd-agent.argoproj-labs.io/self-registered-cluster"
            ]
            == "true"
        )


async def test_an_agent_whose_secret_goes_or_whose_certificate_is_blocked_is_cut_off() -> None:
    hub, workload = stores()
    pki = Pki()
    await Hub(hub).know("agent-a")
    async with (
        processes.principal(hub, pki) as principal,
        processes.connected_agent(workload, pki, name="agent-a", port=principal.port) as agent,
    ):
        await hub.delete(SECRETS, name="cluster-agent-a", namespace=ARGOCD)
        await eventually(lambda: not agent.connected.is_set())
        await Hub(hub).know("agent-a")
        await eventually(lambda: len(fingerprints(principal)) == 1)
        body = {"metadata": {"name": names.TLS_BLOCKLIST}, "data": dict.fromkeys(fingerprints(principal), "")}
        await hub.create(CONFIG_MAPS, body, namespace=ARGOCD)
        await eventually(lambda: not agent.connected.is_set())


async def test_a_renewed_certificate_is_used_without_a_restart() -> None:
    hub, workload = stores()
    pki = Pki()
    await Hub(hub).know("agent-a")
    async with (
        processes.principal(hub, pki) as principal,
        processes.connected_agent(workload, pki, name="agent-a", port=principal.port) as agent,
    ):
        await eventually(lambda: len(fingerprints(principal)) == 1)
        before = fingerprints(principal)
        pair = pki.pair("agent-a", server=False)
        await pki.equip(workload, namespace=ARGOCD, name="argocd-agent-client-tls", pair=pair)
        await eventually(lambda: fingerprints(principal) == [pair.fingerprint])
        assert before != [pair.fingerprint]
        async with asyncio.timeout(PATIENCE):
            await agent.connected.wait()


async def test_a_second_principal_waits_and_takes_over() -> None:
    hub, _ = stores()
    pki = Pki()
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        await first.enter_async_context(processes.principal(hub, pki))
        second = processes.principal_process(hub)
        await stack.enter_async_context(processes.started(second))
        async with asyncio.timeout(PATIENCE):
            await second.health.listening.wait()
        status, _ = await processes.fetch(second.health.port, "/readyz")
        assert status == 503
        assert not second.listening.is_set()
        await first.aclose()
        async with asyncio.timeout(PATIENCE):
            await second.listening.wait()
