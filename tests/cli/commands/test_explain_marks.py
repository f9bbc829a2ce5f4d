"""`explain tracking` and `explain service-account` in their rarer cases."""

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from argocd import names
from cli.commands.explain import command

LISTED = {"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings"}


PERMITTING = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "AppProject",
    "metadata": {"name": "web", "namespace": "argocd"},
    "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "shop"}]},
}
"""A listing counts where the project permits what is listed."""


def application(name: str, *, destination: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd"},
        "spec": {
            "project": "web",
            "destination": destination or {"server": names.IN_CLUSTER_SERVER, "namespace": "shop"},
        },
        "status": {"resources": [LISTED]},
    }


def config_map(name: str = "settings", namespace: str = "shop", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def project(name: str, *entries: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name, "namespace": "argocd", **metadata},
        "spec": {"destinationServiceAccounts": list(entries)},
    }


def told(tmp_path: Path, topic: str, what: str, *objects: dict[str, Any]) -> dict[str, Any]:
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    done = CliRunner().invoke(command, [topic, what, "-f", str(file), "--format", "json"])
    assert done.exit_code == 0, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_two_applications_that_list_an_object_are_both_named(tmp_path: Path) -> None:
    listing = (application("a"), application("b"), PERMITTING)
    found = told(tmp_path, "tracking", "ConfigMap/settings", config_map(), *listing)
    assert (found["disputed-by"], found["good"]) == (["a", "b"], False)


def test_a_kind_may_be_written_as_for_kubectl(tmp_path: Path) -> None:
    found = told(tmp_path, "tracking", "configmap/settings", config_map(), application("a"))
    assert found["object"] == "ConfigMap shop/settings"


def test_with_label_tracking_the_label_is_what_counts(tmp_path: Path) -> None:
    settings = config_map("argocd-cm", "argocd", data={names.TRACKING_METHOD_KEY: "label"})
    marked = config_map(metadata={"labels": {names.INSTANCE_LABEL: "a"}})
    found = told(tmp_path, "tracking", "ConfigMap/settings", settings, marked, application("a"), PERMITTING)
    assert found["should-carry"] == {f"label {names.INSTANCE_LABEL}": "a"}
    assert (found["good"], found["pruned-when-its-source-has-it-no-more"]) == (True, True)


def test_with_label_tracking_an_installation_id_does_not_protect(tmp_path: Path) -> None:
    data = {names.TRACKING_METHOD_KEY: "label", names.INSTALLATION_ID_KEY: "ours"}
    settings = config_map("argocd-cm", "argocd", data=data)
    foreign = {names.TRACKING_ID: "b:/ConfigMap:shop/other", names.INSTALLATION_ID: "theirs"}
    marked = config_map(metadata={"labels": {names.INSTANCE_LABEL: "a"}, "annotations": foreign})
    found = told(tmp_path, "tracking", "ConfigMap/settings", settings, marked, application("a"))
    assert found["pruned-when-its-source-has-it-no-more"] is True
    file = tmp_path / "objects.yaml"
    text = CliRunner().invoke(command, ["tracking", "ConfigMap/settings", "-f", str(file)]).stdout
    assert "✗" not in text.partition("if its application's source did not hold it")[2]
    assert "its installation id does not protect it" in text
    assert "it would be pruned" in text


def test_an_id_of_this_installations_past_is_told_from_anothers(tmp_path: Path) -> None:
    settings = config_map(
        "argocd-cm",
        "argocd",
        data={names.INSTALLATION_ID_KEY: "ours"},
        metadata={"annotations": {names.TIPHYS_FORMER_INSTALLATION_IDS: "older"}},
    )
    marked = config_map(
        metadata={
            "annotations": {names.TRACKING_ID: "a:/ConfigMap:shop/settings", names.INSTALLATION_ID: "older"}
        }
    )
    told(tmp_path, "tracking", "ConfigMap/settings", settings, marked, application("a"))
    file = tmp_path / "objects.yaml"
    text = CliRunner().invoke(command, ["tracking", "ConfigMap/settings", "-f", str(file)]).stdout
    assert "it is one that this Argo CD had before; the next sync renews it" in text


def test_pruning_is_stopped_by_the_option_and_by_an_owner(tmp_path: Path) -> None:
    tracked = {names.TRACKING_ID: "a:/ConfigMap:shop/settings"}
    kept = config_map(metadata={"annotations": {**tracked, names.SYNC_OPTIONS: "Prune=false"}})
    owned = config_map(metadata={"annotations": tracked, "ownerReferences": [{"kind": "X", "name": "x"}]})
    for thing in (kept, owned):
        found = told(tmp_path, "tracking", "ConfigMap/settings", thing, application("a"))
        assert (found["owner"], found["pruned-when-its-source-has-it-no-more"]) == ("a", False)


def test_the_namespaces_word_counts_and_another_installation_is_noticed(tmp_path: Path) -> None:
    home = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "annotations": {names.TIPHYS_TRACKING_APPLICATION: "a"}},
    }
    foreign = config_map(metadata={"annotations": {names.INSTALLATION_ID: "other"}})
    settings = config_map("argocd-cm", "argocd", data={names.INSTALLATION_ID_KEY: "ours"})
    found = told(tmp_path, "tracking", "ConfigMap/settings", settings, home, foreign)
    assert (found["owner"], found["argo-cd-takes-it-for"]) == ("a", "")
    assert found["should-carry"][names.INSTALLATION_ID] == "ours"


def test_entries_of_a_global_project_are_tried_after_the_projects_own(tmp_path: Path) -> None:
    selecting = [{"projectName": "all", "labelSelector": {"matchLabels": {"tier": "web"}}}]
    settings = config_map(
        "argocd-cm",
        "argocd",
        data={names.IMPERSONATION_ENABLED_KEY: "true", "globalProjects": yaml.safe_dump(selecting)},
    )
    own = {"server": "https://other.test", "namespace": "*", "defaultServiceAccount": "own"}
    general = {"server": "*", "namespace": "*", "defaultServiceAccount": "general"}
    found = told(
        tmp_path,
        "service-account",
        "a",
        settings,
        project("web", own, labels={"tier": "web"}),
        project("all", general),
        application("a"),
    )
    assert found["user"] == "system:serviceaccount:shop:general"
    assert [one["from"] for one in found["entries"]] == ["", "all"]


def test_a_pattern_that_does_not_compile_ends_the_walk(tmp_path: Path) -> None:
    broken = {"server": "[a", "namespace": "*", "defaultServiceAccount": "x"}
    rest = {"server": "*", "namespace": "*", "defaultServiceAccount": "rest"}
    found = told(tmp_path, "service-account", "a", project("web", broken, rest), application("a"))
    assert (found["outcome"], len(found["entries"])) == ("invalid", 1)
    assert found["entries"][0]["problem"]


def test_a_cluster_that_is_only_named_is_told(tmp_path: Path) -> None:
    entry = {"server": "https://prod.test", "namespace": "*", "defaultServiceAccount": "x"}
    elsewhere = application("a", destination={"name": "prod", "namespace": "shop"})
    found = told(tmp_path, "service-account", "a", project("web", entry), elsewhere)
    assert any("the server of cluster prod is not known" in note for note in found["notes"])
