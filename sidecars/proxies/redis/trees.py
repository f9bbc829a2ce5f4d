"""Applications inside of an agent's resource tree, named as the control plane names them.

An Application that deploys Applications has them in its tree, by the namespace of the agent's cluster; there the
control plane's UI would find nothing. A tree without any is passed on as it came.
"""

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import orjson

from argocd import names
from tiphys.errors import ObjectError

# A tree of ten thousand resources is 10 MB; an agent may send something that unpacks to much more.
MAX_TREE_BYTES = 64 << 20
# Cheaper than the network's own delay; what is larger is worth a thread.
INLINE_BYTES = 64 << 10

_KINDS = ("Application", "ApplicationSet")
_GROUP = names.GROUP.encode()

HubNamespace = Callable[[str], str]
"""Of the namespace of an Application on the agent's cluster: its namespace on the control plane."""


class TreeError(ObjectError):
    """What an agent sent is no tree."""


def renamed(tree: bytes, *, compressed: bool, hub_namespace: HubNamespace) -> bytes:
    plain = _unpacked(tree) if compressed else tree
    if _GROUP not in plain:
        return tree
    try:
        content = orjson.loads(plain)
    except orjson.JSONDecodeError as error:
        raise TreeError("the agent's tree is no JSON") from error
    if not isinstance(content, dict) or not _rename(content, hub_namespace):
        return tree
    try:
        plain = orjson.dumps(content)
    except orjson.JSONEncodeError as error:
        raise TreeError("the agent's tree is deeper than anything that can be written") from error
    return gzip.compress(plain, compresslevel=1, mtime=0) if compressed else plain


def _rename(content: dict[str, Any], hub_namespace: HubNamespace) -> bool:
    changed = False
    for key in ("nodes", "orphanedNodes"):
        nodes = content.get(key)
        for node in nodes if isinstance(nodes, list) else ():
            if not isinstance(node, dict):
                continue
            parents = node.get("parentRefs")
            for reference in (node, *(parents if isinstance(parents, list) else ())):
                if isinstance(reference, dict) and _is_application(reference):
                    there = str(reference.get("namespace") or "")
                    reference["namespace"] = hub_namespace(there)
                    changed = changed or reference["namespace"] != there
    return changed


def _is_application(reference: dict[str, Any]) -> bool:
    return reference.get("group") == names.GROUP and reference.get("kind") in _KINDS


def _unpacked(tree: bytes) -> bytes:
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        plain = unpacking.decompress(tree, MAX_TREE_BYTES)
    except zlib.error as error:
        raise TreeError("the agent's tree is not compressed as its key says") from error
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise TreeError(f"the agent's tree is cut off, or more than {MAX_TREE_BYTES} bytes")
    return plain
