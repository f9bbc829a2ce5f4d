"""Kubeconfig files as kubectl and our live store read them."""

import base64
import json
from pathlib import Path
from typing import Any

from scripts.cluster.credentials import Pair, write_private


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    authority: bytes,
    pair: Pair | None = None,
    token: str = "",
    token_file: Path | None = None,
    namespace: str = "default",
) -> Path:
    user: dict[str, Any] = {}
    if pair:
        user = {
            "client-certificate-data": base64.b64encode(pair.certificate).decode(),
            "client-key-data": base64.b64encode(pair.key).decode(),
        }
    if token:
        user["token"] = token
    if token_file:
        user["tokenFile"] = str(token_file)
    name = path.stem
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(authority).decode(),
                },
            }
        ],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    # YAML is a superset of JSON.
    return write_private(path, json.dumps(config, indent=1).encode())
