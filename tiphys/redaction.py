"""Takes secrets out of anything on its way to a person or a file.

The last line of defence: whoever holds a secret does not hand it over in the first place.
"""

import re
from collections.abc import Mapping
from typing import Any

import re2

REMOVED = "[removed]"

_SECRET_KEYS = re.compile(
    r"(?:password|passwd|passphrase|token|secret|credentials?|authorization|cookie|apikey"
    r"|privatekey|keydata|clientkey|signingkey|stringdata|lastappliedconfiguration)$"
)
"""Ends of keys, without case, dashes, dots and underscores: `clientSecret`, `bearer_token`, `tls.keyData`."""

_SECRET_TEXTS = tuple(
    # RE2: these meet texts that strangers wrote, and must stay linear.
    (re2.compile(pattern), replacement)
    for pattern, replacement in (
        # A private key, also where its end was cut off.
        (
            r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,20}PRIVATE KEY-----)?",
            REMOVED,
        ),
        # A JSON web token: three parts, of which the first two are JSON objects in base64.
        (r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*", REMOVED),
        (r"([Bb]earer |[Bb]asic )[A-Za-z0-9._~+/-]{8,}=*", rf"\1{REMOVED}"),
    )
)

_QUOTE = r"""['"`]+[^\s[:punct:]]"""  # one that ends a text has no letter and no digit behind it
_AUTHORITY = rf"""(?:[^\s/?#'"`]|{_QUOTE})+['"`]*"""
_PASSWORD = (
    r"""(?:(?:[^\s/?#:'"`\[][^\s/?#:'"`]*)?:(?:[/?#]|[0-9]{6}|[0-9]*[^\s/?#'"`0-9]|[0-9]*""" + _QUOTE + ")"
    r"""|[^\s/?#:.@'"`\[]+:[0-9]+[/?#])"""
    rf"""(?:[^\s'"`]|{_QUOTE})*['"`]*"""
)
_USERINFO = re2.compile(rf"(:\\?/\\?/)(?:{_PASSWORD}|{_AUTHORITY})@")
"""Up to the last @ before the path: a password may have one, and a token stands where the user would.

Or up to the last @ of all, where a password may have what ends a host: what follows the colon is no port, or what is before
it has no dot, as most users and few hosts. A whole JSON text may have been escaped once more.
"""

_DEEPEST = 32  # below the nesting of any object that Kubernetes stores by hand


def redacted(value: Any, *, depth: int = 0) -> Any:
    """A copy without secrets: by key, by the look of a text, and all data of a Secret."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, bytes):
        return redacted_text(value.decode(errors="replace"))
    if depth > _DEEPEST:
        return REMOVED
    if isinstance(value, Mapping):
        is_secret = value.get("kind") == "Secret"
        return {
            key: REMOVED
            if item and (_is_secret_key(key) or (is_secret and key in {"data", "stringData"}))
            else redacted(item, depth=depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted(item, depth=depth + 1) for item in value]
    return value


def redacted_text(text: str) -> str:
    text = str(text)  # re2 cannot copy enumerations that are texts
    for pattern, replacement in _SECRET_TEXTS:
        text = pattern.sub(replacement, text)
    return without_userinfo(text)


def without_userinfo(text: str) -> str:
    """Without what stands before the host of a URL: users, passwords and tokens, whichever of them it is.

    But for `git`, whom everybody is over SSH.
    """
    return _USERINFO.sub(_unless_git, text) if "/" in text and "@" in text else text


def _unless_git(found: Any) -> str:
    return str(found[0]) if found[0] == "://git@" else f"{found[1]}{REMOVED}@"


def _is_secret_key(key: Any) -> bool:
    return isinstance(key, str) and bool(_SECRET_KEYS.search(re.sub(r"[-_./ ]", "", key).lower()))
