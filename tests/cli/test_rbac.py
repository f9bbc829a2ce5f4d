"""`tiphys rbac`: exactly the accounts of a project, and for them exactly what the manifests need."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from argocd import names
from cli.granting import plural_of
from cli.rbac import command
from scripts.cluster.testing import Kubectl
from tests.cli.golden_files import GOLDEN, compare
from tiphys.errors import CallError, ObjectError

FILE = str(GOLDEN / "explained.yaml")
MANIFESTS = str(GOLDEN / "rendered.yaml")


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(command, arguments)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_the_roles_are_what_the_golden_file_says() -> None:
    compare("rbac/impersonate.yaml", run("web", "-f", FILE).stdout)


def test_what_the_account_needs_for_manifests_is_printed_too() -> None:
    done = run("web", "-f", FILE, "--manifests", MANIFESTS)
    compare("rbac/sync.yaml", done.stdout)
    assert "the plural of Widget.widgets.test is guessed: widgets" in done.stderr
    assert "the manifests hold a Role" in done.stderr
    exact = run("web", "-f", FILE, "--manifests", MANIFESTS, "--by-name", "--no-prune").stdout
    compare("rbac/sync-by-name.yaml", exact)


def test_the_user_who_syncs_can_be_another() -> None:
    told = json.loads(run("web", "-f", FILE, "--user", "sync@example.test", "--format", "json").stdout)
    subjects = {one["subjects"][0]["name"] for one in told["items"] if "subjects" in one}
    assert subjects == {"sync@example.test"}


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="there is no project nothing"):
        run("nothing", "-f", FILE)
    bare = tmp_path / "bare.yaml"
    bare.write_text("{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: bare}, spec: {}}")
    with pytest.raises(ObjectError, match="names no account"):
        run("bare", "-f", str(bare))
    two = tmp_path / "two.yaml"
    two.write_text("{kind: ConfigMap, apiVersion: v1, metadata: {name: a}}")
    with pytest.raises(CallError, match="say with --namespace"):
        run("web", "-f", FILE, "--manifests", str(two))


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Endpoints", "endpoints"),
        ("PriorityClass", "priorityclasses"),
    ],
)
def test_plurals_are_formed_as_kubernetes_does(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


def can(kubectl: Kubectl, who: str, verb: str, what: str, namespace: str) -> bool:
    done = kubectl("auth", "can-i", verb, what, "-n", namespace, "--as", who, check=False)
    return done.stdout.strip() == "yes"


def test_an_api_server_grants_exactly_that(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    project: dict[str, Any] = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": f"web-{namespace}", "namespace": "argocd"},
        "spec": {
            "destinationServiceAccounts": [
                {"server": "*", "namespace": namespace, "defaultServiceAccount": "deployer"}
            ]
        },
    }
    rendered = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": namespace},
    }
    (tmp_path / "project.json").write_text(json.dumps(project))
    (tmp_path / "rendered.json").write_text(json.dumps(rendered))
    name = f"web-{namespace}"
    roles = run(name, "-f", str(tmp_path / "project.json"), "--manifests", str(tmp_path / "rendered.json"))
    kubectl("apply", "-f", "-", stdin=roles.stdout)
    controller = f"{names.SERVICE_ACCOUNT_PREFIX}argocd:argocd-application-controller"
    deployer = f"{names.SERVICE_ACCOUNT_PREFIX}{namespace}:deployer"
    assert can(kubectl, controller, "impersonate", "serviceaccounts/deployer", namespace)
    assert not can(kubectl, controller, "impersonate", "serviceaccounts/default", namespace)
    assert not can(kubectl, controller, "impersonate", "serviceaccounts/deployer", "default")
    assert can(kubectl, deployer, "create", "deployments.apps", namespace)
    assert not can(kubectl, deployer, "create", "secrets", namespace)
