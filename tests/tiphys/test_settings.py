import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.tiphys.test_safe_yaml import HOSTILE
from tiphys import settings
from tiphys.errors import CallError


@click.group()
def tiphys() -> None:
    pass


@tiphys.command(cls=settings.Command)
@click.option("--resync-interval", type=settings.DURATION, default="5m")
@click.option("--workers", type=int, default=1)
@click.option("--allowed", multiple=True)
@click.option("--team", "teams", multiple=True)
@click.option("--strict/--no-strict", default=False)
def agent(**values: object) -> None:
    click.echo(json.dumps(values))


@tiphys.command("agent-keys", cls=settings.Command)
@click.option("--size", type=int, default=1)
def agent_keys(size: int) -> None:
    click.echo(size)


@tiphys.group("principal", cls=settings.Group, invoke_without_command=True)
@settings.log_options
@click.option("--workers", type=int, default=1)
@click.pass_context
def principal(ctx: click.Context, /, **values: object) -> None:
    if not ctx.invoked_subcommand:
        click.echo(json.dumps(values))


@principal.command("list", cls=settings.Command)
@click.option("--size", type=int, default=1)
def list_agents(size: int) -> None:
    click.echo(size)


def call(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(tiphys, ["agent", *arguments], auto_envvar_prefix="TIPHYS", env=environment)


def values(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    result = call(*arguments, environment=environment)
    assert not result.exception, result.output
    read: dict[str, Any] = json.loads(result.output)
    return read


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text("workers: 3\nresync-interval: 1h30m\nallowed: [a, b]\nteam: [blue]\nstrict: true\n")
    return path


def test_without_anything_the_defaults_hold() -> None:
    assert values() == {"resync_interval": 300.0, "workers": 1, "allowed": [], "teams": [], "strict": False}


def test_a_file_goes_before_the_defaults(file: Path) -> None:
    assert values("--settings", str(file)) == {
        "resync_interval": 5400.0,
        "workers": 3,
        "allowed": ["a", "b"],
        "teams": ["blue"],
        "strict": True,
    }


def test_the_environment_goes_before_the_file_and_flags_before_the_environment(file: Path) -> None:
    environment = {
        "TIPHYS_AGENT_SETTINGS": str(file),
        "TIPHYS_AGENT_WORKERS": "5",
        "TIPHYS_AGENT_STRICT": "no",
    }

    assert values(environment=environment)["workers"] == 5
    assert values(environment=environment)["strict"] is False
    assert values("--workers", "7", environment=environment)["workers"] == 7
    assert values("--workers", "7", environment=environment)["resync_interval"] == 5400.0


def test_an_unknown_key_of_the_file_is_named_with_the_nearest_known_one(file: Path) -> None:
    file.write_text("wokers: 3\n")

    result = call("--settings", str(file))

    assert isinstance(result.exception, CallError)
    assert str(result.exception) == f"{file}: unknown key wokers; did you mean workers?"


def test_an_unknown_variable_of_the_environment_is_named_too() -> None:
    result = call(environment={"TIPHYS_AGENT_WORKRES": "3"})

    assert str(result.exception) == (
        "the environment: unknown key TIPHYS_AGENT_WORKRES; did you mean TIPHYS_AGENT_WORKERS?"
    )


def test_variables_of_another_command_and_of_kubernetes_are_none_of_its_business() -> None:
    assert values(
        environment={
            "TIPHYS_AGENT_KEYS_SIZE": "3",
            "TIPHYS_AGENT_SERVICE_HOST": "10.0.0.1",
            "TIPHYS_AGENT_PORT_8443_TCP_ADDR": "10.0.0.1",
            "TIPHYS_PRINCIPAL_WORKRES": "3",
        }
    )


def test_addresses_that_kubernetes_puts_where_a_port_is_expected_are_forgotten() -> None:
    environment = {
        "TIPHYS_AGENT_METRICS_PORT": "tcp://10.0.0.1:8181",
        "TIPHYS_AGENT_HEALTH_PORT": "8001",
        "OTHER_PORT": "tcp://10.0.0.1:1",
    }

    settings.forget_service_links(environment)

    assert environment == {"TIPHYS_AGENT_HEALTH_PORT": "8001", "OTHER_PORT": "tcp://10.0.0.1:1"}


def test_a_command_with_commands_below_it_has_settings_too(file: Path) -> None:
    file.write_text("workers: 3\nlog-format: json\n")
    environment = {"TIPHYS_PRINCIPAL_SETTINGS": str(file), "TIPHYS_PRINCIPAL_LIST_SIZE": "9"}

    def invoke(*arguments: str) -> str:
        return CliRunner().invoke(tiphys, arguments, auto_envvar_prefix="TIPHYS", env=environment).output

    assert json.loads(invoke("principal")) == {"workers": 3, "log_level": "info", "log_format": "json"}
    assert invoke("principal", "list") == "9\n"


def test_a_flag_that_may_be_repeated_is_called_by_its_plural_in_the_environment() -> None:
    assert values(environment={"TIPHYS_AGENT_TEAMS": "blue red"})["teams"] == ["blue", "red"]


def test_a_key_far_from_all_others_is_answered_with_the_list() -> None:
    with pytest.raises(CallError, match=r"rules: unknown key colour; known are profile, rules$"):
        settings.check_keys({"colour": 1}, ["rules", "profile"], where="rules")


def test_a_bad_value_is_shown_with_the_place_that_it_came_from(file: Path) -> None:
    file.write_text("workers: many\n")

    assert str(call("--settings", str(file)).exception) == f"{file}: workers: 'many' is not a valid integer."
    assert str(call(environment={"TIPHYS_AGENT_WORKERS": "many"}).exception) == (
        "TIPHYS_AGENT_WORKERS: 'many' is not a valid integer."
    )
    by_flag = call("--workers", "many")
    assert by_flag.exit_code == 2
    assert "Invalid value for '--workers'" in by_flag.output


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("workers: [", " is no YAML: line 2, column 1: did not find expected node content"),
        ("workers: 2027-02-31", ": workers: '2027-02-31' is not a valid integer"),
        ("workers: " + "[" * 5_000, " is no YAML: line 1: nested deeper than 64 levels"),
        ("- a\n- b\n", " must hold a mapping of settings, not a list"),
    ],
)
def test_a_file_that_is_no_mapping_is_named(file: Path, content: str, complaint: str) -> None:
    file.write_text(content)

    result = call("--settings", str(file))

    assert isinstance(result.exception, CallError)
    assert str(result.exception).startswith(f"{file}{complaint}")
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_with_more_than_anybody_writes_is_refused_in_one_line(file: Path, content: str) -> None:
    file.write_text(content)
    result = call("--settings", str(file))
    assert isinstance(result.exception, CallError)
    assert str(result.exception).startswith(f"{file} is no YAML: ")
    assert "\n" not in str(result.exception)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = call("--settings", str(tmp_path / "none.yaml"))
    assert str(result.exception) == f"{tmp_path / 'none.yaml'} cannot be read: No such file or directory"


def test_an_empty_file_is_a_good_one(file: Path) -> None:
    file.write_text("")
    assert values("--settings", str(file))["workers"] == 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("250ms", 0.25), ("1h30m", 5400.0), ("1.5m", 90.0)]
)
def test_a_duration_is_read_as_seconds(text: str, seconds: float) -> None:
    assert values("--resync-interval", text)["resync_interval"] == seconds


@pytest.mark.parametrize("text", ["soon", "5 m", "-5m", "5d", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert "is not a duration such as 90s, 5m or 1h30m" in call("--resync-interval", text).output
