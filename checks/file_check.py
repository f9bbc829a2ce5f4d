"""One file: its objects, and the verdicts on those that need nothing else of the run."""

from dataclasses import dataclass, field
from datetime import date

from argocd.engine.judge import judge
from argocd.judging.case import Case, Kind, Surroundings
from argocd.judging.configuration import Configuration
from checks.findings import PlacedFinding, placed_in
from checks.known_objects import known_from, needs_the_others
from checks.manifests import Manifest, Unreadable, read_file


@dataclass(slots=True)
class FileResult:
    """`waiting` are judged when all their neighbours are known."""

    findings: list[PlacedFinding] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    waiting: list[Manifest] = field(default_factory=list)
    objects: int = 0


class FileCheck:
    def __init__(self, configuration: Configuration, *, today: date) -> None:
        self._alone: Surroundings = known_from((), configuration).surroundings(configuration)
        self._today = today

    def __call__(self, file: str) -> FileResult:
        told = FileResult()
        for found in read_file(file):
            if isinstance(found, Unreadable):
                told.unreadable.append(found)
                continue
            told.objects += 1
            if needs_the_others(found.body):
                told.waiting.append(found)
                continue
            case = Case(kind=Kind.ANY, object=found.body, surroundings=self._alone, written=True)
            told.findings += [placed_in(found, judgement) for judgement in judge(case, today=self._today)]
        return told
