import io
import json
import logging
import subprocess
import sys
from typing import Any

import pytest
import structlog

from tiphys import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_file_gets_json_lines_with_level_and_time() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)

    logs.get_logger().info("project written", **{logs.NAMESPACE: "argocd", logs.NAME: "web"})

    [line] = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"message": "project written", "level": "info", "namespace": "argocd", "name": "web"}


def test_a_terminal_gets_a_line_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    logs.configure(stream=stream)

    logs.get_logger().warning("project refused", **{logs.NAME: "web"})

    assert "project refused" in stream.getvalue()
    assert "name=web" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_a_form_that_is_asked_for_wins_over_the_stream() -> None:
    stream = Terminal()
    logs.configure(stream=stream, form=logs.Form.JSON)

    logs.get_logger().info("hello")

    assert lines(stream)[0]["message"] == "hello"


def test_lines_below_the_level_are_dropped() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, level="warning")

    logs.get_logger().info("not this")
    logs.get_logger().warning("but this")

    assert [line["message"] for line in lines(stream)] == ["but this"]


def test_libraries_come_out_of_the_same_end() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)

    logging.getLogger("aiohttp.access").info("not this")
    logging.getLogger("aiohttp.server").error("failed for %s", "Bearer abcdefghijkl")

    [line] = lines(stream)
    assert line["message"] == "failed for Bearer [removed]"
    assert (line["logger"], line["level"]) == ("aiohttp.server", "error")


def test_an_exception_keeps_its_traceback_and_loses_its_secrets() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)

    def fail() -> None:
        raise ValueError("cannot reach https://bob:hunter2@example.org/")

    try:
        fail()
    except ValueError as error:
        logs.get_logger().exception("failed", **{logs.ERROR: error})

    [line] = lines(stream)
    assert line["error"] == "ValueError: cannot reach https://[removed]@example.org/"
    assert "Traceback" in line["exception"]
    assert "hunter2" not in stream.getvalue(), "not even in the source line that the traceback shows"


def test_a_line_break_in_a_users_text_starts_no_new_line() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)

    logs.get_logger().info("read", **{logs.NAME: 'web\n{"message": "forged"}'})

    assert len(stream.getvalue().splitlines()) == 1


def test_a_long_text_is_cut() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)

    logs.get_logger().info("read", **{logs.REASON: "x" * 100_000})

    assert lines(stream)[0]["reason"].endswith("x… (100000 characters)")
    assert len(stream.getvalue()) < 3000


def test_context_of_a_task_is_in_each_of_its_lines() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)

    with structlog.contextvars.bound_contextvars(**{logs.AGENT: "blue"}):
        logs.get_logger().info("connected")

    assert lines(stream)[0]["agent"] == "blue"


def test_an_exception_without_a_text_is_named() -> None:
    assert logs.describe(TimeoutError()) == "TimeoutError"
    assert logs.describe(OSError("two\nlines")) == "OSError: two lines"


def test_before_any_configuration_only_warnings_appear_and_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.get_logger().info("not this")
    logs.get_logger().warning("but this")

    written = capsys.readouterr()
    assert written.out == ""
    assert "but this" in written.err
    assert "not this" not in written.err


def test_whether_lines_for_debugging_are_wanted_is_known_before_they_are_made() -> None:
    logs.configure(level="debug", stream=io.StringIO())
    assert logs.debugs()
    logs.configure(level="info", stream=io.StringIO())
    assert not logs.debugs()


def test_logging_does_not_load_what_only_a_terminal_needs() -> None:
    script = (
        "import sys; from tiphys import logs; print('rich' in sys.modules); import rich; print(rich.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "rich"]
