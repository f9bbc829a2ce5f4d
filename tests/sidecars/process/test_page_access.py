"""What a principal tells of its agents is for its own loopback and for those whom the API server vouches for."""

import pytest

from argocd import names
from kube.embedded import EmbeddedStore, Hooks
from kube.store import Object
from sidecars.process.page_access import MAX_TOKEN_LENGTH, PageAccess
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD

USER = {"username": "system:serviceaccount:argocd:tiphys-principal-reader", "uid": "u", "groups": ["g"]}


def known(spec: Object) -> Object:
    if spec["token"] == "good" and spec["audiences"] == [names.PAGE_AUDIENCE]:
        return {"authenticated": True, "user": USER, "audiences": [names.PAGE_AUDIENCE]}
    if spec["token"] == "an API server's":
        return {"authenticated": True, "user": USER, "audiences": ["https://kubernetes.default.svc"]}
    return {"authenticated": False}


def access(*, allowed: bool = True) -> tuple[PageAccess, list[Object]]:
    asked: list[Object] = []

    def judge(spec: Object) -> bool:
        asked.append(spec)
        return allowed

    store = EmbeddedStore(namespaces=[ARGOCD], hooks=Hooks(tokens=known, access=judge))
    return PageAccess(store, namespace=ARGOCD), asked


async def status(
    checked: PageAccess, *, address: str = "192.0.2.7", token: str | None = None, **headers: str
) -> int:
    shown = {} if token is None else {names.PAGE_TOKEN_HEADER: token}
    page = await checked.refusal(address=address, headers={**shown, **headers})
    return 200 if page is None else page.status


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"])
async def test_loopback_needs_no_token(address: str) -> None:
    assert await status(access()[0], address=address) == 200


@pytest.mark.parametrize("token", [None, "", "bad", "an API server's", "x" * (MAX_TOKEN_LENGTH + 1)])
@pytest.mark.parametrize("address", ["192.0.2.7", "::ffff:192.0.2.7", "", "nonsense"])
async def test_whoever_has_no_token_for_us_is_nobody(token: str | None, address: str) -> None:
    checked, asked = access()
    assert await status(checked, address=address, token=token) == 401
    assert asked == []


@pytest.mark.parametrize("host", ["localhost:8004", "127.0.0.1", "[::1]:8004", "fleet.localhost:1", "[::1]"])
async def test_a_browser_that_asks_for_loopback_is_answered(host: str) -> None:
    assert await status(access()[0], address="127.0.0.1", Host=host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example.org", "evil.example.org:8004", "localhost.evil.org", "192.0.2.7"]
)
async def test_a_name_that_was_led_to_loopback_opens_nothing(host: str) -> None:
    assert await status(access()[0], address="127.0.0.1", Host=host) == 401


async def test_a_token_opens_where_its_user_may_get_the_fleet() -> None:
    checked, asked = access()
    assert await status(checked, token="good") == 200
    (spec,) = asked
    assert spec["user"] == USER["username"]
    assert spec["resourceAttributes"] == {
        "verb": "get",
        "group": "tiphys.dev",
        "resource": "fleet",
        "namespace": ARGOCD,
    }
    assert await status(access(allowed=False)[0], token="good") == 403


@pytest.mark.parametrize(
    ("authorization", "answer"),
    [("Bearer good", 200), ("bearer good", 200), ("Basic good", 401), ("good", 401)],
)
async def test_a_bearer_token_does_as_well(authorization: str, answer: int) -> None:
    assert await status(access()[0], Authorization=authorization) == answer


async def test_probes_and_metrics_tell_nothing_of_agents() -> None:
    store, pki = EmbeddedStore(namespaces=[ARGOCD]), processes.Pki()
    async with processes.principal(store, pki) as principal:
        for pages in (principal.health, principal.metrics):
            assert (await processes.fetch(pages.port, "/agents"))[0] == 404
        assert (await processes.fetch(principal.pages.port, "/agents"))[0] == 200
