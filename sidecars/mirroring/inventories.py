"""What one end has of what two ends compare, listed when somebody asks and kept until something changes."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from sidecars.delivery.inventory import Inventory

SPECS = "specs"
"""What the source tells of its objects: the principal of a managed agent, an autonomous agent itself."""
STATUS = "status"
"""What a managed agent tells of its Applications."""

Entries = Callable[[], Iterable[tuple[str, bytes]]]


class Inventories(Mapping[str, Inventory]):
    """Inventories by scope, made from `entries`; `version` counts the changes of what they are made from."""

    def __init__(self, entries: Mapping[str, Entries], *, version: Callable[[], int]) -> None:
        self._entries = entries
        self._version = version
        self._made: dict[str, tuple[int, Inventory]] = {}

    def __getitem__(self, scope: str) -> Inventory:
        entries = self._entries[scope]
        version = self._version()
        made = self._made.get(scope)
        if made is None or made[0] != version:
            inventory = Inventory()
            for key, digest in entries():
                inventory.put(key, digest)
            made = self._made[scope] = (version, inventory)
        return made[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def release(self) -> None:
        """A thousand agents' inventories are made when they are needed, not kept for the next time."""
        self._made.clear()


class Digests:
    """Digests of objects, worked out once for each version of one."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, bytes]] = {}

    def of(self, scope: str, uid: str, version: str, compute: Callable[[], bytes]) -> bytes:
        known = self._known.get((scope, uid))
        if known is not None and known[0] == version:
            return known[1]
        digest = compute()
        self._known[scope, uid] = (version, digest)
        return digest

    def forget(self, uid: str) -> None:
        for scope in (SPECS, STATUS):
            self._known.pop((scope, uid), None)
