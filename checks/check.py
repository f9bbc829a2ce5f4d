"""Manifests judged without a cluster: the same rules as the webhook's, with each other as neighbours.

Here a few files, which are kept as they were read until all neighbours are known. `packed_check` does the same
for as many as there may be.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import date

from argocd.engine.judge import judge
from argocd.judging.case import Case, kind_of
from argocd.judging.configuration import Configuration
from checks.file_check import FileCheck, Input
from checks.files.content import size_of
from checks.files.references import references_in
from checks.findings import CheckResult, placed_in
from checks.installations import Installations
from checks.known_objects import KnownObjects

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
    named: Collection[str] = frozenset(),
    strict: bool = False,
    namespace_given: bool = False,
) -> CheckResult:
    """All objects of the files; `seen` hears of each file.

    `around` is what a cluster already holds; an object of the files stands for the one of its name there. `named`
    files, and where it is `strict` all, must be manifests. Unless Argo CD's namespace is given, the files tell it.
    """
    given = Input(named=named, strict=strict, references=references_in(files))
    if are_few(files):
        installations = Installations(configuration, namespace_given=namespace_given, around=around)
        check_file = FileCheck(configuration, given, today=today)
        result = _judge_few(files, check_file, installations, today=today, seen=seen)
    else:
        # Only here: a pipeline with few files does not wait for the import.
        from checks.packed_check import PackedCheck  # noqa: PLC0415
        from checks.packing import Packed  # noqa: PLC0415

        installations = Installations(
            configuration, namespace_given=namespace_given, around=around, mapping=Packed
        )
        check_files = PackedCheck(configuration, given, installations, today=today)
        result = check_files(files, processes=processes if len(files) >= MANY_FILES else 1, seen=seen)
    concerned = {found.place.file for found in result.findings}
    order = {file: index for index, file in enumerate(files) if file in concerned}
    result.findings.sort(
        key=lambda found: (
            order.get(found.place.file, 0),
            found.place.line,
            found.place.column,
            found.rule,
        )
    )
    return result


def are_few(files: Sequence[str]) -> bool:
    return len(files) < MANY_FILES and sum(map(size_of, files)) <= FEW_BYTES


def _judge_few(
    files: Sequence[str],
    check_file: FileCheck,
    installations: Installations,
    *,
    today: date,
    seen: Callable[[int], None],
) -> CheckResult:
    result = CheckResult([], [], files=len(files))
    waiting, named = [], []
    for file in files:
        told = check_file(file)
        result.add(told)
        for manifest in told.waiting:
            installations.see(manifest.body)
            waiting.append(manifest)
        named += told.named
        seen(1)
    for body in (*named, *(manifest.body for manifest in waiting)):
        installations.put(body)
    for manifest in waiting:
        body, surroundings = installations.surroundings(manifest.body)
        judgements = judge(
            Case(kind=kind_of(body), object=body, surroundings=surroundings, written=True), today=today
        )
        result.findings += [placed_in(manifest, judgement) for judgement in judgements]
    return result
