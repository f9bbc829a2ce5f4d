"""AdmissionReviews of admission.k8s.io/v1: strict about what comes in, exact about what goes out."""

import base64
import json
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

_TEXT = {str}
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


def decode(body: bytes) -> Review:
    if len(body) > BODY_LIMIT:
        raise ReviewTooLargeError(f"the body is larger than {BODY_LIMIT} bytes")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ReviewError(f"the body is not JSON: {error}") from error
    _refuse_repeated_keys(document, body)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ReviewError(f"the body is not an {KIND}")
    if document.get("apiVersion") != API_VERSION:
        raise ReviewError(f"apiVersion must be {API_VERSION}")
    request = document.get("request")
    if not isinstance(request, dict):
        raise ReviewError("request must be an object")
    kind, resource = _mapping(request, "kind"), _mapping(request, "resource")
    user = _mapping(request, "userInfo")
    uid = _text(request, "uid", "request.uid")
    if not uid:
        raise ReviewError("request.uid must not be empty")
    operation = _text(request, "operation", "request.operation")
    if operation not in _OPERATIONS:
        raise ReviewError("request.operation must be CREATE, UPDATE, DELETE or CONNECT")
    groups = user.get("groups") or []
    if not isinstance(groups, list) or not set(map(type, groups)) <= _TEXT:
        raise ReviewError("request.userInfo.groups must be a list of strings")
    dry_run = request.get("dryRun", False)
    if dry_run is not None and not isinstance(dry_run, bool):
        raise ReviewError("request.dryRun must be true or false")
    return Review(
        uid=uid,
        operation=operation,
        group=_text(kind, "group", "request.kind.group"),
        version=_text(kind, "version", "request.kind.version"),
        kind=_text(kind, "kind", "request.kind.kind"),
        resource=_text(resource, "resource", "request.resource.resource"),
        subresource=_text(request, "subResource", "request.subResource"),
        name=_text(request, "name", "request.name"),
        namespace=_text(request, "namespace", "request.namespace"),
        user=_text(user, "username", "request.userInfo.username"),
        groups=tuple(groups),
        object=_object(request, "object"),
        old=_object(request, "oldObject"),
        dry_run=bool(dry_run),
    )


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
        raise ReviewError("the body is nested too deeply") from error
    try:
        json.loads(body, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ReviewError("the body is nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ReviewError(f"the key {repeated[:64]!r} appears twice in one object")
    return found


def _mapping(source: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = source.get(key)
    if not isinstance(found, dict):
        raise ReviewError(f"request.{key} must be an object")
    return found


def _text(source: Mapping[str, Any], key: str, path: str) -> str:
    found = source.get(key)
    if isinstance(found, str):
        return found
    if found is not None:
        raise ReviewError(f"{path} must be a string")
    return ""


def _object(request: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    found = request.get(key)
    if found is not None and not isinstance(found, dict):
        raise ReviewError(f"request.{key} must be an object or null")
    return found
