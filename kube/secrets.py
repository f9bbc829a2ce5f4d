"""What a Secret holds, out of its base64."""

import binascii
from base64 import b64decode
from typing import Any

from kube.store import Object


def decoded(value: Any) -> bytes | None:
    """None where it is not base64; null is what API servers make of it, nothing."""
    try:
        return b64decode(value or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return None


def decoded_data(secret: Object | None) -> dict[str, bytes]:
    """What is not base64 counts as absent."""
    data = (secret or {}).get("data") or {}
    return {key: content for key, value in data.items() if (content := decoded(value)) is not None}
