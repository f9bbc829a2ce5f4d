"""What an agent is told when its stream begins, when a comparison finds differences, and when it asks."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from argocd.agents.checksums import ResourceKey, inventory_checksum, resource_key
from argocd.agents.identity import is_managed
from argocd.agents.messages import Sending
from argocd.agents.project_copies import bare_name
from argocd.agents.resync import (
    Side,
    UpdateRequest,
    answer_to,
    request_about,
    request_for,
    what_is_gone,
)
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Message, Mode, Target
from argocd.reading import value
from kube.store import Object
from sidecars.delivery.comparison import Difference
from sidecars.mirroring.drift import DriftGuard
from sidecars.mirroring.inventories import SPECS
from sidecars.mirroring.kinds import APPLICATION, BY_TRACKED, PROJECT, SyncedKind
from sidecars.mirroring.link import SendAttempt
from sidecars.mirroring.resync import Resync
from sidecars.mirroring.resync_events import ResyncEvents, resync_message
from sidecars.principal.agents import KnownAgent
from sidecars.principal.incoming import RefusedEventError
from sidecars.principal.operations import place_of
from sidecars.principal.outgoing import Sender, refreshed
from sidecars.principal.roles.held import HeldObjects
from sidecars.principal.state import HubState
from sidecars.wire.events import Event
from tiphys import logs

_ABOUT_EVERYTHING = frozenset({Message.REQUEST_SYNCED_RESOURCE_LIST, Message.REQUEST_RESOURCE_RESYNC})

log = logs.get_logger()


class PrincipalResync(Resync[KnownAgent]):
    def __init__(
        self,
        hub_state: HubState,
        *,
        sender: Sender,
        guard: DriftGuard,
        events: ResyncEvents,
        held: HeldObjects,
    ) -> None:
        super().__init__(side=Side.PRINCIPAL, events=events)
        self._hub_state = hub_state
        self._sender = sender
        self._guard = guard
        self._held = held

    def greet(self, agent: KnownAgent) -> None:
        """A stream begins: what is found out here waits in the outbox for it."""
        first = agent.meets()
        if first:
            agent.operations.begin(self._operations(agent))
        if agent.mode is Mode.AUTONOMOUS:
            self._greet_autonomous(agent, first=first)
        elif agent.link.compares:
            if first:
                agent.operations.hold()
            agent.link.compare_in_turn(SPECS)  # operations follow, when the agent has what they are for
        else:
            self._tell_state(agent, applications=first)
            if first:
                agent.link.send(self._events.resync_request())
            self.give_operations(agent)

    def _greet_autonomous(self, agent: KnownAgent, *, first: bool) -> None:
        if first:
            for kind, mirror in self._hub_state.mirrors_of(agent.name):
                self._guard.begin(kind, mirror, source=agent.name)
        if first and not agent.link.compares:
            self._ask_everything(agent)  # one of ours compares by itself
        self.give_operations(agent)

    def relieved(self, agent: KnownAgent) -> None:
        """What had no room is found out now. Until then no operation must come before what it is for."""
        if agent.mode is Mode.MANAGED:
            agent.operations.hold()
        else:
            self.give_operations(agent)

    def everything(self, agent: KnownAgent) -> Iterator[SendAttempt]:
        """For an agent that does not compare, after something did not fit into its queue."""
        if agent.mode is Mode.MANAGED:
            for kind, item in self._hub_state.all_expected(agent.name):
                name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
                yield partial(self._tell_again, agent, kind, name, namespace)
            yield lambda: agent.link.send(self._events.resync_request())
        else:
            # It may have been a question that found no room, and those of the next round would be the same.
            yield from self._questions(agent)
        yield partial(self.give_operations, agent)

    def _tell_again(self, agent: KnownAgent, kind: SyncedKind, name: str, namespace: str) -> bool:
        item = self._hub_state.expected(agent.name, kind, name, namespace)
        if item is None:
            return True  # gone meanwhile, and told so
        message = Message.CREATE if kind is APPLICATION else Message.SPEC_UPDATE
        return self._sender.send([_without_operation(agent, message, kind, item)])

    def give_operations(self, agent: KnownAgent) -> bool:
        """Whether there was room for all that are due."""
        for application in agent.operations.take_due(self._operations(agent)):
            self._sender.give(agent, application)
        return agent.operations.settle()

    def repair(self, agent: KnownAgent, differences: list[Difference]) -> None:
        """By what holds now: the comparison may be older than a change."""
        naming = self._hub_state.naming(Mode.MANAGED)
        found = [(difference, *naming.parsed(difference.key)) for difference in differences]
        # Applications last: of what is sent together they wait for what they need.
        for difference, kind, name, namespace in sorted(found, key=lambda each: each[1] is APPLICATION):
            expected = self._hub_state.expected(agent.name, kind, name, namespace)
            message = Message.CREATE if difference.theirs is None else Message.SPEC_UPDATE
            if expected is None:
                if not self._holds(agent, kind, name, namespace):
                    gone = {"metadata": {"name": name, "namespace": namespace or agent.name}}
                    left = self._as_left(gone, agent, kind, name, namespace)
                    self._tell(agent, Message.DELETE, kind, left)
            else:
                self._tell(agent, message, kind, expected)

    def _as_left(
        self, gone: Object, agent: KnownAgent, kind: SyncedKind, name: str, namespace: str
    ) -> Object:
        """One that is still here, but the agent's no more, is withdrawn with its finalizers: what it deployed goes too."""
        here = self._hub_state.applications.get(name, namespace=namespace or agent.name)
        finalizers = value(here, "metadata", "finalizers")
        if kind is not APPLICATION or not finalizers:
            return gone
        return {"metadata": {**gone["metadata"], "finalizers": finalizers}}

    def _holds(self, agent: KnownAgent, kind: SyncedKind, name: str, namespace: str) -> bool:
        home = namespace or agent.name if kind is APPLICATION else self._hub_state.settings.namespace
        return self._held.holds(agent.name, kind=kind.resource.kind, namespace=home, name=name)

    # Resync messages of agents that do not compare.

    def resync(self, peer: KnownAgent, event: Event) -> None:
        """Of an agent that asks more than it could need to know no more is answered for a while; what it lacks
        then the next round finds.
        """
        lists = resync_message(event) in _ABOUT_EVERYTHING
        if not (peer.lists if lists else peer.questions).take():
            log.warning("asks too often: not answered", **{logs.AGENT: peer.name, logs.KIND: event.type})
            return
        if lists:
            peer.allow_questions(self._hub_state.size_of(peer.name))
        super().resync(peer, event)

    def _mode(self, peer: KnownAgent) -> Mode:
        return peer.mode

    def _send(self, peer: KnownAgent, event: Event) -> bool:
        return peer.link.send(event)

    def _not_accepted(self, peer: KnownAgent, message: Message) -> RefusedEventError:
        return RefusedEventError(f"{message.word} is nothing that a principal answers to {peer.mode} agents")

    def _answer(self, peer: KnownAgent, request: UpdateRequest) -> None:
        kind = BY_TRACKED.get(request.kind)
        if kind is None:
            raise RefusedEventError(f"{request.kind[:40]!r} is no kind that is kept in step")
        namespace = self._namespace(request)
        peer.round.asked(self._hub_state.naming(Mode.MANAGED).key(kind, request.name, namespace=namespace))
        expected = self._hub_state.expected(peer.name, kind, request.name, namespace)
        message = answer_to(request, expected)
        if (
            message is Message.DELETE
            and expected is None
            and self._holds(peer, kind, request.name, namespace)
        ):
            return
        if message is not None:
            gone = self._as_left(what_is_gone(request), peer, kind, request.name, namespace)
            self._tell(peer, message, kind, expected if expected is not None else gone)

    def ask_now_and_then(self, agent: KnownAgent) -> None:
        """Of one that does not compare."""
        if agent.mode is Mode.AUTONOMOUS:
            self._ask_everything(agent)
            agent.expect_word(map(place_of, self._hub_state.applications_of(agent.name)))
            return
        naming = self._hub_state.naming(Mode.MANAGED)
        for kind, name, namespace in map(naming.parsed, agent.round.lacking):
            expected = self._hub_state.expected(agent.name, kind, name, namespace)
            if expected is not None:
                self._tell(agent, Message.CREATE, kind, expected)
        agent.begin_round(
            naming.key(kind, item["metadata"]["name"], namespace=item["metadata"]["namespace"])
            for kind, item in self._hub_state.all_expected(agent.name)
        )
        agent.link.send(self._events.resync_request())

    def ask_how_it_stands(self, agent: KnownAgent, given: Event) -> None:
        """Its status without an operation may be from before it was given one, or from after that was over.

        No message asks for a status. A refresh has a managed agent's controller write one; an autonomous
        agent tells its whole Application to whoever has none.
        """
        namespace, _, name = given.subject.partition("/")
        if agent.mode is Mode.AUTONOMOUS:
            request = UpdateRequest(APPLICATION.tracked, name, namespace)
            agent.link.send(self._events.update_request(request))
            return
        application = self._hub_state.expected(agent.name, APPLICATION, name, namespace)
        if application is None:
            return
        self._tell(agent, Message.SPEC_UPDATE, APPLICATION, refreshed(application))

    def _namespace(self, request: UpdateRequest) -> str:
        by_namespace = self._hub_state.settings.mapped_by is AgentMapping.NAMESPACE
        return "" if by_namespace else request.namespace

    def _tracked(self, peer: KnownAgent) -> Iterator[ResourceKey]:
        """Mapped by namespaces, argocd-agent's agent looks for an Application in the namespace that it is told: in
        ours it would find none, and ask for all of them.
        """
        by_namespace = self._hub_state.settings.mapped_by is AgentMapping.NAMESPACE
        home = self._hub_state.homes.get(peer.name) if by_namespace else None
        for kind, item in self._hub_state.all_expected(peer.name):
            key = resource_key(kind.tracked, item)
            yield replace(key, namespace=home) if home and kind is APPLICATION else key

    def _ask_everything(self, agent: KnownAgent) -> None:
        for ask in self._questions(agent):
            ask()  # what finds no room is asked once more by the link

    def _questions(self, agent: KnownAgent) -> Iterator[SendAttempt]:
        """Mirrors are counted by the agent's own names of them: its inventory has those."""
        mirrors = list(self._hub_state.mirrors_of(agent.name))
        checksum = inventory_checksum([self._own_key(agent, kind, item) for kind, item in mirrors])
        yield lambda: agent.link.send(self._events.list_request(checksum))
        for kind, item in mirrors:
            yield partial(self._ask_update, agent, kind, item)

    def _own_key(self, agent: KnownAgent, kind: SyncedKind, mirror: Object) -> ResourceKey:
        key = resource_key(kind.tracked, mirror)
        return replace(key, name=bare_name(agent.name, key.name)) if kind is PROJECT else key

    def _ask_updates(self, peer: KnownAgent) -> None:
        for kind, item in self._hub_state.mirrors_of(peer.name):
            self._ask_update(peer, kind, item)

    def _ask_update(self, agent: KnownAgent, kind: SyncedKind, mirror: Object) -> bool:
        request = request_for(kind.tracked, mirror)
        if kind is APPLICATION and agent.is_silent(place_of(mirror)):
            # No checksum tells of a status: without one the whole Application comes.
            request = replace(request, checksum=None)
        return agent.link.send(self._events.update_request(request))

    def _request_about(self, peer: KnownAgent, resource: ResourceKey) -> UpdateRequest | None:
        kind = BY_TRACKED.get(resource.kind)
        if kind not in (PROJECT, APPLICATION):
            return None  # an autonomous agent has nothing else to tell
        assert kind is not None
        mirror = self._hub_state.mirror(peer.name, kind, resource.name)
        if mirror is not None and not is_managed(mirror):
            raise RefusedEventError(f"{resource.kind} {resource.name}: there is another one of that name")
        return request_about(resource, mirror)

    # State.

    def _tell_state(self, agent: KnownAgent, *, applications: bool) -> None:
        """All that a managed agent shall have; Applications only where it may not have heard of them."""
        for kind, item in self._hub_state.all_expected(agent.name):
            if kind is not APPLICATION:
                self._tell(agent, Message.SPEC_UPDATE, kind, item)
            elif applications:
                self._tell(agent, Message.CREATE, kind, item)

    def _tell(self, agent: KnownAgent, message: Message, kind: SyncedKind, item: Object) -> None:
        self._sender.send([_without_operation(agent, message, kind, item)])

    def _operations(self, agent: KnownAgent) -> Iterator[Object]:
        for application in self._hub_state.applications_of(agent.name):
            if value(application, "operation") is not None:
                yield application


def _without_operation(agent: KnownAgent, message: Message, kind: SyncedKind, item: Object) -> Sending:
    """Operations are given by messages of their own."""
    told = {key: part for key, part in item.items() if key != "operation"}
    return Sending(agent.name, message, Target(kind.target), told)
