"""What agents tell, written to the control plane."""

from collections.abc import Callable
from datetime import datetime

from argocd import names
from argocd.agents import copies
from argocd.agents.identity import IdentityAction, mirror_action
from argocd.agents.messages import Acceptance, principal_accepts
from argocd.agents.namespaces import at_principal
from argocd.agents.project_copies import (
    NameTooLongError,
    prefixed_name,
    project_at_principal,
    with_known_destinations,
)
from argocd.agents.vocabulary import Message, Mode, Target
from argocd.reading import text, value
from kube.errors import NotFoundError
from kube.resources import APPLICATIONS
from kube.store import Object, Store
from sidecars.delivery.outcomes import DeadLetter
from sidecars.mirroring.drift import DriftGuard
from sidecars.mirroring.kinds import APPLICATION, BY_TARGET, PROJECT, SyncedKind, message_of
from sidecars.mirroring.kube_events import EventReporter
from sidecars.mirroring.writer import MirrorWriter, WriteBusyError
from sidecars.principal.agents import KnownAgent
from sidecars.principal.outgoing import Sender
from sidecars.principal.state import HubState
from sidecars.wire import payloads
from sidecars.wire.events import Event
from sidecars.wire.json_objects import read_object
from tiphys import logs
from tiphys.errors import ObjectError

log = logs.get_logger()


class RefusedEventError(ObjectError):
    """An agent said something that it has no say in; acknowledged, reported, without effect."""


