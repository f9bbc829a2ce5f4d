"""The principal's own word on its agents, through the API server or straight from its port."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp

from argocd import names
from kube.errors import ApiError
from sidecars.principal import agent_status
from sidecars.principal.agent_status import AgentStatus
from sidecars.principal.fleet_page.regions import RegionFacts
from sidecars.replication.states import HaState

ANSWER_SECONDS = 10.0
MAX_BYTES = 16 << 20
"""Of the list of agents: a thousand have less than one MiB."""
# The shortest that an API server gives.
TOKEN_SECONDS = 600


class Asked(Protocol):
    """The live store."""

    async def account_token(self, account: str, *, namespace: str, audience: str, seconds: int) -> str: ...

    async def ask_service(
        self, service: str, path: str, *, namespace: str, headers: Mapping[str, str] | None = None
    ) -> Any: ...


@dataclass(frozen=True, slots=True)
class Told:
    """`problem` says why nothing is known; no principal of argocd-agent's has this page."""

    source: str = ""
    statuses: dict[str, AgentStatus] = field(default_factory=dict)
    problem: str = ""
    regions: tuple[RegionFacts, ...] = ()
    """Of a pair, as this principal sees them."""

    @property
    def is_silent(self) -> bool:
        """About connections: nobody answered, or a standby, which has none."""
        return bool(self.problem) or (bool(self.regions) and not (self.active and self.active.ours))

    @property
    def active(self) -> RegionFacts | None:
        """The region that agents are on, where this principal is one of a pair."""
        return next((each for each in self.regions if each.state == HaState.ACTIVE), None)


def _told(source: str, page: Any) -> Told:
    return Told(source, agent_status.read(page), regions=agent_status.read_regions(page))


NOBODY = Told()


async def ask_principal(store: Asked, *, namespace: str, service: str, url: str | None) -> Told:
    source = f"{url.rstrip('/')}{agent_status.PATH}" if url else f"Service {namespace}/{service}"
    try:
        if url:
            return _told(source, await _fetched(source))
        token = await store.account_token(
            names.PRINCIPAL_READER_ACCOUNT,
            namespace=namespace,
            audience=names.PAGE_AUDIENCE,
            seconds=TOKEN_SECONDS,
        )
        headers = {names.PAGE_TOKEN_HEADER: token}
        told = await store.ask_service(service, agent_status.PATH, namespace=namespace, headers=headers)
        return _told(source, told)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return Told(source, problem=f"{source}: {error or type(error).__name__}")
    except (ApiError, ValueError) as error:
        return Told(source, problem=f"{source}: {error}")


async def _fetched(address: str) -> Any:
    limit = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=limit) as session, session.get(address) as response:
        response.raise_for_status()
        read = bytearray()
        async for part in response.content.iter_any():
            read += part
            if len(read) > MAX_BYTES:  # the end of the rest may be far
                raise ValueError(f"the answer has more than {MAX_BYTES} bytes")
        return json.loads(read)
