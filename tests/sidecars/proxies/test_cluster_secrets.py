"""Cluster Secrets that Argo CD finds the resource proxy by: their tokens, and what its page of clusters says."""

import asyncio
import gzip
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from argocd import names
from argocd.agents.replication import replicated_copy
from argocd.agents.vocabulary import Mode
from kube.embedded import Call, EmbeddedStore
from kube.errors import InvalidError
from kube.resources import SECRETS
from kube.store import Object
from sidecars.agent.cluster_cache_info import ClusterCacheInfoTeller
from sidecars.principal.principal import Principal
from sidecars.principal.proxies.cluster_info import ClusterInfo
from sidecars.principal.proxies.cluster_tokens import ClusterTokens
from sidecars.principal.registration import RegistrationGate
from sidecars.process.serving_gate import OPEN, ServingGate
from sidecars.wire.auth.authenticator import Admission
from sidecars.wire.auth.tokens import PROXY_SECONDS, Audience, TokenError, Tokens, generate_key
from tests.sidecars.pair_in_memory import ARGOCD, Hub, Pair, connected, until
from tests.sidecars.proxies.redis.redis_servers import redis_server
from tiphys import logs

AGENT = "agent-a"


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> Tokens:
    return Tokens(generate_key(), now=clock)


def config_of(secret: Object) -> Any:
    return json.loads(b64decode(secret["data"]["config"]))


@asynccontextmanager
async def registering(
    tokens: Tokens, *, serving: ServingGate | None = None
) -> AsyncIterator[tuple[Hub, Principal, ClusterTokens]]:
    hub = Hub(EmbeddedStore(namespaces=[ARGOCD, AGENT]), register_agents=True, shared_client_secret="shared")
    async with hub.running() as principal:
        made = ClusterTokens(
            hub.store,
            principal.hub_state,
            tokens=tokens,
            authorities=lambda: b"authority",
            gate=serving or ServingGate(),
        )
        gate = RegistrationGate(hub.store, principal.hub_state, serving=ServingGate(), config=made.config)
        admission = Admission(
            agent=AGENT, mode=Mode.MANAGED, version="1", agent_namespace=ARGOCD, address="", fingerprint=""
        )
        assert await gate.admit(admission) is None
        yield hub, principal, made


async def test_an_agent_that_registers_itself_gets_a_token_and_the_certificate_that_all_share(
    tokens: Tokens,
) -> None:
    async with registering(tokens) as (hub, _, made):
        secret = await hub.store.get(SECRETS, name=f"cluster-{AGENT}", namespace=ARGOCD)
        assert secret["metadata"]["labels"] == {
            names.SECRET_TYPE: "cluster",
            names.AGENT_NAME: AGENT,
            names.SELF_REGISTERED_CLUSTER: "true",
            names.TIPHYS_MODE: "managed",
        }
        assert secret["metadata"]["annotations"] == {
            "managed-by": "argocd-agent",
            names.SKIP_RECONCILE: "true",
        }
        assert {key: b64decode(secret["data"][key]).decode() for key in ("name", "server")} == {
            "name": AGENT,
            "server": f"https://argocd-agent-resource-proxy:9090?agentName={AGENT}",
        }
        assert set(secret["data"]) == {"name", "server", "config"}
        config = config_of(secret)
        assert set(config) == {"bearerToken", "tlsClientConfig"}
        assert config["tlsClientConfig"] == {"insecure": False, "caData": "YXV0aG9yaXR5"}
        assert tokens.verify_for_proxy(config["bearerToken"]) == (AGENT, PROXY_SECONDS)
        shared = {"tls.crt": "certificate", "tls.key": "key", "ca.crt": "other authority"}
        await hub.store.create(
            SECRETS, {"metadata": {"name": "shared"}, "stringData": shared}, namespace=ARGOCD
        )
        found = json.loads(await made.config(AGENT))["tlsClientConfig"]
        assert {key: b64decode(found[key]).decode() for key in ("certData", "keyData", "caData")} == {
            "certData": "certificate",
            "keyData": "key",
            "caData": "other authority",
        }


async def test_a_token_is_renewed_when_half_of_its_life_is_over_or_its_key_is_another(
    tokens: Tokens, clock: Clock
) -> None:
    async with registering(tokens) as (hub, principal, made):

        async def present() -> str:
            secret = await hub.store.get(SECRETS, name=f"cluster-{AGENT}", namespace=ARGOCD)
            await principal.hub_state.clusters.reached(secret["metadata"]["resourceVersion"])
            return str(config_of(secret)["bearerToken"])

        first = await present()
        await made.renew()
        assert await present() == first
        clock.seconds += PROXY_SECONDS / 2 + 1
        await made.renew()
        second = await present()
        assert second != first
        tokens.epoch = 2
        await made.renew()
        assert tokens.verify_for_proxy(await present())[0] == AGENT


@pytest.mark.parametrize("registered", [True, False])
async def test_whoever_is_promoted_writes_the_tokens_that_a_copy_lacks_at_once(
    tokens: Tokens, *, registered: bool
) -> None:
    standby = ServingGate("replicating")
    async with registering(tokens, serving=standby) as (hub, principal, made):
        secret = await hub.store.get(SECRETS, name=f"cluster-{AGENT}", namespace=ARGOCD)
        labels = dict(secret["metadata"]["labels"])
        if not registered:
            del labels[names.SELF_REGISTERED_CLUSTER]
        copy = replicated_copy(secret)
        metadata = {**secret["metadata"], "labels": labels, "annotations": copy["metadata"]["annotations"]}
        copied = await hub.store.replace(SECRETS, {**secret, "metadata": metadata, "data": copy["data"]})
        assert "bearerToken" not in config_of(copied)
        await principal.hub_state.clusters.reached(copied["metadata"]["resourceVersion"])
        async with asyncio.timeout(10):
            running = asyncio.ensure_future(made.run())
            await asyncio.sleep(0)
            standby.state = OPEN
            while "bearerToken" not in config_of(copied):
                copied = await hub.store.get(SECRETS, name=f"cluster-{AGENT}", namespace=ARGOCD)
                await asyncio.sleep(0)
            running.cancel()
        assert tokens.verify_for_proxy(config_of(copied)["bearerToken"])[0] == AGENT


