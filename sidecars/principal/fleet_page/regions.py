"""The two regions of a pair, as this one sees them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sidecars.replication.control.controller import HaController
from sidecars.replication.states import HaState


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionFacts:
    """`lag` is in words, and empty where there is nothing to lag behind."""

    name: str
    ours: bool
    state: str
    detail: str = ""
    epoch: int
    lag: str = ""

    @property
    def is_well(self) -> bool:
        return self.state in {HaState.ACTIVE.value, HaState.REPLICATING.value}


Regions = Callable[[], Sequence[RegionFacts]]
"""Empty where this principal has no peer."""


def regions_of(controller: HaController) -> Sequence[RegionFacts]:
    role = controller.role
    active = role.state is HaState.ACTIVE
    ours = RegionFacts(
        name="this region",
        ours=True,
        state=role.state.value,
        detail=": ".join(filter(None, (role.detail.value, role.reason))),
        epoch=role.record.served_epoch if role.record else 0,
        lag="" if active else _changes(role.replica.progress().seen - role.replica.progress().applied),
    )
    if not controller.settings.peer_address:
        return (ours,)
    return ours, _peer(controller, active=active)


def _peer(controller: HaController, *, active: bool) -> RegionFacts:
    view, name = controller.view, controller.settings.peer_address
    if view is None or view.problem:
        words = view.problem if view is not None else "not asked yet"
        return RegionFacts(name=name, ours=False, state="unreachable", detail=words, epoch=0)
    told = view.handshake
    lag = ""
    if active:
        behind = [each.lag_seconds for each in controller.role.source.replicas() if each.connected]
        lag = f"{max(behind):.1f} s" if behind else "not following"
    return RegionFacts(
        name=name,
        ours=False,
        state=told.state.value if told else view.plain_state,
        detail="; ".join(view.differences),
        epoch=told.epoch if told else 0,
        lag=lag,
    )


def _changes(count: int) -> str:
    return "none" if count <= 0 else f"{count} change{'' if count == 1 else 's'}"
