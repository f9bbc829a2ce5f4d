"""Tiphys's configuration from a file, the same that the webhook reads from its ConfigMap."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from argocd import reading
from argocd.engine.configuration_file import parse_configuration, parse_rules
from argocd.judging.case import Profile
from argocd.judging.configuration import Configuration
from checks.files.content import STDIN, UnreadableError, read_text
from tiphys import safe_yaml
from tiphys.errors import CallError

CONFIGURATION_FILE = "tiphys.yaml"
IGNORE_FILE = ".tiphysignore"


def find_configuration(path: str) -> Path | None:
    """The nearest one, from a manifest's path upwards."""
    return _find_upwards(path, CONFIGURATION_FILE)


def _find_upwards(path: str, name: str) -> Path | None:
    start = Path.cwd() if path == STDIN else Path(path).absolute()
    for folder in (start, *start.parents):
        if (folder / name).is_file():
            return folder / name
    return None


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """The webhook's configuration, and what only `tiphys check` asks: `exclude`, and whether Argo CD's namespace is in it."""

    configuration: Configuration = field(default_factory=Configuration)
    exclude: tuple[str, ...] = ()
    namespace_given: bool = False


def read_configuration(path: Path | None) -> ReadConfiguration:
    if path is None:
        return ReadConfiguration()
    try:
        data = safe_yaml.load(read_text(str(path)))
    except (UnreadableError, safe_yaml.YamlError) as error:
        raise CallError(f"{path}: {error}") from error
    excluded = data.pop("exclude", []) if isinstance(data, dict) else []
    if not isinstance(excluded, list) or not all(isinstance(pattern, str) for pattern in excluded):
        raise CallError(f"{path}: exclude must be a list of globs")
    configuration, problems = parse_configuration(data)
    if problems:
        raise CallError("; ".join(f"{path}: {problem}" for problem in problems))
    namespace = reading.value(data, "argocd", "namespace")
    return ReadConfiguration(configuration, tuple(excluded), namespace_given=namespace is not None)


def read_ignored(path: str) -> tuple[str, ...]:
    """The globs of the nearest `.tiphysignore`, a line each; `#` begins a comment."""
    file = _find_upwards(path, IGNORE_FILE)
    if file is None:
        return ()
    try:
        lines = [line.strip() for line in read_text(str(file)).splitlines()]
    except UnreadableError as error:
        raise CallError(f"{file}: {error}") from error
    patterns = tuple(line for line in lines if line and not line.startswith("#"))
    for pattern in patterns:
        if pattern.startswith("!"):
            raise CallError(
                f"{file}: {pattern}: a file cannot be taken back in; narrow the line that excludes it"
            )
    return patterns


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
