"""What this process logs while a test looks, as the lines of a file would be."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import orjson
import structlog

from tiphys import logs


class Lines:
    def __init__(self) -> None:
        self.stream = StringIO()

    def __call__(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.all() if line["message"] == message]

    def all(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.stream.getvalue().splitlines()]


@contextmanager
def logged(*, level: str = "debug") -> Iterator[Lines]:
    handlers, before, found = logging.root.handlers[:], structlog.get_config(), Lines()
    number = logging.root.level
    logs.configure(level=level, form=logs.Form.JSON, stream=found.stream)
    try:
        yield found
    finally:
        structlog.configure(**before)
        logging.root.handlers, logging.root.level = handlers, number
