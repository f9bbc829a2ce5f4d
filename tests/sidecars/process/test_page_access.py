"""What a principal tells of its agents is for its own loopback and for those whom the API server vouches for."""

from typing import Any

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
    return PageAccess(store, namespace=ARGOCD, service=names.PRINCIPAL_AGENTS_SERVICE), asked


async def status(checked: PageAccess, *, address: str = "192.0.2.7", token: str | None = None) -> int:
    headers = {} if token is None else {names.PAGE_TOKEN_HEADER: token}
    page = await checked.refusal(address=address, headers=headers)
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


async def test_a_token_opens_where_its_user_may_use_the_services_proxy() -> None:
    checked, asked = access()
    assert await status(checked, token="good") == 200
    (spec,) = asked
    assert spec["user"] == USER["username"]
    wanted: dict[str, Any] = {"verb": "get", "resource": "services", "subresource": "proxy"}
    assert spec["resourceAttributes"] == {
        **wanted,
        "namespace": ARGOCD,
        "name": names.PRINCIPAL_AGENTS_SERVICE,
    }
    assert await status(access(allowed=False)[0], token="good") == 403


async def test_probes_and_metrics_tell_nothing_of_agents() -> None:
    store, pki = EmbeddedStore(namespaces=[ARGOCD]), processes.Pki()
    async with processes.principal(store, pki) as principal:
        for pages in (principal.health, principal.metrics):
            assert (await processes.fetch(pages.port, "/agents"))[0] == 404
        assert (await processes.fetch(principal.pages.port, "/agents"))[0] == 200
