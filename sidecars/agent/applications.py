"""A managed agent's Applications: made, changed, taken over, made anew and deleted as the principal says."""

import asyncio
from collections.abc import Callable

from argocd import names
from argocd.agents.copies import application_copied, application_released, application_updated
from argocd.agents.identity import (
    IdentityAction,
    adoption_policy,
    application_action,
    compare_application,
    deletion_action,
    is_managed,
    mismatch_policy,
)
from argocd.agents.namespaces import at_agent
from argocd.agents.own_annotations import OPERATION_DONE
from argocd.agents.vocabulary import Message
from argocd.reading import mapping, text, value
from kube.errors import NotFoundError
from kube.resources import APPLICATIONS
from kube.store import Object
from sidecars.agent.settings import AgentSettings, OnRecreate
from sidecars.agent.state import AgentState
from sidecars.mirroring.drift import DriftGuard
from sidecars.mirroring.kinds import APPLICATION
from sidecars.mirroring.writer import HasToGoError, MirrorWriter, WriteBusyError
from tiphys.errors import ObjectError

_IN_PLACE = frozenset(
    {
        IdentityAction.UPDATE,
        IdentityAction.STAMP,
        IdentityAction.TRANSITION,
        IdentityAction.ADOPT,
        IdentityAction.UPSERT,
    }
)


# For a watch to show a deletion: nobody's place in the inbox is taken for longer.
GONE_SECONDS = 2.0


class RefusedApplicationError(ObjectError):
    """The principal learns why: its Application shows it."""


class Applications:
    def __init__(
        self,
        *,
        settings: AgentSettings,
        agent_state: AgentState,
        guard: DriftGuard,
        writer: MirrorWriter,
        report_gone: Callable[[Object], object],
        given: Callable[[Object], None],
    ) -> None:
        """`given` hears of a copy before it is created: its status is no news to the principal."""
        self._settings = settings
        self._agent_state = agent_state
        self._guard = guard
        self._writer = writer
        self._report_gone = report_gone
        self.given = given

    async def apply(self, message: Message, incoming: Object, *, principal_uid: str) -> None:
        placement = at_agent(
            text(incoming, "metadata", "namespace"),
            agent_namespace=self._settings.namespace,
            principal_namespace=self._agent_state.principal_namespace,
            mapped_by=self._settings.mapped_by,
        )
        if not self._settings.allows(placement.namespace):
            raise RefusedApplicationError(
                f"this agent takes no Applications in the namespace {placement.namespace}: --allowed-namespaces"
            )
        if message is Message.DELETE:
            await self._withdraw(incoming, namespace=placement.namespace)
            return
        copy = application_copied(
            incoming,
            namespace=placement.namespace,
            principal_uid=principal_uid,
            remapped=placement.remapped,
        )
        change = _Change(self, message=message, incoming=incoming, copy=copy, principal_uid=principal_uid)
        try:
            await change.make()
        except NotFoundError:
            if not self._settings.create_namespaces:
                raise
            await self._writer.create_namespace(placement.namespace)
            await change.make()

    async def _withdraw(self, incoming: Object, *, namespace: str) -> None:
        name = text(incoming, "metadata", "name")
        local = await self._writer.get(APPLICATIONS, name=name, namespace=namespace)
        action = deletion_action(exists=local is not None, managed=local is not None and is_managed(local))
        if action is IdentityAction.REFUSE:
            raise RefusedApplicationError(f"Application {namespace}/{name} is nobody's copy: not deleted")
        self._guard.forget(APPLICATION, namespace=namespace, name=name)
        if local is None:
            return
        self._guard.announce(local)
        uid = text(local, "metadata", "uid")

        def release(there: Object | None) -> Object | None:
            same = text(there, "metadata", "uid") == uid
            return application_released(there, incoming) if there is not None and same else None

        # Told before the deletion, an update that takes a finalizer away may have been left out for it.
        if application_released(local, incoming) != local:
            await self._writer.settle(
                APPLICATIONS, name=name, namespace=namespace, cached=local, decide=release
            )
        await self._writer.delete(APPLICATIONS, local, propagation="Background")

    # What one change needs of its surroundings.

    def action(
        self, local: Object | None, message: Message, incoming: Object, principal_uid: str
    ) -> IdentityAction:
        return application_action(
            compare_application(local, incoming, principal_uid=principal_uid),
            creating=message is Message.CREATE,
            deleting=value(incoming, "metadata", "deletionTimestamp") is not None,
            mismatch=mismatch_policy(incoming, self._settings.mismatch),
            adoption=adoption_policy(local or {}, self._settings.adoption),
        )

    def expect(self, copy: Object) -> None:
        kept = {key: part for key, part in copy.items() if key not in {"status", "operation"}}
        self._guard.expect(APPLICATION, kept)

    def gone_already(self, incoming: Object, copy: Object) -> None:
        metadata = mapping(copy, "metadata")
        self._guard.forget(APPLICATION, namespace=metadata["namespace"], name=metadata["name"])
        self._report_gone({**copy, "metadata": {**metadata, "uid": text(incoming, "metadata", "uid")}})

    async def settle(self, copy: Object, decide: Callable[[Object | None], Object | None]) -> Object | None:
        name, namespace = copy["metadata"]["name"], copy["metadata"]["namespace"]
        cached = self._agent_state.get(APPLICATION, name=name, namespace=namespace)
        return await self._writer.settle(
            APPLICATIONS, name=name, namespace=namespace, cached=cached, decide=decide
        )

    async def delete_wholly(self, local: Object) -> bool:
        """Whether it went at once: it does where no finalizer has work to do first."""
        gone = asyncio.Event()
        self._agent_state.when_gone(local, gone.set)
        await self.delete(local, propagation="Background")
        try:
            async with asyncio.timeout(GONE_SECONDS):
                await gone.wait()
        except TimeoutError:
            return False
        return True

    async def delete(self, local: Object, *, propagation: str) -> None:
        self._guard.announce(local)
        await self._writer.delete(APPLICATIONS, local, propagation=propagation)


