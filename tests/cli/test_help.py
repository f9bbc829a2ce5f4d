"""What somebody sees who tries the command for the first time."""

import json

import click
import pytest
from click.testing import CliRunner

from cli.main import GROUPS, SUBCOMMANDS, tiphys
from tests.cli.every_command import commands


def test_every_command_is_in_one_group_of_the_help() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(SUBCOMMANDS)
    shown = CliRunner().invoke(tiphys, ["--help"]).output
    for title, names in GROUPS.items():
        assert f"\n{title}:\n" in shown
        assert all(f"\n  {name} " in shown for name in names)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("doktor", "No such command 'doktor', did you mean doctor?"),
        ("xyzzy", "No such command 'xyzzy'.\n"),
    ],
)
def test_a_mistyped_command_is_told_which_was_meant(word: str, told: str) -> None:
    done = CliRunner().invoke(tiphys, [word])
    assert done.exit_code == 2
    assert told in done.output


@pytest.mark.parametrize(
    "group", ["agents", "demo", "explain", "ha", "installation-id", "pki", "tracking", "webhook"]
)
def test_a_groups_help_says_the_whole_of_each_sentence(group: str) -> None:
    shown = CliRunner().invoke(tiphys, [group, "--help"]).output
    listed = shown[shown.index("\nCommands:\n") :]
    assert "..." not in listed


FOR_ARGOCD_AGENT = {"agent", "principal"}
"""They take flags of argocd-agent's that mean nothing here, and hide them."""


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        f"{words} {option.opts[0]}"
        for words, command in commands()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
        if not (option.hidden and words in FOR_ARGOCD_AGENT)
    ]
    assert silent == []


def test_a_value_has_one_name_as_a_flag_and_in_the_environment() -> None:
    """Click names the variable after the function's argument."""
    others = [
        (words, option.name)
        for words, command in commands()
        for option in command.params
        if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.envvar)
        if f"--{str(option.name).replace('_', '-')}" not in option.opts
    ]
    assert others == []


def test_a_format_is_taken_from_the_environment() -> None:
    called = CliRunner().invoke(
        tiphys,
        ["match", "a*", "--text", "ab"],
        auto_envvar_prefix="TIPHYS",
        env={"TIPHYS_MATCH_FORMAT": "json"},
    )
    assert json.loads(called.output)[0]["permitted"] is True
