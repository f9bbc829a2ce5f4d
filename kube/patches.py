"""JSON patches and merge patches as an API server applies them. They may change the document in place."""

from typing import Any

import jsonpatch
import jsonpointer

from kube.errors import BadRequestError, InvalidError
from kube.store import JsonPatch, Object

# The API server's own bound on one patch.
MOST_OPERATIONS = 10_000


def apply_json_patch(document: Object, patch: JsonPatch) -> Object:
    if not isinstance(patch, list):
        raise BadRequestError("a JSON patch is a list of operations")
    if len(patch) > MOST_OPERATIONS:
        raise BadRequestError(f"the patch has {len(patch)} operations, at most {MOST_OPERATIONS} are allowed")
    for index, operation in enumerate(patch):
        document = _operated(document, operation, index=index)
    return _object(document)


def _operated(document: Object, operation: Object, *, index: int) -> Any:
    """One operation. The library's exceptions quote the document, which may be a Secret: they end here."""
    try:
        # Unlike RFC 6902 the API server takes a replacement of a missing member for an addition.
        if operation.get("op") == "replace" and _is_missing_member(document, operation["path"]):
            operation = {**operation, "op": "add"}
        return jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    except (jsonpatch.InvalidJsonPatch, TypeError, KeyError, AttributeError):
        raise BadRequestError(f"operation {index} of the JSON patch is malformed") from None
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
        what = f"{operation.get('op')} {operation.get('path')}"
        raise InvalidError(f"operation {index} of the JSON patch does not apply: {what}") from None


def _is_missing_member(document: Object, path: str) -> bool:
    if not path:
        return False
    parent, member = jsonpointer.JsonPointer(path).to_last(document)
    return isinstance(parent, dict) and member not in parent


def apply_merge_patch(document: Object, patch: Object) -> Object:
    if not isinstance(patch, dict):
        raise BadRequestError("a merge patch is a JSON object")
    return _object(_merged(document, patch))


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _object(patched: Any) -> Object:
    if not isinstance(patched, dict):
        raise InvalidError("the patch leaves no object behind")
    return patched
