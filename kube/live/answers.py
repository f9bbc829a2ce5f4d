"""Answers of an API server that are no objects, as our own exceptions."""

from collections.abc import Mapping
from typing import Any

import orjson

from kube.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)

LONGEST_WAIT_SECONDS = 300.0
"""Whoever stands before an API server may ask for any time; nobody is left without an answer for longer."""

_OK = 200
_CLIENT_ERRORS, _SERVER_ERRORS = 400, 500
_BY_REASON: Mapping[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Conflict": ConflictError,
    "Expired": GoneError,
    "Gone": GoneError,
}
_BY_CODE: Mapping[int, type[ApiError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}
_LONGEST_FOREIGN_TEXT = 200


def is_success(code: int) -> bool:
    return _OK <= code < _CLIENT_ERRORS


def is_server_error(code: int) -> bool:
    return code >= _SERVER_ERRORS


def error_of_status(status: Mapping[str, Any], *, code: int, what: str) -> ApiError:
    """From a Status object; `what` names the call for those that say nothing themselves."""
    message = str(status.get("message") or "") or f"{what}: the API server answered {code}"
    kind = _BY_REASON.get(str(status.get("reason"))) or _BY_CODE.get(code)
    if kind is None:
        kind = UnavailableError if is_server_error(code) else BadRequestError
    return kind(message, status=dict(status))


def error_of_answer(code: int, body: bytes, *, what: str) -> ApiError:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Not an API server's own words: a proxy's page, or plain text.
        text = " ".join(body.decode(errors="replace").split())[:_LONGEST_FOREIGN_TEXT]
        status = {"message": f"{what}: {code} {text}".rstrip()}
    return error_of_status(status if isinstance(status, dict) else {}, code=code, what=what)


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds, the only form that API servers use."""
    value = headers.get("Retry-After", "")
    return min(float(value), LONGEST_WAIT_SECONDS) if value.isascii() and value.isdigit() else None


def warnings_of(headers: Any) -> list[str]:
    """The texts of `Warning: 299 - "…"` headers."""
    texts = []
    for value in headers.getall("Warning", ()):
        _, _, text = value.partition('"')
        texts.append(text.removesuffix('"').replace('\\"', '"') or value)
    return texts
