"""After a promotion each agent is compared once more, when the identity of its new principal has settled: an agent of
argocd-agent's undoes the first change of a principal that it does not know, and no second one might come.
"""

import asyncio

from argocd.agents.vocabulary import Message, Mode
from sidecars.principal.principal import SETTLING_SECONDS
from sidecars.wire.events import acknowledgement
from tests.sidecars.pair_in_memory import Pipe
from tests.sidecars.scripted_ends import scripted
from tests.simulation.virtual_time import run

# Long before the comparison that comes now and then.
LONGER = 2 * SETTLING_SECONDS


async def asked_at(pipe: Pipe) -> list[float]:
    """When the agent is asked to compare, in seconds since it came, as long as it listens."""
    loop = asyncio.get_running_loop()
    began, times = loop.time(), []
    try:
        async with asyncio.timeout(LONGER):
            while (event := await pipe.receive()) is not None:
                if event.type == Message.REQUEST_RESOURCE_RESYNC:
                    times.append(loop.time() - began)
                if not event.is_acknowledgement:
                    await pipe.send(acknowledgement(event))
    except TimeoutError:
        pass
    return times


async def comparisons(*, promoted: bool) -> list[float]:
    async with scripted(Mode.MANAGED, promoted=promoted) as (_, pipe):
        return await asked_at(pipe)


def test_an_agent_is_compared_once_more_when_a_new_principals_identity_has_settled() -> None:
    first, again = run(comparisons(promoted=True))
    assert first < 1
    assert SETTLING_SECONDS <= again < SETTLING_SECONDS + 1


def test_an_agent_of_a_principal_that_was_not_promoted_is_compared_once() -> None:
    (only,) = run(comparisons(promoted=False))
    assert only < 1
