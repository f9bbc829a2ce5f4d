"""The Redis port of a standby: argocd-server there reads and writes its own Redis, agents' trees included."""

from pathlib import Path

from kube.resources import APPLICATIONS, SECRETS
from sidecars.proxies.redis.listener import RedisProxyOptions
from tests.sidecars.proxies.redis.redis_servers import RedisServer, redis_server
from tests.sidecars.replication.hubs import ARGOCD, application, cluster_secret, until
from tests.sidecars.replication.paired_principals import FencedStore, following, regions
from tests.sidecars.replication.test_pair import eventually_replicating

AGENT = "agent-a"
OWN = "git-refs|https://example.com/repo|1.8.3"
TREE = f"app|resources-tree|{AGENT}_guestbook|1.8.3"


async def test_a_standbys_redis_port_passes_through_to_the_redis_beside_it(tmp_path: Path) -> None:
    a, b = FencedStore(), FencedStore()
    await a.create(SECRETS, cluster_secret(AGENT), namespace=ARGOCD)
    await a.create(APPLICATIONS, application("guestbook"), namespace=AGENT)
    async with redis_server(tmp_path, password="own") as server, regions(a, b) as (one, two):
        two.serving = {
            "redis": RedisProxyOptions(backend=server.backend, source=None, host="127.0.0.1", port=0)
        }
        await following(one, two)
        await eventually_replicating(one, two)
        assert two.process is not None
        redis = two.process.redis
        assert redis is not None
        await until(redis.proxy.listening.is_set)
        async with server.client() as beside, RedisServer(redis.proxy.port, "own").client() as through:
            await through.set(OWN, b"written through")
            assert await beside.get(OWN) == b"written through"
            # Of an agent that nobody here can ask.
            await beside.set(TREE, b"written beside")
            assert await through.get(TREE) == b"written beside"
