"""Argo CD's side of the resource proxy: HTTPS with the certificate of a cluster Secret."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import orjson

from certs.key_pair import KeyPair
from certs.sources import Secrets
from kube.store import Store
from sidecars.principal.proxies.resource_port import ResourcePortOptions
from tests.sidecars.processes import Pki


@dataclass(frozen=True)
class HubAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def message(self) -> str:
        assert self.json["kind"] == "Status", self.json
        return str(self.json["message"])


class HubCaller:
    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self.url = f"https://localhost:{port}"

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> HubAnswer:
        data = None if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            given.setdefault("Content-Type", content_type)
        async with self._session.request(method, f"{self.url}{path}", data=data, headers=given) as response:
            return HubAnswer(response.status, response.headers, await response.read())

    async def get(self, path: str, **headers: str) -> HubAnswer:
        return await self("GET", path, **headers)


async def resource_port(store: Store, pki: Pki, *, namespace: str) -> ResourcePortOptions:
    """With its Secret."""
    name = "argocd-agent-resource-proxy-tls"
    await pki.equip(store, namespace=namespace, name=name, pair=pki.pair("proxy", server=True))
    source = Secrets(store=store, namespace=namespace, pair=name, authorities="argocd-agent-ca")
    return ResourcePortOptions(source=source, host="127.0.0.1", port=0)


def client_context(pki: Pki, pair: KeyPair | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=pki.authority.pair.certificate.decode())
    if pair is not None:
        with TemporaryDirectory() as folder:
            file = Path(folder, "pair.pem")
            file.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(file)
    return context


@asynccontextmanager
async def hub_caller(pki: Pki, port: int, *, agent: str | None) -> AsyncIterator[HubCaller]:
    """With the certificate of an agent, or none."""
    pair = None if agent is None else pki.pair(agent, server=False)
    connector = aiohttp.TCPConnector(ssl=client_context(pki, pair), limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield HubCaller(session, port)
