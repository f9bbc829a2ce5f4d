"""Who wrote which field: what server-side apply needs to know.

Kept as an API server keeps it, in `metadata.managedFields` with a tree of field names. Simpler than there:
without schemas every list is one value, except metadata.finalizers and metadata.ownerReferences, which merge
by item; and nobody owns an empty map that others fill.
"""

from collections.abc import Iterator
from typing import Any

from kube.errors import ConflictError
from kube.store import Object

Tree = dict[str, Any]
"""Field names to trees; an empty tree is a value that is owned whole."""

APPLY, UPDATE = "Apply", "Update"
_IDENTITY = frozenset({"apiVersion", "kind"})
_OF_THE_SERVER = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)


class _Keyed(dict[str, Any]):
    """A list that merges by item, under the names that its items have in a tree."""


def opened(body: Object) -> Object:
    """What somebody can own of an object; it shares its values with the body."""
    result = {key: value for key, value in body.items() if key not in _IDENTITY}
    metadata = {key: value for key, value in body["metadata"].items() if key not in _OF_THE_SERVER}
    if finalizers := metadata.get("finalizers"):
        metadata["finalizers"] = _Keyed({f'v:"{item}"': item for item in finalizers})
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = _Keyed({f'k:{{"uid":"{item.get("uid")}"}}': item for item in owners})
    result.pop("metadata", None)
    if metadata:
        result["metadata"] = metadata
    return result


def _closed(value: Object, *, onto: Object) -> Object:
    """The reverse: an object with the server's own fields of `onto`."""
    metadata = {key: kept for key, kept in onto["metadata"].items() if key in _OF_THE_SERVER}
    for key, owned in value.get("metadata", {}).items():
        metadata[key] = list(owned.values()) if isinstance(owned, _Keyed) else owned
    result = {key: kept for key, kept in onto.items() if key in _IDENTITY}
    result.update(value)
    result["metadata"] = metadata
    return result


def _steps(value: Any) -> Iterator[tuple[str, str]]:
    """Each key of a map with its name in a tree."""
    if isinstance(value, _Keyed):
        yield from ((key, key) for key in value)
    else:
        yield from ((key, f"f:{key}") for key in value)


def tree_of(value: Any) -> Tree:
    if not isinstance(value, dict):
        return {}
    return {step: tree_of(value[key]) for key, step in _steps(value)}


def changed(old: Any, new: Any) -> Tree:
    """The fields of `new` that are not the same in `old`; whole subtrees that are equal cost one comparison."""
    result: Tree = {}
    for key, step in _steps(new):
        after = new[key]
        if key not in old:
            result[step] = tree_of(after)
        elif old[key] != after:
            before = old[key]
            both = isinstance(before, dict) and isinstance(after, dict) and before and after
            tree = changed(before, after) if both else tree_of(after)
            if tree or not both:
                result[step] = tree
    return result


def without(tree: Tree, other: Tree) -> Tree:
    """What is left of a tree when somebody else takes a part of it."""
    result: Tree = {}
    for step, below in tree.items():
        if step not in other:
            result[step] = below
        elif below and other[step]:
            rest = without(below, other[step])
            if rest:
                result[step] = rest
    return result


def union(tree: Tree, other: Tree) -> Tree:
    result = dict(tree)
    for step, below in other.items():
        result[step] = union(result[step], below) if result.get(step) and below else below
    return result


def _clashes(want: Tree, theirs: Tree, *, config: Any, live: Any) -> Tree:
    """The fields that both own and that would get another value."""
    result: Tree = {}
    for key, step in _steps(config):
        if step not in want or step not in theirs:
            continue
        present = isinstance(live, dict) and key in live
        if want[step] and theirs[step]:
            deeper = _clashes(want[step], theirs[step], config=config[key], live=live[key] if present else {})
            if deeper:
                result[step] = deeper
        elif not present or live[key] != config[key]:
            result[step] = want[step]
    return result


