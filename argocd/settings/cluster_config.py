"""The `config` of a cluster secret, read the way Go's encoding/json reads it into Argo CD's structs.

Go matches keys without regard to case and merges what is repeated, so one text can mean one thing to Argo
CD and another to every other reader. Such texts are ambiguous here, never guessed at. Nothing that this
module returns holds a credential: problems name fields that Argo CD defines, and no values.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any, NoReturn
from urllib.parse import urlsplit

from argocd.go import strconv

PROXY_SCHEMES = frozenset({"http", "https", "socks5"})


class Defect(Enum):
    UNREADABLE = "Argo CD cannot read it"
    AMBIGUOUS = "a key stands there twice"
    SPELLING = "a key is spelt in another case"


@dataclass(frozen=True, slots=True)
class ConfigDefect:
    defect: Defect
    field: str
    """Dotted, relative to `config`; empty for the text as a whole."""
    text: str


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    problems: tuple[ConfigDefect, ...] = ()
    insecure: bool = False
    has_ca: bool = False
    has_proxy: bool = False
    proxy_scheme: str = ""


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object with its keys as they came, repeated ones included."""

    __slots__ = ()


class _Number(str):
    """A JSON number as text: nothing in `config` is one, and converting it may take long."""

    __slots__ = ()


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("not JSON")  # NaN and Infinity, which Go does not know


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object,
    parse_int=_Number,
    parse_float=_Number,
    parse_constant=_refuse_constant,
)


_MAX_REMEMBERED = 256
_REMEMBERED: dict[bytes, ClusterConfig] = {}
"""By digest: several rules ask about one config, and none of its credentials should stay in memory for that."""


def read(text: str) -> ClusterConfig:
    """An empty text is a config without credentials, as Argo CD takes it."""
    if not text:
        return ClusterConfig()
    digest = sha256(text.encode(errors="surrogatepass")).digest()
    found = _REMEMBERED.get(digest)
    if found is None:
        if len(_REMEMBERED) >= _MAX_REMEMBERED:
            _REMEMBERED.clear()
        found = _REMEMBERED[digest] = _read(text)
    return found


def _read(text: str) -> ClusterConfig:
    try:
        document = _DECODER.decode(text)
    except RecursionError:
        return _unreadable("is nested too deeply")
    except ValueError:
        # The decoder's message quotes nothing, but its position is all that helps and it may be a token's.
        return _unreadable("is not JSON")
    problems = tuple(dict.fromkeys(_ROOT(document, "")))  # one for each field, however long the text
    tls = _field(document, "tlsClientConfig")
    proxy = _field(document, "proxyUrl")
    proxied = isinstance(proxy, str) and proxy != ""
    return ClusterConfig(
        problems=problems,
        insecure=_field(tls, "insecure") is True,
        has_ca=_field(tls, "caData") not in (None, "", []),
        has_proxy=proxied,
        proxy_scheme=_scheme(proxy) if proxied else "",
    )


def _unreadable(text: str) -> ClusterConfig:
    return ClusterConfig(problems=(ConfigDefect(Defect.UNREADABLE, "", text),))


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def fold(key: str) -> str:
    """Go's folding as far as it can turn a key into one of Argo CD's, which are all ASCII.

    Two other letters fold into ASCII ones: the long s and the Kelvin sign.
    """
    return key.replace("\u017f", "s").lower()


def _field(source: Any, name: str) -> Any:
    if not isinstance(source, _Object):
        return None
    folded = name.lower()
    found = None
    for key, value in source:
        # The last one wins and null changes nothing: exact for texts without problems, which alone count.
        if value is not None and fold(key) == folded:
            found = value
    return found


_Reader = Callable[[Any, str], Iterator[ConfigDefect]]


def _text(value: Any, field: str) -> Iterator[ConfigDefect]:
    if value is not None and (not isinstance(value, str) or isinstance(value, _Number)):
        yield ConfigDefect(Defect.UNREADABLE, field, "must be a string")


def _boolean(value: Any, field: str) -> Iterator[ConfigDefect]:
    if value is not None and not isinstance(value, bool):
        yield ConfigDefect(Defect.UNREADABLE, field, "must be true or false, without quotation marks")


def _bytes(value: Any, field: str) -> Iterator[ConfigDefect]:
    if isinstance(value, list):
        # Go fills a []byte from a list of small numbers too.
        if not all(item is None or (isinstance(item, _Number) and _is_byte(item)) for item in value):
            yield ConfigDefect(Defect.UNREADABLE, field, "must be a base64 string")
        return
    if value is None:
        return
    if not isinstance(value, str) or isinstance(value, _Number) or strconv.base64(value) is None:
        yield ConfigDefect(Defect.UNREADABLE, field, "must be base64 of the PEM text")


def _is_byte(number: _Number) -> bool:
    value = strconv.integer(number)
    return value is not None and value in range(256)


def _texts(value: Any, field: str) -> Iterator[ConfigDefect]:
    if value is None:
        return
    if not isinstance(value, list):
        yield ConfigDefect(Defect.UNREADABLE, field, "must be a list of strings")
        return
    for item in value:
        yield from _text(item, field)


def _text_map(value: Any, field: str) -> Iterator[ConfigDefect]:
    if value is None:
        return
    if not isinstance(value, _Object):
        yield ConfigDefect(Defect.UNREADABLE, field, "must be an object with string values")
        return
    if len({key for key, _ in value}) < len(value):
        yield ConfigDefect(Defect.AMBIGUOUS, field, "has a key twice")
    for _, item in value:
        yield from _text(item, field)


def _struct(fields: dict[str, _Reader]) -> _Reader:
    by_fold = {name.lower(): (name, reader) for name, reader in fields.items()}

    def read_struct(value: Any, field: str) -> Iterator[ConfigDefect]:
        if value is None:
            return
        if not isinstance(value, _Object):
            yield ConfigDefect(Defect.UNREADABLE, field, "must be an object")
            return
        prefix = f"{field}." if field else ""
        seen: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        for key, item in value:
            known = by_fold.get(fold(key))
            if known is None:
                unknown[key] += 1
                continue
            name, reader = known
            seen[name] += 1
            if key != name:
                yield ConfigDefect(Defect.SPELLING, prefix + name, f"is spelt {key}, should be {name}")
            yield from reader(item, prefix + name)
        for name, times in seen.items():
            if times > 1:
                yield ConfigDefect(Defect.AMBIGUOUS, prefix + name, f"stands there {times} times")
        if any(times > 1 for times in unknown.values()):
            yield ConfigDefect(Defect.AMBIGUOUS, field, "has a key twice that Argo CD does not know")

    return read_struct


_ROOT = _struct(
    {
        "username": _text,
        "password": _text,
        "bearerToken": _text,
        "tlsClientConfig": _struct(
            {
                "insecure": _boolean,
                "serverName": _text,
                "certData": _bytes,
                "keyData": _bytes,
                "caData": _bytes,
            },
        ),
        "awsAuthConfig": _struct({"clusterName": _text, "roleARN": _text, "profile": _text}),
        "execProviderConfig": _struct(
            {
                "command": _text,
                "args": _texts,
                "env": _text_map,
                "apiVersion": _text,
                "installHint": _text,
            },
        ),
        "disableCompression": _boolean,
        "proxyUrl": _text,
    },
)
