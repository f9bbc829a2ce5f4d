"""What a change on the control plane means to agents: watch events become events in outboxes."""

from collections.abc import Callable, Iterable
from typing import Any

from argocd import names
from argocd.agents import ignore_sync
from argocd.agents.messages import (
    Sending,
    application_sendings,
    project_sendings,
    repository_sendings,
    strands_its_deletion,
)
from argocd.agents.routing import is_autonomous_mirror, project_of_repository
from argocd.agents.vocabulary import Message, Mode, Target
from argocd.applications.sources import project_of
from argocd.reading import mapping, text, value
from kube.store import Object
from sidecars.mirroring.drift import DriftGuard, key_of
from sidecars.mirroring.kinds import APPLICATION, PROJECT, RESTORED, SyncedKind
from sidecars.mirroring.workqueue import WorkQueue
from sidecars.mirroring.writer import MirrorWriter
from sidecars.principal.agents import KnownAgent, KnownAgents
from sidecars.principal.operations import place_of
from sidecars.principal.state import HubState
from sidecars.wire.events import Event, object_event
from tiphys import logs

log = logs.get_logger()

_STATE = frozenset({Message.CREATE, Message.SPEC_UPDATE})
# As argocd-agent: keys and operations do not say which principal sent them.
_WITHOUT_UID = frozenset({Message.SET_OPERATION, Message.TERMINATE_OPERATION})


class Sender:
    """Sendings into outboxes. Copies that several agents share are encoded once."""

    def __init__(self, known_agents: KnownAgents, *, principal_uid: str, namespace: str) -> None:
        self._known_agents = known_agents
        self._uid = principal_uid
        self._namespace = namespace

    def send(self, sendings: Iterable[Sending]) -> bool:
        """Whether there was room for all. An Application leaves when its project and repositories are there: Argo CD
        calls it invalid otherwise, until it looks again.
        """
        fits = True
        # The objects are kept with their events: an id is good only as long as its object lives.
        made: dict[tuple[int, Message], tuple[Any, Event]] = {}
        for sending in sendings:
            agent = self._known_agents.get(sending.agent)
            if agent is None:
                continue
            operates = sending.message is Message.SET_OPERATION
            if operates and not agent.operations.gives(sending.object):
                continue
            place = (id(sending.object), sending.message)
            if place not in made:
                restored = operates and agent.operations.is_unsure(sending.object)
                made[place] = (sending.object, self.event(sending, restored=restored))
            event = made[place][1]
            provides, needs = self._projects(sending)
            if not agent.link.send(event, provides=provides, needs=needs):
                fits = False
                if operates:
                    agent.operations.found_no_room(sending.object)
            if logs.debugs():
                fields = {logs.OPERATION: sending.message.word, logs.KIND: sending.target.value}
                log.debug("told", **{logs.AGENT: sending.agent, logs.KEY: event.subject}, **fields)
        return fits

    def _projects(self, sending: Sending) -> tuple[str, str]:
        """The project that it brings, or helps to bring, and the one that it needs."""
        if sending.message not in _STATE:
            return "", ""
        match sending.target:
            case Target.PROJECT:
                return text(sending.object, "metadata", "name"), ""
            case Target.REPOSITORY:
                return project_of_repository(sending.object, argocd_namespace=self._namespace), ""
            case Target.APPLICATION:
                return "", project_of(mapping(sending.object, "spec"))
            case _:
                return "", ""

    def give(self, agent: KnownAgent, application: Object) -> None:
        """The operation of an Application."""
        self.send([Sending(agent.name, Message.SET_OPERATION, Target.APPLICATION, application)])

    def event(self, sending: Sending, *, restored: bool = False) -> Event:
        named = sending.target is not Target.GPG_KEYS and sending.message not in _WITHOUT_UID
        return object_event(
            sending.message,
            target=sending.target,
            obj=sending.object,
            principal_uid=self._uid if named else "",
            extensions={RESTORED: "true"} if restored else None,
        )