def _paths(tree: Tree, prefix: str = "") -> Iterator[str]:
    for step, below in tree.items():
        path = f"{prefix}.{step[2:]}" if step.startswith("f:") else f"{prefix}[{step[2:]}]"
        if below:
            yield from _paths(below, path)
        else:
            yield path


def _merged(live: Any, config: Any) -> Any:
    if not isinstance(config, dict) or not isinstance(live, dict):
        return config
    result = type(config)(live)
    for key, value in config.items():
        result[key] = _merged(live[key], value) if key in live else value
    return result


def _pruned(value: Any, gone: Tree) -> Any:
    """The value without the fields of a tree; maps that this empties go too."""
    result = type(value)()
    for key, step in _steps(value):
        if step not in gone:
            result[key] = value[key]
        elif gone[step] and isinstance(value[key], dict):
            rest = _pruned(value[key], gone[step])
            if rest:
                result[key] = rest
    return result


class Owners:
    """The entries of one object's managedFields."""

    def __init__(self, body: Object | None) -> None:
        entries = body["metadata"].get("managedFields", []) if body else []
        self._entries: dict[tuple[str, str, str], Object] = {
            (entry["manager"], entry["operation"], entry.get("subresource", "")): entry for entry in entries
        }

    def tree(self, key: tuple[str, str, str]) -> Tree:
        return self._entries[key]["fieldsV1"] if key in self._entries else {}

    def entries(self) -> list[Object]:
        return list(self._entries.values())

    def _set(self, key: tuple[str, str, str], tree: Tree, *, version: str, time: str) -> None:
        if not tree:
            self._entries.pop(key, None)
        elif self.tree(key) != tree:
            manager, operation, subresource = key
            entry: Object = {"manager": manager, "operation": operation, "apiVersion": version, "time": time}
            entry |= {"fieldsType": "FieldsV1", "fieldsV1": tree}
            self._entries[key] = entry | ({"subresource": subresource} if subresource else {})

    def _take(self, tree: Tree, *, keeper: tuple[str, str, str] | None = None) -> None:
        for key, entry in list(self._entries.items()):
            if key == keeper:
                continue
            rest = without(entry["fieldsV1"], tree)
            if not rest:
                del self._entries[key]
            elif rest != entry["fieldsV1"]:
                self._entries[key] = {**entry, "fieldsV1": rest}

    def update(self, old: Object | None, new: Object, *, manager: str, subresource: str, time: str) -> None:
        """Whoever changes a field by a plain write owns it from then on."""
        before, after = opened(old) if old else {}, opened(new)
        written, removed = changed(before, after), without(tree_of(before), tree_of(after)) if old else {}
        if not written and not removed:
            return
        key = (manager, UPDATE, subresource)
        self._take(union(removed, written), keeper=key)
        mine = union(without(self.tree(key), removed), written)
        self._set(key, mine, version=new["apiVersion"], time=time)

    def apply(
        self, live: Object, config: Object, *, manager: str, subresource: str, force: bool, time: str
    ) -> Object:
        """The object with what the manager wants, and without what it wanted before and nobody else does."""
        key = (manager, APPLY, subresource)
        wanted, current = opened(config), opened(live)
        want, former = tree_of(wanted), self.tree(key)
        taken: Tree = {}
        for other, entry in self._entries.items():
            clashes = _clashes(want, entry["fieldsV1"], config=wanted, live=current) if other != key else {}
            if clashes and not force:
                fields = ", ".join(sorted(_paths(clashes)))
                raise ConflictError(f'Apply failed with a conflict with "{other[0]}": {fields}')
            taken = union(taken, clashes)
        self._take(taken, keeper=key)
        gone = without(former, want)
        for other, entry in self._entries.items():
            if other != key:
                gone = without(gone, entry["fieldsV1"])
        self._set(key, want, version=config["apiVersion"], time=time)
        return _closed(_merged(_pruned(current, gone), wanted), onto=live)
