"""Tiphys's configuration from a file, the same that the webhook reads from its ConfigMap."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from argocd import safe_yaml
from argocd.engine.configuration_file import parse_configuration, parse_rules
from argocd.judging.case import Profile
from argocd.judging.configuration import Configuration
from checks.manifests import STDIN
from tiphys.errors import CallError

CONFIGURATION_FILE = "tiphys.yaml"


def find_configuration(path: str) -> Path | None:
    """The nearest one, from a manifest's path upwards."""
    start = Path.cwd() if path == STDIN else Path(path).absolute()
    for folder in (start, *start.parents):
        if (folder / CONFIGURATION_FILE).is_file():
            return folder / CONFIGURATION_FILE
    return None


def read_configuration(path: Path | None) -> tuple[Configuration, list[str]]:
    """The webhook's configuration, and what only `tiphys check` heeds: the globs of `exclude`."""
    if path is None:
        return Configuration(), []
    try:
        data = safe_yaml.load(path.read_text())
    except (OSError, UnicodeDecodeError, safe_yaml.YamlError) as error:
        raise CallError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    excluded = data.pop("exclude", []) if isinstance(data, dict) else []
    if not isinstance(excluded, list) or not all(isinstance(pattern, str) for pattern in excluded):
        raise CallError(f"{path}: exclude must be a list of globs")
    configuration, problems = parse_configuration(data)
    if problems:
        raise CallError("; ".join(f"{path}: {problem}" for problem in problems))
    return configuration, excluded


def with_rules(configuration: Configuration, *, profile: str | None, rules: Sequence[str]) -> Configuration:
    """With `--profile` and `--rule ID=ACTION` on top; namespaces' exceptions stay."""
    actions, problems = parse_rules(dict(rule.partition("=")[::2] for rule in rules))
    if problems:
        raise CallError(f"--rule: {problems[0]}")
    return replace(
        configuration,
        rules={**configuration.rules, **actions},
        profile=configuration.profile if profile is None else Profile(profile),
    )


def with_argocd_namespace(configuration: Configuration, namespace: str | None) -> Configuration:
    """With `--argocd-namespace` on top."""
    if not namespace:
        return configuration
    return replace(configuration, argocd=replace(configuration.argocd, namespace=namespace))
