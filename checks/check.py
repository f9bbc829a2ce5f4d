"""Manifests judged without a cluster: the same rules as the webhook's, with each other as neighbours.

Here a few files, which are kept as they were read until all neighbours are known. `packed_check` does the same
for as many as there may be.
"""

from collections.abc import Callable, Sequence
from datetime import date

from argocd.engine.judge import judge
from argocd.judging.case import Case
from argocd.judging.configuration import Configuration
from argocd.judging.kinds import kind_of
from checks.file_check import FileCheck
from checks.findings import CheckResult, placed_in
from checks.known_objects import KnownObjects, in_default_namespace, known_from
from checks.manifests import Manifest, size_of

MANY_FILES = 400
"""From here on several processes pay: each costs a third of a second to start."""

FEW_BYTES = 512 * 1024
"""Manifests with the places of all their fields take some thirty times their text: 16 MiB."""


def judge_files(
    files: Sequence[str],
    configuration: Configuration,
    *,
    today: date,
    processes: int = 1,
    seen: Callable[[int], None] = lambda _: None,
    around: KnownObjects | None = None,
) -> CheckResult:
    """All objects of the files; `seen` hears of each file.

    `around` is what a cluster already holds; an object of the files stands for the one of its name there.
    """
    if are_few(files):
        result = _judge_few(files, configuration, today=today, seen=seen, around=around)
    else:
        # Only here: a pipeline with few files does not wait for the import.
        from checks.packed_check import judge_many  # noqa: PLC0415

        workers = processes if len(files) >= MANY_FILES else 1
        result = judge_many(files, configuration, today=today, processes=workers, seen=seen, around=around)
    named = {found.place.file for found in result.findings}
    order = {file: index for index, file in enumerate(files) if file in named}
    result.findings.sort(
        key=lambda found: (order.get(found.place.file, 0), found.place.line, found.place.column, found.rule)
    )
    return result


def are_few(files: Sequence[str]) -> bool:
    return len(files) < MANY_FILES and sum(map(size_of, files)) <= FEW_BYTES


def _judge_few(
    files: Sequence[str],
    configuration: Configuration,
    *,
    today: date,
    seen: Callable[[int], None],
    around: KnownObjects | None,
) -> CheckResult:
    result = CheckResult([], [], files=len(files))
    known = around or known_from((), configuration)
    check_file = FileCheck(configuration, today=today)
    waiting: list[Manifest] = []
    for file in files:
        told = check_file(file)
        result.findings += told.findings
        result.unreadable += told.unreadable
        result.objects += told.objects
        for manifest in told.waiting:
            known.put(in_default_namespace(manifest.body, configuration))
        waiting += told.waiting
        seen(1)
    surroundings = known.surroundings(configuration)
    for manifest in waiting:
        body = in_default_namespace(manifest.body, configuration)
        judgements = judge(
            Case(kind=kind_of(body), object=body, surroundings=surroundings, written=True), today=today
        )
        result.findings += [placed_in(manifest, judgement) for judgement in judgements]
    return result
