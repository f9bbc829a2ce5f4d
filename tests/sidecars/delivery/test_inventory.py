"""An inventory's marks follow from what is in it, however it came about."""

from hypothesis import given
from hypothesis import strategies as st

from sidecars.delivery.inventory import LEAF, NOTHING, Inventory, position

KEYS = st.integers(0, 80).map(lambda number: f"Application/argocd/app-{number}")
DIGESTS = st.binary(min_size=1, max_size=2)
CHANGES = st.lists(st.tuples(KEYS, st.none() | DIGESTS), max_size=200)


def build(items: dict[str, bytes]) -> Inventory:
    inventory = Inventory()
    for key, digest in items.items():
        inventory.put(key, digest)
    return inventory


@given(CHANGES)
def test_an_inventory_holds_what_was_put_and_not_removed(changes: list[tuple[str, bytes | None]]) -> None:
    inventory, expected = Inventory(), dict[str, bytes]()
    for key, digest in changes:
        if digest is None:
            inventory.remove(key)
            expected.pop(key, None)
        else:
            inventory.put(key, digest)
            expected[key] = digest
    assert inventory.items() == expected
    assert len(inventory) == len(expected)
    assert all(inventory.get(key) == digest for key, digest in expected.items())


@given(CHANGES)
def test_marks_do_not_depend_on_history(changes: list[tuple[str, bytes | None]]) -> None:
    inventory = Inventory()
    for number, (key, digest) in enumerate(changes):
        if digest is None:
            inventory.remove(key)
        else:
            inventory.put(key, digest)
        if number % 7 == 0:
            inventory.mark()  # computed halfway or not
    fresh = build(dict(sorted(inventory.items().items(), reverse=True)))
    assert inventory.mark() == fresh.mark()
    assert inventory.marks("") == fresh.marks("")
    for prefix in ("0", "7", "f", "a3"):
        assert inventory.mark(prefix) == fresh.mark(prefix)
        assert inventory.items(prefix) == fresh.items(prefix)
        assert inventory.count(prefix) == len(fresh.items(prefix))


@given(
    st.dictionaries(KEYS, DIGESTS, max_size=60),
    st.dictionaries(KEYS, DIGESTS, max_size=60),
)
def test_marks_are_equal_exactly_for_equal_contents(one: dict[str, bytes], two: dict[str, bytes]) -> None:
    assert (build(one).mark() == build(two).mark()) == (one == two)


def test_an_empty_range_has_one_mark_wherever_it_is() -> None:
    assert Inventory().mark() == Inventory().mark("abc") == NOTHING
    inventory = build({f"key-{number}": b"x" for number in range(100)})
    for number in range(100):
        inventory.remove(f"key-{number}")
    assert inventory.mark() == NOTHING


def test_a_range_below_a_leaf_can_be_asked_for() -> None:
    items = {f"key-{number}": b"x" for number in range(LEAF)}
    place = position("key-3")
    few = build(items)
    many = build({**items, **{f"other-{number}": b"x" for number in range(500)}})
    for number in range(500):
        many.remove(f"other-{number}")
    assert few.mark(place) == many.mark(place) != NOTHING
    assert few.items(place) == {"key-3": b"x"}


def test_keys_and_digests_cannot_be_confused() -> None:
    assert build({"a": b"bc"}).mark() != build({"ab": b"c"}).mark()


def test_a_change_touches_one_path_only() -> None:
    inventory = build({f"key-{number}": b"x" for number in range(5_000)})
    inventory.mark()
    inventory.put("key-77", b"changed")
    unknown = [0]

    def visit(node: object) -> None:
        unknown[0] += getattr(node, "mark") is None  # noqa: B009 - whatever is in the tree
        for child in getattr(node, "children") or ():  # noqa: B009
            if child is not None:
                visit(child)

    visit(inventory._root)
    assert unknown[0] <= 4
