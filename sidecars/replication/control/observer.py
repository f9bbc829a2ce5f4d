"""What a principal of a pair hears and sees: its replica's word, its peer's, and whether its fence stands."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sidecars.replication.control.fence import Fence, FenceReport
from sidecars.replication.control.promotion import RefusedRoleChangeError
from sidecars.replication.control.role import PairRole
from sidecars.replication.control.safeguards import PairSafeguards
from sidecars.replication.control.settings import HaSettings
from sidecars.replication.control.start import PeerView
from sidecars.replication.handshake import Handshake, differences
from sidecars.replication.metrics import PEER_UNKNOWN
from sidecars.replication.peer import PeerAnswer, PeerRefusedError, PeerUnreachableError
from sidecars.replication.states import HaState, StateDetail
from tiphys import logs

if TYPE_CHECKING:
    from sidecars.replication.report import PeerReport

# An operator waits for the answer; another change of role takes seconds.
TURN_SECONDS = 60.0
# Agents say it with every status where they have obeyed the other one: so often at most is the peer asked for that.
OTHERS_WORD_SECONDS = 1.0
# Of refused tokens, in a minute: a peer that repeats itself must not keep the API server, or an operator, busy.
NOTED_REFUSALS = 10
# Of a fence that stands; one that does not is known to by now.
CHECK_SECONDS = 1.0

log = logs.get_logger()


class PairObserver:
    def __init__(
        self,
        role: PairRole,
        *,
        settings: HaSettings,
        fence: Fence,
        ask: Callable[[], Awaitable[PeerAnswer]] | None,
        handed_over: Callable[[], bool] = lambda: False,
        safeguards: PairSafeguards | None = None,
    ) -> None:
        """`ask` is None where no peer is configured. `handed_over`: another replica of this principal was seen at work
        less than a lease ago.
        """
        self.role = role
        self.settings = settings
        self.fence = fence
        self._ask_peer = ask
        self.handed_over = handed_over
        self.safeguards = safeguards or PairSafeguards()
        self.timing = role.timing
        self.view: PeerView | None = None
        self.asked_at: float | None = None
        self.report: PeerReport | None = None
        """The last one: of a peer that is gone it tells who was connected."""
        self.reported_at: float | None = None
        self.peer_identity = ""
        """Of the peer's certificate, where the list names nobody else; empty where several may call."""
        self._reason_at: float | None = None
        """When somebody else's word was last a reason to ask the peer."""
        self._agents_word = ""
        self.fence_report = FenceReport("not tried yet")
        self._turn = asyncio.Lock()
        self._change: asyncio.Task[Any] | None = None
        """That goes on without whoever asked for it."""
        self._refused = 0
        """Tokens, since one was last noted."""
        self._noted: deque[float] = deque(maxlen=NOTED_REFUSALS)
        self.something_heard = asyncio.Event()
        self.fence_due = asyncio.Event()
        self.peer_due = asyncio.Event()

    @property
    def handshake(self) -> Handshake:
        return self.role.handshake

    @property
    def serves_replicas(self) -> bool:
        """Also while it hands over: the last changes go to the replica then."""
        return self.role.state is HaState.ACTIVE or self.role.detail is StateDetail.DEMOTING

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One change of role at a time."""
        async with asyncio.timeout(TURN_SECONDS):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()
            self.fence_due.set()
            self.peer_due.set()

    async def prove_fence(self) -> None:
        """Raises RefusedRoleChangeError where it does not stand as the record says."""
        self.fence_report = await self.fence.prove(self.role.held_record())
        if not self.fence_report.stands:
            raise RefusedRoleChangeError(self.fence_report.problem)

    # The replica's word.

    def syncing(self) -> None:
        """Only the first sync is a state; later ones leave a copy that can be promoted."""
        role = self.role
        if (role.state, role.detail) == (HaState.DISCONNECTED, StateDetail.NONE) and self._has_diverged:
            role.show(role.state, StateDetail.DIVERGED, role.reason)

    def in_sync(self) -> None:
        """Told again when a comparison is equal: until then one that has diverged stays so."""
        role = self.role
        if role.state not in {HaState.SYNCING, HaState.DISCONNECTED}:
            return
        if role.detail in {StateDetail.NONE, StateDetail.DIVERGED} and not self._has_diverged:
            role.show(HaState.REPLICATING)

    @property
    def _has_diverged(self) -> bool:
        progress = self.role.replica.progress()
        # With one of argocd-agent's nothing can be compared.
        if not progress.may_have_surplus or progress.follows_argocd_agent:
            return False
        return self.role.is_passed(self.view.handshake if self.view else None)

    def disconnected(self, reason: str) -> None:
        role = self.role
        if role.state is HaState.REPLICATING:
            role.show(HaState.DISCONNECTED, reason=reason)
        elif role.state in {HaState.SYNCING, HaState.DISCONNECTED} and role.detail is StateDetail.NONE:
            role.reason = reason

    # The peer's word.

    def heard(self, theirs: Handshake) -> None:
        """What the peer says of itself over mutual TLS. Proof is its own word of a higher epoch, nothing else is."""
        if differences(self.handshake, theirs):
            return
        self.view, self.asked_at = PeerView(handshake=theirs), self.timing.monotonic()
        self._act_on(theirs)

    def called(self, identity: str, theirs: Handshake) -> None:
        """Somebody on the list has called. Where that has several, the peer is whoever answers at its address."""
        if identity == self.peer_identity:
            self.heard(theirs)
        elif self._is_reason(theirs):
            self._ask_soon()

    async def is_peer(self, identity: str, theirs: Handshake) -> bool:
        """Whether a caller is who it says, the peer in that state: by its certificate, or by the peer's own answer."""
        if identity == self.peer_identity:
            return True
        view = await self.ask()
        told = None if view is None or view.problem else view.handshake
        return told is not None and (told.principal, told.state) == (theirs.principal, theirs.state)

    def _act_on(self, theirs: Handshake) -> None:
        if self._is_reason(theirs):
            self.something_heard.set()

    def _is_reason(self, theirs: Handshake) -> bool:
        return self.role.is_news(theirs) or self.role.state is HaState.RECOVERING

    def heard_of(self, principal: str) -> None:
        """An agent has obeyed the peer: a reason to ask it now, never proof of anything."""
        record = self.role.record
        if record is None or not principal or principal != record.peer:
            return
        self._agents_word = principal
        self._ask_soon()

    def _ask_soon(self) -> None:
        now = self.timing.monotonic()
        if self._reason_at is None or now - self._reason_at >= OTHERS_WORD_SECONDS:
            self._reason_at = now
            self.peer_due.set()

    # The peer, asked.

    async def ask(self) -> PeerView | None:
        if self._ask_peer is None:
            return None
        word, self._agents_word = self._agents_word, ""
        try:
            answer = await self._ask_peer()
        except PeerRefusedError as error:
            view = PeerView(problem=str(error), handshake=error.handshake)
        except PeerUnreachableError as error:
            view = PeerView(problem=str(error))
        else:
            if answer.report is not None:
                self.report, self.reported_at = answer.report, self.timing.monotonic()
            told = answer.handshake
            differing = () if told is None else tuple(differences(self.handshake, told))
            view = PeerView(handshake=told, plain_state=answer.plain_state, differences=differing)
        former, self.view, self.asked_at = self.view, view, self.timing.monotonic()
        if word and view.problem and view.handshake is None and self.role.state is HaState.ACTIVE:
            PEER_UNKNOWN.inc()
            log.error(
                "an agent has obeyed the peer, which cannot be asked: this one serves on",
                **{logs.PEER: word, logs.REASON: view.problem},
            )
        if view.handshake is not None:
            # Also what a refusal says: a higher epoch counts wherever it is told.
            if not differences(self.handshake, view.handshake):
                self._act_on(view.handshake)
        elif self.role.state is HaState.ACTIVE and view.is_active and view != former:
            log.error("argocd-agent's principal is active too: demote one of the two")
        return view

    async def check_fence(self, *, seconds: float = CHECK_SECONDS) -> FenceReport:
        record = self.role.record
        report = (
            FenceReport("there is no record yet")
            if record is None
            else await self.fence.prove(record, seconds=seconds)
        )
        if report.problem and report != self.fence_report:
            log.warning("this cluster is not fenced", **{logs.REASON: report.problem})
        self.fence_report = report
        return report
