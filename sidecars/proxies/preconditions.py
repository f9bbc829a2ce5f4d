"""A write that was permitted for one object, bound to that object: another that takes its name meanwhile is not changed.

The API server compares: a uid in the body of a PUT, in a patch, in DeleteOptions or in a JSON patch's `test` makes a
conflict of a mismatch, and changes nothing where it matches.
"""

from typing import Any

import orjson

from argocd.reading import mapping, sequence, text
from kube.store import Object
from sidecars.proxies.ownership import decoded_object
from sidecars.proxies.refusals import RefusedRequestError
from tiphys import safe_yaml

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
EVICTION = "eviction"
_NO_VERSION = "1"
"""No object has it, a new etcd does: with it an apply creates, and is a conflict where there is something."""

_CONFLICT = 409


def bound(
    method: str, body: bytes | None, there: Object, *, content_type: str, subresource: str
) -> bytes | None:
    """The body with the uid of the object that was tested. Raises RefusedRequestError where it names another one."""
    uid = text(there, "metadata", "uid")
    if not uid:  # some aggregated API's: there is nothing to compare
        return body
    if method == "DELETE":
        # What a subresource's means is the subresource's business.
        return body if subresource else _options(_decoded(body or b"{}", "DeleteOptions"), uid)
    if not body:
        return body
    if method == "POST":
        return _eviction(body, uid) if subresource == EVICTION else body
    if content_type == JSON_PATCH:
        return _tested(body, uid)
    named = _applied(body) if content_type == APPLY else _decoded(body, "object")
    metadata = mapping(named, "metadata")
    _check(text(metadata, "uid"), uid)
    return orjson.dumps({**named, "metadata": {**metadata, "uid": uid}})


def bound_to_nothing(applied: Object) -> bytes:
    """An apply of what is not there: what appears meanwhile was not tested, and is not changed."""
    metadata = {**mapping(applied, "metadata"), "resourceVersion": _NO_VERSION}
    return orjson.dumps({**applied, "metadata": metadata})


def check_unchanged(there: Object, answer: bytes) -> None:
    """What was read after the test is what was tested, where it says who it is; a Table says it in its row."""
    found = decoded_object(answer) or {}
    for shown in (found, *(mapping(row, "object") for row in sequence(found, "rows"))):
        _check(text(shown, "metadata", "uid"), text(there, "metadata", "uid"))


def _check(named: str, uid: str) -> None:
    if named not in {"", uid}:
        raise RefusedRequestError(
            f"the object has the uid {uid}, not {named[:64]}: it was replaced, look at it again",
            status=_CONFLICT,
        )


def _options(options: Object, uid: str) -> bytes:
    preconditions = mapping(options, "preconditions")
    _check(text(preconditions, "uid"), uid)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
    return orjson.dumps({**options, "preconditions": {**preconditions, "uid": uid}})


def _eviction(body: bytes, uid: str) -> bytes:
    eviction = _decoded(body, "Eviction")
    options = dict(mapping(eviction, "deleteOptions"))
    return orjson.dumps({**eviction, "deleteOptions": orjson.loads(_options(options, uid))})


def _tested(body: bytes, uid: str) -> bytes:
    """First of all, so that no later operation can have changed what is compared."""
    try:
        operations: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        operations = None
    if not isinstance(operations, list):
        raise RefusedRequestError("the body is no JSON patch: a list of operations", status=400)
    return orjson.dumps([{"op": "test", "path": "/metadata/uid", "value": uid}, *operations])


def _applied(body: bytes) -> Object:
    """Clients of Go send JSON; whoever writes YAML may."""
    found = decoded_object(body)
    if found is None:
        try:
            loaded = safe_yaml.load(body.decode())
            found = decoded_object(orjson.dumps(loaded))
        except (ValueError, TypeError) as error:
            raise RefusedRequestError("the body is no object in JSON or YAML", status=400) from error
    return found if found is not None else _decoded(body, "object")


def _decoded(body: bytes, what: str) -> Object:
    found = decoded_object(body)
    if found is None:
        raise RefusedRequestError(f"the body is no {what} in JSON", status=400)
    return found
