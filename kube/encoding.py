"""Objects become bytes and bytes become objects here, for both stores alike."""

from typing import Any, TypeVar

import orjson

from kube.errors import BadRequestError

# Without these a datetime or a dataclass in a body would silently become some string or object.
_PLAIN_JSON_ONLY = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)

T = TypeVar("T")


def encode(body: Any) -> bytes:
    try:
        return orjson.dumps(body, option=_PLAIN_JSON_ONLY)
    except TypeError as error:  # names types and depths, never values
        raise BadRequestError(f"the body is not plain JSON: {error}") from error


def encoded_to_keep(body: Any) -> bytes:
    """Without the room that orjson leaves behind its bytes, 4 KiB of it."""
    return memoryview(encode(body)).tobytes()


def decode(raw: bytes) -> Any:
    return orjson.loads(raw)


def copied(body: T) -> T:
    """An own copy. Through bytes it is several times faster than `copy.deepcopy`."""
    return orjson.loads(encode(body))  # type: ignore[no-any-return]  # JSON in, the same JSON out
