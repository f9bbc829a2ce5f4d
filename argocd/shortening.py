"""Somebody's texts in messages: without the credentials of URLs, and cut where they are long."""

from tiphys.redaction import without_userinfo


def shortened(text: str, most: int) -> str:
    """The credentials go first: a text that ends amid them looks like no URL that has any."""
    return without_userinfo(text)[:most]
