"""What we say of each bad object beside what a real Argo CD said."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from argocd.judging.case import Action
from argocd.judging.configuration import ArgoCD, Configuration
from scripts.cluster.argocd.programs import argocd_version
from tests.cluster.argocd.bad_objects.table import BadObject, bad_objects, good_objects, judged
from tests.cluster.argocd.bad_objects.verdicts import Verdicts

VERDICTS = Path(__file__).with_name("verdicts.json")


@dataclass(frozen=True, slots=True)
class Compared:
    case: BadObject
    denials: tuple[str, ...]
    warnings: tuple[str, ...]
    """Rules that have nothing to say of the good object."""
    schema: tuple[str, ...]
    """The API server's words: it was never stored, and neither we nor Argo CD are asked about it."""
    argo_cd: tuple[str, ...]

    @property
    def missed(self) -> bool:
        """Argo CD complains of something that the object alone shows."""
        return bool(self.argo_cd) and not self.case.beyond and not self.denials and not self.warnings

    @property
    def denied_alone(self) -> bool:
        return bool(self.denials) and not self.argo_cd and not self.schema

    def _mark(self) -> str:
        if self.missed:
            return "MISSED "
        return "DENIED ALONE " if self.denied_alone else ""

    def __str__(self) -> str:
        said = [*(f"deny {rule}" for rule in self.denials), *(f"warn {rule}" for rule in self.warnings)]
        theirs = [*self.schema, *self.argo_cd] or ["content"]
        mark = self._mark()
        ours = ", ".join(said) or "nothing"
        return f"{mark}{self.case.name}\n  Tiphys:  {ours}\n  Argo CD: {' | '.join(theirs)}"


def known_verdicts() -> Verdicts:
    """Raises AssertionError where they are another release's than the one that is pinned."""
    stored = json.loads(VERDICTS.read_text())
    assert stored["release"] == argocd_version(), "another release of Argo CD: --renew asks it"
    verdicts: Verdicts = stored["verdicts"]
    return verdicts


def as_asked() -> Configuration:
    """Of a webhook that knows which release it is beside."""
    major, minor, *_ = argocd_version().removeprefix("v").split(".")
    return Configuration(argocd=ArgoCD(version=(int(major), int(minor))))


def compared() -> Iterator[Compared]:
    verdicts, configuration = known_verdicts(), as_asked()
    usual = {
        kind: {each.finding.rule for each in judged(good.object, configuration=configuration)}
        for kind, good in good_objects().items()
    }
    for name, case in bad_objects().items():
        found = [
            each
            for each in judged(case.object, configuration=configuration)
            if each.finding.rule not in usual[case.object["kind"]]
        ]
        denials, warnings = (
            tuple(dict.fromkeys(each.finding.rule for each in found if each.action is action))
            for action in (Action.DENY, Action.WARN)
        )
        said = verdicts[name]
        theirs = (*said.get("controllers", ()), *said.get("server", ()))
        yield Compared(case, denials, warnings, tuple(said.get("schema", ())), theirs)
