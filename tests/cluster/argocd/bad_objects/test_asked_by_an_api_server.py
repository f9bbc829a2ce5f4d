"""What the webhook says of the table's objects where a real API server asks it: what the rules say by themselves."""

import re

import pytest

from argocd.judging.case import Action
from argocd.judging.configuration import Configuration
from scripts.cluster.api import RefusedError
from tests.cluster.argocd.bad_objects.comparison import known_verdicts
from tests.cluster.argocd.bad_objects.table import bad_objects, judged
from tests.cluster.argocd.bad_objects.verdicts import GROUP, PLURALS
from tests.cluster.argocd.steered import Object, Steered

DENIED = re.compile(r"\[([a-z]+/[a-z-]+)\]$", re.MULTILINE)
WARNED = re.compile(r'^299 - "([a-z]+/[a-z-]+):')

Said = tuple[set[str], set[str]]

pytestmark = pytest.mark.timeout(300)


def asked(steered: Steered, thing: Object) -> Said:
    """The rules of denials and of warnings at a creation that is not stored."""
    said = ""
    try:
        steered.cluster.request("POST", f"{GROUP}/{PLURALS[thing['kind']]}?dryRun=All", thing)
    except RefusedError as error:
        said = str(error)
    denials = set(DENIED.findall(said))
    assert bool(denials) == bool(said), said
    found = map(WARNED.match, steered.cluster.warnings)
    return denials, {each[1] for each in found if each}


def test_an_api_server_is_told_what_the_rules_say(steered: Steered) -> None:
    verdicts, configuration = known_verdicts(), Configuration()
    told: dict[str, Said] = {}
    expected: dict[str, Said] = {}
    for name, case in bad_objects().items():
        if "schema" in verdicts[name]:
            continue  # refused before anybody is asked
        told[name] = asked(steered, case.object)
        found = judged(case.object, configuration=configuration)
        expected[name] = (
            {each.finding.rule for each in found if each.action is Action.DENY},
            {each.finding.rule for each in found if each.action is Action.WARN},
        )
    assert {name: each for name, each in told.items() if each != expected[name]} == {}
