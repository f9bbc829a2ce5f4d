"""`tiphys scan`, and commands that ask a live cluster, on a real API server with some hundred objects."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from argocd import names
from cli.commands import check, explain, scan
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl
from tests.argocd.costly_objects import HOSTILE
from tests.cli.golden_files import compare
from tests.cli.terminals import on_a_terminal
from tiphys.errors import SurroundingsError

APPLICATIONS = 240
LOUD = ["--rule", "application/*=off", "--rule", "application/sync-option=deny"]

POLICY_REPORTS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "policyreports.wgpolicyk8s.io"},
    "spec": {
        "group": "wgpolicyk8s.io",
        "scope": "Namespaced",
        "names": {"plural": "policyreports", "singular": "policyreport", "kind": "PolicyReport"},
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "summary": {"type": "object", "additionalProperties": {"type": "integer"}},
                            "results": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["policy"],
                                    "properties": {
                                        **{
                                            key: {"type": "string"}
                                            for key in ("source", "policy", "rule", "category", "message")
                                        },
                                        "severity": {
                                            "enum": ["critical", "high", "low", "medium", "info"],
                                            "type": "string",
                                        },
                                        "result": {
                                            "enum": ["pass", "fail", "warn", "error", "skip"],
                                            "type": "string",
                                        },
                                        "resources": {
                                            "type": "array",
                                            "items": {
                                                "type": "object",
                                                "x-kubernetes-preserve-unknown-fields": True,
                                            },
                                        },
                                    },
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


def application(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name},
        "spec": {
            "project": "team",
            "destination": {"server": names.IN_CLUSTER_SERVER, "namespace": name},
            "source": {"repoURL": "https://example.test/apps.git", "path": name},
            **spec,
        },
    }


class Place:
    """An Argo CD that exists only as objects."""

    def __init__(self, cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
        self._cluster, self._kubectl, self.namespace = cluster, kubectl, namespace

    @property
    def reached(self) -> list[str]:
        return ["--kubeconfig", str(self._cluster.kubeconfig), "--argocd-namespace", self.namespace]

    def apply(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self._kubectl("apply", "--server-side", "-n", self.namespace, "-f", "-", stdin=json.dumps(listed))

    def run(self, command: click.Command, *arguments: str | Path) -> Result:
        where = self.reached[:2] if command is check.command else self.reached
        done = CliRunner().invoke(command, [*map(str, arguments), *where])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def scan(self, *arguments: str | Path) -> Result:
        return self.run(scan.command, "--namespace", self.namespace, *arguments)

    def found(self, *arguments: str) -> list[dict[str, Any]]:
        told = json.loads(self.scan("--format", "json", *arguments).stdout)
        return [one for one in told["findings"] if f"/{self.namespace}/" in one["file"]]

    def reports(self) -> list[dict[str, Any]]:
        done = self._kubectl("get", "policyreports", "-n", self.namespace, "-o", "json")
        items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))


@pytest.fixture
def place(cluster: Cluster, kubectl: Kubectl, namespace: str) -> Place:
    place = Place(cluster, kubectl, namespace)
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "team"},
        "spec": {
            "sourceRepos": ["https://example.test/apps.git"],
            "destinations": [{"server": names.IN_CLUSTER_SERVER, "namespace": "app-*"}],
        },
    }
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": {}}
    place.apply(project, settings)
    return place


@pytest.fixture
def policy_reports(kubectl: Kubectl) -> Iterator[None]:
    name = POLICY_REPORTS["metadata"]["name"]  # type: ignore[index]
    kubectl("apply", "-f", "-", stdin=json.dumps(POLICY_REPORTS))
    kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    yield
    kubectl("delete", "crd", name)


def test_what_is_there_is_judged_with_its_neighbours(place: Place) -> None:
    options = {"syncPolicy": {"syncOptions": ["createnamespace=true"]}}
    place.apply(
        *(application(f"app-{number}") for number in range(APPLICATIONS)),
        application("app-odd", **options),
        application("app-lost", project="nowhere"),
        application("app-out", destination={"server": names.IN_CLUSTER_SERVER, "namespace": "other"}),
        application("app-twin", source={"repoURL": "https://example.test/apps.git", "path": "app-1"},
                    destination={"server": names.IN_CLUSTER_SERVER, "namespace": "app-1"}),
    )  # fmt: skip
    found = {(one["object"].partition("/")[2], one["rule"]) for one in place.found()}
    assert ("app-odd", "application/sync-option") in found
    assert ("app-lost", "application/project-unknown") in found
    assert ("app-out", "application/destination-forbidden") in found
    assert {("app-1", "application/twin"), ("app-twin", "application/twin")} <= found
    assert not any(name == "app-2" for name, _ in found)

    done = place.scan("--rule", "application/sync-option=deny")
    assert done.exit_code == 1
    assert "owner" in done.stdout
    assert "  AppProject team" in done.stdout
    assert f"      1       0       0  {'application/sync-option'}" in done.stdout
    assert "app-odd" in place.scan("--details").stdout


def test_a_costly_object_is_told_and_the_others_are_judged(place: Place) -> None:
    place.apply(
        {**HOSTILE["stars"], "metadata": {"name": "costly"}},
        application("app-odd", syncPolicy={"syncOptions": ["createnamespace=true"]}),
    )
    found = {(one["object"].partition("/")[2], one["rule"], one["action"]) for one in place.found()}
    assert ("costly", "object/too-costly", "deny") in found
    assert ("app-odd", "application/sync-option", "warn") in found


def test_a_stricter_profile_tells_what_would_be_denied(place: Place) -> None:
    place.apply(application("app-odd", syncPolicy={"syncOptions": ["createnamespace=true"]}))
    assert place.found("--profile", "parity") == []
    assert [one["rule"] for one in place.found()] == ["application/sync-option"]


def test_the_webhooks_own_configuration_counts(place: Place) -> None:
    place.apply(application("app-odd", syncPolicy={"syncOptions": ["createnamespace=true"]}))
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tiphys"}, "data": {"tiphys.yaml": "rules: {application/sync-option: deny}\n"}}  # fmt: skip
    place.apply(settings)
    assert [one["action"] for one in place.found()] == ["deny"]


def test_other_kinds_are_judged_when_told(place: Place) -> None:
    marked = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "marked", "annotations": {names.SYNC_OPTIONS: "prune=false"}},
    }
    place.apply(marked)
    assert place.found() == []
    assert [one["rule"] for one in place.found("--tracked-kinds")] == ["object/sync-options"]
    for word in ("ConfigMap", "configmaps"):
        assert [one["object"].partition("/")[2] for one in place.found("--kind", word)] == ["marked"]


@pytest.mark.usefixtures("policy_reports")
def test_policy_reports_grow_and_shrink_with_the_findings(place: Place) -> None:
    odd = {"syncPolicy": {"syncOptions": ["createnamespace=true"]}}
    place.apply(*(application(f"app-{number}", **odd) for number in range(3)))
    done = place.scan("--policy-report", *LOUD)
    assert (done.exit_code, "PolicyReports:" in done.stderr) == (1, True)
    [report] = place.reports()
    assert report["summary"] == {"pass": 0, "fail": 3, "warn": 0, "error": 0, "skip": 0}
    [first, *_] = report["results"]
    assert (first["rule"], first["result"], first["severity"]) == ("application/sync-option", "fail", "high")
    assert first["resources"][0]["name"].startswith("app-")

    place.scan("--policy-report", *LOUD)
    assert place.reports()[0]["metadata"]["resourceVersion"] == report["metadata"]["resourceVersion"], (
        "nothing changed, nothing is written"
    )
    place.apply(
        application("app-0", syncPolicy={"syncOptions": []}),
        application("app-1", syncPolicy={"syncOptions": []}),
    )
    place.scan("--policy-report", *LOUD)
    assert place.reports()[0]["summary"]["fail"] == 1
    place.apply(application("app-2", syncPolicy={"syncOptions": []}))
    place.scan("--policy-report", *LOUD)
    assert place.reports() == []


def test_without_the_definition_no_report_is_written(place: Place) -> None:
    with pytest.raises(SurroundingsError, match=r"no PolicyReport of wgpolicyk8s.io/v1alpha2"):
        place.scan("--policy-report")


def test_check_knows_the_neighbours_of_a_cluster(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    body = application("app-new", project="nowhere")
    file.write_text(json.dumps(body))
    config = tmp_path / "tiphys.yaml"
    config.write_text(f"argocd: {{namespace: {place.namespace}}}\n")
    assert "application/project-unknown" in place.run(check.command, file).stdout
    body["spec"]["project"] = "team"
    file.write_text(json.dumps(body))
    assert place.run(check.command, file).stdout.startswith("0 denials, 0 warnings")


def test_a_scan_shows_its_progress_on_a_terminal_alone(place: Place) -> None:
    place.apply(*(application(f"app-{number}") for number in range(20)))
    seen = on_a_terminal(["scan", *place.reached, "--namespace", place.namespace])
    assert "objects judged" in seen.screen
    assert "%" in seen.screen, "the API server tells how many there are"
    assert "denial" in seen.out.splitlines()[-1]
    assert "objects judged" not in place.scan().stderr


def test_a_scan_where_no_argo_cd_is_says_so(place: Place) -> None:
    done = CliRunner().invoke(scan.command, [*place.reached[:2], "--argocd-namespace", "nowhere"])
    assert "there is no argocd-cm in nowhere, so its defaults are meant" in done.stderr


def test_explanations_come_from_a_cluster(place: Place) -> None:
    place.apply(application("app-1"))
    account = place.run(explain.command.commands["service-account"], "app-1")
    assert "Argo CD's own credentials" in account.stdout
    goes = place.run(explain.command.commands["project"], "team", "--agent", "app-1")
    assert "names no agent" in goes.stdout
    marks = place.run(explain.command.commands["tracking"], "ConfigMap/argocd-cm", "-n", place.namespace)
    compare("explain/tracking-live.txt", marks.stdout.replace(place.namespace, "argocd"))
    everybody = place.run(explain.command.commands["service-account"], "-A", "-o", "json").stdout
    assert f"{place.namespace}/app-1" in {each["name"] for each in json.loads(everybody)["items"]}
    objects = place.run(explain.command.commands["tracking"], "ConfigMap/argocd-cm", "-A", "-o", "name")
    assert f"{place.namespace}/argocd-cm" in objects.stdout.splitlines()
    agents = place.run(explain.command.commands["project"], "team", "-A")
    assert agents.stdout == "no agent is registered: `tiphys agents create` makes one\n"
    plural = place.run(explain.command.commands["tracking"], "configmaps/argocd-cm", "-n", place.namespace)
    assert plural.stdout == marks.stdout
