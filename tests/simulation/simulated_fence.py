"""The admission policy of a hub, as its API server has it: it hears of a changed parameter a little later, and what is
recorded is told to whoever checks it.
"""

from collections.abc import Callable
from contextvars import Context

from argocd import names
from kube.embedded import AdmissionRequest, Admitted, Call, Phase
from kube.errors import ForbiddenError, UnavailableError
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS
from kube.store import Identity, Object
from sidecars.replication.record import HaRecord, HaRole, read_record
from tests.sidecars.replication.hubs import ARGOCD
from tests.simulation.world import World

PRINCIPAL = Identity("system:serviceaccount:argocd:tiphys-principal")
REPLICATED = (APPLICATIONS, APP_PROJECTS)
# An API server hears of a parameter by a watch: mostly at once.
LAGS = (0.0, 0.05, 0.05, 2.0)

Observed = Callable[[HaRecord | None, HaRecord], None]
Written = Callable[[AdmissionRequest], None]


class SimulatedFence:
    def __init__(self, world: World, hub: str, *, denies: bool, forgets_parity: bool = False) -> None:
        self._world = world
        self._store = world.store(hub)
        self._denies = denies
        self._forgets_parity = forgets_parity
        self._faults = self._store.hooks.faults
        self._parameter: Object | None = None
        self._heard_by = 0.0
        self.record: HaRecord | None = None
        """As it is stored."""
        self.refuses_record = False
        """As an API server whose disk is full."""
        self.on_record: Observed = lambda _old, _new: None
        self.on_write: Written = lambda _request: None
        """By the principal, of what is replicated."""
        self.on_call: Callable[[Call], None] = lambda _call: None
        """Of any write, before it."""

    def install(self) -> None:
        self._store.hooks.admission = self._admit
        self._store.hooks.faults = self._strike

    async def _strike(self, call: Call) -> None:
        if call.phase is Phase.BEFORE and call.verb not in {"get", "list", "watch"}:
            self.on_call(call)
        if call.phase is Phase.AFTER and call.resource == CONFIG_MAPS and call.name == names.HA_RECORD:
            self._written()
        assert self._faults is not None
        await self._faults(call)

    def _written(self) -> None:
        stored = self._store._history.collection(CONFIG_MAPS).find(ARGOCD, names.HA_RECORD)
        assert stored is not None
        held = stored.decoded()
        before, self.record = self.record, read_record(held)
        loop = self._world.loop
        lag = self._world.random.choice(LAGS)
        self._heard_by = max(self._heard_by + 1e-6, loop.time() + lag)  # in order
        loop.call_at(self._heard_by, self._hear, held["data"], context=Context())
        self.on_record(before, self.record)

    def _hear(self, data: Object) -> None:
        self._parameter = data

    async def _admit(self, request: AdmissionRequest) -> Admitted:
        if request.resource == CONFIG_MAPS and request.name == names.HA_CANARY:
            told, known = (request.new or {}).get("data", {}), self._parameter or {}
            if any(told.get(key) != known.get(key) for key in ("epoch", "role")):
                raise ForbiddenError(f"ValidatingAdmissionPolicy '{names.HA_FENCE}' denied request")
        elif request.resource == CONFIG_MAPS and request.name == names.HA_RECORD:
            if self.refuses_record:
                self._world.count("records refused")
                raise UnavailableError("etcdserver: mvcc: database space exceeded")
            if self._forgets_parity and request.new is not None:
                return Admitted({**request.new, "data": {**request.new["data"], "parity": ""}})
        elif request.resource in REPLICATED:
            self._check_writer(request)
        return Admitted()

    def _check_writer(self, request: AdmissionRequest) -> None:
        if request.user == PRINCIPAL:
            self.on_write(request)
        elif self._denies and (self._parameter or {}).get("role") != HaRole.ACTIVE:
            self._world.count("writers on a standby refused")
            raise ForbiddenError("this cluster is a standby")
