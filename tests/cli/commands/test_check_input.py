"""`tiphys check` in a repository as it is: what it judges, what it leaves alone, and what it must be able to read."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from checks.files import content, references
from checks.files.recognition import broken_as
from cli.commands.check import command
from tests.argocd.costly_objects import HOSTILE as COSTLY
from tests.tiphys.test_safe_yaml import HOSTILE

PROJECT = (
    "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: web, namespace: argocd}\nspec: {}\n"
)
BAD = PROJECT.replace("{}", "{sourceNamespaces: [a, a]}")
APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd}
spec:
  project: web
  destination: {server: https://kubernetes.default.svc, namespace: shop}
  source: {repoURL: https://example.test/web.git, path: .}
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: a, labels: {argocd.argoproj.io/secret-type: repository}}
data: {url: 'x'}
"""
PATCH = BAD
"""Whatever is wrong with it: the whole object is another one."""


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    references._named_above.cache_clear()
    references._whole.cache_clear()


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def check(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(command, [str(one) for one in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def told(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(check(*arguments, "--format", "json").stdout)
    return found


def rules(*arguments: str | Path) -> list[str]:
    return [found["rule"] for found in told(*arguments)["findings"]]


NO_MANIFESTS = {
    "patch.json": '[{"op": "replace", "path": "/spec/x", "value": 1}]',
    "playbook.yml": "- hosts: all\n  tasks: []\n",
    "mkdocs.yml": "site_name: x\nx: !!python/name:material.extensions.emoji.twemoji\n",
    "lock.yaml": "dependencies: []\ndigest: sha256:1\n",
    "values.yaml": "replicas: 1\n",
    "tsconfig.json": "{\n  // a comment\n  'a': 1\n}\n",
    "twice.yaml": "a: 1\na: 2\n",
    "cut.yaml": "a: [",
    "stack.yaml": "Resources: {A: !Ref B}\n",
    "cookie.yaml": "name: {{ cookiecutter.name }}\n",
    "skeleton.yaml": "kind: Application\napiVersion: argoproj.io/v1alpha1\nmetadata:\n  name: {{ values.name }}\n",
    "chart.yaml": "{{- if .Values.x }}\nkind: Application\napiVersion: argoproj.io/v1alpha1\n{{- end }}\n",
}


def test_what_is_no_manifest_is_passed_over_and_counted(tmp_path: Path) -> None:
    write(tmp_path, {**NO_MANIFESTS, "a.yaml": PROJECT})
    done = check(tmp_path)
    assert done.exit_code == 0
    assert "left alone: 9 without a manifest, 3 templates" in done.stdout
    assert "judged of Argo CD: 1 AppProject" in done.stdout


def test_with_strict_input_it_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, {**NO_MANIFESTS, "a.yaml": PROJECT})
    done = check(tmp_path, "--strict-input", "--format", "json")
    assert done.exit_code == 2
    assert {Path(one["file"]).name for one in json.loads(done.stdout)["unreadable"]} == set(NO_MANIFESTS)


@pytest.mark.parametrize(
    "text",
    [
        f"{PROJECT}---\na: [",
        PROJECT.replace("{name: web, ", "{name: web, name: x, "),
        "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: {{name}}}\n",
        "kind: ConfigMap\nmetadata:\n  name: argocd-cm\n\tdata: {}\n",
        "metadata: {labels: {argocd.argoproj.io/secret-type: cluster}\n",
    ],
)
def test_a_file_with_an_object_of_argo_cd_must_be_readable(text: str, tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": text, "b.yaml": BAD.replace("web", "other")})
    done = check(tmp_path)
    assert done.exit_code == 2
    assert "project/duplicate-source-namespace" in done.stdout, "the rest is judged all the same"


def test_a_file_that_is_named_must_be_readable_unless_any_file_may_be(tmp_path: Path) -> None:
    write(tmp_path, NO_MANIFESTS)
    unreadable = [name for name in NO_MANIFESTS if name not in {"lock.yaml", "values.yaml"}]
    for name in unreadable:
        assert check(tmp_path / name).exit_code == 2
    assert "a template: render it" in check(tmp_path / "cookie.yaml").stdout
    done = check("--any-file", *(tmp_path / name for name in NO_MANIFESTS))
    assert done.exit_code == 0


@pytest.mark.parametrize("name", ["empty", "nothing/*.yaml"])
def test_a_folder_or_a_pattern_that_matches_nothing_is_an_error(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"empty/README.md": "", "a.yaml": BAD})
    done = check(tmp_path / name, tmp_path / "a.yaml")
    assert done.exit_code == 2
    assert "nothing to judge" in done.stdout
    assert "project/duplicate-source-namespace" in done.stdout


def test_a_pipe_that_nobody_writes_to_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PIPE_SECONDS", 0.05)
    os.mkfifo(tmp_path / "pipe.yaml")
    done = check(tmp_path / "pipe.yaml")
    assert done.exit_code == 2
    assert "nothing was written to this pipe for 0.05 s" in done.stdout


def test_a_pipe_is_read_and_has_places(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(BAD,))
    writer.start()
    done = check(pipe)
    writer.join(10)
    assert "4:30    deny  project/duplicate-source-namespace" in done.stdout


# Partial objects


@pytest.mark.parametrize(
    ("kustomization", "file"),
    [
        ("patches: [{path: p.yaml}]", "p.yaml"),
        ("patchesStrategicMerge: [p.yaml, 'kind: X\\nmetadata: {}']", "p.yaml"),
        ("patchesJson6902: [{target: {kind: X}, path: sub/../p.yaml}]", "p.yaml"),
        ("patches: [{path: sub/p.yaml}]", "sub/p.yaml"),
        ("kind: Component\npatches: [{path: ../patches/p.yaml}]", "../patches/p.yaml"),
    ],
)
def test_a_patch_that_a_kustomization_names_is_left_alone(
    kustomization: str, file: str, tmp_path: Path
) -> None:
    write(
        tmp_path,
        {"base/kustomization.yaml": f"{kustomization}\n", f"base/{file}": PATCH, "base/sub/x.yaml": ""},
    )
    (tmp_path / ".git").mkdir()
    found = told(tmp_path)
    assert (found["findings"], found["left_alone"]["patch"]) == ([], 1)
    if "Component" not in kustomization:
        assert told(tmp_path / "base" / file)["left_alone"] == {"patch": 1}, "alone too, as a hook sees it"


def test_kustomizations_above_the_repository_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, {"kustomization.yaml": "patches: [{path: repo/p.yaml}]\n", "repo/p.yaml": PATCH})
    (tmp_path / "repo/.git").mkdir()
    assert rules(tmp_path / "repo") == ["project/duplicate-source-namespace"]


def test_what_is_a_resource_too_is_judged(tmp_path: Path) -> None:
    write(
        tmp_path, {"kustomization.yaml": "resources: [p.yaml]\npatches: [{path: p.yaml}]\n", "p.yaml": PATCH}
    )
    assert rules(tmp_path) == ["project/duplicate-source-namespace"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.yaml", f"$patch: delete\n{BAD}", "patch"),
        ("a.yaml", BAD.replace("spec: {", "spec: {roles: [{$patch: replace}], "), "patch"),
        ("01-assert.yaml", BAD, "test"),
        ("2-errors.yml", BAD, "test"),
        ("a.yaml", f"{BAD}sops: {{mac: x, version: 3.8.1}}\n", "encrypted"),
        (
            "a.yaml",
            SECRET.replace("'x'", "'ENC[AES256_GCM,data:x,type:str]'"),
            "encrypted",
        ),
        ("a.yaml", "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: a}\n", "sealed"),
        (
            "a.yaml",
            "apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nmetadata: {name: a}\n",
            "sealed",
        ),
    ],
)
def test_partial_objects_are_recognised(name: str, text: str, reason: str, tmp_path: Path) -> None:
    write(tmp_path, {name: text, "b.yaml": PROJECT.replace("web", "other")})
    found = told(tmp_path)
    assert (found["findings"], found["left_alone"]) == ([], {reason: 1})


def test_what_a_chainsaw_test_expects_is_left_alone(tmp_path: Path) -> None:
    steps = "spec: {steps: [{try: [{apply: {file: a.yaml}}, {assert: {file: b.yaml}}, {error: {file: c.yaml}}]}]}\n"
    kind = "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\n"
    write(tmp_path, {"chainsaw-test.yaml": kind + steps, "a.yaml": PROJECT, "b.yaml": BAD, "c.yaml": BAD})
    found = told(tmp_path)
    assert (found["findings"], found["left_alone"]) == ([], {"test": 2})


# Argo CD's namespace


@pytest.mark.parametrize(
    "others",
    [
        {"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: gitops}\n"},
        {},
    ],
)
def test_argo_cds_namespace_is_where_its_settings_or_projects_are(
    others: dict[str, str], tmp_path: Path
) -> None:
    project = PROJECT.replace("namespace: argocd", "namespace: gitops")
    application = APPLICATION.replace("namespace: argocd", "namespace: gitops")
    write(tmp_path, {**others, "p.yaml": project, "a.yaml": application})
    assert "application/project-unknown" not in rules(tmp_path)
    assert "application/project-unknown" in rules(tmp_path, "--argocd-namespace", "argocd")
    write(tmp_path, {"tiphys.yaml": "argocd: {namespace: elsewhere}\n"})
    assert "application/project-unknown" in rules(tmp_path)


def test_several_argo_cds_in_one_repository_have_their_own_projects(tmp_path: Path) -> None:
    for place in ("east", "west"):
        at = f"namespace: {place}"
        project = PROJECT.replace("namespace: argocd", at).replace("web", f"web-{place}")
        application = APPLICATION.replace("namespace: argocd", at).replace(
            "project: web", f"project: web-{place}"
        )
        write(tmp_path, {f"{place}/p.yaml": project, f"{place}/a.yaml": application})
    assert "application/project-unknown" not in rules(tmp_path)
    text = (tmp_path / "west/a.yaml").read_text()
    write(tmp_path, {"west/a.yaml": text.replace("web-west", "web-east")})
    assert "application/project-unknown" in rules(tmp_path)


# Valid YAML


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_several_json_documents_in_one_file_have_their_places(name: str, tmp_path: Path) -> None:
    one = '{"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "%s"},\n\t"spec": %s}'
    bad = '{"sourceNamespaces": ["a", "a"]}'
    write(tmp_path, {name: f"{one % ('a', '{}')} {one % ('b', bad)}\n{one % ('c', bad)}\n"})
    found = told(tmp_path)["findings"]
    assert [(each["object"], each["line"], each["column"]) for each in found] == [
        ("AppProject b", 3, 37),
        ("AppProject c", 5, 37),
    ]
    check(tmp_path, "--fix", "--yes")
    assert rules(tmp_path) == []


# Hostile input


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_input_ends_in_a_signal_or_a_traceback(text: str, tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": BAD, "b.yaml": text})
    done = subprocess.run(
        [sys.executable, "-m", "cli", "check", str(tmp_path), str(tmp_path / "b.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (2, "")
    assert "project/duplicate-source-namespace" in done.stdout, "what is good beside it is judged"


def test_a_file_is_told_by_its_looks_in_little_time() -> None:
    assert broken_as(b"\0" * 10_000_000 + b"kind: Application\0argoproj.io/v1alpha1") is None
    assert broken_as(b"kind :" * 1_000_000) == "without a manifest"
    assert broken_as(b"{{ " * 1_000_000) == "templates"


def test_a_costly_object_is_told_and_the_others_are_judged(tmp_path: Path) -> None:
    done = check(
        write(tmp_path, {"costly.yaml": json.dumps(COSTLY["stars"]), "other.yaml": BAD}), "--format", "json"
    )
    found = {(Path(one["file"]).name, one["rule"]) for one in json.loads(done.stdout)["findings"]}
    assert ("costly.yaml", "object/too-costly") in found
    assert ("other.yaml", "project/duplicate-source-namespace") in found
    assert done.exit_code == 1
