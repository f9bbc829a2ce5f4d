"""Two ends find exactly where they differ, cheaply, whatever happens to their messages."""

from collections.abc import Callable
from itertools import count
from random import Random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecars.delivery.comparison import (
    COMPARE,
    COMPARED,
    COMPARISON_WANTED,
    RANGES,
    Comparer,
    ComparisonAnswer,
    ComparisonQuestion,
    ComparisonReport,
    ComparisonRound,
    Difference,
    answer,
)
from sidecars.delivery.inventory import Inventory
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event

KEYS = st.integers(0, 300).map(lambda number: f"Application/argocd/app-{number}")
CONTENTS = st.dictionaries(KEYS, st.binary(min_size=1, max_size=2), max_size=120)


def build(items: dict[str, bytes]) -> Inventory:
    inventory = Inventory()
    for key, digest in items.items():
        inventory.put(key, digest)
    return inventory


def apps(number: int) -> dict[str, bytes]:
    return {f"Application/argocd/app-{index}": index.to_bytes(16) for index in range(number)}


class End:
    """A comparer whose messages the test carries."""

    def __init__(self, items: dict[str, bytes], *, room: int = 1_000_000) -> None:
        numbers = count()
        self.inventory = build(items)
        self.sent: list[Event] = []
        self.differences: list[Difference] = []
        self.reports: list[ComparisonReport] = []
        self.room = room
        self.comparer = Comparer(
            inventories={"spec": self.inventory},
            send=self.send,
            found=lambda _, differences: self.differences.extend(differences),
            finished=self.reports.append,
            new_id=lambda: f"{id(self)}-{next(numbers)}",
        )

    def send(self, event: Event) -> bool:
        if len(self.sent) >= self.room:
            return False
        self.sent.append(event)
        return True

    def found(self) -> dict[str, tuple[bytes | None, bytes | None]]:
        return {difference.key: (difference.mine, difference.theirs) for difference in self.differences}


def expected(one: dict[str, bytes], two: dict[str, bytes]) -> dict[str, tuple[bytes | None, bytes | None]]:
    return {key: (one.get(key), two.get(key)) for key in {*one, *two} if one.get(key) != two.get(key)}


def exchange(one: End, two: End, *, mangle: Callable[[list[Event]], list[Event]] = lambda it: it) -> int:
    """Carries messages until there are none; how many bytes they had."""
    total = 0
    while one.sent or two.sent:
        for source, sink in ((one, two), (two, one)):
            batch, source.sent = source.sent, []
            for event in mangle(batch):
                total += len(event.payload)
                sink.comparer.handle(event)
    return total


@given(CONTENTS, CONTENTS)
def test_the_asking_end_learns_every_difference_and_no_other(
    one: dict[str, bytes], two: dict[str, bytes]
) -> None:
    here, there = End(one), End(two)
    here.comparer.start("spec")
    exchange(here, there)
    assert here.found() == expected(one, two)
    assert len(here.differences) == len(here.found())
    assert [report.complete for report in here.reports] == [True]
    assert not there.differences


@pytest.mark.parametrize("differences", [0, 1, 10, 100])
def test_the_cost_follows_the_differences_and_hardly_the_keys(differences: int) -> None:
    items = apps(20_000)
    other = dict(items)
    for key in Random(differences).sample(sorted(items), differences):
        other[key] = b"changed"
    here, there = End(items), End(other)
    here.comparer.start("spec")
    total = exchange(here, there)
    assert here.found() == expected(items, other)
    whole = sum(len(key) + 30 for key in items)
    assert total < 200 + differences * 2_500
    assert total < whole / 5
    assert here.reports[0].questions <= 4 + differences // 10


def test_messages_may_come_twice_and_in_any_order() -> None:
    items = apps(3_000)
    other = {key: digest for index, (key, digest) in enumerate(items.items()) if index % 5}
    random = Random(3)

    def mangle(events: list[Event]) -> list[Event]:
        doubled = events + [event for event in events if random.random() < 0.5]
        random.shuffle(doubled)
        return doubled

    here, there = End(items), End(other)
    here.comparer.start("spec")
    exchange(here, there, mangle=mangle)
    assert here.found() == expected(items, other)
    assert len(here.differences) == len(here.found())


def test_both_ends_may_ask_at_once() -> None:
    one, two = apps(500), {**apps(400), "Application/argocd/extra": b"x"}
    here, there = End(one), End(two)
    here.comparer.start("spec")
    there.comparer.start("spec")
    exchange(here, there)
    assert here.found() == expected(one, two)
    assert there.found() == expected(two, one)


def test_a_new_round_replaces_an_unfinished_one_whose_answers_no_longer_count() -> None:
    here, there = End(apps(300)), End(apps(299))
    here.comparer.start("spec")
    old = list(here.sent)
    here.comparer.start("spec")
    for event in old:
        there.comparer.handle(event)
    exchange(here, there)
    assert len(here.differences) == 1
    assert [report.complete for report in here.reports] == [False, True]


def test_the_repairing_end_can_be_asked_to_compare() -> None:
    here, there = End(apps(300)), End(apps(299))
    assert there.comparer.want("spec")
    exchange(here, there)
    assert len(here.differences) == 1
    assert not there.differences


def test_a_full_outbox_ends_the_round_instead_of_leaving_it_open() -> None:
    here = End(apps(300), room=0)
    here.comparer.start("spec")
    assert [report.complete for report in here.reports] == [False]


