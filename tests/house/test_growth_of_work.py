"""Work on an object grows with its size and no faster, or the budget of the review ends it (`executed_lines.py`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count, product
from typing import Any

import pytest

from argocd import names, reading
from argocd.engine.directory import Directory, Shelf
from argocd.judging.case import Case, Finding, Kind, Operation, Rule, Surroundings, User, kind_of
from argocd.judging.configuration import Configuration
from argocd.rules.catalogue import CATALOGUE
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings
from tests.argocd.altered_objects import at, paths, replaced
from tests.argocd.cases import case_of
from tests.house.executed_lines import FEW, LINES_OF_A_STEP, MOST_STEPS, hold, judged
from tests.house.whole_objects import completed, whole

NONCES = count()
"""Answers about short texts are remembered: every object has its own."""

Fill = Callable[[str, str], str]

FILLS: dict[str, Fill] = {
    "numbered": lambda text, number: f"{text}-{number}",
    "the same": lambda text, number: f"{text}-{number.partition('x')[0]}",
    "prefixes": lambda text, number: f"{text}-{number}*",
    "suffixes": lambda _, number: f"*-{number}",
    "stars": lambda _, number: f"*a*b*a*{number}",
    "pairs of stars": lambda _, number: f"a/**/b/**/{number}",
    "braces": lambda _, number: f"{{a,b*}}{{c,d}}{number}",
    "nested braces": lambda _, number: "{a," * 4 + number + "}" * 4,
    "classes": lambda _, number: f"[ab][!c][a-f]?{number}",
    "denials": lambda _, number: f"!*{number}",
    "expressions": lambda _, number: f"/^(a|b{{1,9}})+{number}$/",
    "what is no pattern": lambda _, number: f"[{number}",
}

REPEATED: dict[str, Callable[[int], str]] = {
    "nested braces": lambda size: "{a," * size + "b" + "}" * size,
    "nested braces with stars": lambda size: "{*a," * size + "b" + "}" * size,
    "nested empty braces": lambda size: "{," * size + "}" * size,
    "braces in a row": lambda size: "{a,b}" * size,
    "alternatives": lambda size: "{" + "a*b," * size + "}",
    "stars": lambda size: "*a" * size,
    "single characters": lambda size: "?*" * size,
    "classes": lambda size: "[ab]" * size + "*",
    "a large class": lambda size: "[" + "ab" * size + "]*a",
    "stars beyond ASCII": lambda size: "*\u00e9" * size,
    "expressions": lambda size: "/" + "(a|b)*" * size + "/",
    "nested expressions": lambda size: "/" + "(" * size + "a" + ")*" * size + "/",
    "lookaheads": lambda size: "/^" + "(?=a)" * size + "/",
}


def project(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": spec,
    }


WHOLE = project(
    sourceRepos=["https://git.example.com/shop"],
    sourceNamespaces=["shop"],
    destinations=[
        {"server": names.IN_CLUSTER_SERVER, "namespace": "shop"},
        {"name": "east", "namespace": "a"},
    ],
    destinationServiceAccounts=[
        {"server": names.IN_CLUSTER_SERVER, "namespace": "shop", "defaultServiceAccount": "deployer"}
    ],
    clusterResourceWhitelist=[{"group": "apps", "kind": "Kind", "name": "a"}],
    clusterResourceBlacklist=[{"group": "apps", "kind": "Kind"}],
    namespaceResourceWhitelist=[{"group": "apps", "kind": "Kind"}],
    namespaceResourceBlacklist=[{"group": "apps", "kind": "Kind"}],
    orphanedResources={"ignore": [{"group": "apps", "kind": "Kind", "name": "a"}]},
    signatureKeys=[{"keyID": "4AEE18F83AFDEB23"}],
    roles=[
        {
            "name": "dev",
            "policies": ["p, proj:shop:dev, applications, get, shop/*, allow"],
            "groups": ["dev"],
            "jwtTokens": [{"iat": 1}],
        }
    ],
    syncWindows=[
        {
            "kind": "deny",
            "schedule": "0 22 * * 5",
            "duration": "49h",
            "timeZone": "UTC",
            "applications": ["a"],
            "namespaces": ["b"],
            "clusters": ["c"],
        }
    ],
)
TEXTS = [
    path
    for path in paths(WHOLE)
    if path[:1] == ("spec",) and isinstance(at(WHOLE, path), str) and path[1] != "signatureKeys"
]


def around(*, known: Mapping[str, Any] | None = None) -> Surroundings:
    directory = Directory(argocd_namespace="argocd", known=list(Shelf))
    if known is not None:
        directory.put_project(known)
    return Surroundings(
        settings=Settings(known=True, impersonation=ImpersonationSwitch(enabled=True, enforced=True)),
        configuration=Configuration(),
        neighbours=directory,
    )


def filled(thing: Any, fill: Fill, number: str) -> Any:
    if isinstance(thing, dict):
        return {key: filled(value, fill, number) for key, value in thing.items()}
    if isinstance(thing, list):
        return [filled(value, fill, number) for value in thing]
    return fill(thing, number) if isinstance(thing, str) else thing


def enlarged(thing: Any, path: tuple[Any, ...], size: int, fill: Fill) -> Any:
    """With so many entries in one list, made from those that are there."""
    nonce = next(NONCES)
    entries = at(thing, path)
    many = [filled(entries[index % len(entries)], fill, f"{nonce}x{index}") for index in range(size)]
    return replaced(thing, path, many)


HOSTILE = tuple(fill for name, fill in FILLS.items() if name not in {"numbered", "the same"})


def hostile(text: str, number: str) -> str:
    """Every hostile pattern in turn, in one list."""
    return HOSTILE[int(number.rpartition("x")[2]) % len(HOSTILE)](text, number)


USUAL: dict[str, Fill] = {
    "numbered": FILLS["numbered"],
    "the same": FILLS["the same"],
    "each in turn": hostile,
}
BY_FILL = pytest.mark.parametrize(
    "fill",
    [
        *(pytest.param(fill, id=name) for name, fill in USUAL.items()),
        *(
            pytest.param(fill, id=name, marks=pytest.mark.proof)
            for name, fill in FILLS.items()
            if name not in USUAL
        ),
    ],
)


def grown(thing: Any, size: int, fill: Fill, *, outer: bool, nonce: int, inside: bool = False) -> Any:
    """With so many entries in each of the lists that are in no other, or in each of those that are."""
    if isinstance(thing, dict):
        return {
            key: grown(value, size, fill, outer=outer, nonce=nonce, inside=inside)
            for key, value in thing.items()
        }
    if not isinstance(thing, list) or not thing:
        return thing
    if outer is not inside:
        return [filled(thing[index % len(thing)], fill, f"{nonce}x{index}") for index in range(size)]
    return [grown(entry, size, fill, outer=outer, nonce=nonce, inside=True) for entry in thing]


def case_for(
    thing: Mapping[str, Any], surroundings: Surroundings, old: Mapping[str, Any] | None = None
) -> Case:
    return Case(
        kind=kind_of(thing),
        object=thing,
        old=old,
        operation=Operation.CREATE if old is None else Operation.UPDATE,
        surroundings=surroundings,
        writer=User(user="ada"),
    )


def id_of(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def hold_text(path: tuple[Any, ...], repeated: Callable[[int], str]) -> None:
    hold(lambda size: case_for(replaced(WHOLE, path, f"{repeated(size)}{next(NONCES)}"), around()))


@pytest.mark.parametrize(("place", "path"), list(enumerate(TEXTS)), ids=list(map(id_of, TEXTS)))
def test_every_text_of_a_project_is_judged_in_time_that_grows_with_it(
    place: int, path: tuple[Any, ...]
) -> None:
    """The hostile patterns in turn, one for each text."""
    hold_text(path, list(REPEATED.values())[place % len(REPEATED)])


@pytest.mark.proof
@pytest.mark.parametrize("repeated", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("path", TEXTS, ids=id_of)
def test_every_text_of_a_project_is_with_each_pattern(
    path: tuple[Any, ...], repeated: Callable[[int], str]
) -> None:
    hold_text(path, repeated)


WITH_DEFINITIONS = frozenset({Kind.APPLICATION, Kind.APPLICATION_SET})


def examples_of(rule: Rule) -> Iterator[Case]:
    """With lists that the rule may read: its own, and all that Argo CD's definitions know."""
    wrong = case_of(rule.bad, rule=rule)
    yield from (wrong, case_of(rule.good, rule=rule))
    if Kind.PROJECT in rule.kinds:
        yield case_for(WHOLE, around())
    elif wrong.kind in WITH_DEFINITIONS:
        yield replace(wrong, object=completed(wrong.object, whole(wrong.object["kind"])))


