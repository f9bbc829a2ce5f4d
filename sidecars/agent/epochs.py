"""The highest epoch of each pair of principals that this agent has obeyed: whoever comes with a lower one was deposed.

It is kept in a ConfigMap of the agent's namespace, written before anything of the new epoch is obeyed.
"""

from contextlib import suppress

from argocd import names
from argocd.reading import mapping, text
from kube import queries
from kube.errors import AlreadyExistsError, ApiError, ConflictError
from kube.resources import CONFIG_MAPS
from kube.store import Object, PatchKind, Store
from sidecars.wire.capabilities import EPOCH, Capabilities
from sidecars.wire.client.dialer import DialError
from tiphys import logs

# An agent knows one pair, two while it is moved. More is a principal that makes them up.
PAIRS = 16
_ATTEMPTS = 3

log = logs.get_logger()


class EpochMemory:
    def __init__(self, store: Store, *, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._where = f"ConfigMap {namespace}/{names.AGENT_EPOCHS}"

    async def admit(self, announced: Capabilities) -> None:
        """Raises DialError where this agent has obeyed a higher epoch of the same pair."""
        if EPOCH not in announced.extensions or not announced.pair:
            await self._warn_of_none()
            return
        try:
            for _ in range(_ATTEMPTS):
                if await self._settled(announced):
                    return
        except ApiError as error:
            raise DialError(
                f"{self._where} cannot be kept, so no principal of a pair is obeyed: {error}",
                code="UNAVAILABLE",
            ) from error
        raise DialError(f"{self._where} is written by somebody else all the time", code="UNAVAILABLE")

    async def _warn_of_none(self) -> None:
        """Whoever cannot look has obeyed no pair."""
        with suppress(ApiError):
            if known := mapping(await self._held(), "data"):
                log.warning("a principal of no pair is obeyed", known=sorted(known)[:PAIRS])

    async def _held(self) -> Object | None:
        return await queries.find(
            self._store, CONFIG_MAPS, name=names.AGENT_EPOCHS, namespace=self._namespace
        )

    async def _settled(self, announced: Capabilities) -> bool:
        """False where somebody else was faster."""
        held = await self._held()
        known = mapping(held, "data")
        seen = text(known, announced.pair)
        epoch = int(seen) if seen.isascii() and seen.isdecimal() else None
        if epoch is not None and announced.epoch < epoch:
            raise DialError(
                f"the principal has epoch {announced.epoch}, and this agent has obeyed epoch {epoch} of its pair:"
                f" another one was promoted. Where that is wrong: tiphys agents forget-epoch (deletes {self._where})",
                code="FAILED_PRECONDITION",
                hopeless=True,
            )
        if epoch == announced.epoch:
            return True
        if known and epoch is None:
            log.warning(
                "a principal of another pair is obeyed", pair=announced.pair, known=sorted(known)[:PAIRS]
            )
        kept = dict(list(known.items())[-(PAIRS - 1) :]) | {announced.pair: str(announced.epoch)}
        return await self._written(held, kept)

    async def _written(self, held: Object | None, data: dict[str, str]) -> bool:
        try:
            if held is None:  # empty at first: whoever is killed here has obeyed nobody yet
                empty: Object = {"metadata": {"name": names.AGENT_EPOCHS}}
                held = await self._store.create(CONFIG_MAPS, empty, namespace=self._namespace)
            version = {"resourceVersion": held["metadata"]["resourceVersion"]}
            await self._store.patch(
                CONFIG_MAPS,
                {"metadata": version, "data": data},
                name=names.AGENT_EPOCHS,
                namespace=self._namespace,
                kind=PatchKind.APPLY,
                force=True,
            )
        except (AlreadyExistsError, ConflictError):
            return False
        return True