def test_a_round_without_an_answer_for_want_of_room_begins_anew_when_there_is_some() -> None:
    one, two = apps(40), apps(39)
    here, there = End(one), End(two, room=0)
    here.comparer.start("spec")
    exchange(here, there)
    assert not here.differences
    there.room = 10
    there.comparer.want_unanswered()
    exchange(here, there)
    assert here.found() == expected(one, two)
    assert [report.complete for report in here.reports] == [False, True]
    there.comparer.want_unanswered()
    assert not there.sent


def test_a_round_that_is_under_way_is_not_begun_anew_for_one_that_is_over() -> None:
    here, there = End(apps(40)), End(apps(39), room=0)
    here.comparer.start("spec")
    exchange(here, there)
    here.comparer.start("spec")  # of itself, meanwhile
    there.room = 10
    there.comparer.want_unanswered()
    (late,) = there.sent
    here.comparer.handle(late)
    assert len(here.reports) == 1
    exchange(here, there)
    assert [report.complete for report in here.reports] == [False, True]


def test_changes_during_a_round_do_not_confuse_it() -> None:
    here, there = End(apps(5_000)), End({})
    here.comparer.start("spec")
    steps = 0
    while here.sent or there.sent:
        for source, sink in ((here, there), (there, here)):
            batch, source.sent = source.sent, []
            for event in batch:
                sink.comparer.handle(event)
                steps += 1
                here.inventory.put(f"late-{steps}", b"x")
                here.inventory.remove(f"Application/argocd/app-{steps}")
    assert here.reports[0].complete


def test_questions_are_bounded_in_size_and_number() -> None:
    round_ = ComparisonRound(build(apps(50_000)), scope="spec", name="r")
    there = build(dict.fromkeys(apps(50_000), b"other"))
    most = 0
    while not round_.done:
        questions = round_.ask()
        most = max(most, *(len(question.marks) for question in questions))
        for question in questions:
            round_.receive(answer(there, question))
    assert most == RANGES


def test_keys_in_a_range_where_they_do_not_belong_are_ignored() -> None:
    round_ = ComparisonRound(build({}), scope="spec", name="r")
    (question,) = round_.ask()
    ranges = {"": [bytes([number]) * 16 for number in range(16)]}
    round_.receive(ComparisonAnswer(scope="spec", round="r", number=question.number, ranges=ranges))
    (question,) = round_.ask()
    reply = ComparisonAnswer(scope="spec", round="r", number=question.number, items={"1": {"anything": b"x"}})
    found = round_.receive(reply)
    reply = ComparisonAnswer(scope="spec", round="r", number=question.number, items={"e": {"anything": b"x"}})
    assert len(found) + len(round_.receive(reply)) <= 1


MALFORMED = [
    (COMPARE, b"{"),
    (COMPARE, b"[]"),
    (COMPARE, b'{"scope": 1, "round": "r", "number": 0, "marks": {}}'),
    (COMPARE, b'{"scope": "spec", "round": null, "number": 0, "marks": {}}'),
    (COMPARE, b'{"scope": "spec", "round": "r", "number": true, "marks": {}}'),
    (COMPARE, b'{"scope": "spec", "round": "r", "number": 0, "marks": []}'),
    (COMPARE, b'{"scope": "spec", "round": "r", "number": 0, "marks": {"xyz": ""}}'),
    (COMPARE, b'{"scope": "spec", "round": "r", "number": 0, "marks": {"": "AAAA"}}'),
    (COMPARE, b'{"scope": "nothing", "round": "r", "number": 0, "marks": {}}'),
    (
        COMPARE,
        orjson.dumps(
            {
                "scope": "spec",
                "round": "r",
                "number": 0,
                "marks": {f"{number:03x}": "" for number in range(65)},
            }
        ),
    ),
    (COMPARED, b'{"scope": "spec", "round": "r", "number": 0, "items": {"": []}}'),
    (COMPARED, b'{"scope": "spec", "round": "r", "number": 0, "items": {"": {"key": 3}}}'),
    (COMPARED, b'{"scope": "spec", "round": "r", "number": 0, "ranges": {"": "AAAA"}}'),
    (COMPARED, b'"%s"' % (b"x" * (1 << 20))),
    (COMPARISON_WANTED, b"{}"),
    ("dev.tiphys.event.dance", b"{}"),
]


@pytest.mark.parametrize(("kind", "payload"), MALFORMED, ids=range(len(MALFORMED)))
def test_what_makes_no_sense_is_refused(kind: str, payload: bytes) -> None:
    event = Event(type=kind, target="tiphysComparison", resource_id="1", event_id="1", payload=payload)
    with pytest.raises(MalformedError):
        End({}).comparer.handle(event)


def test_messages_survive_the_wire() -> None:
    question = ComparisonQuestion(scope="spec", round="r", number=3, marks={"": bytes(16), "a3": b"x" * 16})
    assert ComparisonQuestion.read(question.payload()) == question
    reply = ComparisonAnswer(
        scope="spec",
        round="r",
        number=3,
        ranges={"a": [bytes([number]) * 16 for number in range(16)]},
        items={"b": {"Application/argocd/guestbook": b"digest"}},
    )
    assert ComparisonAnswer.read(reply.payload()) == reply
