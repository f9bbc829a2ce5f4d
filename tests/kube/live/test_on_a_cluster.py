"""Who may not, who is not known, and who speaks for another: on a real API server."""

from pathlib import Path

import pytest

from kube.errors import ForbiddenError, UnauthorizedError, UnavailableError
from kube.live import LiveStore
from kube.resources import CONFIG_MAPS
from kube.store import Identity
from scripts.cluster.controlplane import Cluster
from tests.kube.objects import config_map

READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]


async def _reading(store: LiveStore, namespace: str) -> None:
    try:
        await store.list(CONFIG_MAPS, namespace=namespace)
    finally:
        await store.close()


async def test_an_expired_token_is_told_as_such(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.kubeconfig_with_token(cluster.expired_token())
    with pytest.raises(UnauthorizedError, match="has expired") as caught:
        await _reading(await LiveStore.connect(kubeconfig=kubeconfig), namespace)
    assert cluster.url in str(caught.value)
    assert str(kubeconfig) in str(caught.value)


async def test_an_expired_certificate_is_told_as_such(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.kubeconfig_of("late", expired=True)
    with pytest.raises(UnauthorizedError, match="has expired"):
        await _reading(await LiveStore.connect(kubeconfig=kubeconfig), namespace)


async def test_a_certificate_of_another_authority_is_not_trusted(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    lines = cluster.kubeconfig.read_text().splitlines()
    kept = [line for line in lines if "certificate-authority" not in line]
    path = tmp_path / "config"
    path.write_text("\n".join(kept))
    with pytest.raises(UnavailableError, match="certificate that is not trusted") as caught:
        await _reading(await LiveStore.connect(kubeconfig=path), namespace)
    assert cluster.url in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_who_has_no_role_is_forbidden_to_look(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.kubeconfig_of("eve")
    with pytest.raises(ForbiddenError, match='User "eve" cannot list'):
        await _reading(await LiveStore.connect(kubeconfig=kubeconfig), namespace)


async def test_impersonation_counts(cluster: Cluster, namespace: str) -> None:
    cluster.grant(rules=READ, group="readers", namespace=namespace)
    for identity, allowed in ((Identity("mallory"), False), (Identity("mallory", ("readers",)), True)):
        store = await LiveStore.connect(kubeconfig=cluster.kubeconfig, impersonate=identity)
        if allowed:
            await _reading(store, namespace)
        else:
            with pytest.raises(ForbiddenError, match='User "mallory" cannot list'):
                await _reading(store, namespace)


async def test_a_service_account_reads_its_token_from_a_file(cluster: Cluster, namespace: str) -> None:
    cluster.grant(rules=READ, account=f"{namespace}/default", namespace=namespace)
    token = cluster.account_token("default", namespace=namespace)
    kubeconfig = cluster.kubeconfig_with_token(token, in_file=True, namespace=namespace)
    store = await LiveStore.connect(kubeconfig=kubeconfig)
    assert store.access.namespace == namespace
    await _reading(store, namespace)


async def test_warnings_of_the_api_server_arrive(cluster: Cluster, namespace: str) -> None:
    warnings: list[str] = []
    store = await LiveStore.connect(kubeconfig=cluster.kubeconfig, on_warning=warnings.append)
    try:
        body = config_map("a", namespace=namespace) | {"unknown": "field"}
        await store.create(CONFIG_MAPS, body)
    finally:
        await store.close()
    assert warnings == ['unknown field "unknown"']


async def test_objects_are_counted_by_one_small_question(cluster: Cluster, namespace: str) -> None:
    store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    try:
        before = await store.count(CONFIG_MAPS, namespace=namespace)
        assert before is not None
        for number in range(3):
            await store.create(CONFIG_MAPS, config_map(f"counted-{number}", namespace=namespace))
        assert await store.count(CONFIG_MAPS, namespace=namespace) == before + 3
        assert (await store.count(CONFIG_MAPS) or 0) >= before + 3
    finally:
        await store.close()


async def test_the_api_server_tells_its_version(cluster: Cluster) -> None:
    store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    try:
        assert (await store.server_version()).startswith("v1.")
    finally:
        await store.close()
