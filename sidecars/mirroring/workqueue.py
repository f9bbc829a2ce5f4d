"""Small things that must be done some time soon about an object, the newest request winning: a drifted copy
written back, a deleted one made again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable

from argocd.agents.vocabulary import Target
from kube.errors import without_values
from sidecars.delivery.outcomes import DeliveryVerdict, judge
from sidecars.delivery.timing import Backoff, Timing
from tiphys import logs

WORKERS = 8
RETRY = Backoff(base=0.5, ceiling=60.0)

Work = Callable[[], Awaitable[None]]

log = logs.get_logger()


class WorkQueue:
    """Bounded by the number of objects: each has one request at a time. `run` belongs into a task group."""

    def __init__(self, *, timing: Timing, workers: int = WORKERS) -> None:
        self._timing = timing
        self._workers = workers
        self._requests: dict[Hashable, Work] = {}
        self._attempts: dict[Hashable, int] = {}
        self._busy: set[Hashable] = set()
        self._ready: deque[Hashable] = deque()
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._requests) + len(self._busy)

    def put(self, key: Hashable, work: Work) -> None:
        known = key in self._requests
        self._requests[key] = work
        self._attempts.pop(key, None)
        if not known and key not in self._busy:
            self._offer(key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"workqueue {number}")

    def _offer(self, key: Hashable) -> None:
        self._ready.append(key)
        self._woken.set()

    async def _work(self) -> None:
        while True:
            while not self._ready:
                self._woken.clear()
                await self._woken.wait()
            key = self._ready.popleft()
            work = self._requests.pop(key, None)
            if work is None:
                continue
            self._busy.add(key)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - one object's trouble is not that of the others
                self._failed(key, work, error)
            else:
                self._attempts.pop(key, None)
            finally:
                self._busy.discard(key)
            if key in self._requests and self._attempts.get(key) is None:
                self._offer(key)

    def _failed(self, key: Hashable, work: Work, error: Exception) -> None:
        # What an API server says of a repository may quote its credentials, and a traceback ends with its words.
        hides = isinstance(key, tuple) and Target.REPOSITORY in key
        fields = {
            logs.KEY: str(key),
            logs.ERROR: without_values(error, whole=False) if hides else logs.describe(error),
        }
        verdict = judge(error)
        if verdict is not DeliveryVerdict.RETRY:
            crash = error if verdict is DeliveryVerdict.CRASH and not hides else None
            log.error("a repair is given up", **fields, exc_info=crash)
            self._attempts.pop(key, None)
            return
        if key in self._requests:  # a newer one came meanwhile
            return
        self._requests[key] = work
        self._attempts[key] = attempt = self._attempts.get(key, 0) + 1
        log.warning("a repair is tried again", **fields)
        delay = RETRY.delay(attempt, self._timing.random)
        asyncio.get_running_loop().call_later(delay, self._offer, key)