class PrincipalIncoming:
    def __init__(
        self,
        store: Store,
        *,
        hub_state: HubState,
        guard: DriftGuard,
        writer: MirrorWriter,
        now: Callable[[], datetime],
        sender: Sender,
        heard_of: Callable[[str], None],
    ) -> None:
        """`heard_of` is told whose copies managed agents speak of, by the principal's identity that these carry."""
        self._hub_state = hub_state
        self._heard_of = heard_of
        self._guard = guard
        self._writer = writer
        self._now = now
        self._reporter = EventReporter(store, now=now)
        self._sender = sender

    async def apply(self, agent: KnownAgent, event: Event) -> None:
        """An event about an object; raises what the inbox judges."""
        if event.type == Message.ERROR:
            await self._show_error(agent, payloads.read(payloads.ErrorData, event.payload))
            return
        kind, message = BY_TARGET[event.target], message_of(event)
        acceptance = principal_accepts(Target(event.target), message, mode=agent.mode)
        if acceptance is Acceptance.DISCARD:
            log.info("event discarded", **{logs.AGENT: agent.name, logs.KIND: event.type})
            return
        if acceptance is Acceptance.REFUSE:
            raise RefusedEventError(f"{event.type} of a {event.target} is not for {agent.mode} agents to say")
        incoming = read_object(event.payload)
        if agent.mode is Mode.MANAGED:
            await self._managed(agent, message, incoming)
        elif message is Message.DELETE:
            await self._withdraw(agent, kind, text(incoming, "metadata", "name"))
        else:
            await self._mirror(agent, kind, incoming)

    # What managed agents tell of the Applications that they were given.

    async def _managed(self, agent: KnownAgent, message: Message, incoming: Object) -> None:
        self._heard_of(text(incoming, "metadata", "annotations", names.PRINCIPAL_UID))
        settings = self._hub_state.settings
        namespace = at_principal(
            incoming,
            agent=agent.name,
            principal_namespace=settings.namespace,
            mapped_by=settings.mapped_by,
        )
        name = text(incoming, "metadata", "name")
        hub = self._own(agent, namespace=namespace, name=name)
        if hub is None:
            log.info("no such Application here", **{logs.AGENT: agent.name, logs.KEY: f"{namespace}/{name}"})
            return
        if message is Message.DELETE:
            fresh = await self._writer.get(APPLICATIONS, name=name, namespace=namespace)
            if fresh is not None and value(fresh, "metadata", "deletionTimestamp") is not None:
                await self._writer.delete_at_once(APPLICATIONS, fresh)
            return

        def decide(there: Object | None) -> Object | None:
            if there is None:
                return None
            over = value(incoming, "operation") is None
            pending = over and agent.operations.is_pending(there)
            return copies.status_applied(there, incoming, operation_pending=pending)

        place = (namespace, name)
        with agent.operations.telling(incoming, place=place):
            stored = await self._writer.settle(
                APPLICATIONS, name=name, namespace=namespace, cached=hub, decide=decide
            )
        agent.spoke(place)
        self._note_operation(agent, stored)

    def _own(self, agent: KnownAgent, *, namespace: str, name: str) -> Object | None:
        """An agent speaks of its own Applications only, whatever namespace it names."""
        return self._hub_state.expected(agent.name, APPLICATION, name, namespace)

    # What autonomous agents tell of their own objects.

    async def _mirror(self, agent: KnownAgent, kind: SyncedKind, incoming: Object) -> None:
        mirror = self._as_mirrored(agent, kind, incoming)
        name, namespace = text(mirror, "metadata", "name"), text(mirror, "metadata", "namespace")
        cache = self._hub_state.projects if kind is PROJECT else self._hub_state.applications
        cached = cache.get(name, namespace=namespace)
        if kind is PROJECT and not agent.link.compares:
            mirror = with_known_destinations(mirror, cached)

        def decide(there: Object | None) -> Object:
            return self._mirrored(agent, kind, there=there, mirror=mirror, incoming=incoming)

        async def settle(cached: Object | None) -> Object | None:
            return await self._writer.settle(
                kind.resource, name=name, namespace=namespace, cached=cached, decide=decide
            )

        async def settle_in_namespace() -> Object | None:
            try:
                return await settle(cached)
            except NotFoundError:
                if not self._hub_state.settings.may_create(namespace):
                    raise
                labels = {**self._hub_state.settings.namespace_labels, names.TIPHYS_AGENT: agent.name}
                await self._writer.create_namespace(namespace, labels=labels)
                return await settle(None)

        if kind is PROJECT:
            with self._guard.writing(kind, mirror, source=agent.name):
                await settle_in_namespace()
            return
        place = (namespace, name)
        with (
            agent.operations.telling(incoming, place=place, is_new=cached is None),
            self._guard.writing(kind, mirror, source=agent.name),
        ):
            stored = await settle_in_namespace()
        agent.spoke(place)
        self._note_operation(agent, stored)

    def _note_operation(self, agent: KnownAgent, stored: Object | None) -> None:
        """What is written last is the truth: an operation that stays there and was never given is, now."""
        if stored is None:
            return
        if value(stored, "operation") is None:
            agent.operations.over(stored)
        elif agent.operations.is_pending(stored):
            self._sender.give(agent, stored)

    def _mirrored(
        self, agent: KnownAgent, kind: SyncedKind, *, there: Object | None, mirror: Object, incoming: Object
    ) -> Object:
        """What shall be stored where `there` is; raises where that must not be touched."""
        name, namespace = text(mirror, "metadata", "name"), text(mirror, "metadata", "namespace")
        if mirror_action(there, mirror) is IdentityAction.REFUSE:
            raise RefusedEventError(
                f"{kind.resource.kind} {namespace}/{name} is not a mirror of agent {agent.name}'s:"
                " rename one of the two"
            )
        if value(there, "metadata", "deletionTimestamp") is not None:
            raise WriteBusyError(f"{kind.resource.kind} {namespace}/{name} has still to go")
        if there is None:
            return copies.stamped(None, mirror, now=self._now())
        if kind is PROJECT:
            return copies.stamped(there, copies.updated(there, mirror, content="spec"), now=self._now())
        operation = value(incoming, "operation")
        if operation is None and agent.operations.is_pending(there):
            operation = value(there, "operation")
        updated = copies.mirror_updated(there, mirror, operation=operation)
        return copies.stamped(there, updated, now=self._now())

    def _as_mirrored(self, agent: KnownAgent, kind: SyncedKind, incoming: Object) -> Object:
        settings = self._hub_state.settings
        try:
            if kind is PROJECT:
                mirror = project_at_principal(incoming, agent=agent.name, namespace=settings.namespace)
                mirror = copies.copied(mirror, namespace=settings.namespace)
                mirror["metadata"].pop("finalizers", None)
                return mirror
            cluster = self._hub_state.cluster_of(agent.name)
            if not cluster:
                raise RefusedEventError(f"no cluster Secret says what the cluster of {agent.name} is called")
            return copies.application_at_principal(incoming, agent=agent.name, cluster=cluster)
        except NameTooLongError as error:
            raise RefusedEventError(str(error)) from error

    async def _withdraw(self, agent: KnownAgent, kind: SyncedKind, name: str) -> None:
        settings = self._hub_state.settings
        namespace = settings.namespace if kind is PROJECT else agent.name
        if kind is PROJECT:
            try:
                name = prefixed_name(agent.name, name)
            except NameTooLongError:
                return  # it never was here
        self._guard.forget(kind, namespace=namespace, name=name)
        there = await self._writer.get(kind.resource, name=name, namespace=namespace)
        if there is None:
            return
        like = {"metadata": {}, "spec": {"sourceNamespaces": [agent.name]} if kind is PROJECT else {}}
        if mirror_action(there, like) is IdentityAction.REFUSE:
            raise RefusedEventError(f"{kind.resource.kind} {namespace}/{name} is not agent {agent.name}'s")
        self._guard.announce(there)
        await self._writer.delete_at_once(kind.resource, there)

    # What went wrong, where people look.

    async def _show_error(self, agent: KnownAgent, told: payloads.ErrorData) -> None:
        namespace = told.resource_namespace
        if self._hub_state.settings.mapped_by.value == "namespace" or agent.mode is Mode.AUTONOMOUS:
            namespace = agent.name
        await self._show(agent, namespace=namespace, name=told.resource_name, message=told.message)

    async def report_unapplied(self, agent: KnownAgent, letter: DeadLetter) -> None:
        """What an agent sent and we could not write: a condition of the Application, an Event about the rest."""
        if letter.event.target == Target.PROJECT and agent.reports.take():
            namespace = self._hub_state.settings.namespace
            name = f"{agent.name}-{letter.event.subject.rpartition('/')[2]}"
            await self._reporter.report(letter, PROJECT, namespace=namespace, name=name)
        if letter.event.target != Target.APPLICATION:
            return
        name = letter.event.subject.rpartition("/")[2]
        namespace = letter.event.subject.partition("/")[0] if agent.mode is Mode.MANAGED else agent.name
        message = f"agent {agent.name}: {letter.message}"
        await self._show(agent, namespace=namespace, name=name, message=message)

    async def report_unsent(self, agent: KnownAgent, letter: DeadLetter) -> None:
        """What the agent can never be told."""
        kind = BY_TARGET.get(letter.event.target)
        if kind is None:
            return
        namespace, _, name = letter.event.subject.partition("/")
        if kind is APPLICATION:
            message = f"not sent to agent {agent.name}: {letter.message}"
            await self._show(agent, namespace=namespace, name=name, message=message)
            return
        namespace = self._hub_state.settings.namespace
        await self._reporter.report(letter, kind, namespace=namespace, name=name)

    async def _show(self, agent: KnownAgent, *, namespace: str, name: str, message: str) -> None:
        hub = self._own(agent, namespace=namespace, name=name)
        if hub is None:
            return
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")

        def decide(there: Object | None) -> Object | None:
            return None if there is None else copies.error_shown(there, message=message[:1024], now=now)

        await self._writer.settle(
            APPLICATIONS,
            name=name,
            namespace=text(hub, "metadata", "namespace"),
            cached=hub,
            decide=decide,
        )
