"""argocd-server's Redis clients: they read trees in pipelines, follow channels, leave and come back, while the sidecars
and agents' Redis live through every storm.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import orjson

from argocd.agents.routing import AgentMapping
from sidecars.agent.agent import Agent
from sidecars.principal.principal import Principal
from sidecars.principal.proxies.placing import ApplicationPlacing
from sidecars.proxies.redis.agent_answers import RedisAnswers
from sidecars.proxies.redis.caches import GET_SECONDS, AgentRedisCaches
from sidecars.proxies.redis.connection import Held, RedisConnection
from sidecars.proxies.redis.resp import command
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES
from tests.simulation.sidecars import MODES, OURS, Sidecars
from tests.simulation.simulated_redis import SimulatedRedis, Streams, connection, serve_hub
from tests.simulation.world import Process, World

READERS = 4
FOLLOWERS = 4
SHOPS = ("shop-0", "shop-1", "shop-2")
UNKNOWN = "nobodys"
# A minute for a ping to find out that a subscription was lost on the way, and then as long as one may take.
REPAIR_SECONDS = 90.0


OpenPort = Callable[[Streams], None]


class LostError(Exception):
    """The principal is gone, or closed the connection."""


class RespClient:
    def __init__(self, streams: Streams) -> None:
        self.reader, self.writer = streams

    def send(self, *words: str) -> None:
        self.writer.write(command(*(word.encode() for word in words)))

    async def reply(self) -> Any:
        """Errors as ValueError objects, pushes and arrays as lists."""
        try:
            line = await self.reader.readuntil(b"\r\n")
            kind, text = chr(line[0]), line[1:-2]
            if kind == "$":
                return (await self.reader.readexactly(int(text) + 2))[:-2]
            if kind in "*>":
                return [await self.reply() for _ in range(int(text))]
        except asyncio.IncompleteReadError as error:
            raise LostError from error
        return {"-": ValueError(text.decode()), "_": None, ":": text, "+": text, "%": {}}[kind]


class RedisCallers(Sidecars):
    name = "redis-callers"
    extensions = OURS

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._callers = Random(world.random.random())
        self._redis = {agent: SimulatedRedis(Random(self._callers.random())) for agent in MODES}
        self._open_port: OpenPort | None = None
        self._hub_values = {"mfst|own": b"the control plane's"}
        self._principal: Principal | None = None
        self._caches: AgentRedisCaches | None = None
        self._answers: dict[str, tuple[Agent, RedisAnswers]] = {}
        self._held = Held()
        self._found: list[str] = []
        self._following: dict[str, dict[int, float]] = {}
        """Of each channel, when its followers last heard of it."""
        self._ended_at = self._last_word_at = self._left_at = 0.0
        self._people: list[asyncio.Task[None]] = []

    # The two ends.

    async def _run_principal(self, process: Process) -> None:
        self._open_port = None
        await super()._run_principal(process)

    def principal_made(self, principal: Principal) -> None:
        self._principal = principal
        self._held = Held()
        self._caches = caches = AgentRedisCaches(principal.requests, ApplicationPlacing(principal.hub_state))
        principal.requests.arrivals.append(caches.came)

    async def beside_principal(self, principal: Principal) -> None:
        caches, held = self._caches, self._held
        assert caches is not None
        async with asyncio.TaskGroup() as group:
            group.create_task(caches.run())

            def accept(streams: Streams) -> None:
                group.create_task(self._serve(caches, held, streams))

            self._open_port = accept
            try:
                await asyncio.Event().wait()
            finally:
                self._open_port = None

    async def _serve(self, caches: AgentRedisCaches, held: Held, streams: Streams) -> None:
        hub, behind = connection()
        serving = asyncio.create_task(serve_hub(behind, self._hub_values))
        made = RedisConnection(
            client=streams, hub=hub, caches=caches, held=held, certified=False, hub_has_password=True
        )
        try:
            await made.run()
        except (TimeoutError, asyncio.IncompleteReadError) as error:
            self._found.append(f"a connection was let go: {error!r}")
        finally:
            serving.cancel()
            streams[1].close()

    async def beside_agent(self, name: str, agent: Agent) -> None:
        client: Any = self._redis[name].client()
        answers = RedisAnswers(
            client,
            agent.dispatcher,
            mapped_by=AgentMapping.NAMESPACE,
            knows_application=lambda _namespace, name: name in SHOPS,
            clock=self._world.timing.monotonic,
            max_message_bytes=DEFAULT_MAX_MESSAGE_BYTES,
        )
        self._answers[name] = agent, answers
        await answers.run()

    # What happens on agents' clusters.

    async def _controller(self, agent: str, seconds: float) -> None:
        random, redis, loop = Random(self._callers.random()), self._redis[agent], self._world.loop
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(random.choice((0.1, 0.5, 3.0)))
            if random.random() < 0.02:
                redis.restart()
                self._world.count("Redis restarted")
            self._publish(agent, random.choice(SHOPS))

    def _publish(self, agent: str, shop: str) -> None:
        redis = self._redis[agent]
        tree = {
            "nodes": [{"group": "argoproj.io", "kind": "Application", "namespace": "x"}],
            "of": [agent, shop],
        }
        redis.values[f"app|resources-tree|{shop}|1.8.3"] = orjson.dumps(tree)
        redis.values[f"app|managed-resources|{shop}|1.8.3"] = f"{agent} {shop}".encode()
        redis.publish(f"app|managed-resources|{shop}|1.8.3")

    # What argocd-server does.

    async def work(self, seconds: float) -> None:
        for number in range(FOLLOWERS):
            random = Random(self._callers.random())
            self._people.append(asyncio.create_task(self._follow(number, random), name=f"follower {number}"))
        async with asyncio.TaskGroup() as group:
            group.create_task(super().work(seconds))
            for agent in MODES:
                group.create_task(self._controller(agent, seconds))
            for number in range(READERS):
                group.create_task(
                    self._read(Random(self._callers.random()), seconds), name=f"reader {number}"
                )
        self._ended_at = self._world.loop.time()
        for redis in self._redis.values():
            redis.failing = 0.0

    async def _connect(self) -> RespClient:
        while self._open_port is None:  # noqa: ASYNC110 - as a client that dials again
            await asyncio.sleep(0.5)
        here, there = connection()
        self._open_port(there)
        client = RespClient(here)
        client.send("HELLO", "3", "AUTH", "default", "secret")
        await client.reply()
        return client

    async def _read(self, random: Random, seconds: float) -> None:
        loop = self._world.loop
        end = loop.time() + seconds
        while loop.time() < end:
            client = await self._connect()
            try:
                while loop.time() < end and random.random() > 0.1:
                    await asyncio.sleep(random.choice((0.1, 0.5, 2.0)))
                    await self._pipeline(client, random)
            except LostError:
                self._world.count("Redis: connection lost")
            finally:
                client.writer.close()

    async def _pipeline(self, client: RespClient, random: Random) -> None:
        asked = []
        for _ in range(random.randrange(1, 6)):
            agent, shop = random.choice(list(MODES)), random.choice((*SHOPS, UNKNOWN))
            kind = random.choice(("resources-tree", "managed-resources", ""))
            client.send("get", f"app|{kind}|{agent}_{shop}|1.8.3" if kind else "mfst|own")
            asked.append((kind, agent, shop))
        began = self._world.loop.time()
        if random.random() < 0.1:
            self._world.count("Redis: left without its answers")
            raise LostError
        for question in asked:
            self._check(question, await client.reply())
        if self._world.loop.time() - began > GET_SECONDS + 1:
            self._found.append(f"a reader waited {self._world.loop.time() - began:.0f} s")

    def _check(self, question: tuple[str, str, str], reply: Any) -> None:
        kind, agent, shop = question
        if isinstance(reply, ValueError):
            self._world.count("Redis: error")
            wrong = not kind
        elif reply is None:
            self._world.count("Redis: miss")
            wrong = not kind or shop == UNKNOWN
        else:
            self._world.count("Redis: answered")
            expected = {
                "": b"the control plane's",
                "managed-resources": f"{agent} {shop}".encode(),
                "resources-tree": None,
            }[kind]
            wrong = reply != expected if expected else orjson.loads(reply)["of"] != [agent, shop]
        if wrong:
            self._found.append(f"asked for {question}, answered {reply!r}")

    async def _follow(self, number: int, random: Random) -> None:
        """Until everybody leaves."""
        while not self._left_at:
            channel = f"app|managed-resources|{random.choice(list(MODES))}_{random.choice(SHOPS)}|1.8.3"
            client = await self._connect()
            try:
                await self._follow_one(client, channel, number, random)
            except LostError:
                self._world.count("Redis: connection lost")
            finally:
                self._following.get(channel, {}).pop(number, None)
                client.writer.close()

    async def _follow_one(self, client: RespClient, channel: str, number: int, random: Random) -> None:
        loop = self._world.loop
        began = loop.time()
        client.send("subscribe", channel)
        confirmed = await client.reply()
        if loop.time() - began > GET_SECONDS + 1:
            self._found.append(f"a follower waited {loop.time() - began:.0f} s")
        if isinstance(confirmed, ValueError):
            self._world.count("Redis: not followed")
            return
        until = loop.time() + random.choice((1.0, 10.0, 1000.0))
        self._following.setdefault(channel, {})[number] = loop.time()
        while not self._left_at and (loop.time() < until or self._ended_at):
            try:
                async with asyncio.timeout(1.0):
                    message = await client.reply()
            except TimeoutError:
                continue
            self._world.count("Redis: messages")
            if message[:2] != [b"message", channel.encode()]:
                self._found.append(f"followed {channel}, heard {message}")
            self._following[channel][number] = loop.time()
        if random.random() < 0.5:
            client.send("unsubscribe", channel)

    # In the end.

    async def unfinished(self) -> list[str]:
        """First a last word on every channel, long after the storm: all who follow hear it. Then they leave, and what
        was kept for them goes.
        """
        now = self._world.loop.time()
        problems = await super().unfinished()
        if not self._last_word_at:
            if now < self._ended_at + REPAIR_SECONDS:
                return [*problems, "subscriptions have time to be mended"]
            self._last_word_at = now
            for agent in MODES:
                for shop in SHOPS:
                    self._publish(agent, shop)
            return [*problems, "the last word is on its way"]
        if not self._left_at:
            if now < self._last_word_at + GET_SECONDS:
                return [*problems, "the last word is on its way"]
            self._found += [
                f"a follower of {channel} was not told"
                for channel, heard in self._following.items()
                for at in heard.values()
                if at < self._last_word_at
            ]
            self._left_at = now
        return [*problems, *self._kept()]

    def _kept(self) -> list[str]:
        assert self._principal is not None
        assert self._caches is not None
        requests, caches = self._principal.requests, self._caches
        kept: dict[str, object] = {
            "followers": [task for task in self._people if not task.done()],
            "questions": requests._open,
            "their numbers": requests._count,
            "listeners": requests._listeners,
            "subscriptions at the principal": caches._subscriptions,
            "tasks": caches._tasks,
            "bytes of answers": self._held.used,
        }
        for name, (agent, answers) in self._answers.items():
            kept[f"subscriptions at {name}"] = len(answers._subscriptions)
            kept[f"channels of Redis at {name}"] = self._redis[name].followed()
            kept[f"requests at {name}"] = agent.dispatcher._running
            kept[f"withdrawals at {name}"] = agent.dispatcher._withdrawn
        return [f"{what} are kept: {found}" for what, found in kept.items() if found]

    def violations(self) -> list[str]:
        return [*super().violations(), *self._found]


class PlainRedisCallers(RedisCallers):
    """Towards an argocd-agent: no deadlines, no withdrawals, no unsubscription; it forgets what nobody pings."""

    name = "plain-redis-callers"
    extensions = frozenset()
