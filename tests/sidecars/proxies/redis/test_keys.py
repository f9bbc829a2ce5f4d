import pytest

from argocd.agents.routing import AgentMapping
from sidecars.proxies.redis import keys
from sidecars.proxies.redis.keys import ApplicationKey, KeyRefusedError


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (
            "app|resources-tree|prod_shop|1.8.3.gz",
            ApplicationKey(kind="resources-tree", instance="prod_shop", version="1.8.3.gz"),
        ),
        (
            "app|resources-tree|prod_shop|7|1.8.3.gz",
            ApplicationKey(kind="resources-tree", instance="prod_shop", shard="7", version="1.8.3.gz"),
        ),
        (
            "app|managed-resources|shop|1.8.3",
            ApplicationKey(kind="managed-resources", instance="shop", version="1.8.3"),
        ),
    ],
)
def test_a_key_says_which_application_it_is_about(key: str, expected: ApplicationKey) -> None:
    assert keys.parse(key) == keys.parse(key.encode()) == expected
    assert str(expected) == key


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"app|resources-tree",
        b"app|resources-treex|prod_shop|1.8.3",
        b"mfst|app|resources-tree|1.8.3",
        b"\xff",
    ],
)
def test_every_other_key_is_the_control_planes(key: bytes) -> None:
    assert keys.parse(key) is None


@pytest.mark.parametrize(
    "key",
    [
        b"app|resources-tree||1.8.3",
        b"app|resources-tree|prod_shop|x|1.8.3",
        b"app|managed-resources|prod_shop|7|1.8.3",
        b"app|resources-tree|prod_shop|1|2|3",
        b"app|resources-tree|" + b"a" * 2000 + b"|1.8.3",
        b"app|resources-tree|prod_shop|" + b"1" * 2000,
        b"app|resources-tree|prod_sh\xc3\xb6p|1.8.3",
    ],
)
def test_what_only_begins_like_a_key_of_an_application_is_refused(key: bytes) -> None:
    with pytest.raises(KeyRefusedError, match="is no key of an Application"):
        keys.parse(key)


def test_mapped_by_namespace_the_agent_has_it_in_its_own() -> None:
    for key, own in (
        ("app|resources-tree|prod_shop|3|1.8.3.gz", "app|resources-tree|shop|3|1.8.3.gz"),
        ("app|managed-resources|prod_shop|1.8.3", "app|managed-resources|shop|1.8.3"),
    ):
        assert keys.at_agent(key, mapped_by=AgentMapping.NAMESPACE) == own
        assert keys.at_agent(key, mapped_by=AgentMapping.DESTINATION) == key
    with pytest.raises(KeyRefusedError, match="in which namespace"):
        keys.at_agent("app|managed-resources|shop|1.8.3", mapped_by=AgentMapping.NAMESPACE)