def hold_lists(rule: Rule, fills: Iterable[Fill]) -> None:
    """All lists at once, so that those that are compared with each other are found out too."""
    for case, outer in product(examples_of(rule), (True, False)):

        def made(size: int, *, fill: Fill) -> Case:
            new, old = (
                grown(thing, size, fill, outer=outer, nonce=next(NONCES))  # noqa: B023 - called here
                for thing in (case.object, case.old)  # noqa: B023 - the same
            )
            return replace(case, object=new, old=old)  # noqa: B023 - the same

        few, many = (
            judged(made(size, fill=FILLS["numbered"]), steps=MOST_STEPS, rules=(rule,))[0]
            for size in (1, FEW)
        )
        if many - few >= FEW - 1:  # it reads one of them
            for fill in fills:
                hold(partial(made, fill=fill), rules=(rule,))


BY_RULE = pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in CATALOGUE])


@BY_RULE
def test_every_rule_judges_the_lists_that_it_reads_in_time_that_grows_with_them(rule: Rule) -> None:
    hold_lists(rule, USUAL.values())


@pytest.mark.proof
@BY_RULE
def test_every_rule_does_so_with_lists_of_each_kind_of_pattern(rule: Rule) -> None:
    hold_lists(rule, HOSTILE)


@BY_FILL
def test_an_application_with_many_sources_in_a_project_with_many_entries_is_too(fill: Fill) -> None:
    thing = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "project": "shop",
            "destination": {"server": names.IN_CLUSTER_SERVER, "namespace": "shop"},
            "sources": [{"repoURL": "https://git.example.com/shop", "path": ".", "ref": "a", "name": "b"}],
        },
    }

    def make(size: int) -> Case:
        known = WHOLE
        for key in ("sourceRepos", "destinations", "destinationServiceAccounts"):
            known = enlarged(known, ("spec", key), size, fill)
        return case_for(enlarged(thing, ("spec", "sources"), size, FILLS["numbered"]), around(known=known))

    hold(make)


