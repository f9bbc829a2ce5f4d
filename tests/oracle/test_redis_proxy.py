"""argocd-agent's own tables of its Redis proxy, and where ours answers otherwise on purpose."""

import json
from pathlib import Path
from typing import Any

import pytest

from argocd.agents.routing import AgentMapping
from sidecars.proxies.redis import keys, resp
from sidecars.proxies.redis.keys import KeyRefusedError
from tests.oracle import suites_sidecars

TABLES = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "proxies.json"

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not TABLES.is_file(), reason=f"no {TABLES.name} beside the repository"),
]

OTHERWISE = {
    "redis-get-error": "an error is told and the connection stays",
    "redis-get-miss": "a miss is a null of the negotiated version, not an error without words",
}


def table(about: str) -> list[Any]:
    if not TABLES.is_file():
        return []
    found = [each for each in json.loads(TABLES.read_text())["tables"] if each["about"].startswith(about)]
    return [pytest.param(case, id=case["id"]) for each in found for case in each["cases"]]


@pytest.mark.parametrize("case", table("redis proxy on the principal"))
def test_the_principal_answers_as_argocd_agent_does(case: Any) -> None:
    given, expected = case["input"], case["expect"]
    if case["id"] in OTHERWISE:
        assert resp.NULL == {3: b"_\r\n", 2: b"$-1\r\n"}
        assert resp.error("redis connection failed") == b"-ERR redis connection failed\r\n"
    elif "push" in given:
        parts = [resp.bulk(b"message"), resp.bulk(given["push"].encode()), resp.bulk(b"")]
        assert resp.notice(parts, resp=3) == expected["bytes"].encode()
    elif "channel" in given:
        parts = [resp.bulk(b"subscribe"), resp.bulk(given["channel"].encode()), b":1\r\n"]
        assert resp.notice(parts, resp=3) == expected["bytes"].encode()
    elif "response" in given:
        assert resp.bulk((given["response"]["bytes"] or "").encode()) == expected["bytes"].encode()
    else:
        asked = {**given, "principalNs": given["principal_namespace"]}
        answered = suites_sidecars.redis_agent_from_key(asked)
        if "error" in expected:  # said, with the connection kept
            assert answered == {"error": True}
        else:
            assert answered == expected["agent"]


@pytest.mark.parametrize("case", table("agent, namespace mapping"))
def test_the_agent_finds_the_same_keys(case: Any) -> None:
    given, expected = case["input"]["key"], case["expect"]
    try:
        assert keys.at_agent(given, mapped_by=AgentMapping.NAMESPACE) == expected.get("key")
    except KeyRefusedError:
        assert expected.get("error")


def test_a_tree_in_shards_is_found() -> None:
    """argocd-agent closes the connection."""
    sharded = "app|resources-tree|prod_shop|2|1.8.3.gz"
    assert keys.at_agent(sharded, mapped_by=AgentMapping.NAMESPACE) == "app|resources-tree|shop|2|1.8.3.gz"
