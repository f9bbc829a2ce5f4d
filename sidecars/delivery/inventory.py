"""What one end has, hashed so that two ends find their differences without telling each other everything.

A trie over the hash of each key, sixteen ways a level. Its shape follows from the keys alone (a range with
few of them is a leaf), so equal sets have equal marks however they came about. A change touches one path;
marks on it are computed again when somebody asks, so maintaining costs O(log N) and a thousand changes
between two comparisons share their paths.

A mark is a hash over the marks below it, not their sum or XOR: both of those let the owners of a hundred or
so objects choose contents that cancel out. With BLAKE2b at 128 bits two ranges that differ have equal marks
with probability 2^-128 by accident, and finding such a pair on purpose takes some 2^64 tries.
"""

from collections.abc import Iterator
from hashlib import blake2b

WAYS = "0123456789abcdef"
DEPTH = 16
"""Digits of a position: 64 bits. Keys that share all of them stay together in one leaf."""

LEAF = 16
"""Keys up to which a range is told item by item: about the size of the sixteen marks it would take else."""

MARK_BYTES = 16
NOTHING = bytes(MARK_BYTES)
"""The mark of an empty range."""


def position(key: str) -> str:
    return blake2b(key.encode(errors="surrogatepass"), digest_size=DEPTH // 2).hexdigest()


class _Node:
    """A leaf has items, an inner node children: lists of sixteen, None where there is nothing."""

    __slots__ = ("children", "count", "items", "mark")

    def __init__(self) -> None:
        self.items: dict[str, bytes] | None = {}
        self.children: list[_Node | None] | None = None
        self.count = 0
        self.mark: bytes | None = NOTHING  # None: must be computed again


class Inventory:
    """Keys and the digests of what stands behind them."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = _Node()

    def __len__(self) -> int:
        return self._root.count

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> bytes | None:
        node, _ = self._find(position(key))
        return node.items.get(key) if node is not None and node.items is not None else None

    def put(self, key: str, digest: bytes) -> None:
        old = self.get(key)
        if old == digest:
            return
        place = position(key)
        added = 1 if old is None else 0
        node = self._root
        depth = 0
        while True:
            node.mark = None
            node.count += added
            if node.children is None:
                break
            way = int(place[depth], 16)
            child = node.children[way]
            if child is None:
                child = node.children[way] = _Node()
            node, depth = child, depth + 1
        assert node.items is not None
        node.items[key] = digest
        if node.count > LEAF:
            _split(node, depth)

    def remove(self, key: str) -> None:
        if key not in self:
            return
        place = position(key)
        node = self._root
        depth = 0
        while node.children is not None:
            node.mark = None
            node.count -= 1
            if node.count <= LEAF:
                _merge(node)
                break
            way = int(place[depth], 16)
            child = node.children[way]
            assert child is not None
            if child.count == 1:
                node.children[way] = None
                return
            node, depth = child, depth + 1
        else:
            node.count -= 1
        node.mark = None
        assert node.items is not None
        del node.items[key]

    def mark(self, prefix: str = "") -> bytes:
        """Equal on both ends exactly where they have the same keys and digests under the prefix."""
        node, depth = self._find(prefix)
        if node is None:
            return NOTHING
        if depth == len(prefix):
            return _mark(node)
        return _leaf_mark(_under(node, prefix))

    def marks(self, prefix: str) -> list[bytes]:
        """The marks of the sixteen ranges below."""
        return [self.mark(prefix + way) for way in WAYS]

    def count(self, prefix: str = "") -> int:
        node, depth = self._find(prefix)
        if node is None:
            return 0
        return node.count if depth == len(prefix) else len(_under(node, prefix))

    def items(self, prefix: str = "") -> dict[str, bytes]:
        node, depth = self._find(prefix)
        if node is None:
            return {}
        return dict(_walk(node)) if depth == len(prefix) else _under(node, prefix)

    def _find(self, prefix: str) -> tuple[_Node | None, int]:
        """The node at the prefix, or the leaf above it, and its depth; None where nothing is there."""
        node: _Node | None = self._root
        for depth, digit in enumerate(prefix):
            if node is None or node.children is None:
                return node, depth
            node = node.children[int(digit, 16)]
        return node, len(prefix)


def _split(node: _Node, depth: int) -> None:
    if depth == DEPTH:
        return
    items, node.items = node.items, None
    node.children = [None] * len(WAYS)
    assert items is not None
    for key, digest in items.items():
        way = int(position(key)[depth], 16)
        child = node.children[way]
        if child is None:
            child = node.children[way] = _Node()
            child.mark = None
        assert child.items is not None
        child.items[key] = digest
        child.count += 1
    for child in node.children:
        if child is not None and child.count > LEAF:
            _split(child, depth + 1)


def _merge(node: _Node) -> None:
    node.items = dict(_walk(node))
    node.children = None


def _walk(node: _Node) -> Iterator[tuple[str, bytes]]:
    if node.items is not None:
        yield from node.items.items()
    for child in node.children or ():
        if child is not None:
            yield from _walk(child)


def _under(leaf: _Node, prefix: str) -> dict[str, bytes]:
    assert leaf.items is not None
    return {key: digest for key, digest in leaf.items.items() if position(key).startswith(prefix)}


def _mark(node: _Node) -> bytes:
    if node.mark is None:
        if node.items is not None:
            node.mark = _leaf_mark(node.items)
        else:
            digest = blake2b(digest_size=MARK_BYTES, person=b"range")
            for child in node.children or ():
                digest.update(NOTHING if child is None else _mark(child))
            node.mark = digest.digest()
    return node.mark


def _leaf_mark(items: dict[str, bytes]) -> bytes:
    if not items:
        return NOTHING
    digest = blake2b(digest_size=MARK_BYTES, person=b"items")
    for key in sorted(items):
        name = key.encode(errors="surrogatepass")
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        digest.update(b"%d %d " % (len(name), len(items[key])))
        digest.update(name)
        digest.update(items[key])
    return digest.digest()
