"""A call to an API server, for both stores alike: which object it means, and bodies as bytes.

Names may come from a peer, so nothing in them can leave its place in a URL.
"""

from typing import Any, TypeVar

import orjson

from kube.errors import BadRequestError
from kube.store import Object, Resource

# Without these a datetime or a dataclass in a body would silently become some string or object.
_PLAIN_JSON_ONLY = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)

_RESERVED_SEGMENTS = frozenset({".", ".."})

T = TypeVar("T")


def check_segment(value: str, *, what: str) -> str:
    """Refuses what no API server takes as a part of a path either."""
    if not isinstance(value, str) or not value:
        raise BadRequestError(f"{what} is missing")
    if value in _RESERVED_SEGMENTS or "/" in value or "%" in value:
        raise BadRequestError(f'{what} "{value[:253]}" may not be "." or ".." or contain "/" or "%"')
    return value


def check_scope(resource: Resource, namespace: str | None, *, all_namespaces: bool = False) -> str | None:
    """`all_namespaces` is for lists and watches, where no namespace means all of them."""
    if not resource.namespaced:
        if namespace:
            raise BadRequestError(f"{resource.plural} live in no namespace, {namespace!r} was given")
        return None
    if not namespace:
        if all_namespaces:
            return None
        raise BadRequestError(f"{resource.plural} live in a namespace, none was given")
    return check_segment(namespace, what="the namespace")


def metadata_of(body: Object) -> Object:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict):
        raise BadRequestError("the object has no metadata")
    return metadata


def address_of(resource: Resource, body: Object) -> tuple[str | None, str]:
    """Namespace and name in the body of a replacement."""
    metadata = metadata_of(body)
    namespace = check_scope(resource, metadata.get("namespace"))
    return namespace, check_segment(metadata.get("name", ""), what="metadata.name")


def typed(resource: Resource, body: Object) -> Object:
    """The body with its apiVersion and kind, which it may leave out but not get wrong."""
    if not isinstance(body, dict):
        raise BadRequestError("the object is not a JSON object")
    version, kind = body.get("apiVersion", resource.api_version), body.get("kind", resource.kind)
    if (version, kind) != (resource.api_version, resource.kind):
        raise BadRequestError(
            f"the object is a {kind} of {version}, the call is about {resource.kind} of {resource.api_version}"
        )
    return {"apiVersion": version, "kind": kind, **body}


def typed_for_apply(resource: Resource, config: Object, *, name: str, namespace: str | None) -> Object:
    """An apply configuration with what an API server insists on finding in it."""
    config = typed(resource, config)
    metadata = dict(metadata_of({"metadata": {}, **config}))
    address = {"name": name} | ({"namespace": namespace} if namespace else {})
    for field, value in address.items():
        if metadata.setdefault(field, value) != value:
            raise BadRequestError(f"the object's {field} is {metadata[field]!r}, the call's {value!r}")
    return {**config, "metadata": metadata}


def typed_for_creation(
    resource: Resource, body: Object, *, namespace: str | None
) -> tuple[Object, str | None]:
    """The body and the namespace that a new object goes to; a review has neither name nor metadata."""
    body = {"metadata": {}, **typed(resource, body)}
    metadata = metadata_of(body)
    own = metadata.get("namespace")
    if namespace and own and own != namespace:
        raise BadRequestError(f"the object's namespace {own!r} is not the call's, {namespace!r}")
    if metadata.get("resourceVersion"):
        raise BadRequestError("metadata.resourceVersion may not be set on an object to be created")
    if metadata.get("name"):
        check_segment(metadata["name"], what="metadata.name")
    return body, check_scope(resource, namespace or own)


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