class _Change:
    """One create or update of one Application."""

    def __init__(
        self,
        applications: Applications,
        *,
        message: Message,
        incoming: Object,
        copy: Object,
        principal_uid: str,
    ) -> None:
        self._applications = applications
        self._message = message
        self._incoming = incoming
        self._copy = copy
        self._principal_uid = principal_uid
        self._action = IdentityAction.CREATE
        self._local: Object | None = None

    async def make(self) -> None:
        stored = await self._applications.settle(self._copy, self._decide)
        if self._action is IdentityAction.RECREATE and self._local is not None:
            stale = self._local
            if not await self._applications.delete_wholly(stale):
                raise HasToGoError("the Application of the same name and another uid has to go first", stale)
            stored = await self._applications.settle(self._copy, self._decide)
            if self._action is IdentityAction.RECREATE:
                raise WriteBusyError("somebody else has made an Application of that name meanwhile")
        if (
            self._action in _IN_PLACE
            and stored is not None
            and value(self._incoming, "metadata", "deletionTimestamp") is not None
            and value(stored, "metadata", "deletionTimestamp") is None
        ):
            await self._applications.delete(stored, propagation="Foreground")

    def _decide(self, local: Object | None) -> Object | None:
        self._local = local
        self._action = self._applications.action(local, self._message, self._incoming, self._principal_uid)
        if self._action is IdentityAction.REFUSE:
            raise RefusedApplicationError(
                "an Application of this name is here already and nobody's copy"
                f" ({names.ADOPTION_POLICY} and --adoption-policy decide)"
            )
        if self._action is IdentityAction.REPORT_GONE:
            self._applications.gone_already(self._incoming, self._copy)
            return None
        if self._action is IdentityAction.RECREATE:
            return None
        self._applications.expect(self._copy)
        if local is None:
            self._applications.given(self._copy)
            return self._copy
        return _keeping_what_was_done(application_updated(local, self._copy), local)


def restored(copy: Object, lost: Object, action: OnRecreate) -> Object:
    """An Application that somebody deleted here, made again: with the status and the operation that it had.

    While it has the state of an operation Argo CD does not sync the same revision by itself once more.
    """
    kept = {key: lost[key] for key in ("status", "operation") if lost.get(key) is not None}
    if action is not OnRecreate.IGNORE and "status" in kept:
        kept["status"] = {key: part for key, part in kept["status"].items() if key != "operationState"}
    if action is OnRecreate.RESYNC:
        kept["operation"] = {"sync": {}}
    return _keeping_what_was_done({**copy, **kept}, lost)


def _keeping_what_was_done(result: Object, local: Object) -> Object:
    done = value(local, "metadata", "annotations", OPERATION_DONE)
    if done is None:
        return result
    annotations = {**mapping(result, "metadata", "annotations"), OPERATION_DONE: done}
    return {**result, "metadata": {**result["metadata"], "annotations": annotations}}
