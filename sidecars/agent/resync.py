"""What an agent asks and answers so that both ends have the same: by comparison, or by resync messages."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from argocd.agents.checksums import ResourceKey, inventory_checksum, resource_key
from argocd.agents.identity import is_managed
from argocd.agents.namespaces import PeerUnknownError
from argocd.agents.project_copies import bare_name
from argocd.agents.resync import (
    ResyncError,
    Side,
    UpdateRequest,
    answer_to,
    namespace_to_look_in,
    request_about,
    request_for,
    what_is_gone,
)
from argocd.agents.vocabulary import Message, Mode
from argocd.reading import text
from kube.store import Object
from sidecars.agent.incoming import NotTakenError
from sidecars.agent.outgoing import Tell
from sidecars.agent.settings import AgentSettings
from sidecars.agent.state import AgentState
from sidecars.delivery.comparison import Difference
from sidecars.mirroring.inventories import SPECS, STATUS
from sidecars.mirroring.kinds import APPLICATION, BY_TRACKED, PROJECT, SyncedKind
from sidecars.mirroring.link import Link, SendAttempt
from sidecars.mirroring.resync import Resync
from sidecars.mirroring.resync_events import (
    ROUND_INTERVALS,
    ResyncEvents,
    ResyncRound,
)
from sidecars.wire.events import Event

QUESTION_SECONDS = 0.5
"""Between two questions of a round: a fifth of what such a principal can deal with."""


class AgentResync(Resync[Link]):
    def __init__(
        self,
        *,
        settings: AgentSettings,
        agent_state: AgentState,
        events: ResyncEvents,
        tell: Tell,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(side=Side.AGENT, events=events)
        self._settings = settings
        self._agent_state = agent_state
        self._tell = tell
        self._clock = clock
        self._asked = False
        self._round = ResyncRound()
        self._told: dict[tuple[str, str], float] = {}
        """When the principal last heard of an Application's status."""

    def greet(self, link: Link) -> None:
        """A stream begins."""
        managed = self._settings.mode is Mode.MANAGED
        if link.compares:
            link.compare(STATUS if managed else SPECS)
            return
        if not self._asked:
            self._asked = True
            for tell in self.everything(link):
                tell()  # what finds no room is told once more by the link

    def everything(self, link: Link) -> Iterator[SendAttempt]:
        """For a principal that does not compare: the first time, and when something found no room."""
        if self._settings.mode is Mode.AUTONOMOUS:
            for kind, item in self._agent_state.own():
                yield partial(self._tell_own, kind, item["metadata"]["name"])
            yield lambda: link.send(self._events.resync_request())
            return
        yield partial(self._ask_list, link)
        for kind, item in self._agent_state.copies():
            name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
            yield partial(self._ask_update, link, kind, name, namespace)
            if kind is APPLICATION:
                yield partial(self._tell_status, namespace, name)

    async def ask_now_and_then(self, link: Link) -> None:
        """Of a principal that does not compare. It deals with its agent's events one by one, some ten a second:
        the questions of a round are spread over the time until the next.
        """
        questions = list(self._questions(link))
        seconds = self._settings.compare_seconds * (ROUND_INTERVALS - 1)
        for ask in questions:
            if not link.connected:
                return
            ask()  # what finds no room is told once more by the link
            await asyncio.sleep(max(QUESTION_SECONDS, seconds / len(questions)))

    def _questions(self, link: Link) -> Iterator[SendAttempt]:
        """As if this process had just begun, but without the state that a checksum shows to be the same."""
        began = self._clock()
        if self._settings.mode is Mode.AUTONOMOUS:
            yield partial(self._begin_round, link)
        else:
            yield partial(self._ask_list, link)
            for kind, item in self._agent_state.copies():
                yield partial(
                    self._ask_update, link, kind, item["metadata"]["name"], item["metadata"]["namespace"]
                )
        # No checksum tells of a status. Controllers write one every few minutes: those are told anyway.
        for (namespace, name), moment in sorted(self._applications_told()):
            if moment < began - self._settings.compare_seconds:
                yield partial(self._tell_status, namespace, name)

    def _applications_told(self) -> Iterator[tuple[tuple[str, str], float]]:
        mine = (
            self._agent_state.own() if self._settings.mode is Mode.AUTONOMOUS else self._agent_state.copies()
        )
        for kind, item in mine:
            if kind is APPLICATION:
                place = item["metadata"]["namespace"], item["metadata"]["name"]
                yield place, self._told.get(place, float("-inf"))

    def told(self, message: Message, kind: SyncedKind, item: Object) -> None:
        if kind is APPLICATION:
            place = text(item, "metadata", "namespace"), text(item, "metadata", "name")
            if message is Message.DELETE:
                self._told.pop(place, None)
            else:
                self._told[place] = self._clock()

    def question_heard(self) -> None:
        """The one that begins a round."""
        self._round.heard()

    def _begin_round(self, link: Link) -> bool:
        for kind, name, _ in map(self._agent_state.naming.parsed, self._round.lacking):
            self._repair_own(kind, name, known=False)
        self._round = ResyncRound(self._agent_state.key(kind, item) for kind, item in self._agent_state.own())
        return link.send(self._events.resync_request())

    def _ask_list(self, link: Link) -> bool:
        """argocd-agent's principal does not track projects by agent; it tells all of them at each connection."""
        copies = (pair for pair in self._agent_state.copies() if pair[0] is not PROJECT)
        keys = [resource_key(kind.tracked, item) for kind, item in copies]
        return link.send(self._events.list_request(inventory_checksum(keys)))

    def _tell_own(self, kind: SyncedKind, name: str) -> bool:
        local = self._agent_state.get(kind, name=name, namespace=self._settings.namespace)
        return local is None or self._tell(Message.CREATE, kind, local)

    def _tell_status(self, namespace: str, name: str) -> bool:
        local = self._agent_state.get(APPLICATION, name=name, namespace=namespace)
        message = Message.STATUS_UPDATE if self._settings.mode is Mode.MANAGED else Message.SPEC_UPDATE
        return local is None or self._tell(message, APPLICATION, local)

    def repair(self, scope: str, differences: list[Difference]) -> None:
        """By what holds now: the comparison may be older than a change."""
        for difference in differences:
            kind, name, namespace = self._agent_state.naming.parsed(difference.key)
            if self._settings.mode is Mode.AUTONOMOUS:
                self._repair_own(kind, name, known=difference.theirs is not None)
            elif scope == STATUS:
                local = self._local(kind, name, namespace)
                if local is not None:
                    self._tell(Message.STATUS_UPDATE, kind, local)

    def _repair_own(self, kind: SyncedKind, name: str, *, known: bool) -> None:
        local = self._agent_state.get(kind, name=name, namespace=self._settings.namespace)
        if local is not None and self._agent_state.concerns(kind, local):
            self._tell(Message.SPEC_UPDATE if known else Message.CREATE, kind, local)
        elif known:
            gone = {"metadata": {"name": name, "namespace": self._settings.namespace}}
            self._tell(Message.DELETE, kind, gone)

    # Resync messages.

    def _mode(self, peer: Link) -> Mode:
        return self._settings.mode

    def _send(self, peer: Link, event: Event) -> bool:
        return peer.send(event)

    def _not_accepted(self, peer: Link, message: Message) -> NotTakenError:
        return NotTakenError(f"{message.word} is nothing that {self._settings.mode} agents answer")

    def _answer_list(self, peer: Link, *, checksum: bytes | None) -> None:
        """A principal may count its mirrors by their names or by ours: two equal inventories are, either way."""
        own = [resource_key(kind.tracked, item) for kind, item in self._agent_state.own()]
        if own and checksum == inventory_checksum(own):
            return
        super()._answer_list(peer, checksum=checksum)

    def _tracked(self, peer: Link) -> Iterator[ResourceKey]:
        """As argocd-agent's principal calls its mirrors."""
        for kind, item in self._agent_state.own():
            mirror = self._agent_state.at_principal(kind, item)
            key = resource_key(kind.tracked, mirror if mirror is not None else item)
            yield ResourceKey(key.kind, key.name, key.uid, self._settings.namespace)

    def _answer(self, peer: Link, request: UpdateRequest) -> None:
        kind = BY_TRACKED.get(request.kind)
        if kind not in (PROJECT, APPLICATION):
            raise NotTakenError(f"{request.kind[:40]!r} is no kind that an autonomous agent has")
        assert kind is not None
        name = bare_name(self._agent_state.name, request.name) if kind is PROJECT else request.name
        self._round.asked(self._agent_state.naming.key(kind, name))
        local = self._agent_state.get(kind, name=name, namespace=self._settings.namespace)
        if local is not None and not self._agent_state.concerns(kind, local):
            local = None
        expected = self._agent_state.at_principal(kind, local) if local is not None else None
        message = answer_to(request, expected)
        if message is Message.DELETE:
            gone = what_is_gone(request)
            self._tell(message, kind, {"metadata": {**gone["metadata"], "name": name}})
        elif message is not None and local is not None:
            # A request without a checksum: it is not there, and only a creation makes it.
            self._tell(Message.CREATE if not request.checksum else message, kind, local)

    def _request_about(self, peer: Link, resource: ResourceKey) -> UpdateRequest | None:
        kind = BY_TRACKED.get(resource.kind)
        if kind is None:
            raise NotTakenError(f"{resource.kind[:40]!r} is no kind that is kept in step")
        namespace = namespace_to_look_in(
            resource.kind,
            resource.namespace,
            side=Side.AGENT,
            own_namespace=self._settings.namespace,
            agent=self._agent_state.name,
            mode=self._settings.mode,
            mapped_by=self._settings.mapped_by,
            peer_namespace=self._agent_state.principal_namespace,
        )
        local = self._agent_state.get(kind, name=resource.name, namespace=namespace)
        try:
            return request_about(
                resource,
                local,
                peer_namespace=self._agent_state.principal_namespace,
                ignore_unmanaged=self._settings.ignore_unmanaged,
            )
        except (ResyncError, PeerUnknownError) as error:
            raise NotTakenError(str(error)) from error

    def _ask_updates(self, peer: Link) -> None:
        for kind, item in self._agent_state.copies():
            self._ask_update(peer, kind, item["metadata"]["name"], item["metadata"]["namespace"])

    def _ask_update(self, link: Link, kind: SyncedKind, name: str, namespace: str) -> bool:
        item = self._agent_state.get(kind, name=name, namespace=namespace)
        if item is None or not is_managed(item):
            return True
        try:
            request = request_for(kind.tracked, item, peer_namespace=self._agent_state.principal_namespace)
        except PeerUnknownError:
            return True  # the principal did not say where it lives: an old one
        return link.send(self._events.update_request(request))

    def _local(self, kind: SyncedKind, name: str, namespace: str) -> Object | None:
        here = self._settings.namespace
        if namespace and namespace != self._agent_state.principal_namespace:
            here = namespace
        found = self._agent_state.get(kind, name=name, namespace=here)
        return found if text(found, "metadata", "name") else None
