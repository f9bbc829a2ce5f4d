"""Files that others name as a part of something: kustomize's patches, and what kuttl and chainsaw expect.

Such a file is asked about alone too, as a pre-commit hook does: so besides the kustomizations of the run, those
in the file's folder and above it count, up to the root of its repository.
"""

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from argocd import reading
from checks.files.content import STDIN, UnreadableError, decoded, read_bytes
from checks.files.reasons import Reason
from tiphys import safe_yaml

KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
CHAINSAW_TESTS = ("chainsaw-test.yaml", "chainsaw-test.yml")

_EXPECTATION = re.compile(r"\d+-(?:assert|errors?)\b.*\.ya?ml")
"""As kuttl finds them by their names."""

_PATCH_LISTS = ("patches", "patchesStrategicMerge", "patchesJson6902")
_WHOLE_LISTS = ("resources", "bases", "components")

References = dict[str, Reason]
"""By the whole path of a file, its folder without links."""


class NamedParts:
    """`in_run` is what the files of a run name."""

    def __init__(self, in_run: References) -> None:
        self._in_run = in_run

    def reason_of(self, file: str) -> Reason | None:
        """Why a file is no whole object, as far as others and its name tell."""
        if file == STDIN:
            return None
        folder, name = os.path.split(file)
        if _EXPECTATION.fullmatch(name):
            return Reason.TEST
        folder = _whole(folder)
        path = f"{folder}/{name}"
        return self._in_run.get(path) or _named_above(folder).get(path)


def references_in(files: Iterable[str]) -> References:
    """What the kustomizations and chainsaw tests among the files name."""
    found: References = {}
    for file in files:
        if file.rpartition("/")[2] in {*KUSTOMIZATIONS, *CHAINSAW_TESTS}:
            _add(found, file)
    return found


@cache
def _whole(folder: str) -> str:
    return os.path.realpath(folder or ".")


@cache
def _named_above(folder: str) -> References:
    """By the kustomizations of a folder and of those above it, and by its own chainsaw test."""
    parent = str(Path(folder).parent)
    is_root = folder == parent or Path(folder, ".git").exists()
    found = {} if is_root else dict(_named_above(parent))
    for name in (*KUSTOMIZATIONS, *CHAINSAW_TESTS):
        path = f"{folder}/{name}"
        if os.path.isfile(path):  # noqa: PTH113 - asked five times for each folder, and ten times as fast
            _add(found, path)
    return found


def _add(found: References, path: str) -> None:
    folder, name = os.path.split(path)
    tests = name in CHAINSAW_TESTS
    try:
        data = read_bytes(path)
        if not tests and b"patch" not in data:
            return
        text = decoded(data)
        documents = [safe_yaml.build(node, repeated_keys=True) for node in safe_yaml.compose(text)]
    except (UnreadableError, safe_yaml.YamlError):
        return  # told where it is judged itself
    for document in documents:
        if tests:
            named = dict.fromkeys(_expected(document), Reason.TEST)
        else:
            whole = set(_listed(document, _WHOLE_LISTS))
            named = {one: Reason.PATCH for one in _listed(document, _PATCH_LISTS) if one not in whole}
        for one, reason in named.items():
            beside, last = os.path.split(os.path.join(folder, one))  # noqa: PTH118 - as above
            found.setdefault(f"{_whole(beside)}/{last}", reason)


def _listed(kustomization: Any, keys: Iterable[str]) -> Iterator[str]:
    """Paths; a patch may be written inline too, as a text of several lines."""
    for key in keys:
        for entry in reading.sequence(kustomization, key):
            path = entry if isinstance(entry, str) else reading.text(entry, "path")
            if path and "\n" not in path and ":" not in path and "\0" not in path:
                yield path


def _expected(test: Any) -> Iterator[str]:
    for step in reading.sequence(test, "spec", "steps"):
        for block in ("try", "catch", "finally", "cleanup"):
            for operation in reading.sequence(step, block):
                for verb in ("assert", "error"):
                    file = reading.text(operation, verb, "file")
                    if file and "\0" not in file:
                        yield file
