"""Objects as a replica of argocd-agent takes them."""

from typing import Any

import orjson

from argocd import names
from argocd.agents.identity import source_uid
from argocd.agents.replication import replicated_copy
from argocd.reading import mapping, text
from kube.store import Object
from sidecars.wire.generated.replication_pb2 import Resource


def go_resource(kind: str, item: Object) -> Resource:
    return Resource(
        name=text(item, "metadata", "name"),
        namespace=text(item, "metadata", "namespace"),
        kind=kind,
        uid=source_uid(item),
        data=orjson.dumps(go_object(item)),
    )


def go_object(item: Object) -> dict[str, Any]:
    """As it is stored but for what a Go replica stumbles over: a deletion that it cannot write, our marks, tokens. Its
    uid is the one that agents know.
    """
    copy = replicated_copy(item)
    metadata = {
        **copy["metadata"],
        "uid": source_uid(item),
        "resourceVersion": text(item, "metadata", "resourceVersion"),
        "annotations": {
            key: word
            for key, word in mapping(copy, "metadata", "annotations").items()
            if key != names.SOURCE_UID and not key.startswith("tiphys.dev/")
        },
    }
    return {
        **copy,
        "apiVersion": item.get("apiVersion", ""),
        "kind": item.get("kind", ""),
        "metadata": metadata,
    }
