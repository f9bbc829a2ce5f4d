"""A caller's certificate that comes on the blocklist: nothing more is served to it, and what it has open ends."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from argocd import names
from certs.key_pair import fingerprint
from kube.resources import CONFIG_MAPS
from tests.sidecars.proxies.hub_caller import client_context
from tests.sidecars.proxies.pod_scene import AGENT, PATIENCE, POD_PATH, pod_scene
from tests.sidecars.proxies.redis.redis_servers import eventually

LOG = f"{POD_PATH}/log?follow=true"


async def test_what_a_blocked_caller_reads_ends_and_anothers_goes_on(tmp_path: Path) -> None:
    async with pod_scene(tmp_path) as scene:
        scene.pods.container.running = True
        await scene.agent_comes()
        pair = scene.pki.pair(AGENT, server=False)
        connector = aiohttp.TCPConnector(ssl=client_context(scene.pki, pair))
        async with aiohttp.ClientSession(connector=connector) as caller, scene.get(LOG) as others:
            async with caller.get(f"{scene.url}{LOG}") as log:
                assert log.status == 200
                blocked = {fingerprint(x509.load_pem_x509_certificate(pair.certificate)): ""}
                body = {"metadata": {"name": names.TLS_BLOCKLIST}, "data": blocked}
                await scene.hub.create(CONFIG_MAPS, body, namespace="argocd")
                with pytest.raises(aiohttp.ClientError):
                    await asyncio.wait_for(log.read(), PATIENCE)
            async with caller.get(f"{scene.url}{POD_PATH}") as answer:
                assert answer.status == 401
            await eventually(lambda: len(scene.principal._log_proxy._sessions) == 1)
            scene.pods.container.write("2026-11-18T00:00:00.000000000Z", b"still")
            assert await asyncio.wait_for(others.content.readline(), PATIENCE) == b"still\n"
