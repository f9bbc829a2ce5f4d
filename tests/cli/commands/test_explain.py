"""`tiphys explain`, `rewrite` and `match`: the causes that the troubleshooting of a project asks for."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from argocd.globs import Verdict
from argocd.judging.case import Rule
from argocd.projects.permissions import source_permitted
from argocd.rules.catalogue import CATALOGUE
from checks.reports import WIDTH
from cli.commands import explain, match, rewrite
from tests.cli.golden_files import GOLDEN, compare
from tiphys.errors import CallError

FILE = str(GOLDEN / "explained.yaml")


def run(command: click.Command, *arguments: str) -> Result:
    done = CliRunner().invoke(command, arguments)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def told(*arguments: str, file: str = FILE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        run(explain.command, *arguments, "-f", file, "--format", "json").stdout
    )
    return found


def project(
    tmp_path: Path, *, name: str = "web", labels: str = "{}", namespace: str = "argocd", **spec: Any
) -> str:
    file = tmp_path / "project.yaml"
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name, "namespace": namespace, "labels": yaml.safe_load(labels)},
        "spec": spec,
    }
    file.write_text(yaml.safe_dump(body))
    return str(file)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("project-half", ("project", "web", "--agent", "prod-1", "-f", FILE)),
        ("project-denied", ("project", "web", "--agent", "prod-91", "-f", FILE)),
        ("project-autonomous", ("project", "web", "--agent", "edge", "--mode", "autonomous", "-f", FILE)),
        ("service-account", ("service-account", "shop", "-f", FILE)),
        ("tracking", ("tracking", "ConfigMap/settings", "-f", FILE)),
        ("rule", ("rule", "secret/key-case")),
    ],
)
def test_an_explanation_reads_as_the_golden_file_says(name: str, arguments: tuple[str, ...]) -> None:
    text = run(explain.command, *arguments).stdout
    compare(f"explain/{name}.txt", text)
    compare(f"explain/{name}.json", run(explain.command, *arguments, "--format", "json").stdout)
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.id)
def test_the_examples_of_every_rule_fit_a_screen_and_stay_what_they_are(rule: Rule) -> None:
    text = run(explain.command, "rule", rule.id).stdout
    wide = [line for line in text.splitlines() if len(line) > WIDTH]
    assert not [line for line in wide if max(map(len, line.split())) < 70], "what is one word stays one"
    shown = text.rpartition("\nfine\n")[2].replace("\n  ", "\n").removeprefix("  ")
    assert list(yaml.safe_load_all(shown)) == list(yaml.safe_load_all(rule.good))


def test_a_terminal_gets_colours_and_a_pipe_does_not() -> None:
    arguments = ["project", "web", "--agent", "prod-1", "-f", FILE]
    assert "\x1b[" in CliRunner().invoke(explain.command, arguments, color=True).stdout
    assert "\x1b[" not in CliRunner().invoke(explain.command, arguments).stdout


# AppProject not appearing on agent


def test_it_does_not_appear_because_the_agent_is_autonomous() -> None:
    found = told("project", "web", "--agent", "prod-1", "--mode", "autonomous", "--to", "agent")
    assert found["answer"] == "The project web does not go to agent prod-1: the agent is autonomous."
    assert found["good"] is False


def test_it_does_not_appear_because_no_destination_matches(tmp_path: Path) -> None:
    file = project(tmp_path, destinations=[{"name": "test-*", "namespace": "*"}], sourceNamespaces=["prod-*"])
    found = told("project", "web", "--agent", "prod-1", file=file)
    assert "no entry of spec.destinations matches it" in found["answer"]
    [step, _] = found["mappings"]["namespace"]["steps"]
    assert (step["path"], step["pattern"], step["verdict"]) == ("spec.destinations[0].name", "test-*", "no")


def test_it_does_not_appear_because_a_server_names_no_agent(tmp_path: Path) -> None:
    file = project(tmp_path, destinations=[{"server": "https://kubernetes.default.svc", "namespace": "*"}])
    text = run(explain.command, "project", "web", "--agent", "prod-1", "-f", file).stdout
    assert "names no agent" in text


def test_it_does_not_appear_because_source_namespaces_do_not_match(tmp_path: Path) -> None:
    file = project(tmp_path, destinations=[{"name": "prod-*"}], sourceNamespaces=["test"])
    found = told("project", "web", "--agent", "prod-1", file=file)
    assert found["mappings"]["namespace"]["because"] == "no entry of spec.sourceNamespaces matches it"
    assert found["mappings"]["destination"]["goes"] is True
    assert found["answer"].endswith("only where agents are mapped by destination.")


def test_it_does_not_appear_because_of_the_label(tmp_path: Path) -> None:
    label = '{argocd-agent.argoproj-labs.io/ignore-sync: "true"}'
    file = project(tmp_path, labels=label, destinations=[{"name": "*"}], sourceNamespaces=["*"])
    assert "ignore-sync" in told("project", "web", "--agent", "prod-1", file=file)["answer"]
    file = project(tmp_path, labels=label.replace("true", "True"), destinations=[{"name": "*"}])
    assert "only the exact text true" in told("project", "web", "--agent", "prod-1", file=file)["notes"][0]


def test_it_does_appear_and_the_copy_is_shown(tmp_path: Path) -> None:
    file = project(tmp_path, destinations=[{"name": "prod-*", "namespace": "web"}], sourceNamespaces=["*"])
    found = told("project", "web", "--agent", "prod-1", file=file)
    assert found["good"] is True
    assert found["mappings"]["namespace"]["copy"]["spec"] == {
        "destinations": [
            {"name": "in-cluster", "namespace": "web", "server": "https://kubernetes.default.svc"}
        ]
    }


# AppProject not appearing on principal


def test_it_does_not_reach_the_principal_because_the_agent_is_managed() -> None:
    found = told("project", "web", "--agent", "edge", "--mode", "managed", "--to", "principal")
    assert found["answer"].endswith("only an autonomous agent tells the principal of its projects.")


def test_it_does_not_reach_the_principal_because_it_does_not_exist() -> None:
    with pytest.raises(CallError, match="there is no project nothing in the files; the principal calls"):
        told("project", "nothing", "--agent", "edge", "--mode", "autonomous")


def test_it_is_on_the_principal_under_its_prefixed_name(tmp_path: Path) -> None:
    found = told(
        "project", "web", "--agent", "edge", "--mode", "autonomous", file=project(tmp_path, name="edge-web")
    )
    assert (found["good"], found["name"]) == (True, "edge-web")


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"labels": '{argocd-agent.argoproj-labs.io/ignore-sync: "true"}'}, "ignore-sync"),
        ({"namespace": "elsewhere"}, "the agent looks into argocd alone"),
        ({"name": "w" * 250}, "longer than the 253 characters"),
    ],
)
def test_it_does_not_reach_the_principal(changed: dict[str, str], cause: str, tmp_path: Path) -> None:
    file = project(tmp_path, **changed)
    name = changed.get("name", "web")
    found = told("project", name, "--agent", "edge", "--mode", "autonomous", file=file)
    assert cause in found["answer"]
    assert found["goes"] is False


def test_the_configuration_says_which_agents_are_autonomous(tmp_path: Path) -> None:
    config = tmp_path / "tiphys.yaml"
    config.write_text("agents: {autonomous: [edge-*]}\n")
    arguments = ("project", "web", "--agent", "edge-1", "--config", str(config))
    assert told(*arguments)["copy"]["metadata"]["name"] == "edge-1-web"


# Pattern matching issues


def test_the_case_of_a_name_counts() -> None:
    done = run(match.command, "Prod-*", "--text", "prod-1")
    assert done.exit_code == 1
    assert "differs in upper and lower case alone" in done.stdout


def test_patterns_are_tried_as_argo_cd_tries_them() -> None:
    done = run(match.command, "Prod-*", "a*a", "{a*,b}c", "!prod-9*", "/^prod/", "[a", "--text", "prod-1", "--text", "prod-91", "--text", "a")  # fmt: skip
    compare("match.txt", done.stdout)
    assert done.exit_code == 1
    assert run(match.command, "prod-*", "--text", "prod-1").exit_code == 0


def test_a_denial_wins_and_a_repositorys_star_stops_at_a_slash() -> None:
    assert run(match.command, "*", "!prod", "--text", "prod").exit_code == 1
    assert run(match.command, "https://x.test/*", "--text", "https://x.test/a/b").exit_code == 0
    assert (
        run(match.command, "https://x.test/*", "--repository", "--text", "https://x.test/a/b").exit_code == 1
    )


@pytest.mark.parametrize(
    ("patterns", "text", "permitted"),
    [
        (["*"], "https://x.test/a/b.git", True),
        (["https://x.test/A.git"], "https://X.test/a", True),
        (["git@x.test:a/b.git"], "git@x.test:a/b", True),
        (["!https://x.test/b"], "https://x.test/a", True),
        (["!https://x.test/b"], "https://x.test/B.git", False),
        (["*", "!*/secret/*"], "https://x.test/secret/a", True),
        (["https://x.test/**"], "https://x.test/a/b", True),
    ],
)
def test_a_repository_is_permitted_as_the_rule_has_it(
    patterns: list[str], text: str, *, permitted: bool
) -> None:
    done = run(match.command, *patterns, "--repository", "--text", text, "--format", "json")
    [told] = json.loads(done.stdout)
    assert (told["permitted"], done.exit_code) == (permitted, 0 if permitted else 1)
    verdict = source_permitted({"spec": {"sourceRepos": patterns}}, text)
    assert (verdict is Verdict.YES) is permitted


def test_a_match_can_be_read_by_a_program() -> None:
    told = run(match.command, "a*a", "--text", "a", "--format", "json").stdout
    compare("match.json", told)
    [found] = json.loads(told)
    assert found["permitted"] is True
    assert "a textbook's glob would not match here" in found["patterns"][0]["notes"]


# Accounts and marks


def test_every_entry_that_was_tried_is_told() -> None:
    found = told("service-account", "argocd/shop")
    assert found["user"] == "system:serviceaccount:deployers:shop"
    assert [(one["server-matches"], one["namespace-matches"]) for one in found["entries"]] == [
        ("no", "yes"),
        ("yes", "yes"),
    ]


def test_without_an_entry_the_sync_fails_and_the_answer_says_so(tmp_path: Path) -> None:
    text = (
        Path(FILE).read_text().replace('server: "*", namespace: "*", def', 'server: "x", namespace: "x", def')
    )
    file = tmp_path / "all.yaml"
    file.write_text(text.replace('namespace: "shop*"', 'namespace: "web*"'))
    found = told("service-account", "shop", file=str(file))
    assert (found["outcome"], found["good"], len(found["entries"])) == ("unmatched", False, 3)


def test_impersonation_that_is_off_is_the_cause(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": {}}
    file.write_text(f"{Path(FILE).read_text()}---\n{yaml.safe_dump(settings)}")
    found = told("service-account", "shop", file=str(file))
    assert "Argo CD's own credentials" in found["answer"]
    assert "application.sync.impersonation.enabled" in found["notes"][0]


@pytest.mark.parametrize("missing", ["Deployment.apps/web", "ConfigMap/nothing", "nonsense"])
def test_an_object_that_is_not_there_is_one_line(missing: str) -> None:
    with pytest.raises(CallError, match="write KIND"):
        told("tracking", missing)


def test_a_rule_that_does_not_exist_names_the_nearest() -> None:
    with pytest.raises(CallError, match="did you mean secret/key-case"):
        run(explain.command, "rule", "secret/key-cas")


# Rewriting


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("agent", ("--agent", "prod-1", "--mapping", "destination")),
        ("principal", ("--agent", "edge", "--to", "principal")),
    ],
)
def test_a_rewritten_project_is_a_manifest(name: str, arguments: tuple[str, ...]) -> None:
    compare(f"rewrite/{name}.yaml", run(rewrite.command, *arguments, "-f", FILE).stdout)


def test_a_project_that_does_not_go_there_is_not_rewritten() -> None:
    done = run(rewrite.command, "--agent", "nobody", "-f", FILE)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "does not go to agent nobody" in done.stderr