@BY_FILL
def test_a_changed_project_with_many_applications_is_too(fill: Fill) -> None:
    def make(size: int) -> Case:
        surroundings = around()
        neighbours = surroundings.neighbours
        assert isinstance(neighbours, Directory)
        for index in range(size):
            neighbours.put_application(
                {
                    "metadata": {"name": f"a{index}", "namespace": f"team-{index}"},
                    "spec": {
                        "project": "shop",
                        "destination": {"server": names.IN_CLUSTER_SERVER, "namespace": f"n{index}"},
                        "source": {"repoURL": f"https://git.example.com/{index}"},
                    },
                }
            )
        old, new = (
            enlarged(
                enlarged(WHOLE, ("spec", "destinations"), size, fill), ("spec", "sourceRepos"), size, fill
            )
            for _ in range(2)
        )
        return case_for(new, surroundings, old=old)

    hold(make)


@pytest.mark.parametrize("piece", [";a", "|.", "+1", ",(.)", ' | "\\(1)"'])
def test_long_jq_paths_are_charged_for_what_they_take(piece: str) -> None:
    """A budget ends the review at the same share of work, however many such paths there are."""
    nonce = next(NONCES)
    long = [f".a{nonce}x{index}" + piece * (4_000 // len(piece)) for index in range(20)]
    thing = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {"ignoreDifferences": [{"kind": "Job", "jqPathExpressions": long}]},
    }
    lines, spent = judged(case_for(thing, around()), steps=MOST_STEPS, rules=CATALOGUE)
    assert spent > 0.75 * MOST_STEPS  # the next one would be too much, and is not read
    assert lines <= LINES_OF_A_STEP * MOST_STEPS


def test_a_list_that_grows_quadratically_is_found_out() -> None:
    """The test of the test: pairs that nobody counts."""
    slow = replace(next(rule for rule in CATALOGUE if rule.id == "project/shape"), check=_pairs)
    with pytest.raises(AssertionError):
        hold(
            lambda size: case_for(enlarged(WHOLE, ("spec", "roles"), size, FILLS["numbered"]), around()),
            rules=(slow,),
        )


def _pairs(case: Case) -> Iterator[Any]:
    roles = case.object["spec"]["roles"]
    for role in roles:
        for other in roles:
            if reading.text(role, "name") == reading.text(other, "groups"):
                yield Finding("project/shape", "spec", "wrong")
