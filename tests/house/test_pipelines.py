"""The hook and the page about pipelines say what the commands do."""

import re
from pathlib import Path

import yaml

from cli.commands.check import command as check
from cli.commands.rbac import command as rbac
from cli.commands.scan import command as scan
from cli.main import SUBCOMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pipelines.md").read_text()


def test_the_hook_starts_a_command_that_exists() -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, name = hook["entry"].split()
    assert (program, name in SUBCOMMANDS, hook["id"]) == ("tiphys", True, "tiphys-check")


def test_every_option_on_the_page_exists() -> None:
    known = {"--fix", "--help"}
    for command in (check, scan, rbac):
        known |= {name for option in command.params for name in option.opts}
    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*", PAGE)) <= known


def test_examples_are_yaml() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 4
    assert all(isinstance(yaml.safe_load(example), dict) for example in examples)
