"""`check` of a large repository: objects wait for their neighbours packed, and files are read by several processes.

The places of fields are not kept: a file in which something is found is read once more for them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import islice
from typing import Any

from argocd.engine.judge import Judgement, judge
from argocd.judging.case import Case, Kind, kind_of
from argocd.judging.configuration import Configuration
from checks.file_check import FileCheck, Input
from checks.files.content import can_be_read_once
from checks.findings import CheckResult, FileResult, PlacedFinding, name_of, placed_in
from checks.installations import Installations
from checks.manifests import Manifest, Position, read_file
from checks.packing import Packs

CHUNK = 50
"""Files that a process is given at a time."""

_Waiting = tuple[str, Position, str, dict[str, Any]]
"""File, position, kind and body of an object; plain data, to be packed."""

_Read = tuple[FileResult, list[_Waiting]]
"""Of a file, without the places of its fields."""


class PackedCheck:
    def __init__(
        self, configuration: Configuration, given: Input, installations: Installations, *, today: date
    ) -> None:
        self._reading = (configuration, given, today)
        self._installations = installations
        self._today = today

    def __call__(self, files: Sequence[str], *, processes: int, seen: Callable[[int], None]) -> CheckResult:
        result = CheckResult([], [], files=len(files))
        installations = self._installations
        waiting, named = Packs(), Packs()
        for told, plain in self._read_all(files, processes):
            result.add(told)
            for each in plain:
                installations.see(each[-1])
                waiting.add(each)
            for stand_in in told.named:
                named.add(stand_in)
            seen(1)
        for stand_in in named:
            installations.put(stand_in)
        for *_, body in waiting:
            installations.put(body)
        wrong: dict[str, dict[Position, tuple[str, list[Judgement]]]] = {}
        for file, position, kind, body in waiting:
            whole, surroundings = installations.surroundings(body)
            case = Case(kind=Kind(kind), object=whole, surroundings=surroundings, written=True)
            if judgements := judge(case, today=self._today):
                wrong.setdefault(file, {})[position] = (name_of(body), judgements)
        for file, found in wrong.items():
            result.findings += _located(file, found)
        return result

    def _read_all(self, files: Sequence[str], processes: int) -> Iterator[_Read]:
        if processes <= 1:
            yield from _read_some(files, *self._reading)
            return
        # Only here: one process does not wait for the import.
        from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

        here = {file for file in files if can_be_read_once(file)}
        yield from _read_some([file for file in files if file in here], *self._reading)
        pieces = iter([file for file in files if file not in here])
        chunks = iter(lambda: list(islice(pieces, CHUNK)), [])
        with ProcessPoolExecutor(processes, initializer=_prepare, initargs=self._reading) as pool:
            # Not `map`: it would hand out all chunks, and keep all results, at once.
            running = [pool.submit(_read_chunk, chunk) for chunk in islice(chunks, processes * 2)]
            while running:
                yield from running.pop(0).result()
                running += [pool.submit(_read_chunk, chunk) for chunk in islice(chunks, 1)]


_prepared: list[FileCheck] = []
"""In a process that reads files: how."""


def _prepare(configuration: Configuration, given: Input, today: date) -> None:
    _prepared[:] = [FileCheck(configuration, given, today=today)]


def _read_chunk(files: list[str]) -> list[_Read]:
    return [_plain(file, _prepared[0](file)) for file in files]


def _read_some(
    files: Iterable[str], configuration: Configuration, given: Input, today: date
) -> Iterator[_Read]:
    check_file = FileCheck(configuration, given, today=today)
    for file in files:
        yield _plain(file, check_file(file))


def _plain(file: str, told: FileResult) -> _Read:
    waiting = [
        (file, manifest.position, kind_of(manifest.body).value, dict(manifest.body))
        for manifest in told.waiting
    ]
    told.waiting.clear()
    return told, waiting


def _located(file: str, wrong: dict[Position, tuple[str, list[Judgement]]]) -> Iterator[PlacedFinding]:
    """The file is read once more, for the places of what was found in it."""
    for manifest in read_file(file):
        if isinstance(manifest, Manifest):
            _, judgements = wrong.pop(manifest.position, ("", []))
            for judgement in judgements:
                yield placed_in(manifest, judgement)
    for (document, where), (named, judgements) in wrong.items():  # the file changed meanwhile
        nowhere = Manifest(file, document, {}, where)
        for judgement in judgements:
            yield replace(placed_in(nowhere, judgement), about=named)
