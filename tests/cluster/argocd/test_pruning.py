"""What is said of pruning beside what a real Argo CD prunes, for each tracking method."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from argocd import names
from argocd.tracking.migration import Risk
from cli.commands import explain, tracking
from scripts.cluster.argocd.installation import NAMESPACE
from tests.cluster.argocd.argocd_settings import setting, settings, write_settings
from tests.cluster.argocd.steered import Scene, config_map
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


def wait_pruned(scene: Scene, said: dict[str, bool]) -> None:
    """After a sync, whose end is not that of the garbage collector's work. What was said to stay is there then."""

    def pruned() -> dict[str, bool]:
        return {name: scene.steered.config_map(scene.name, name) is None for name in said}

    until(lambda: all(gone for name, gone in pruned().items() if said[name]), what="it is pruned")
    assert pruned() == said


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
        wait_pruned(scene, said)
        assert scene.data("prices") == {"tea": "3"}


@pytest.mark.parametrize("method", METHODS)
def test_a_changed_installation_id_stops_pruning_where_it_was_said(scene: Scene, method: str) -> None:
    steered = scene.steered
    scene.repository.commit({"shop/hours.json": config_map("hours", open="9")})
    first = setting(steered, names.INSTALLATION_ID_KEY)
    with settings(steered, **{names.TRACKING_METHOD_KEY: method, names.INSTALLATION_ID_KEY: first}):
        steered.apply(scene.application())
        steered.cli("app", "sync", scene.name, "--timeout", "50")
        steered.wait_synced(scene.name)
        later = {
            "metadata": {"annotations": {names.TIPHYS_FORMER_INSTALLATION_IDS: first}},
            "data": {names.INSTALLATION_ID_KEY: "later"},
        }
        done = steered.cluster.kubectl(
            *("patch", "configmap", names.ARGOCD_CM, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(later))
        )
        said = "settings/installation-id" in done.stderr and "nothing is pruned" in done.stderr
        assert said == (method != "label")

        scene.repository.commit({"shop/prices.json": config_map("prices", tea="4"), "shop/hours.json": None})
        steered.cli("app", "get", scene.name, "--hard-refresh")
        steered.cli("app", "sync", scene.name, "--prune", "--timeout", "50")

        assert scene.data("prices") == {"tea": "4"}
        wait_pruned(scene, {"hours": not said})


def test_what_a_migration_says_would_be_taken_is_taken(scene: Scene) -> None:
    """Objects that one Application lists and that carry another's label, under a method that does not read it."""
    steered = scene.steered
    other = f"{scene.name}-other"
    label = {names.INSTANCE_LABEL: other}
    objects: dict[str, dict[str, Any]] = {
        "copied": {"labels": label},
        "kept": {"labels": label, "annotations": {names.SYNC_OPTIONS: "Prune=false"}},
        "a-hook": {"labels": label, "annotations": {names.HOOK: "PostSync"}},
        "a-helm-hook": {"labels": label, "annotations": {names.HELM_HOOK: "post-install"}},
        "unmarked": {},
    }
    scene.repository.commit({f"list/{name}.json": config_map(name) for name in objects})
    with settings(steered, **{names.TRACKING_METHOD_KEY: "annotation"}):
        for name, metadata in objects.items():
            body = {"metadata": {**metadata, "name": name}}
            steered.cluster.request("POST", f"/api/v1/namespaces/{scene.name}/configmaps", body)
        steered.apply(scene.application(path="list"), scene.application(other))
        steered.cli("app", "sync", other, "--timeout", "50")
        until(
            lambda: len(steered.status(scene.name, "resources") or ()) == len(objects), what="they are listed"
        )
        done = CliRunner().invoke(
            tracking.command,
            [
                *("migrate", "--to", "label", "--argocd-namespace", NAMESPACE),
                *("--kubeconfig", str(steered.cluster.kubeconfig)),
            ],
        )
        said = {name: f"{scene.name}/{name} " in _taken(done.stderr) for name in objects}
        assert said["copied"]

        write_settings(steered, **{names.TRACKING_METHOD_KEY: "label"})
        steered.cli("app", "get", other, "--hard-refresh")
        steered.cli("app", "sync", other, "--prune", "--timeout", "50")
        wait_pruned(scene, said)


def _taken(told: str) -> str:
    return "\n".join(line for line in told.splitlines() if Risk.TAKEN.value in line)
