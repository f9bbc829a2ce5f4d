"""Schedules of sync windows: five fields, as robfig/cron reads them for Argo CD.

No seconds, no @daily, no L, W or #; Sunday is 0 and never 7; an item of a list may be empty. What passes can
still never come true, and then Argo CD takes the window for one that is always open.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from argocd.budget import remembered, spend
from argocd.go import runes, strconv, time_zones

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_WEEKDAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _WEEKDAYS),
)
_DAY = 24 * 60
_LEAP_YEAR = 2024
_SHORTEST_MONTH, _LONGEST_MONTH = 28, 31
_LAST_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Of the months of a leap year."""
_TIMES_AT_ONCE = 6
"""That one step compares."""
_STARS = frozenset("*?")
_COMMAS = re.compile("[^,]+")
_SHORT = 20
"""Characters of a field that other schedules are likely to have too: there are sixty minutes and no more."""


class ScheduleError(Exception):
    """The text is the library's."""


class SchedulePanicError(Exception):
    """Argo CD would panic on it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When it fires: minutes of an hour, hours of a day and so on.

    The day must be right by both fields if one of them is a star, else by either.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """One of the two fields for the day is a star."""

    @property
    def never_fires(self) -> bool:
        if not (self.minutes and self.hours and self.months):
            return True
        if self.any_day != bool(self.weekdays):
            return self.any_day
        first = min(self.days, default=_LONGEST_MONTH + 1)
        return first > _SHORTEST_MONTH and all(first > _LAST_DAYS[month - 1] for month in self.months)

    def pauses_longer_than(self, minutes: int) -> bool:
        """Whether so much time can pass from one time to the next; of a schedule that does fire."""
        if len(self.hours) * len(self.minutes) * minutes < _DAY:
            return True
        spend(len(self.hours) * len(self.minutes) // _TIMES_AT_ONCE)
        times = sorted(hour * 60 + minute for hour in self.hours for minute in self.minutes)
        gaps = [later - earlier for earlier, later in pairwise(times)]
        overnight = times[0] + _DAY - times[-1]
        if max([*gaps, overnight]) > minutes:
            return True
        if len(self.months) == len(_MONTHS) and self._every_day():
            return False
        # A day is left out, so a night and a whole day pass; or a month is.
        if minutes <= _DAY or (len(self.months) < len(_MONTHS) and minutes <= _SHORTEST_MONTH * _DAY):
            return True
        return any(overnight + (days - 1) * _DAY > minutes for days in self._days_between())

    def _every_day(self) -> bool:
        all_days = len(self.days) == _LONGEST_MONTH
        all_weekdays = len(self.weekdays) == len(_WEEKDAYS)
        return all_days and all_weekdays if self.any_day else all_days or all_weekdays

    def _days_between(self) -> Iterator[int]:
        """From one day on which it fires to the next, over two leap years."""
        last = None
        for number in range(8 * 366):
            spend(3)  # a date is made, and taken apart
            day = date(_LEAP_YEAR, 1, 1) + timedelta(days=number)
            if self._fires_on(day):
                if last is not None:
                    yield number - last
                last = number

    def _fires_on(self, day: date) -> bool:
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        right = by_day and by_weekday if self.any_day else by_day or by_weekday
        return right and day.month in self.months


def parse(text: str) -> Schedule:
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = _without_zone(text)
    if text.startswith("@"):
        raise ScheduleError(f"parser does not accept descriptors: {text}")
    fields = runes.words(text)
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    parsed = [_field(field, place) for place, field in enumerate(fields)]
    minutes, hours, days, months, weekdays = (values for values, _ in parsed)
    return Schedule(minutes, hours, days, months, weekdays, any_day=parsed[2][1] or parsed[4][1])


@remembered(longest=300, most=1024)
def read(text: str) -> Schedule | ScheduleError | SchedulePanicError:
    """As `parse`, with what is wrong as the answer."""
    try:
        return parse(text)
    except (ScheduleError, SchedulePanicError) as error:
        return error


def _without_zone(text: str) -> str:
    zone, space, rest = text.partition("=")[2].partition(" ")
    if not space:
        raise SchedulePanicError("a time zone with nothing after it")
    if problem := time_zones.problem(zone):
        raise ScheduleError(f"provided bad location {zone}: {problem}")
    return runes.trim(rest)


@remembered(longest=_SHORT, most=1024)
def _field(text: str, place: int) -> tuple[frozenset[int], bool]:
    """The values, and whether it is a star."""
    low, high, names = _FIELDS[place]
    values: set[int] = set()
    any_value = False
    for item in _COMMAS.findall(text):
        first, last, step = _item(item, low, high, names)
        values.update(range(first, last + 1, step))
        any_value = any_value or (item[0] in _STARS and step == 1)
    return frozenset(values), any_value


def _item(text: str, low: int, high: int, names: dict[str, int]) -> tuple[int, int, int]:
    """First, last and step of `3`, `1-5`, `*/2` or `mon-fri`."""
    span, *steps = text.split("/")
    first, last = _span(span, low, high, names, whole=text)
    step = 1
    if len(steps) == 1:
        step = _number(steps[0], {})
        if "-" not in span:
            last = high
    elif steps:
        raise ScheduleError(f"too many slashes: {text}")
    if first < low:
        raise ScheduleError(f"beginning of range ({first}) below minimum ({low}): {text}")
    if last > high:
        raise ScheduleError(f"end of range ({last}) above maximum ({high}): {text}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if not step:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return first, last, step


def _span(text: str, low: int, high: int, names: dict[str, int], *, whole: str) -> tuple[int, int]:
    first, *others = text.split("-")
    if first in _STARS:
        return low, high
    begin = _number(first, names)
    if not others:
        return begin, begin
    if len(others) > 1:
        raise ScheduleError(f"too many hyphens: {whole}")
    return begin, _number(others[0], names)


def _number(text: str, names: dict[str, int]) -> int:
    if (named := names.get(runes.lower(text))) is not None:
        return named
    value = strconv.atoi(text)
    if isinstance(value, str):
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {value}')
    if value < 0:
        raise ScheduleError(f"negative number ({value}) not allowed: {text}")
    return value
