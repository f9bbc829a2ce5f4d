"""What Kubernetes takes as the name of an object, or as the key or value of a label."""

import re
from functools import lru_cache

LABEL_LIMIT = 63
"""Of a DNS label and of a label's value."""
SUBDOMAIN_LIMIT = 253

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?")


def is_dns_label(text: str) -> bool:
    """What a Namespace may be called."""
    return len(text) <= LABEL_LIMIT and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """What most other objects may be called, service accounts among them."""
    return len(text) <= SUBDOMAIN_LIMIT and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    return len(text) <= LABEL_LIMIT and _LABEL_VALUE.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """A name as a value may be, after a prefix that is a DNS subdomain or without one."""
    prefix, slash, name = text.rpartition("/")
    return bool(name) and is_label_value(name) and (not slash or is_dns_subdomain(prefix))


def is_account(text: str) -> bool:
    """Whether a service account can be called so: `name`, or `namespace:name`."""
    return len(text) <= LABEL_LIMIT + 1 + SUBDOMAIN_LIMIT and _is_account(text)


@lru_cache(maxsize=1024)
def _is_account(text: str) -> bool:
    namespace, colon, name = text.rpartition(":")
    return (not colon or is_dns_label(namespace)) and is_dns_subdomain(name)
