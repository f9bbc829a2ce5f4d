"""What the principal gives, written to this cluster."""

from argocd.agents.copies import copied, updated
from argocd.agents.identity import (
    IdentityAction,
    deletion_action,
    is_managed,
    matches_source,
    mismatch_policy,
    project_action,
    repository_action,
)
from argocd.agents.messages import Acceptance, agent_accepts
from argocd.agents.vocabulary import Message, Mode, Target
from argocd.reading import text
from argocd.settings.secrets import secret_type
from kube.store import Object
from sidecars.agent.applications import Applications
from sidecars.agent.commands import Commands
from sidecars.agent.settings import AgentSettings
from sidecars.agent.state import AgentState
from sidecars.mirroring.drift import DriftGuard
from sidecars.mirroring.kinds import (
    APPLICATION,
    BY_TARGET,
    REPOSITORY,
    REPOSITORY_TYPES,
    SyncedKind,
    message_of,
)
from sidecars.mirroring.writer import HasToGoError, MirrorWriter
from sidecars.wire.events import Event
from sidecars.wire.json_objects import read_object
from tiphys import logs
from tiphys.errors import ObjectError

log = logs.get_logger()


class NotTakenError(ObjectError):
    """What the principal sent is not for this agent, or not over what is here."""


class AgentIncoming:
    def __init__(
        self,
        *,
        settings: AgentSettings,
        agent_state: AgentState,
        guard: DriftGuard,
        writer: MirrorWriter,
        applications: Applications,
        commands: Commands,
    ) -> None:
        self._settings = settings
        self._agent_state = agent_state
        self._guard = guard
        self._writer = writer
        self._applications = applications
        self._commands = commands

    async def apply(self, event: Event) -> None:
        """An event about an object; raises what the inbox judges."""
        kind, message = BY_TARGET[event.target], message_of(event)
        acceptance = agent_accepts(Target(event.target), message, mode=self._settings.mode)
        if acceptance is Acceptance.DISCARD:
            log.info("event discarded", **{logs.KIND: event.type, logs.KEY: event.subject})
            return
        if acceptance is Acceptance.REFUSE:
            raise NotTakenError(f"{event.type} of a {event.target} is nothing that this agent takes")
        incoming = read_object(event.payload)
        if kind is APPLICATION:
            if message in {Message.SET_OPERATION, Message.TERMINATE_OPERATION}:
                await self._commands.carry_out(message, incoming, event)
            elif self._settings.mode is Mode.AUTONOMOUS:
                await self._commands.refresh(incoming)
            else:
                await self._applications.apply(message, incoming, principal_uid=event.principal_uid)
        elif message is Message.DELETE:
            await self._withdraw(kind, incoming)
        else:
            await self._copy(kind, incoming)

    # Projects, repositories, the key ring.

    async def _copy(self, kind: SyncedKind, incoming: Object) -> None:
        if kind is REPOSITORY and secret_type(incoming) not in REPOSITORY_TYPES:
            raise NotTakenError("a Secret that is no repository and has no credentials of one: not written")
        namespace, name = self._settings.namespace, text(incoming, "metadata", "name")
        copy = copied(incoming, namespace=namespace)
        copy.pop("status", None)  # the local project's own
        mismatch = mismatch_policy(incoming, self._settings.mismatch)
        stale: list[Object] = []

        def decide(local: Object | None) -> Object | None:
            stale.clear()
            found = {
                "exists": local is not None,
                "managed": local is not None and is_managed(local),
                "source_matches": local is not None and matches_source(local, incoming),
            }
            judge = repository_action if kind is REPOSITORY else project_action
            action = judge(**found, mismatch=mismatch)
            if action is IdentityAction.REFUSE:
                raise NotTakenError(
                    f"{kind.resource.kind} {name} is here already and nobody's copy: left alone"
                )
            self._guard.expect(kind, copy)
            if local is None:
                return copy
            if action is IdentityAction.RECREATE:
                stale.append(local)
                return None
            return updated(local, copy, content=kind.content)

        cached = self._agent_state.get(kind, name=name, namespace=namespace)
        await self._writer.settle(kind.resource, name=name, namespace=namespace, cached=cached, decide=decide)
        for local in stale:
            self._guard.announce(local)
            await self._writer.delete(kind.resource, local, propagation="Background")
            remains = await self._writer.settle(
                kind.resource,
                name=name,
                namespace=namespace,
                cached=None,
                decide=lambda there: copy if there is None else None,
            )
            if remains is not None and text(remains, "metadata", "uid") == text(local, "metadata", "uid"):
                raise HasToGoError(f"{kind.resource.kind} {name} has still to go first", local)

    async def _withdraw(self, kind: SyncedKind, incoming: Object) -> None:
        namespace, name = self._settings.namespace, text(incoming, "metadata", "name")
        local = await self._writer.get(kind.resource, name=name, namespace=namespace)
        action = deletion_action(exists=local is not None, managed=local is not None and is_managed(local))
        if action is IdentityAction.REFUSE:
            raise NotTakenError(f"{kind.resource.kind} {name} is nobody's copy: not deleted")
        self._guard.forget(kind, namespace=namespace, name=name)
        if local is not None:
            self._guard.announce(local)
            await self._writer.delete(kind.resource, local, propagation="Background")
