"""AdmissionReviews of admission.k8s.io/v1: strict about what comes in, exact about what goes out."""

import base64
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson

from argocd.engine.judge import Judgement
from tiphys.errors import CallError
from webhook.injection.inject import InjectionReason

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"

BODY_LIMIT = 2 * 3 * (1 << 20) + (1 << 20)
"""The API server takes objects of up to 3 MiB; an update's review carries two, and what surrounds them."""

PREFIX_LIMIT = 64 * 1024
"""Of a body whose objects are not read: what stands before them is a few hundred bytes, the writer's groups included."""

CONTAINERS = 100_000
"""Objects and lists in one body. Empty ones take 25 times their bytes in memory, and 7 MiB of them would be a pod's
end; to read so many keeps a worker busy for ten milliseconds or two, in which it does nothing else. An update of a project of
1.5 MiB whose every entry is as short as a kind's has two thirds of this."""
_FEW_BYTES = 2 * CONTAINERS
"""A shorter body cannot have more of them."""

UNREAD_RULE = "object/not-read"
"""Spoken of an object that would be too costly to read; no rule of the catalogue, for nothing was looked at."""

NAME_LENGTH, LABEL_LENGTH = 253, 63
"""Of a DNS subdomain and of a DNS label: Kubernetes allows no longer names, kinds and groups."""
USER_LENGTH = 1024
"""Kubernetes sets no bound; a service account has 339 characters at most, an address of mail 254."""
GROUPS = 1024

WARNING_LENGTH = 120
"""What kubectl shows well; past 4096 characters in all the API server cuts and drops warnings."""

WARNINGS_LENGTH = 4096


class ReviewError(CallError):
    """The call is bad: answered with this HTTP status and one line, and counted."""

    status: ClassVar[int] = 400


class ReviewTooLargeError(ReviewError):
    status = 413


@dataclass(slots=True)
class Review:
    """What a request says, checked as far as anybody relies on it.

    Not frozen: one is made for each request, and freezing fourteen fields costs as much as reading them.
    """

    uid: str
    operation: str
    group: str
    version: str
    kind: str
    resource: str
    subresource: str
    name: str
    namespace: str
    user: str
    groups: tuple[str, ...]
    object: Mapping[str, Any] | None
    old: Mapping[str, Any] | None
    dry_run: bool
    unread: str = ""
    """Why `object` and `old` were not read, though there are some: then they are None."""


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """A verdict on its way out; `patch` holds JSON-patch operations and is empty where nothing changes.

    What it rests on (`judgements`, `injection`) is not sent: metrics and the status page tell it.
    """

    allowed: bool = True
    message: str = ""
    code: int = 403
    warnings: Sequence[str] = ()
    patch: Sequence[Mapping[str, Any]] = ()
    audit: Mapping[str, str] = field(default_factory=dict)
    judgements: Sequence[Judgement] = ()
    injection: InjectionReason | None = None


PASSED = ReviewAnswer()
"""What nearly every request is told."""

_TEXT, _OBJECT_TYPE = frozenset({str}), frozenset({dict})
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


def decode(body: bytes) -> Review:
    if len(body) > BODY_LIMIT:
        raise ReviewTooLargeError(f"the body is larger than {BODY_LIMIT} bytes")
    try:
        return _read(body)
    except _UnreadError as unread:
        return decode_prefix(body[:PREFIX_LIMIT], unread=str(unread))


def decode_prefix(prefix: bytes, *, unread: str) -> Review:
    """A review without its objects, which are not to be read: an HTTP error would let them pass where we fail open.

    API servers write what they know of the request first. Quotes inside of a text are escaped, and no other field
    named `object` has an object or null, so that this finds the right one.
    """
    found = _OBJECT.search(prefix)
    if found is None:
        raise ReviewError(f"the body's objects cannot be read: {unread}")
    try:
        review = _read(prefix[: found.start()] + b"}}")
    except _UnreadError as error:
        raise ReviewError(f"the body cannot be read: {error}") from error
    review.unread = unread
    return review


_OBJECT = re.compile(rb',"object":(?=\{|null)')
_STRING = re.compile(rb'"(?:[^"\\]+|\\.)*+"')


class _UnreadError(Exception):
    """Well-formed as far as anybody looked, but too costly to read."""


def _read(body: bytes) -> Review:
    if len(body) > _FEW_BYTES and _containers(body) > CONTAINERS:
        raise _UnreadError(f"more than {CONTAINERS} objects and lists")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if "depth limit" in error.msg:
            raise _UnreadError(_TOO_DEEP) from error
        raise ReviewError(f"the body is not JSON: {error}") from error
    review = _review(document)  # first: what has too long a name is not worth the look at its keys
    _refuse_repeated_keys(document, body)
    return review


_TOO_DEEP = "nested too deeply"


def _containers(body: bytes) -> int:
    """How many there may be, and only where that is too many how many there are."""
    most = body.count(b"{") + body.count(b"[")
    if most > CONTAINERS:
        bare = _STRING.sub(b"", body)
        most = bare.count(b"{") + bare.count(b"[")
    return most


