"""`tiphys inject`: manifests in, manifests with sidecars out; `TIPHYS_GOLDEN=write` renews the golden files."""

import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from cli.commands.inject import command

GOLDEN = Path(__file__).parents[1] / "golden" / "inject"


@pytest.fixture(autouse=True)
def beside_the_golden_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)


def inject(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=given)


def compare(name: str, told: str) -> None:
    if os.environ.get("TIPHYS_GOLDEN") == "write":
        Path(name).write_text(told)
    assert told == Path(name).read_text()


def test_pods_and_templates_get_their_sidecar_and_every_reason_is_told() -> None:
    done = inject("-f", "manifests.yaml", "--templates", "templates.yaml")
    compare("injected.txt", done.stdout)
    compare("reasons.txt", done.stderr)
    assert done.exit_code == 1


def test_a_second_pass_over_the_output_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "once.yaml").write_text(Path("injected.txt").read_text())
    again = inject("-f", str(tmp_path / "once.yaml"), "--templates", "templates.yaml")
    assert again.stdout == Path("injected.txt").read_text()
    assert "already-injected agent" in again.stderr


def test_without_templates_pods_that_ask_are_left_alone_and_told_so() -> None:
    done = inject("-f", "manifests.yaml")
    assert list(yaml.safe_load_all(done.stdout))[1]["spec"]["template"]["spec"].keys() == {"containers"}
    assert "no-template agent: no template for this role: name a file" in done.stderr
    assert done.exit_code == 1


def test_standard_input_is_a_file_too_and_a_manifest_that_asks_for_nothing_is_well() -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n"
    # Read once in a process, so only one test may use it.
    done = inject("-f", "-", given=pod)
    assert (done.exit_code, yaml.safe_load(done.stdout)) == (0, yaml.safe_load(pod))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "bad.yaml:2:1: not YAML"),
        ("- 1", "bad.yaml:1:1: not an object"),
        ("kind: Pod\nmetadata: {annotations: {tiphys.dev/inject: agent}}", "has no spec to put it into"),
    ],
)
def test_what_cannot_be_read_is_named_and_the_rest_is_printed(tmp_path: Path, text: str, said: str) -> None:
    templates = str(GOLDEN / "templates.yaml")
    os.chdir(tmp_path)
    Path("good.yaml").write_text("kind: Service\n")
    Path("bad.yaml").write_text(text)
    done = inject("-f", "bad.yaml", "-f", "good.yaml", "--templates", templates)
    assert done.exit_code == 2
    assert said in done.stderr
    assert yaml.safe_load(done.stdout) == {"kind": "Service"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Secret", "must hold one ConfigMap tiphys-injection; it holds 0"),
        ("kind: ConfigMap\n---\nkind: ConfigMap", "it holds 2"),
        ("kind: ConfigMap\ndata: {agent: 'a: ['}", "key agent: not YAML at line"),
        ("kind: ConfigMap\ndata: {agent: 'container: 1'}", "key agent: container: must be a container"),
        (
            "kind: ConfigMap\ndata: {oarsman: 'container: {image: i}'}",
            "key oarsman: no such role; known: agent",
        ),
        ("a: [", "not YAML"),
    ],
)
def test_bad_templates_are_one_line_that_names_them(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "templates.yaml"
    path.write_text(text)
    done = inject("-f", "manifests.yaml", "--templates", str(path))
    assert said in str(done.exception)
    assert str(path) in str(done.exception)
    assert done.stdout == ""


def test_replicas_that_are_no_number_are_left_to_the_api_server() -> None:
    odd = (
        "kind: StatefulSet\nspec:\n  replicas: [2]\n"
        "  template: {metadata: {annotations: {tiphys.dev/inject: agent}}, spec: {containers: [{name: c}]}}\n"
    )
    done = inject("-f", "-", "--templates", "templates.yaml", given=odd)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "replicas:" in done.stdout
