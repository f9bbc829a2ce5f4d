"""Tiphys in one role of a recording, a scripted peer in the other."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from argocd import names
from argocd.agents.vocabulary import OBJECT_TARGETS, Mode
from kube.embedded import EmbeddedStore
from kube.store import Object
from sidecars.principal.principal import Principal
from sidecars.wire.events import AGENT_SOURCE, Event
from tests.sidecars.pair_in_memory import ARGOCD, PLAIN, Hub, pipes, running_agent
from tests.sidecars.recorded_script import HUB, Place, Said, Scene, ScriptedPeer, said, scenes, shown

if TYPE_CHECKING:
    from sidecars.agent.agent import Agent

_NO_COMMAND = json.dumps({"refresh": None})
_COMMANDS = frozenset({"set-operation", "terminate-operation"})
_STATE = frozenset({"create", "spec-update"})


class Rehearsal:
    """`problems` has a line for everything that was not as recorded and is none of the known mistakes."""

    def __init__(self, recording: str, *, role: str, mode: Mode, agent: str, patience: float = 60.0) -> None:
        self._recording = recording
        self._role = role
        self._mode = mode
        self._agent_name = agent
        self._patience = patience
        namespaces = [ARGOCD, agent] if role == HUB else [ARGOCD]
        self.place = Place(EmbeddedStore(namespaces=namespaces))
        self._hub = Hub(self.place.store, allowed_namespaces=(agent,))
        self._process: Principal | Agent | None = None
        self._life, self._connection = AsyncExitStack(), AsyncExitStack()
        self._peer: ScriptedPeer | None = None
        self._unmatched: list[Event] = []
        self._heard = 0
        self._told: dict[tuple[str, str, str], str] = {}
        self._ever: set[tuple[str, str, str]] = set()
        self.problems: list[str] = []
        self.compared = 0

    async def run(self) -> None:
        if self._role == HUB:
            await self._hub.know(self._agent_name)
        try:
            for scene in scenes(self._recording):
                await self._play(scene)
            self._judge_the_rest()
        finally:
            await self._connection.aclose()
            await self._life.aclose()

    async def _play(self, scene: Scene) -> None:
        step = scene.step
        title = str(step["step"])
        if title == ("principal restarted" if self._role == HUB else "agent stopped"):
            await self._connection.aclose()
            await self._life.aclose()
            self._process = None
        elif title in {"agent stopped", "principal restarted"}:
            await self._connection.aclose()
        elif "call" in step and step["side"] == self._role:
            await self.place.repeat(step)
        elif title == "then" and step["side"] == self._role:
            await self._compare_state(step)
        if scene.dialed:
            await self._dial()
        await self._converse(scene, title)

    async def _converse(self, scene: Scene, title: str) -> None:
        expected: list[Said] = []
        for speaker, event in scene.lines:
            if speaker != self._role:
                await self._wait_for(expected, title)
                assert self._peer is not None
                await self._peer.say(self.place.in_our_words(event))
                continue
            recorded = self._as_compared(event)
            self._ever.add((recorded.target, recorded.subject, recorded.content))
            if self._must_come(recorded, scene, news=self._is_news(recorded)):
                expected.append(recorded)
        await self._wait_for(expected, title)

    def _must_come(self, recorded: Said, scene: Scene, *, news: bool) -> bool:
        """Not what the recording's README calls a mistake: by its numbers."""
        if recorded.target not in OBJECT_TARGETS:
            return bool(scene.step["step"] == "begin")  # 3: later everything was asked for again one by one
        if not news or recorded.content == _NO_COMMAND:
            return False  # 1: sent again unchanged
        if recorded.message == "spec-update" and any(
            said(event).key == ("set-operation", recorded.target, recorded.subject)
            for _, event in scene.lines
        ):
            return False  # 1: an operation is no news about the state before it
        # 4: a project without its destinations, which it has
        return (
            recorded.target != "appproject"
            or recorded.message == "delete"
            or "destinations" in recorded.content
        )

    def _is_news(self, recorded: Said) -> bool:
        sort = recorded.message if recorded.message in _COMMANDS else ""
        known = self._told.get((recorded.target, recorded.subject, sort))
        self._told[recorded.target, recorded.subject, sort] = recorded.content
        return known != recorded.content

    def _as_compared(self, event: Event) -> Said:
        """An Application as far as the other side reads it."""
        told = said(event)
        if event.target != "application" or not told.content or told.message == "delete":
            return told
        content = json.loads(told.content)
        if self._role == HUB and told.message != "set-operation":
            content.pop("operation", None)
        if self._role == HUB:
            content.pop("status", None)
        if (self._role == HUB) == (self._mode is Mode.AUTONOMOUS):
            # Commands towards an autonomous agent, a status towards the principal of a managed one.
            annotations = content.pop("metadata").get("annotations", {})
            content.pop("spec")
            if told.message != "set-operation":
                content["refresh"] = annotations.get(names.REFRESH)
        _forget_last_operation(content)
        return Said(told.message, told.target, told.subject, json.dumps(content, sort_keys=True))

    # What we say.

    async def _wait_for(self, expected: list[Said], title: str) -> None:
        while expected:
            wanted = expected.pop(0)
            self.compared += 1
            try:
                async with asyncio.timeout(self._patience):
                    while not self._take(wanted):
                        await self._news()
            except TimeoutError:
                near = [self._ours(each) for each in self._unmatched]
                told = [f"\n    ours {each.content}" for each in near if each.key[1:] == wanted.key[1:]]
                self.problems.append(f"{title}: no {wanted.key}\n  theirs {wanted.content}{''.join(told)}")

    def _take(self, wanted: Said) -> bool:
        self._collect()
        for event in self._unmatched:
            ours = self._ours(event)
            same = (ours.target, ours.subject, ours.content) == (
                wanted.target,
                wanted.subject,
                wanted.content,
            )
            if same and (ours.message == wanted.message or {ours.message, wanted.message} <= _STATE):
                self._unmatched.remove(event)
                return True
        return False

    def _ours(self, event: Event) -> Said:
        told = self._as_compared(event)
        return Said(told.message, told.target, told.subject, self.place.in_theirs(told.content))

    def _collect(self) -> None:
        if self._peer is not None:
            self._unmatched += self._peer.heard[self._heard :]
            self._heard = len(self._peer.heard)

    async def _news(self) -> None:
        assert self._peer is not None
        count = self._heard
        await self._peer.hears(lambda heard: len(heard) > count)

    def _judge_the_rest(self) -> None:
        """Saying something again is allowed, saying something that Go never said is not.

        Two differences are ours: an agent shows the operation that it has just been given, and tells at its
        return also of an Application without a status.
        """
        self._collect()
        for event in self._unmatched:
            ours = self._ours(event)
            if event.target not in OBJECT_TARGETS or ours.content == _NO_COMMAND:
                continue
            content = json.loads(ours.content)
            content.pop("operation", None)
            contents = {ours.content, json.dumps(content, sort_keys=True)}
            if not any((ours.target, ours.subject, each) in self._ever for each in contents):
                self.problems.append(f"never recorded: {ours.key}\n  {ours.content}")

    # What we have.

    async def _compare_state(self, step: dict[str, Any]) -> None:
        wanted = step.get("stored")
        self.compared += 1
        found: Object | None = None
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    found = await self.place.now(step)
                    if self._same(found, wanted):
                        break
                    await asyncio.sleep(0.01)
        except TimeoutError:
            self.problems.append(
                f"then {step['path']}\n  theirs {json.dumps(_state(wanted), sort_keys=True)}"
                f"\n  ours   {self.place.in_theirs(json.dumps(_state(found), sort_keys=True))}"
            )
            return
        if found is not None:
            self.place.learn(step, found)

    def _same(self, found: Object | None, wanted: Object | None) -> bool:
        """One difference is ours: a mirrored project keeps the destinations that Go's agent leaves out of an answer."""
        ours, theirs = json.loads(self.place.in_theirs(json.dumps(_state(found)))), _state(wanted)
        recorded = (theirs or {}).get("spec", {})
        if self._role == HUB and ours and "sourceRepos" in recorded and "destinations" not in recorded:
            ours["spec"].pop("destinations", None)
        return bool(ours == theirs)

    # Lives and streams.

    async def _dial(self) -> None:
        await self._connection.aclose()
        self._connection = AsyncExitStack()
        ours, theirs = pipes()
        if self._process is None:
            await self._begin()
        process = self._process
        source = AGENT_SOURCE if self._role == HUB else ""
        self._collect()
        self._peer, self._heard = ScriptedPeer(theirs, source=source), 0
        self._connection.callback(ours.close)
        await self._connection.enter_async_context(in_background(self._peer.run()))
        served: Coroutine[Any, Any, Any]
        if isinstance(process, Principal):
            served = process.serve(self._agent_name, self._mode, ours, extensions=PLAIN)
        else:
            assert process is not None
            served = process.serve(ours, name=self._agent_name, principal_namespace=ARGOCD, extensions=PLAIN)
        await self._connection.enter_async_context(in_background(served))

    async def _begin(self) -> None:
        self._life = AsyncExitStack()
        if self._role == HUB:
            self._process = await self._life.enter_async_context(self._hub.running())
        else:
            agent = running_agent(self.place.store, mode=self._mode)
            self._process = await self._life.enter_async_context(agent)


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _state(item: Object | None) -> Any:
    if item is None or "error" in item:
        return None
    found = shown(item)
    _forget_last_operation(found)
    return found


def _forget_last_operation(content: Object) -> None:
    """One difference is ours: Go's agent leaves the end and the result of the last operation beside a new one that runs."""
    state = content.get("status", {}).get("operationState", {})
    if state.get("phase") in {"Running", "Terminating"}:
        state.pop("finishedAt", None)
        state.pop("syncResult", None)
