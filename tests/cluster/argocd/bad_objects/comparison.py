"""What we say of each bad object beside what a real Argo CD said."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from argocd.judging.case import Action
from tests.cluster.argocd.bad_objects.table import BadObject, bad_objects, good_objects, judged

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
            return "AWAITED " if self.case.awaited else "MISSED "
        if self.case.awaited:
            return "FOUND BY NOW "
        return "DENIED ALONE " if self.denied_alone else ""

    def __str__(self) -> str:
        said = [*(f"deny {rule}" for rule in self.denials), *(f"warn {rule}" for rule in self.warnings)]
        theirs = [*self.schema, *self.argo_cd] or ["content"]
        mark = self._mark()
        ours = ", ".join(said) or "nothing"
        return f"{mark}{self.case.name}\n  Tiphys:  {ours}\n  Argo CD: {' | '.join(theirs)}"


def compared() -> Iterator[Compared]:
    verdicts = json.loads(VERDICTS.read_text())
    usual = {
        kind: {each.finding.rule for each in judged(good.object)} for kind, good in good_objects().items()
    }
    for name, case in bad_objects().items():
        found = [each for each in judged(case.object) if each.finding.rule not in usual[case.object["kind"]]]
        denials, warnings = (
            tuple(dict.fromkeys(each.finding.rule for each in found if each.action is action))
            for action in (Action.DENY, Action.WARN)
        )
        said = verdicts[name]
        theirs = (*said.get("controllers", ()), *said.get("server", ()))
        yield Compared(case, denials, warnings, tuple(said.get("schema", ())), theirs)
