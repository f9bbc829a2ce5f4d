"""Tokens with which Argo CD asks the resource proxy: for one agent, until they end or somebody takes them away."""

import time
from collections.abc import AsyncIterator
from functools import partial

import pytest

from argocd.agents.vocabulary import Mode
from kube.resources import SECRETS
from sidecars.principal.proxies import known_tokens
from sidecars.wire.auth.tokens import PROXY_SECONDS, Holder
from tests.sidecars import pair_in_memory
from tests.sidecars.proxies.answering_scene import AGENT, PATH, Scene, scene
from tests.sidecars.proxies.hub_caller import hub_caller
from tests.sidecars.proxies.redis.redis_servers import eventually


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def test_a_token_opens_the_port_for_its_agent_until_it_ends(at: Scene) -> None:
    tokens = at.process._serving.tokens
    await pair_in_memory.Hub(at.store).know("agent-b")
    async with hub_caller(at.pki, at.port, agent=None) as caller:
        bearer = f"Bearer {await at.given(tokens.issue_for_proxy(AGENT))}"
        assert (await caller.get(PATH, Authorization=bearer)).status == 200
        other = f"Bearer {await at.given(tokens.issue_for_proxy('agent-b'), agent='agent-b')}"
        assert (await at.hub.get(PATH, Authorization=other)).status == 502, (
            "the token counts, not the certificate"
        )
        access = tokens.issue(Holder(AGENT, Mode.MANAGED)).access
        assert (await caller.get(PATH, Authorization=f"Bearer {access}")).status == 401


async def test_a_token_that_has_ended_opens_nothing_and_the_renewed_one_does(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = at.process._serving.tokens
    later = time.time() + PROXY_SECONDS + 1
    async with hub_caller(at.pki, at.port, agent=None) as caller:
        bearer = f"Bearer {await at.given(tokens.issue_for_proxy(AGENT))}"
        assert (await caller.get(PATH, Authorization=bearer)).status == 200
        monkeypatch.setattr(tokens, "_now", lambda: later)
        ended = await caller.get(PATH, Authorization=bearer)
        assert (ended.status, ended.message) == (401, "authentication failed")
        renewed = f"Bearer {await at.given(tokens.issue_for_proxy(AGENT))}"
        assert (await caller.get(PATH, Authorization=renewed)).status == 200


async def test_a_token_that_was_replaced_or_taken_away_opens_nothing(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue = partial(at.process._serving.tokens.issue_for_proxy, AGENT)

    async with hub_caller(at.pki, at.port, agent=None) as caller:

        async def status(token: str) -> int:
            return (await caller.get(PATH, Authorization=f"Bearer {token}")).status

        assert await status(issue()) == 401, "of the right key, but nobody was given it"
        first, second = await at.given(issue()), await at.given(issue())
        assert [await status(first), await status(second)] == [200, 200], "Argo CD may not have seen it yet"
        third = await at.given(issue())
        assert [await status(each) for each in (first, second, third)] == [401, 200, 200]
        monkeypatch.setattr(known_tokens, "OVERLAP_SECONDS", 0.0)
        fourth = await at.given(issue())
        assert [await status(each) for each in (third, fourth)] == [401, 200]
        monkeypatch.undo()
        await at.given("")
        assert await status(fourth) == 401, "taken away"
        fifth = await at.given(issue())
        assert await status(fifth) == 200
        await at.store.delete(SECRETS, name=f"cluster-{AGENT}", namespace="argocd")
        await eventually(lambda: not at.clusters.find("agent", AGENT))
        assert await status(fifth) == 401, "deleted with its Secret"
