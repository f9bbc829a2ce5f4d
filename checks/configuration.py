"""Tiphys's configuration from a file, the same that the webhook reads from its ConfigMap."""

from pathlib import Path

from argocd import safe_yaml
from argocd.engine.configuration_file import parse_configuration
from argocd.judging.configuration import Configuration
from tiphys.errors import CallError


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
