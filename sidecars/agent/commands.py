"""Commands of the principal: an operation, its end, a refresh. Each is carried out once."""

from collections.abc import Callable

from argocd.agents.copies import operation_applied, terminated
from argocd.agents.identity import matches_source, source_uid
from argocd.agents.namespaces import at_agent
from argocd.agents.own_annotations import OPERATION_DONE
from argocd.agents.vocabulary import Message, Mode
from argocd.reading import mapping, text
from kube.resources import APPLICATIONS
from kube.store import Object
from sidecars.agent.settings import AgentSettings
from sidecars.agent.state import AgentState
from sidecars.mirroring.drift import DriftGuard
from sidecars.mirroring.kinds import APPLICATION, RESTORED, operation_digest
from sidecars.mirroring.writer import MirrorWriter, WriteBusyError
from sidecars.wire.events import Event
from tiphys import logs
from tiphys.errors import ObjectError

log = logs.get_logger()


class NoSuchApplicationError(ObjectError):
    """A command for something that is not here."""


class Commands:
    def __init__(
        self,
        *,
        settings: AgentSettings,
        agent_state: AgentState,
        guard: DriftGuard,
        writer: MirrorWriter,
        tell_state: Callable[[Object], object],
    ) -> None:
        self._settings = settings
        self._agent_state = agent_state
        self._guard = guard
        self._writer = writer
        self._tell_state = tell_state

    async def carry_out(self, message: Message, incoming: Object, event: Event) -> None:
        if message is Message.TERMINATE_OPERATION:
            await self._terminate(incoming)
        else:
            await self._operate(incoming, event)

    async def refresh(self, incoming: Object) -> None:
        """Of an update an autonomous agent takes the operation and the refresh, nothing else."""
        await self._change(incoming, lambda local: operation_applied(local, incoming))

    async def _operate(self, incoming: Object, event: Event) -> None:
        """What was done is written with its effect: a resend after a restart, of either end, finds it there."""
        mark = f"{event.event_id} {operation_digest(incoming)}"
        restored = RESTORED in event.extensions
        known: list[Object] = []

        def decide(local: Object) -> Object:
            done = text(local, "metadata", "annotations", OPERATION_DONE)
            same = done.rpartition(" ")[2] == operation_digest(incoming)
            if done == mark or (restored and same):
                known.append(local)
                return local
            result = operation_applied(local, incoming)
            annotations = {**mapping(result, "metadata", "annotations"), OPERATION_DONE: mark}
            return {**result, "metadata": {**result["metadata"], "annotations": annotations}}

        await self._change(incoming, decide)
        if known:
            log.info("an operation that was given before", **{logs.KEY: event.subject})
            self._tell_state(known[-1])  # its giver seems not to know what became of it

    async def _terminate(self, incoming: Object) -> None:
        def decide(local: Object) -> Object:
            ended = terminated(local)
            if ended is None:
                raise NoSuchApplicationError("there is no operation to end")
            return ended

        await self._change(incoming, decide)

    async def _change(self, incoming: Object, decide: Callable[[Object], Object]) -> None:
        name = text(incoming, "metadata", "name")
        namespace = at_agent(
            text(incoming, "metadata", "namespace"),
            agent_namespace=self._settings.namespace,
            principal_namespace=self._agent_state.principal_namespace,
            mapped_by=self._settings.mapped_by,
            mode=self._settings.mode,
        ).namespace
        if not self._settings.allows(namespace):
            raise NoSuchApplicationError(f"this agent has no Applications in the namespace {namespace}")

        def checked(local: Object | None) -> Object:
            if local is None and self._guard.expects(APPLICATION, namespace=namespace, name=name):
                raise WriteBusyError(f"Application {namespace}/{name} has still to come back")
            if local is None:
                raise NoSuchApplicationError(f"there is no Application {namespace}/{name}")
            if not self._is_meant(local, incoming):
                raise NoSuchApplicationError(f"Application {namespace}/{name} is another one by now")
            return decide(local)

        # Not the cache: a command that comes right after what it is for must not be refused.
        local = await self._writer.get(APPLICATIONS, name=name, namespace=namespace)
        await self._writer.settle(APPLICATIONS, name=name, namespace=namespace, cached=local, decide=checked)

    def _is_meant(self, local: Object, incoming: Object) -> bool:
        if self._settings.mode is Mode.MANAGED:
            return matches_source(local, incoming)
        return source_uid(incoming) == text(local, "metadata", "uid")
