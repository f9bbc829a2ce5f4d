"""One contextual logger: for people on a terminal, JSON lines otherwise, secrets never.

    log = logs.get_logger()
    log.info("project written", **{logs.NAMESPACE: "argocd", logs.NAME: "web"})

Key names are the constants below, so that a line can be searched for whatever room wrote it. Libraries that
log through the standard library come out of the same end.
"""

import logging
import os
import sys
import traceback
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TextIO

import orjson

from tiphys.redaction import redacted

# Where it is installed structlog loads rich, 9 MiB of every process, for tracebacks that are written here.
_RICH: Any = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None: not to be found
import structlog  # noqa: E402
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger  # noqa: E402

if _RICH is None:
    del sys.modules["rich"]

AGENT = "agent"
CODE = "code"
COMMAND = "command"
COUNT = "count"
ERROR = "error"
GROUP = "group"
KEY = "key"
KIND = "kind"
LOGGER = "logger"
NAME = "name"
NAMESPACE = "namespace"
OPERATION = "operation"
PEER = "peer"
REASON = "reason"
RULE = "rule"
SECONDS = "seconds"
SECRET_NAME = "secret_name"  # noqa: S105 - a Secret's name, never its content
TRACE_PARENT = "traceparent"
URL = "url"
USER = "user"

_level = logging.WARNING

LONGEST_VALUE = 2048
"""Characters of a string: enough for any message of an API server, too few for a manifest."""


class Form(StrEnum):
    AUTO = "auto"
    HUMAN = "human"
    JSON = "json"


def get_logger(**context: Any) -> FilteringBoundLogger:
    """Cheap, and configured late: a module may call it while it is imported."""
    logger: FilteringBoundLogger = structlog.get_logger(**context)
    return logger


def configure(*, level: str = "info", form: str = Form.AUTO, stream: TextIO | None = None) -> None:
    """Once per process, by the command; without it warnings and worse appear in human form."""
    terminal = (stream or sys.stderr).isatty()
    number = logging.getLevelNamesMapping()[level.upper()]
    human = terminal if Form(form) is Form.AUTO else Form(form) is Form.HUMAN
    _configure(human=human, level=number, stream=stream)
    # Libraries are chattier than we are: their information is our debugging.
    libraries = number if number <= logging.DEBUG else max(number, logging.WARNING)
    logging.basicConfig(handlers=[_Bridge()], level=libraries, force=True)


def debugs() -> bool:
    """Before a line that is written for every event: one that is filtered out later costs 4 us all the same."""
    return _level <= logging.DEBUG


def describe(error: BaseException) -> str:
    """One line, also where the exception has no text of its own."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _configure(*, human: bool, level: int, stream: TextIO | None) -> None:
    global _level  # noqa: PLW0603 - as global as structlog's own configuration
    _level = level
    colors = (stream or sys.stderr).isatty() and not os.environ.get("NO_COLOR")
    structlog.configure(
        processors=_processors(human=human, colors=colors),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Standard error is looked up late: tests and commands may replace it.
        logger_factory=lambda *_: structlog.WriteLogger(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )


def _processors(*, human: bool, colors: bool) -> list[Processor]:
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if human else "iso", utc=not human),
        _exceptions_as_text,
        _without_secrets,
    ]
    if human:
        return [*first, structlog.dev.ConsoleRenderer(colors=colors)]
    return [*first, structlog.processors.EventRenamer("message"), _json_line]


def _exceptions_as_text(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Before secrets are taken out, so that none hides in a traceback."""
    given = event.pop("exc_info", None)
    exception = sys.exception() if given is True else given[1] if isinstance(given, tuple) else given
    if isinstance(exception, BaseException):
        event["exception"] = "".join(traceback.format_exception(exception))
    for key, value in event.items():
        if isinstance(value, BaseException):
            event[key] = describe(value)
    return event


def _without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {
        key: value if key == "exception" else _shortened(value)
        for key, value in redacted(dict(event)).items()
    }


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        return f"{value[:LONGEST_VALUE]}… ({len(value)} characters)"
    return value


def _json_line(_logger: WrappedLogger, _method: str, event: Mapping[str, Any]) -> str:
    return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()


class _Bridge(logging.Handler):
    """Lines of the standard library's loggers, through the same processors."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = record.getMessage()
            level = record.levelname.lower() if record.levelno <= logging.CRITICAL else "critical"
            write = getattr(get_logger(), level, get_logger().info)
            write(line, **{LOGGER: record.name}, exc_info=record.exc_info)
        except Exception:  # noqa: BLE001 - a line that cannot be written must not end the program
            self.handleError(record)


_configure(human=True, level=logging.WARNING, stream=None)
