"""What this process logs while a test looks, as the lines of a file would be."""

from io import StringIO
from typing import Any

import orjson

from tiphys import logs


class Lines:
    def __init__(self) -> None:
        self.stream = StringIO()

    def __call__(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.all() if line["message"] == message]

    def all(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.stream.getvalue().splitlines()]


def logged(*, level: str = "debug") -> Lines:
    """From now on; `tests/conftest.py` puts logging back when the test ends."""
    found = Lines()
    logs.configure(level=level, form=logs.Form.JSON, stream=found.stream)
    return found
