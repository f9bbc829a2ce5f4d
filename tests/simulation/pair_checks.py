"""What must hold of a pair at every moment, whatever its operator does."""

from typing import Any

from kube.embedded import AdmissionRequest, Call
from kube.resources import LEASES
from sidecars.replication.record import REFUSAL, HaRecord, HaRole
from tests.simulation.hub_objects import changes_nothing
from tests.simulation.paired_hubs import HUBS, PairedHubs, other
from tests.simulation.virtual_time import OWNER, Pausable
from tests.simulation.world import World

# Whoever asks its peer just before that is promoted may serve a moment later.
ASKED_SECONDS = 10.0


class PairChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self.wrong: list[str] = []
        self.hubs: PairedHubs
        self._served: dict[int, tuple[str, float]] = {}
        self._promoting: dict[str, Pausable | None] = {}
        """Which life of a hub's process has claimed an epoch."""
        self.promoted_by_operator: set[int] = set()
        """Lives of processes, by id, that an operator has told to promote themselves."""
        self.tokens: list[dict[str, Any]] = []
        """Of switchovers, as they were given."""
        self.deletable: set[tuple[str, str]] = set()
        """Users deleted it, or an operator let it go: its agent and its name."""

    def attach(self, hubs: PairedHubs) -> None:
        self.hubs = hubs
        for hub in HUBS:
            fence = hubs.fences[hub]
            fence.on_record = lambda old, new, hub=hub: self._recorded(hub, old, new)  # type: ignore[misc]
            fence.on_write = lambda request, hub=hub: self._copy_written(hub, request)  # type: ignore[misc]
            fence.on_call = lambda call, hub=hub: self._called(hub, call)  # type: ignore[misc]

    def served(self, hub: str, epoch: int) -> None:
        """A principal begins to serve."""
        self._world.note(f"{hub} serves under epoch {epoch}")
        first, _ = self._served.setdefault(epoch, (hub, self._world.loop.time()))
        if first != hub:
            self.wrong.append(f"{hub} and {first} served under epoch {epoch}")
        record = self.hubs.fences[hub].record
        if record is None or record.role is not HaRole.ACTIVE or record.served_epoch != epoch:
            role = "nothing" if record is None else f"{record.role} under {record.served_epoch}"
            self.wrong.append(f"{hub} serves under epoch {epoch}, and its record says {role}")
        # A record that was on its way while its writer was paused serves nobody.
        elif record.audit[-1].what == "started as active" and "another replica" not in record.why:
            self._check_start(hub, record)

    def _recorded(self, hub: str, old: HaRecord | None, new: HaRecord) -> None:
        what = new.audit[-1].what if new.audit else ""
        self._world.note(f"{hub} records {new.role} {new.epoch}/{new.served_epoch}: {what}")
        self._world.count(f"recorded: {what}")
        if new.token:
            self.tokens.append(dict(new.token))
        if old is not None:
            self._check_change(hub, old, new, what)

    def _check_change(self, hub: str, old: HaRecord, new: HaRecord, what: str) -> None:
        last = old.audit[-1]
        # Equal refusals are one line with a count.
        counted = any((each.what, each.who, each.why) == (REFUSAL, last.who, last.why) for each in new.audit)
        if last not in new.audit and not (last.what == REFUSAL and counted):
            self.wrong.append(f"{hub} recorded {what} over {old.audit[-1].what}, which it had not read")
        if new.epoch < old.epoch or new.served_epoch < old.served_epoch or new.peer_epoch < old.peer_epoch:
            self.wrong.append(f"{hub}'s epochs fell: {what}")
        if old.pair and new.pair != old.pair:
            self.wrong.append(f"{hub} changed its pair: {what}")
        if new.role is HaRole.PROMOTING:
            self._promoting[hub] = OWNER.get()
            if what == "promotion begun" and new.served_epoch <= new.peer_epoch:
                self._check_promotion(hub)
        elif (old.role, new.role) == (HaRole.PROMOTING, HaRole.ACTIVE):
            owner = OWNER.get()
            if owner is not self._promoting[hub] and id(owner) not in self.promoted_by_operator:
                self.wrong.append(f"{hub} serves by a promotion that was killed: {what}")

    def _check_promotion(self, hub: str) -> None:
        """Without force, of one that is not the last that served."""
        progress = self.hubs.have_led[id(OWNER.get())].controller.role.replica.progress()
        if not progress.synced_once or progress.seen > progress.applied:
            self.wrong.append(f"{hub} is promoted with {progress.applied} of {progress.seen}")

    def _check_start(self, hub: str, record: HaRecord) -> None:
        newer = [
            epoch
            for epoch, (where, when) in self._served.items()
            if epoch > record.served_epoch
            and where == other(hub)
            and self._world.loop.time() - when > ASKED_SECONDS
        ]
        if newer:
            self.wrong.append(f"{hub} starts under {record.served_epoch} after {max(newer)} was served")

    def _called(self, hub: str, call: Call) -> None:
        """Whoever lost the Lease begins no write."""
        mine = self.hubs.identities.get(id(OWNER.get()))
        holder = self.hubs.lease_holder(hub)
        if call.resource != LEASES and mine is not None and holder not in {"", mine}:
            self.wrong.append(f"a replica of {hub} writes {call.name} while another has the Lease")

    def _copy_written(self, hub: str, request: AdmissionRequest) -> None:
        """By a principal, of its own cluster: copies of what the other one has, while that is the active one."""
        if request.new is None:
            self._copy_deleted(hub, request)
            return
        record, there = self.hubs.fences[hub].record, self.hubs.leading.get(hub)
        is_copied = request.old is None or request.old.get("spec") != request.new.get("spec")
        # Not of one that was paused in the middle of it, and came back when another replica leads.
        is_leading = there is not None and there.process is OWNER.get()
        if is_leading and record is not None and record.role is HaRole.STANDBY and changes_nothing(request):
            self.wrong.append(f"{hub} wrote {request.name} again, as it was")
        if is_copied and is_leading and record is not None and record.role is not HaRole.STANDBY:
            self.wrong.append(f"{hub} is {record.role} and writes a copy of {request.name}")

    def _copy_deleted(self, hub: str, request: AdmissionRequest) -> None:
        """What its peer has is not deleted by absence."""
        self._world.count("copies deleted")
        key = (request.namespace, request.name)
        there = self._world.store(other(hub))._history.collection(request.resource).find(*key)
        if there is not None and key not in self.deletable:
            self.wrong.append(f"{hub} deleted {key}, which {other(hub)} has and nobody deleted")

    def agent_deleted(self, agent: str, name: str) -> None:
        if (agent, name) not in self.deletable:
            self.wrong.append(f"{agent} deleted {name}, which nobody had deleted")
