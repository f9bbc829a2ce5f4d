"""A rule's example as a case: the last document is judged, those before it are in the cluster already.

Among those an argocd-cm gives the settings, a ConfigMap `tiphys` the configuration, and an earlier version of the
judged object makes it an update.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml

from argocd import names, reading
from argocd.engine.configuration_file import parse_text
from argocd.judging.case import Case, Kind, Operation, Profile, Rule, Surroundings, User, kind_of
from argocd.judging.configuration import Configuration
from argocd.judging.neighbours import KnownCluster
from argocd.settings.argocd_cm import read_settings
from tests.argocd.fake_neighbours import Neighbourhood

SOMEBODY = User(user="ada")


def case_of(example: str, *, rule: Rule) -> Case:
    whole = example.replace("…", "x" * 300_000)  # what an example leaves out because it is long
    documents = [_merged(document) for document in yaml.safe_load_all(whole) if document]
    judged, known = documents[-1], documents[:-1]
    old = next((one for one in known if _key(one) == _key(judged)), None)
    deleting = Operation.DELETE in rule.operations and old is None
    configuration = _configuration(known)
    return Case(
        kind=kind_of(judged),
        object=judged,
        old=old,
        operation=Operation.DELETE if deleting else Operation.UPDATE if old else Operation.CREATE,
        surroundings=Surroundings(
            settings=read_settings(
                _argocd_cm(documents),
                configuration=configuration,
                command_parameters=_command_parameters(known),
            ),
            configuration=configuration,
            neighbours=_neighbours([one for one in known if _key(one) != _key(judged)]),
        ),
        writer=SOMEBODY,
        written=True,
    )


def _neighbours(known: list[Mapping[str, Any]]) -> Neighbourhood:
    def of(kind: Kind) -> list[Mapping[str, Any]]:
        return [one for one in known if kind_of(one) is kind]

    return Neighbourhood(
        projects=of(Kind.PROJECT),
        applications=of(Kind.APPLICATION),
        similar=of(Kind.APPLICATION),
        clusters=[_cluster(one) for one in of(Kind.CLUSTER)],
        repositories=[
            (reading.text(one, "metadata", "name"), _datum(one, "url"), _datum(one, "project"))
            for one in of(Kind.REPOSITORY)
        ],
        secrets={_key(one)[2] for one in known if one.get("kind") == "Secret"},
        config_maps={_key(one)[2] for one in known if one.get("kind") == "ConfigMap"},
        accounts={_key(one)[1:] for one in known if one.get("kind") == "ServiceAccount"},
    )


def _cluster(secret: Mapping[str, Any]) -> KnownCluster:
    return KnownCluster(
        server=_datum(secret, "server"),
        name=_datum(secret, "name"),
        project=_datum(secret, "project"),
        secret=reading.text(secret, "metadata", "name"),
    )


def _argocd_cm(documents: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((one for one in documents if kind_of(one) is Kind.ARGOCD_CM), None)


def _configuration(known: list[Mapping[str, Any]]) -> Configuration:
    ours = next((one for one in known if _key(one)[2] == names.TIPHYS_CONFIG_MAP), None)
    configuration, problems = parse_text(reading.text(ours, "data", names.TIPHYS_CONFIG_KEY))
    assert not problems
    return replace(configuration, profile=Profile.STRICT)  # every rule there is shall speak


def _command_parameters(known: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((one for one in known if _key(one)[2] == names.ARGOCD_CMD_PARAMS_CM), None)


def _merged(document: Any) -> Mapping[str, Any]:
    """With stringData merged into data, as an API server stores it."""
    if document.get("kind") != "Secret" or "stringData" not in document:
        return dict(document)
    plain = {
        key: base64.b64encode(str(value).encode()).decode() for key, value in document["stringData"].items()
    }
    rest = {key: value for key, value in document.items() if key != "stringData"}
    return {**rest, "data": {**document.get("data", {}), **plain}}


def _datum(secret: Mapping[str, Any], key: str) -> str:
    return base64.b64decode(reading.text(secret, "data", key)).decode()


def _key(thing: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = reading.mapping(thing, "metadata")
    namespace = reading.text(metadata, "namespace") or names.DEFAULT_NAMESPACE
    return reading.text(thing, "kind"), namespace, reading.text(metadata, "name")
