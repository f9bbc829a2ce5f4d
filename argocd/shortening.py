"""Somebody's texts in messages: without the credentials of URLs, and cut where they are long."""

from argocd.budget import spend
from tiphys.redaction import without_userinfo

LONGEST = 1024
"""Characters of what is said: it may quote a field of a megabyte, and a reader wants its beginning."""
_LOOKED_AT = 8 * LONGEST
"""Of a longer one: a password that is cut amid would be no password any more to whoever takes it out."""
_COPIED = 1024
"""Characters that one step puts together. What quotes a name of a megabyte ten thousand times must end."""


def shortened(text: str, most: int) -> str:
    """The credentials go first: a text that ends amid them looks like no URL that has any."""
    return without_userinfo(text)[:most]


def told(text: str) -> str:
    """What is said to somebody: the text as it is, or its beginning."""
    if len(text) <= LONGEST:
        return without_userinfo(text) if "@" in text else text
    spend(len(text) // _COPIED)
    return f"{shortened(text[:_LOOKED_AT], LONGEST)}…"
