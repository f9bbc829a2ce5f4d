"""Tiphys's configuration as its ConfigMap has it; what becomes of a broken one is for the caller to say."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from argocd import names, reading
from argocd.engine.configuration_file import parse_text
from argocd.engine.sections import ConfigurationProblem
from argocd.judging.configuration import Configuration
from kube import queries
from kube.resources import CONFIG_MAPS
from kube.store import Object, Store

T = TypeVar("T")

Broken = Callable[[Configuration, Sequence[ConfigurationProblem]], T]
"""Given what could be read of a broken one, and its problems: what is used instead. It may raise."""


def configuration_in(config_map: Object | None, *, broken: Broken[T]) -> Configuration | T:
    """One that is missing is the default."""
    configuration, problems = parse_text(reading.text(config_map, "data", names.TIPHYS_CONFIG_KEY))
    return broken(configuration, problems) if problems else configuration


async def find_configuration(store: Store, *, home: str, broken: Broken[T]) -> Configuration | T:
    held = await queries.find(store, CONFIG_MAPS, name=names.TIPHYS_CONFIG_MAP, namespace=home)
    return configuration_in(held, broken=broken)


def noting(problems: list[str]) -> Broken[Configuration]:
    """What could be read is used, and the problems are noted."""

    def broken(configuration: Configuration, found: Sequence[ConfigurationProblem]) -> Configuration:
        problems.extend(str(problem) for problem in found)
        return configuration

    return broken
