"""argocd_app_info from the hub has Argo CD's own labels, a bound, and no credentials."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS
from sidecars.metrics.app_info import LABELS, LONGEST_VALUE, AppInfo
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub


def application(name: str = "web", **changed: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "prod", "name": name},
        "spec": {
            "project": "shop",
            "source": {"repoURL": "https://git.example.org/Web.git"},
            "destination": {"name": "prod", "namespace": "web"},
            "syncPolicy": {"automated": {}},
        },
        "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}},
        **changed,
    }


def info(limit: int = 10) -> AppInfo:
    return AppInfo(
        limit=limit,
        belongs=lambda _: True,
        server_of=lambda name: f"https://{name}.example.org",
        find=lambda namespace, name: application(name, metadata={"namespace": namespace, "name": name}),
    )


def told(page: bytes) -> list[dict[str, str]]:
    families = {each.name: each for each in text_string_to_metric_families(page.decode())}
    return [sample.labels for sample in families["argocd_app_info"].samples]


def left_off(page: bytes) -> float:
    families = {each.name: each for each in text_string_to_metric_families(page.decode())}
    return families["tiphys_principal_app_info_left_off"].samples[0].value


def test_the_labels_are_those_of_argo_cds_controller() -> None:
    made = info()
    made.changed(None, application())
    assert told(made.page()) == [
        {
            "namespace": "prod",
            "name": "web",
            "project": "shop",
            "autosync_enabled": "true",
            "repo": "https://git.example.org/web",
            "dest_server": "https://prod.example.org",
            "dest_namespace": "web",
            "sync_status": "Synced",
            "health_status": "Healthy",
            "operation": "",
        }
    ]
    assert set(told(made.page())[0]) == set(LABELS)


@pytest.mark.parametrize(
    ("changed", "label", "said"),
    [
        ({"status": {}}, "health_status", "Unknown"),
        ({"operation": {"sync": {}}}, "operation", "sync"),
        ({"metadata": {"namespace": "a", "name": "b", "deletionTimestamp": "x"}}, "operation", "delete"),
        ({"spec": {"syncPolicy": {"automated": {"enabled": False}}}}, "autosync_enabled", "false"),
        ({"spec": {}}, "project", "default"),
        ({"spec": {"sources": [{"repoURL": "https://one.example.org/x"}]}}, "repo", "https://one.example.org/x"),
        ({"spec": {"source": {"repoURL": "https://u:hunter2@git.example.org/x"}}}, "repo", "https://[removed]@git.example.org/x"),
        ({"spec": {"project": 'a"b\\c\nd'}}, "project", 'a"b\\c\nd'),
        ({"spec": "nonsense", "status": ["no"]}, "project", "default"),
    ],
)  # fmt: skip
def test_each_label_says_what_argo_cd_would(changed: dict[str, Any], label: str, said: str) -> None:
    made = info()
    made.changed(None, application(**changed))
    assert told(made.page())[0][label] == said


def test_no_more_than_the_limit_are_told_and_the_rest_is_counted() -> None:
    made = info(limit=2)
    for name in ("a", "b", "c", "d"):
        made.changed(None, application(name))
    assert [each["name"] for each in told(made.page())] == ["a", "b"]
    assert left_off(made.page()) == 2
    made.changed(application("a"), None)
    assert [each["name"] for each in told(made.page())] == ["b", "c"]
    made.changed(application("d"), None)
    assert left_off(made.page()) == 0


def test_a_label_has_an_end_and_no_credential_before_it() -> None:
    made = info()
    url = "https://git.example.org/" + "x" * (1 << 20)
    made.changed(None, application("long", spec={"source": {"repoURL": url}, "destination": {"server": url}}))
    secret = f"https://u:hunter2{'x' * 600}@git.example.org/"
    made.changed(None, application("secret", spec={"source": {"repoURL": secret}}))
    long, hidden = told(made.page())
    assert len(long["repo"]) == len(long["dest_server"]) == LONGEST_VALUE
    assert "hunter2" not in hidden["repo"]
    assert len(made.page()) < 10_000


def test_of_those_left_off_nothing_is_kept_but_where_they_are() -> None:
    made = info(limit=1)
    made.changed(None, application("a"))
    before = traced(lambda: made.changed(None, application("b", spec={"source": {"repoURL": "x" * 500}})))
    assert before < 500
    assert left_off(made.page()) == 1


def traced(work: Callable[[], None]) -> int:
    """Bytes that stay."""
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_what_has_no_agent_any_more_takes_no_free_place() -> None:
    gone: set[str] = set()
    made = AppInfo(
        limit=1,
        belongs=lambda item: item["metadata"]["name"] not in gone,
        server_of=lambda _: "",
        find=lambda _, name: None if name == "c" else application(name),
    )
    for name in ("a", "b", "c", "d"):
        made.changed(None, application(name))
    gone.add("b")
    made.changed(application("a"), None)
    assert [each["name"] for each in told(made.page())] == ["d"]
    assert left_off(made.page()) == 0


@pytest.mark.parametrize("limit", [0, 5])
async def test_a_principal_tells_them_only_where_it_was_asked_to(limit: int) -> None:
    store, pki = EmbeddedStore(namespaces=[ARGOCD, "prod", "other"]), processes.Pki()
    await Hub(store).know("prod")
    for namespace in ("prod", "other"):
        item = application(metadata={"name": "web", "namespace": namespace})
        await store.create(APPLICATIONS, item, namespace=namespace)
    async with processes.principal(store, pki, allowed_namespaces=("*",), app_info_limit=limit) as principal:
        status, page = await processes.fetch(principal.metrics.port, "/metrics")
    assert status == 200
    assert page.count('argocd_app_info{namespace="prod"') == (1 if limit else 0)
    assert 'argocd_app_info{namespace="other"' not in page  # no agent has it
    assert 'tiphys_build_info{version="' in page
    assert 'tiphys_certs_expiry_timestamp_seconds{certificate="principal"}' in page