class PrincipalOutgoing:
    def __init__(
        self,
        hub_state: HubState,
        known_agents: KnownAgents,
        *,
        sender: Sender,
        guard: DriftGuard,
        writer: MirrorWriter,
        workqueue: WorkQueue,
    ) -> None:
        self._hub_state = hub_state
        self._known_agents = known_agents
        self._sender = sender
        self._guard = guard
        self._writer = writer
        self._workqueue = workqueue

    def begin(self) -> list[Callable[[], None]]:
        """No agent is known until the caches have synced, so their first lists tell nobody anything. Returns what
        ends it.
        """
        return [
            self._hub_state.projects.subscribe(self._project),
            self._hub_state.applications.subscribe(self._application),
            self._hub_state.repositories.subscribe(self._repository),
            self._hub_state.gpg_keys.subscribe(self._gpg_keys),
        ]

    # Projects, and the repositories that go where they go.

    def _project(self, old: Object | None, new: Object | None) -> None:
        agents = self._hub_state.agents
        self._watch_over(PROJECT, old, new)
        self._sender.send(project_sendings(old, new, agents=agents))
        self._refresh_applications(old, new)
        if old is not None and new is not None and strands_its_deletion(old, new):
            self._strip_finalizers(PROJECT, new)
        name = text(new or old, "metadata", "name")
        secrets = self._hub_state.repositories_of(name)
        if secrets:
            before, after = agents.for_project(old), agents.for_project(new)
            for secret in secrets:
                self._tell_repository(secret, secret, sent_to=before, reached=after)

    def _refresh_applications(self, old: Object | None, new: Object | None) -> None:
        """Applications that an agent has without this project: the two are watched apart, so the later may come first."""
        if new is None:
            return
        name = text(new, "metadata", "name")
        for agent in self._hub_state.agents.for_change(old, new).gained:
            for application in self._hub_state.applications_of(agent):
                if project_of(mapping(application, "spec")) == name:
                    told = refreshed(application)
                    self._sender.send([Sending(agent, Message.SPEC_UPDATE, Target.APPLICATION, told)])

    def _repository(self, old: Object | None, new: Object | None) -> None:
        sent_to = self._agents_of(old)
        self._tell_repository(old, new, sent_to=sent_to, reached=self._agents_of(new))

    def _agents_of(self, secret: Object | None) -> list[str]:
        if secret is None:
            return []
        namespace = self._hub_state.settings.namespace
        project = project_of_repository(secret, argocd_namespace=namespace)
        return self._hub_state.agents_of_project(project) if project else []

    def _tell_repository(
        self, old: Object | None, new: Object | None, *, sent_to: list[str], reached: list[str]
    ) -> None:
        # A Secret that was kept out by its label is new to everybody.
        known = None if old is not None and ignore_sync.is_ignored(old) else old
        self._sender.send(
            repository_sendings(
                known,
                new,
                sent_to=sent_to,
                agents_of=lambda _: reached,
                argocd_namespace=self._hub_state.settings.namespace,
            )
        )

    def _gpg_keys(self, old: Object | None, new: Object | None) -> None:
        before = None if ignore_sync.is_ignored(old) else old
        after = None if ignore_sync.is_ignored(new) else new
        if after is not None:
            message = Message.CREATE if before is None else Message.SPEC_UPDATE
        else:
            message = Message.DELETE
        told = after if after is not None else before
        if told is not None:
            managed = sorted(self._hub_state.agents.names(Mode.MANAGED))
            self._sender.send(Sending(agent, message, Target.GPG_KEYS, told) for agent in managed)

    # Applications.

    def _application(self, old: Object | None, new: Object | None) -> None:
        self._watch_over(APPLICATION, old, new)
        before, after = self._hub_state.admitted(old), self._hub_state.admitted(new)
        some = after if after is not None else before
        if some is None:
            return
        agent = self._known_agents.get(self._hub_state.agent_of(some))
        if agent is not None:
            before = agent.operations.as_known(before, after)
            if after is None:
                agent.operations.forget(place_of(some))
                agent.spoke(place_of(some))
            elif value(after, "operation") is None:
                agent.operations.over(after)
            else:
                agent.operations.adopts(old, after)
        self._sender.send(application_sendings(before, after, agents=self._hub_state.agents))

    # Mirrors.

    def _watch_over(self, kind: SyncedKind, old: Object | None, new: Object | None) -> None:
        if new is not None and self._is_mirror(new):
            self._guard.changed(kind, new)
            if value(new, "metadata", "deletionTimestamp") and value(new, "metadata", "finalizers"):
                self._strip_finalizers(kind, new)
        elif new is None and old is not None and self._is_mirror(old):
            self._guard.gone(kind, old)

    def _is_mirror(self, item: Object) -> bool:
        return is_autonomous_mirror(item, mode_of=self._hub_state.agents.mode_of)

    def _strip_finalizers(self, kind: SyncedKind, item: Object) -> None:
        """No controller on the control plane would ever do their work."""
        name, namespace = text(item, "metadata", "name"), text(item, "metadata", "namespace")

        def decide(there: Object | None) -> Object | None:
            if there is None or not value(there, "metadata", "finalizers"):
                return None
            metadata = {key: part for key, part in there["metadata"].items() if key != "finalizers"}
            return {**there, "metadata": metadata}

        async def strip() -> None:
            await self._writer.settle(
                kind.resource, name=name, namespace=namespace, cached=item, decide=decide
            )

        self._workqueue.put(("finalizers", *key_of(kind, item)), strip)


def refreshed(application: Object) -> Object:
    """With the annotation that has Argo CD look again; operations are given by messages of their own."""
    metadata = application["metadata"]
    annotations = {**mapping(metadata, "annotations"), names.REFRESH: "normal"}
    told = {**application, "metadata": {**metadata, "annotations": annotations}}
    told.pop("operation", None)
    return told
