"""What `explain tracking` says of pruning, beside what a real Argo CD prunes, for each tracking method."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from argocd import names
from cli.commands import explain
from tests.cluster.argocd.argocd_settings import setting, settings
from tests.cluster.argocd.steered import Scene
from tests.webhook.guarded_cluster import until

METHODS = ("label", "annotation", "annotation+label")
FOREIGN = "another-installation"

pytestmark = pytest.mark.timeout(300)


def marked(scene: Scene, ours: str) -> dict[str, dict[str, Any]]:
    """Metadata of objects that the application's source does not hold, by name."""
    label = {names.INSTANCE_LABEL: scene.name}

    def own(called: str) -> dict[str, str]:
        return {
            names.TRACKING_ID: f"{scene.name}:/ConfigMap:{scene.name}/{called}",
            names.INSTALLATION_ID: ours,
        }

    return {
        "ours": {"labels": label, "annotations": own("ours")},
        "anothers": {"labels": label, "annotations": {**own("anothers"), names.INSTALLATION_ID: FOREIGN}},
        "without-id": {
            "labels": label,
            "annotations": {names.TRACKING_ID: own("without-id")[names.TRACKING_ID]},
        },
        "copied": {"labels": label, "annotations": own("ours")},
        "malformed": {"labels": label, "annotations": {**own("malformed"), names.TRACKING_ID: "shop"}},
        "label-only": {"labels": label},
        "annotation-only": {"annotations": own("annotation-only")},
        "unmarked": {},
        "kept": {"labels": label, "annotations": {**own("kept"), names.SYNC_OPTIONS: "Prune=false"}},
        "kept-among-others": {
            "labels": label,
            "annotations": {**own("kept-among-others"), names.SYNC_OPTIONS: "Validate=false, Prune=false"},
        },
        "a-hook": {"labels": label, "annotations": {**own("a-hook"), names.HOOK: "PostSync"}},
        "a-skipped-hook": {"labels": label, "annotations": {**own("a-skipped-hook"), names.HOOK: "Skip"}},
        "a-helm-hook": {
            "labels": label,
            "annotations": {**own("a-helm-hook"), names.HELM_HOOK: "post-install"},
        },
        "an-empty-hook": {"labels": label, "annotations": {**own("an-empty-hook"), names.HOOK: ""}},
        "an-empty-helm-hook": {
            "labels": label,
            "annotations": {**own("an-empty-helm-hook"), names.HELM_HOOK: ""},
        },
        "a-helm-definition": {
            "labels": label,
            "annotations": {**own("a-helm-definition"), names.HELM_HOOK: "crd-install"},
        },
        "not-extraneous": {
            "labels": label,
            "annotations": {**own("not-extraneous"), names.COMPARE_OPTIONS: "IgnoreExtraneous"},
        },
    }


def explained(scene: Scene, name: str) -> dict[str, Any]:
    done = CliRunner().invoke(
        explain.command,
        [
            *("tracking", f"ConfigMap/{name}", "--namespace", scene.name),
            *("--kubeconfig", str(scene.steered.cluster.kubeconfig), "--format", "json"),
        ],
    )
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("method", METHODS)
def test_what_is_pruned_is_what_was_said(scene: Scene, method: str) -> None:
    steered = scene.steered
    with settings(steered, **{names.TRACKING_METHOD_KEY: method}):
        ours = setting(steered, names.INSTALLATION_ID_KEY) or ""
        steered.apply(scene.application())
        steered.cli("app", "sync", scene.name, "--timeout", "50")
        steered.wait_synced(scene.name)
        objects = marked(scene, ours)
        owner = steered.config_map(scene.name, "prices")
        assert owner
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "prices",
            "uid": owner["metadata"]["uid"],
        }
        objects["owned"] = {**objects["ours"], "ownerReferences": [reference]}
        for name, metadata in objects.items():
            body = {"metadata": {**metadata, "name": name}}
            steered.cluster.request("POST", f"/api/v1/namespaces/{scene.name}/configmaps", body)
        said = {name: explained(scene, name)["pruned-when-its-source-has-it-no-more"] for name in objects}
        assert said["ours"]
        assert not said["kept"]

        steered.cli("app", "get", scene.name, "--hard-refresh")
        steered.cli("app", "sync", scene.name, "--prune", "--timeout", "50")
        until(lambda: steered.config_map(scene.name, "ours") is None, what="it is pruned")

        pruned = {name: steered.config_map(scene.name, name) is None for name in objects}
        assert pruned == said
        assert scene.data("prices") == {"tea": "3"}
