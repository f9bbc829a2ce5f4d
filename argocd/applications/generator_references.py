"""ConfigMaps and Secrets that an ApplicationSet's generators name, and where its controller looks for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from argocd import reading
from argocd.applications.application_sets import Located, is_templated

CONFIG_MAP, SECRET = "ConfigMap", "Secret"

_FORGES = ("scmProvider", "pullRequest")
_OF_FORGES: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    (SECRET, ("tokenRef", "secretName"), True),
    (SECRET, ("bearerToken", "tokenRef", "secretName"), True),
    (SECRET, ("basicAuth", "passwordRef", "secretName"), True),
    (SECRET, ("accessTokenRef", "secretName"), True),
    (SECRET, ("appPasswordRef", "secretName"), True),
    (SECRET, ("appSecretName",), False),
    (CONFIG_MAP, ("caRef", "configMapName"), True),
)
"""Kind, place in any provider's block, and whether it is looked for in the ApplicationSet's own namespace."""

_OF_OTHERS: tuple[tuple[str, ...], ...] = (
    ("plugin", "configMapRef", "name"),
    ("clusterDecisionResource", "configMapRef"),
)
"""ConfigMaps of Argo CD's namespace."""


@dataclass(frozen=True, slots=True)
class Reference:
    path: str
    kind: str
    name: str
    beside: bool
    """In the ApplicationSet's own namespace; else in Argo CD's."""


def references(generators: Iterable[Located]) -> Iterator[Reference]:
    """Those whose names are written down: a template's are known when it is rendered."""
    for reference in _all_references(generators):
        if reference.name and not is_templated(reference.name):
            yield reference


def _all_references(generators: Iterable[Located]) -> Iterator[Reference]:
    for path, generator in generators:
        for place in _OF_OTHERS:
            yield Reference(
                ".".join((path, *place)), CONFIG_MAP, reading.text(generator, *place), beside=False
            )
        for forge in _FORGES:
            for provider, block in reading.mapping(generator, forge).items():
                for kind, place, beside in _OF_FORGES:
                    name = reading.text(block, *place)
                    yield Reference(".".join((path, forge, provider, *place)), kind, name, beside)
