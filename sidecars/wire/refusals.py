"""Refusals of calls: what the caller reads, and what the log and the metrics say."""

import math
from collections import OrderedDict
from collections.abc import Callable

import grpc

REPEAT_SECONDS = 60.0
MAX_REMEMBERED = 1024


class RefusedError(Exception):
    """Ends a call with `code` and `message`; `reason` stays here."""

    def __init__(self, code: grpc.StatusCode, message: str, *, reason: str, label: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.label = label


class RefusalLog:
    """Says for each thing whether it is time for a line again, and how many were left out since."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._said: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def turn(self, key: tuple[str, str]) -> int | None:
        now = self._monotonic()
        last, missed = self._said.get(key, (-math.inf, 0))
        if now - last < REPEAT_SECONDS:
            self._said[key] = (last, missed + 1)
            return None
        self._said[key] = (now, 0)
        self._said.move_to_end(key)
        while len(self._said) > MAX_REMEMBERED:
            self._said.popitem(last=False)
        return missed


def unauthenticated(words: str, *, reason: str, label: str) -> RefusedError:
    return RefusedError(grpc.StatusCode.UNAUTHENTICATED, words, reason=reason, label=label)
