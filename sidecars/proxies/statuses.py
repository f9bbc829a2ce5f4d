"""Refusals as clients of Kubernetes read them: Status objects that say what and why."""

from http import HTTPStatus
from typing import Any

import orjson

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
JSON = "application/json"
_FIRST, _LAST = 400, 599


def status_object(code: int, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(code, ""),
        "code": code,
    }


def status_json(code: int, message: str) -> bytes:
    return orjson.dumps(status_object(code, message))


def explained(code: int, *, agent: str) -> bytes:
    """For argocd-agent's agents, which send a code and nothing else."""
    try:
        phrase = HTTPStatus(code).phrase
    except ValueError:
        phrase = "no known status"
    return status_json(code, f"agent {agent} refused: {code} {phrase}; it does not say why")


def is_error(code: int) -> bool:
    return _FIRST <= code <= _LAST
