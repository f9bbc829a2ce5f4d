"""`check` of a large repository: objects wait for their neighbours packed, and files are read by several processes.

The places of fields are not kept: a file in which something is found is read once more for them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import islice
from typing import Any

from argocd.engine.directory import Directory
from argocd.engine.judge import Judgement, judge
from argocd.judging.case import Case, Kind
from argocd.judging.configuration import Configuration
from argocd.judging.kinds import kind_of
from checks.file_check import FileCheck, FileResult
from checks.findings import CheckResult, PlacedFinding, name_of, placed_in
from checks.known_objects import KnownObjects, in_default_namespace
from checks.manifests import STDIN, Manifest, Position, read_file
from checks.packing import Packed, Packs

CHUNK = 50
"""Files that a process is given at a time."""

_Waiting = tuple[str, Position, str, dict[str, Any]]
"""File, position, kind and body of an object; plain data, to be packed."""

_Read = tuple[FileResult, list[_Waiting]]
"""Of a file, without the places of its fields."""


def judge_many(
    files: Sequence[str],
    configuration: Configuration,
    *,
    today: date,
    processes: int,
    seen: Callable[[int], None],
    around: KnownObjects | None,
) -> CheckResult:
    result = CheckResult([], [], files=len(files))
    known = around or KnownObjects(Directory(argocd_namespace=configuration.argocd.namespace, mapping=Packed))
    waiting = Packs()
    for told, plain in _read_all(files, configuration, today=today, processes=processes):
        result.findings += told.findings
        result.unreadable += told.unreadable
        result.objects += told.objects
        for each in plain:
            known.put(each[-1])
            waiting.add(each)
        seen(1)
    surroundings = known.surroundings(configuration)
    wrong: dict[str, dict[Position, tuple[str, list[Judgement]]]] = {}
    for file, position, kind, body in waiting:
        judgements = judge(
            Case(kind=Kind(kind), object=body, surroundings=surroundings, written=True), today=today
        )
        if judgements:
            wrong.setdefault(file, {})[position] = (name_of(body), judgements)
    for file, found in wrong.items():
        result.findings += _located(file, found)
    return result


def _read_all(
    files: Sequence[str], configuration: Configuration, *, today: date, processes: int
) -> Iterator[_Read]:
    if processes <= 1:
        yield from _read_some(files, configuration, today)
        return
    # Only here: one process does not wait for the import.
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    if STDIN in files:
        yield from _read_some([STDIN], configuration, today)  # other processes have another standard input
        files = [file for file in files if file != STDIN]
    pieces = iter(files)
    chunks = iter(lambda: list(islice(pieces, CHUNK)), [])
    with ProcessPoolExecutor(processes) as pool:
        # Not `map`: it would hand out all chunks, and keep all results, at once.
        running = [
            pool.submit(_read_chunk, chunk, configuration, today) for chunk in islice(chunks, processes * 2)
        ]
        while running:
            yield from running.pop(0).result()
            running += [pool.submit(_read_chunk, chunk, configuration, today) for chunk in islice(chunks, 1)]


def _read_chunk(files: list[str], configuration: Configuration, today: date) -> list[_Read]:
    return list(_read_some(files, configuration, today))


def _read_some(files: Iterable[str], configuration: Configuration, today: date) -> Iterator[_Read]:
    check_file = FileCheck(configuration, today=today)
    for file in files:
        told = check_file(file)
        plain = [_plain(file, manifest, configuration) for manifest in told.waiting]
        told.waiting.clear()
        yield told, plain


def _plain(file: str, manifest: Manifest, configuration: Configuration) -> _Waiting:
    body = dict(in_default_namespace(manifest.body, configuration))
    return file, manifest.position, kind_of(body).value, body


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