def _review(document: Any) -> Review:
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ReviewError(f"the body is not an {KIND}")
    if document.get("apiVersion") != API_VERSION:
        raise ReviewError(f"apiVersion must be {API_VERSION}")
    request = document.get("request")
    if not isinstance(request, dict):
        raise ReviewError("request must be an object")
    parts: list[Any] = [*map(request.get, _PARTS)]
    if not _OBJECT_TYPE.issuperset(map(type, parts)):
        wrong = next(name for name, part in zip(_PARTS, parts, strict=True) if type(part) is not dict)
        raise ReviewError(f"request.{wrong} must be an object")
    kind, resource, user = parts
    texts = [
        *map(request.get, _OF_REQUEST, _EMPTY),
        *map(kind.get, _OF_KIND, _EMPTY),
        resource.get("resource", ""),
        user.get("username", ""),
    ]
    # Nearly always all of them are texts that every one of them may be; one look at each costs three times as much.
    if not _TEXT.issuperset(map(type, texts)) or max(map(len, texts)) > _SHORTEST:
        texts = [_text(found, *limit) for found, limit in zip(texts, _TEXTS, strict=True)]
    uid, operation, subresource, name, namespace, group, version, named, listed, username = texts
    if not uid:
        raise ReviewError("request.uid must not be empty")
    if operation not in _OPERATIONS:
        raise ReviewError("request.operation must be CREATE, UPDATE, DELETE or CONNECT")
    dry_run = request.get("dryRun", False)
    if dry_run is not None and not isinstance(dry_run, bool):
        raise ReviewError("request.dryRun must be true or false")
    return Review(
        uid,
        operation,
        group,
        version,
        named,
        listed,
        subresource,
        name,
        namespace,
        username,
        _groups(user),
        _object(request, "object"),
        _object(request, "oldObject"),
        bool(dry_run),
    )


_PARTS = ("kind", "resource", "userInfo")
_OF_REQUEST = ("uid", "operation", "subResource", "name", "namespace")
_OF_KIND = ("group", "version", "kind")
_EMPTY = ("",) * len(_OF_REQUEST)
"""What stands for each where it is absent."""
_TEXTS = (
    ("request.uid", LABEL_LENGTH),
    ("request.operation", LABEL_LENGTH),
    ("request.subResource", NAME_LENGTH),
    ("request.name", NAME_LENGTH),
    ("request.namespace", LABEL_LENGTH),
    ("request.kind.group", NAME_LENGTH),
    ("request.kind.version", LABEL_LENGTH),
    ("request.kind.kind", LABEL_LENGTH),
    ("request.resource.resource", NAME_LENGTH),
    ("request.userInfo.username", USER_LENGTH),
)
"""The texts of a request in the order in which they are read, and the longest that each may be."""
_SHORTEST = min(longest for _, longest in _TEXTS)


def encode(uid: str, answer: ReviewAnswer, *, patches: bool) -> bytes:
    """The response; `patches` says whether this endpoint may patch at all (a validating one must not)."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.allowed}
    if not answer.allowed:
        response["status"] = {"code": answer.code, "message": answer.message, "reason": "Forbidden"}
    elif answer.patch:
        if not patches:
            raise ValueError("a validating endpoint cannot patch")
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(answer.patch))).decode()
    if answer.warnings:
        response["warnings"] = shortened(answer.warnings)
    if answer.audit:
        response["auditAnnotations"] = dict(answer.audit)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def shortened(warnings: Sequence[str]) -> list[str]:
    """Warnings as kubectl can show them: each on one short line, all of them within the API server's limit."""
    kept, room = [], WARNINGS_LENGTH
    for index, warning in enumerate(warnings):
        line = " ".join(warning.split())
        if len(line) > WARNING_LENGTH * 2:
            line = line[: WARNING_LENGTH * 2 - 1] + "…"
        rest = f"and {len(warnings) - index} more; `tiphys check` lists all"
        if len(line) + len(rest) > room:
            kept.append(rest)
            break
        kept.append(line)
        room -= len(line)
    return kept


def _refuse_repeated_keys(document: Any, body: bytes) -> None:
    """Two readers of one key can see two values, so a repeated key is refused.

    orjson silently keeps the last one. Written out again such a document is shorter than it came, which is
    fifty times cheaper to find out than a reader that looks at each key; only where the lengths differ
    (white space, other escapes, other number formats) that reader runs. Writing also bounds the nesting.
    """
    try:
        if len(orjson.dumps(document)) == len(body.rstrip()):
            return
    except TypeError as error:
        raise _UnreadError(_TOO_DEEP) from error
    try:
        json.loads(body, object_pairs_hook=_unique)
    except RecursionError as error:
        raise _UnreadError(_TOO_DEEP) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ReviewError(f"the key {repeated[:64]!r} appears twice in one object")
    return found


def _groups(user: Mapping[str, Any]) -> tuple[str, ...]:
    groups = user.get("groups") or []
    if not isinstance(groups, list) or not _TEXT.issuperset(map(type, groups)):
        raise ReviewError("request.userInfo.groups must be a list of strings")
    if len(groups) > GROUPS or (groups and max(map(len, groups)) > USER_LENGTH):
        raise ReviewError(
            f"request.userInfo.groups has more than {GROUPS}, or a longer one than {USER_LENGTH}"
        )
    return tuple(groups)


def _text(found: Any, path: str, longest: int) -> str:
    if isinstance(found, str):
        if len(found) > longest:
            raise ReviewError(f"{path} is longer than {longest} characters")
        return found
    if found is not None:
        raise ReviewError(f"{path} must be a string")
    return ""


def _object(request: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    found = request.get(key)
    if found is None:
        return None
    if not isinstance(found, dict):
        raise ReviewError(f"request.{key} must be an object or null")
    metadata = found.get("metadata")
    name = metadata.get("name") if type(metadata) is dict else None
    if type(name) is str and len(name) > NAME_LENGTH:
        raise ReviewError(f"request.{key}.metadata.name is longer than {NAME_LENGTH} characters")
    return found
