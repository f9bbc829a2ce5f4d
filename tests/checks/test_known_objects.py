"""What the objects of a run, and a cluster's, know of each other."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from argocd.judging.configuration import Configuration
from checks import check
from checks.known_objects import known_from
from checks.survey import survey
from kube.embedded import EmbeddedStore
from kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS

TODAY = date(2026, 9, 1)
PLUGIN = {
    "kind": "ConfigMap",
    "metadata": {"name": "plugin"},
    "data": {"token": "$p:t", "baseUrl": "http://p"},
}


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "argocd"}, **more}


def test_in_files_a_secret_that_is_missing_says_nothing() -> None:
    directory = known_from([named("Secret", "token")], Configuration()).directory
    assert directory.secret("token") is None
    assert directory.secret("other") is None


APPLICATION_SET = """\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shop, namespace: argocd}
spec:
  generators: [{plugin: {configMapRef: {name: NAME}}}]
  template:
    metadata: {name: "shop-{{env}}"}
    spec:
      project: shop
      destination: {server: https://kubernetes.default.svc, namespace: shop}
      source: {repoURL: https://example.test/web.git, path: .}
"""


@pytest.mark.parametrize("few", [True, False])
def test_a_run_of_files_tells_of_a_plugins_config_map_that_is_not_among_them(
    *, few: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "are_few", lambda _: few)
    files = {"plugin.yaml": yaml.safe_dump(PLUGIN), "set.yaml": APPLICATION_SET}
    for name, wanted in (("plugin", set()), ("plugins", {"applicationset/config-map-unknown"})):
        for file, text in files.items():
            (tmp_path / file).write_text(text.replace("NAME", name))
        result = check.judge_files([str(tmp_path / file) for file in files], Configuration(), today=TODAY)
        assert {found.rule for found in result.findings if "unknown" in found.rule} == wanted


def test_in_files_config_maps_are_known_where_a_plugins_is_among_them() -> None:
    settings = named("ConfigMap", "argocd-cm", data={"url": "https://argocd.example.com"})
    assert known_from([settings], Configuration()).directory.config_map("plugin") is None
    directory = known_from([settings, PLUGIN], Configuration()).directory
    assert directory.config_map("plugin") is True
    assert directory.config_map("argocd-cm") is True
    assert directory.config_map("plugins") is False


async def test_a_cluster_and_what_a_run_brings_are_known_together_by_name() -> None:
    store = EmbeddedStore()
    await store.create(NAMESPACES, {"metadata": {"name": "argocd"}})
    await store.create(SECRETS, named("Secret", "token", data={"token": "c2VjcmV0"}))
    await store.create(CONFIG_MAPS, named("ConfigMap", "plugin"))
    known = await survey(store, Configuration())
    known.put(named("Secret", "brought"))
    directory = known.directory
    assert [directory.secret(name) for name in ("token", "brought", "gone")] == [True, True, False]
    assert [directory.config_map(name) for name in ("plugin", "gone")] == [True, False]
