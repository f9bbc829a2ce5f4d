"""What a cache told its subscribers, checked as it comes."""

import asyncio
import random
from collections.abc import Callable

from kube.cache import Cache, Key
from kube.store import ListPage, Object
from tests.kube.objects import BOUND


class Impatient(random.Random):
    """Backs off for no time at all."""

    def uniform(self, a: float, b: float) -> float:
        return 0.0


class Recorder:
    """Fails at once when an object is told as new twice, changes out of order, or goes without having come."""

    def __init__(self, cache: Cache[Object]) -> None:
        self.state: dict[Key, Object] = {}
        self.changes: list[tuple[str, str]] = []
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        cache.subscribe(self.tell)

    def tell(self, old: Object | None, new: Object | None) -> None:
        key = _key(new or old or {})
        assert self.state.get(key) == old, f"{key}: the old object is not the one told last"
        if new is None:
            assert old is not None
            del self.state[key]
            self.changes.append(("-", key[1]))
        else:
            if old is not None:
                assert old["metadata"]["uid"] == new["metadata"]["uid"]
                assert _version(old) < _version(new), f"{key}: back in time"
            self.state[key] = new
            self.changes.append(("+" if old is None else "*", key[1]))
        for condition, future in self._waiting:
            if not future.done() and condition():
                future.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, future))
        async with asyncio.timeout(BOUND):
            await future

    def knows(self, page: ListPage) -> bool:
        """Exactly the objects of the list, each in exactly that version."""
        return self.state == {_key(item): item for item in page.items}

    def told_as_new(self) -> list[str]:
        return [name for sign, name in self.changes if sign == "+"]


def _key(body: Object) -> Key:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _version(body: Object) -> int:
    return int(body["metadata"]["resourceVersion"])