def test_a_token_for_the_proxy_ends_and_opens_nothing_else(tokens: Tokens, clock: Clock) -> None:
    token = tokens.issue_for_proxy(AGENT)
    with pytest.raises(TokenError, match="another issuer or audience"):
        tokens.verify(token, Audience.ACCESS)
    clock.seconds += PROXY_SECONDS + 1
    with pytest.raises(TokenError, match="expired"):
        tokens.verify_for_proxy(token)


async def test_what_an_agents_argo_cd_counted_is_on_the_page_of_clusters(tmp_path: Path) -> None:
    pair = Pair()
    counted = {
        "serverVersion": "1.36",
        "applicationsCount": 7,
        "cacheInfo": {"resourcesCount": 321, "apisCount": 45},
    }
    key = "cluster|info|https://kubernetes.default.svc|1.8.3"
    async with (
        redis_server(tmp_path) as server,
        server.client() as client,
        pair.principal_alone() as principal,
        pair.agent_alone() as agent,
    ):
        await pair.hub.know(AGENT)
        await until(pair.hub.store, SECRETS, lambda found: f"cluster-{AGENT}" in found)
        info = ClusterInfo(
            server.backend, principal.hub_state, principal=lambda: principal, now=lambda: datetime.now(UTC)
        )
        told = asyncio.Queue[str]()
        principal.requests.changed = told.put_nowait
        teller = ClusterCacheInfoTeller(client, agent)
        async with connected(principal, agent), asyncio.timeout(30):
            await teller._tell()  # nothing is there yet
            await client.set(key, b"no JSON")
            await teller._tell()
            await client.set(f"{key}.gz", gzip.compress(json.dumps(counted).encode()))
            await teller._tell()
            assert await told.get() == AGENT
            found = info.info(principal, AGENT)
            assert found["cacheInfo"] == {"resourcesCount": 321, "apisCount": 45}
            assert found["serverVersion"] == "1.36"
            await teller._tell()
            counted["cacheInfo"] = {"resourcesCount": -1, "apisCount": "many"}
            await client.set(f"{key}.gz", gzip.compress(json.dumps(counted).encode()))
            await teller._tell()
            assert await told.get() == AGENT
            assert told.empty(), "the same again is no news"
            assert info.info(principal, AGENT)["cacheInfo"] == {"resourcesCount": 0, "apisCount": 0}


async def test_the_page_of_clusters_tells_who_is_connected_with_version_and_lag(tmp_path: Path) -> None:
    pair = Pair()
    now = datetime(2026, 11, 17, tzinfo=UTC)
    async with (
        redis_server(tmp_path, password="secret") as server,
        pair.principal_alone() as principal,
        pair.agent_alone() as agent,
    ):
        await pair.hub.know(AGENT)
        await until(pair.hub.store, SECRETS, lambda found: f"cluster-{AGENT}" in found)
        principal.hub_state.versions[AGENT] = "1.2.3"
        info = ClusterInfo(
            server.backend,
            principal.hub_state,
            principal=lambda: principal,
            now=lambda: now,
        )
        assert info.info(principal, AGENT)["connectionState"] == {
            "status": "Failed",
            "message": f"agent {AGENT} is not connected",
            "attemptedAt": "2026-11-17T00:00:00Z",
        }
        principal.requests.arrivals.append(info.changed)
        telling = asyncio.create_task(info.run())
        client = server.client()
        key = f"cluster|info|https://proxy?agentName={AGENT}|1.8.3.gz"
        async with connected(principal, agent), asyncio.timeout(30):
            state: Any = {}
            while state.get("status") != "Successful":  # it is told when the agent comes, not before
                told: Any = await client.get(key)
                state = json.loads(gzip.decompress(told))["connectionState"] if told else {}
                await asyncio.sleep(0.02)
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await client.aclose()
        assert state["status"] == "Successful"
        assert state["message"].startswith(f"managed agent {AGENT}, version 1.2.3, lag ")


async def test_a_token_that_cannot_be_written_is_told_without_the_api_servers_words(
    tokens: Tokens, clock: Clock
) -> None:
    async def refuse(call: Call) -> None:
        if (call.resource, call.verb) == (SECRETS, "replace"):
            raise InvalidError('data[config]: Invalid value: "the token"')

    async with registering(tokens) as (hub, principal, made):
        secret = await hub.store.get(SECRETS, name=f"cluster-{AGENT}", namespace=ARGOCD)
        await principal.hub_state.clusters.reached(secret["metadata"]["resourceVersion"])
        assert isinstance(hub.store, EmbeddedStore)
        hub.store.hooks.faults = refuse
        clock.seconds += PROXY_SECONDS
        with structlog.testing.capture_logs() as lines:
            await made.renew()
        (line,) = lines
        assert (line[logs.SECRET_NAME], line[logs.ERROR]) == (f"cluster-{AGENT}", "InvalidError")
