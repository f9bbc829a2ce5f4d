"""Reviews, denials and the rules that spoke in the last hour, minute by minute: what the status page draws."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MINUTES = 60
RULES = 512
"""More than there are; a process of this pod that tells of others fills no memory."""


@dataclass(slots=True)
class ReviewedMinute:
    number: int
    """Since 1970."""
    reviews: int = 0
    denials: int = 0
    rules: Counter[str] = field(default_factory=Counter)


class LastHour:
    """Written by the keeper's loop, read by pages in other threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minutes: deque[ReviewedMinute] = deque(maxlen=MINUTES)

    def add(self, *, reviews: int, denials: int, rules: Mapping[str, int]) -> None:
        number = int(self._clock()) // 60
        if not self._minutes or self._minutes[-1].number != number:
            self._minutes.append(ReviewedMinute(number))
        minute = self._minutes[-1]
        minute.reviews += reviews
        minute.denials += denials
        for rule, count in rules.items():
            if rule in minute.rules or len(minute.rules) < RULES:
                minute.rules[rule] += count

    @property
    def counts(self) -> list[tuple[int, int]]:
        """Reviews and denials of each minute, the oldest first."""
        last = int(self._clock()) // 60
        known = {minute.number: (minute.reviews, minute.denials) for minute in list(self._minutes)}
        return [known.get(number, (0, 0)) for number in range(last - MINUTES + 1, last + 1)]

    def loudest(self, most: int) -> list[tuple[str, int]]:
        """The rules that spoke most, and how often."""
        first = int(self._clock()) // 60 - MINUTES + 1
        together: Counter[str] = Counter()
        for minute in list(self._minutes):
            if minute.number >= first:
                together.update(dict(minute.rules))
        return together.most_common(most)
