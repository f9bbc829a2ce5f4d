"""One file: its objects, and the verdicts on those that need nothing else of the run."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import date

from argocd.engine.judge import judge
from argocd.judging.case import Case, Kind, Surroundings, kind_of
from argocd.judging.configuration import Configuration
from checks.files.content import STDIN, STDIN_NAME, UnreadableError, decoded, read_bytes
from checks.files.reasons import Reason
from checks.files.recognition import Recognition, broken_as
from checks.files.references import NamedParts, References
from checks.findings import FileResult, placed_in
from checks.known_objects import known_from, needs_the_others, stand_ins
from checks.manifests import Manifest, Place, Unreadable, parse


@dataclass(frozen=True, slots=True)
class Input:
    """How files are read. What is wrong with `named` ones, or where it is `strict` with any, is always told."""

    named: Collection[str] = frozenset()
    strict: bool = False
    references: References = field(default_factory=dict)


class FileCheck:
    def __init__(self, configuration: Configuration, given: Input, *, today: date) -> None:
        self._alone: Surroundings = known_from((), configuration).surroundings(configuration)
        self._given = given
        self._parts = NamedParts(given.references)
        self._today = today

    def __call__(self, file: str) -> FileResult:
        told = FileResult()
        if reason := self._parts.reason_of(file):
            told.left_alone[reason] += 1
            return told
        name = STDIN_NAME if file == STDIN else file
        data: bytes | None = None
        try:
            data = read_bytes(file)
            text = decoded(data)
        except UnreadableError as error:
            broken = [Unreadable(Place(name, error.line, 1), str(error))]
        else:
            broken = list(self._judge(told, parse(text, name), Recognition(text)))
        if broken:
            self._tell(told, broken, file, data)
        return told

    def _judge(
        self, told: FileResult, documents: Iterator[Manifest | Unreadable], recognition: Recognition
    ) -> Iterator[Unreadable]:
        """What could not be read."""
        for found in documents:
            if isinstance(found, Unreadable):
                yield found
                continue
            if reason := recognition.reason_of(found.body):
                if reason is Reason.NO_MANIFEST and self._given.strict:
                    yield Unreadable(found.place(), "no manifest: it has no kind")
                told.left_alone[reason] += 1
                continue
            told.objects += 1
            kind = kind_of(found.body)
            if kind is not Kind.ANY:
                told.kinds[kind.value] += 1
            if needs_the_others(found.body):
                told.waiting.append(found)
                continue
            told.named += stand_ins(found.body)
            case = Case(kind=Kind.ANY, object=found.body, surroundings=self._alone, written=True)
            told.findings += [placed_in(found, judgement) for judgement in judge(case, today=self._today)]

    def _tell(self, told: FileResult, broken: list[Unreadable], file: str, data: bytes | None) -> None:
        """Named itself, or with an object of Argo CD in it: then it must be read. The rest is not for us."""
        reason = None if data is None else broken_as(data)
        if reason is Reason.TEMPLATE:
            broken = [
                Unreadable(one.place, f"a template: render it and check the result ({one.message})")
                for one in broken
            ]
        if reason is None or self._given.strict or file in self._given.named:
            told.unreadable += broken
        else:
            told.left_alone[reason] += 1
