"""`tiphys review`: reviews on standard input, answers on standard output, nothing running."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.commands.review import command

GOOD: dict[str, Any] = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "AppProject",
    "metadata": {"name": "web", "namespace": "argocd"},
    "spec": {
        "sourceRepos": ["https://example.test/web"],
        "destinations": [{"server": "https://a.test", "namespace": "web"}],
    },
}
BAD = {**GOOD, "spec": {"sourceRepos": ["!*"]}}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "my-deployment"},
    "spec": {},
}
CLUSTER = """
apiVersion: v1
kind: Namespace
metadata:
  name: default
  labels: {tiphys.dev/tracking: enabled}
  annotations: {tiphys.dev/tracking-application: my-application}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default}
spec: {sourceRepos: ["*"]}
"""


def review(thing: dict[str, Any], uid: str = "u", **request: Any) -> str:
    group, _, version = thing["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": thing["kind"]}
    return json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": uid,
                "kind": kind,
                "resource": {"group": group, "version": version, "resource": "things"},
                "name": thing["metadata"]["name"],
                "namespace": thing["metadata"].get("namespace", "default"),
                "operation": "CREATE",
                "userInfo": {"username": "jason"},
                "object": thing,
                **request,
            },
        }
    )


def tiphys(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, input=text)


def responses(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line)["response"] for line in done.stdout.splitlines()]


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return found


def test_a_good_object_is_allowed_and_ends_with_zero() -> None:
    done = tiphys(review(GOOD))
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["kind"] == "AdmissionReview"
    assert responses(done)[0]["uid"] == "u"
    assert responses(done)[0]["allowed"] is True


def test_a_bad_object_is_denied_with_its_findings_and_ends_with_one() -> None:
    done = tiphys(review(BAD))
    assert done.exit_code == 1
    [response] = responses(done)
    assert response["allowed"] is False
    assert "spec.sourceRepos[0]" in response["status"]["message"]


def test_one_review_may_run_over_many_lines() -> None:
    done = tiphys("\n\n" + json.dumps(json.loads(review(BAD)), indent=4) + "\n")
    assert (done.exit_code, len(responses(done))) == (1, 1)


def test_one_review_a_line_gives_one_answer_a_line() -> None:
    done = tiphys("\n".join([review(GOOD, "1"), review(BAD, "2"), "", review(GOOD, "3")]))
    assert done.exit_code == 1
    assert [(told["uid"], told["allowed"]) for told in responses(done)] == [
        ("1", True),
        ("2", False),
        ("3", True),
    ]


def test_what_cannot_be_read_is_one_line_and_the_others_are_answered() -> None:
    done = tiphys("\n".join([review(GOOD, "1"), '{"kind": "Pod"}', "{", review(GOOD, "4")]))
    assert done.exit_code == 2
    assert [told["uid"] for told in responses(done)] == ["1", "4"]
    first, second = done.stderr.splitlines()
    assert first == "tiphys: review 2: the body is not an AdmissionReview"
    assert second.startswith("tiphys: review 3: the body is not JSON")


@pytest.mark.parametrize("text", ["", "\n", "{", "[]", "\x00", '{"a":' * 5000])
def test_no_review_at_all_ends_with_two(text: str) -> None:
    done = tiphys(text)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("tiphys: ")
    assert len(done.stderr.splitlines()) == 1


def test_the_response_carries_the_patch_and_the_result_is_what_is_validated(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    done = tiphys(review(DEPLOYMENT), "--objects", str(tmp_path))
    assert done.exit_code == 0, done.stderr
    [response] = responses(done)
    added = {operation["path"]: operation["value"] for operation in patch_of(response)}
    assert added["/metadata/annotations"]["argocd.argoproj.io/tracking-id"] == (
        "my-application:apps/Deployment:default/my-deployment"
    )


def test_without_objects_nothing_is_known_of_namespaces_and_neighbours() -> None:
    [response] = responses(tiphys(review(DEPLOYMENT)))
    assert "patch" not in response


def test_a_project_that_is_not_there_is_told_only_with_objects(tmp_path: Path) -> None:
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "project": "nowhere",
            "source": {"repoURL": "https://example.test/shop", "path": "."},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
        },
    }
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    [alone] = responses(tiphys(review(application)))
    [among] = responses(tiphys(review(application), "--objects", str(tmp_path)))
    assert not any("nowhere" in warning for warning in alone.get("warnings", ()))
    assert any("nowhere" in warning for warning in among["warnings"])


def test_an_agents_project_is_settled_before_it_is_judged(tmp_path: Path) -> None:
    project = {
        **GOOD,
        "metadata": {
            "name": "edge-1-web",
            "namespace": "argocd",
            "annotations": {"tiphys.dev/agent": "edge-1"},
        },
    }
    principal = {"username": "system:serviceaccount:argocd:tiphys-principal"}
    [response] = responses(tiphys(review(project, userInfo=principal)))
    assert response["allowed"], response
    assert {operation["path"] for operation in patch_of(response)} >= {"/spec/sourceNamespaces"}
    [alone] = responses(tiphys(review(project, userInfo=principal), "--endpoint", "validate"))
    assert not alone["allowed"]
    [mutated] = responses(tiphys(review(project, userInfo=principal), "--endpoint", "mutate"))
    assert mutated["patch"] == response["patch"]


def test_the_configuration_decides(tmp_path: Path) -> None:
    config = tmp_path / "tiphys.yaml"
    config.write_text("enforcement: warn\n")
    done = tiphys(review(BAD), "--config", str(config))
    assert done.exit_code == 0
    assert responses(done)[0]["warnings"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--config", "none.yaml"], "none.yaml: No such file"), (["--objects", "none"], "none")],
)
def test_files_that_are_not_there_are_named(arguments: list[str], said: str) -> None:
    done = tiphys(review(GOOD), *arguments)
    assert said in str(done.exception)
