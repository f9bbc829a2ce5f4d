"""The files that arguments name: folders are walked, patterns expanded; what is passed over is told."""

import fnmatch
import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from checks.files.content import STDIN
from checks.files.reasons import Reason

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(slots=True)
class Search:
    """`never` are files of our own, such as a baseline. `named` and the rest is what a search found out."""

    exclude: Sequence[str] = ()
    never: frozenset[str] = frozenset()
    named: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    left_alone: Counter[Reason] = field(default_factory=Counter)
    nothing: list[str] = field(default_factory=list)
    """Folders and patterns that no file was found for."""

    def files(self, paths: Iterable[str], *, as_found: bool = False) -> Iterator[str]:
        """In order. `as_found`: named files too are excluded and passed over like those found in a folder."""
        for path in paths:
            if path == STDIN:
                self.named.add(path)
                yield path
                continue
            found = as_found and Path(path).is_file()  # perhaps excluded
            for one in self._of(path, as_found=as_found):
                found = True
                if not self.never or os.path.realpath(one) not in self.never:
                    yield one
            if not found:
                self.nothing.append(path)

    def _of(self, path: str, *, as_found: bool) -> Iterator[str]:
        given = Path(path)
        if given.is_dir():
            yield from self._walk(str(given), os.path.realpath(given))
        elif given.exists() or not glob.has_magic(path):
            if not as_found:
                self.named.add(path)
            if not (as_found and self._is_in_excluded(path)):
                yield path
        else:
            found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
            yield from (one for one in found if Path(one).is_file() and not self._is_excluded(one))

    def _walk(self, folder: str, root: str) -> Iterator[str]:
        """With plain text and not Path: that keeps every part of every name it has seen."""
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            yield folder  # to be told as unreadable
            return
        chart = any(entry.name == "Chart.yaml" for entry in entries)
        for entry in entries:
            path = entry.name if folder == "." else f"{folder.rstrip('/')}/{entry.name}"
            if entry.name.startswith(".") or self._is_excluded(path):
                continue
            if not entry.is_dir():
                if self._is_wanted(entry, path, root):
                    yield path
            elif chart and entry.name == "templates":
                note = "templates of a Helm chart; render them and check the result"
                self._pass_over(path, Reason.TEMPLATE, note)
            elif entry.is_symlink():
                self._pass_over(path, Reason.LINK, "a link to a folder")
            else:
                yield from self._walk(path, root)

    def _is_wanted(self, entry: "os.DirEntry[str]", path: str, root: str) -> bool:
        if not entry.name.endswith(SUFFIXES):
            if entry.name.lower().endswith(SUFFIXES):
                self._pass_over(path, Reason.SUFFIX, "Argo CD and kubectl read lower-case suffixes only")
            return False
        if entry.is_symlink() and not is_inside(os.path.realpath(path), root):
            self._pass_over(path, Reason.LINK, "a link that leads out of the folder")
            return False
        return entry.is_file()

    def _pass_over(self, path: str, reason: Reason, note: str) -> None:
        self.left_alone[reason] += 1
        self.notes.append(f"{path}: {note}")

    def _is_excluded(self, path: str) -> bool:
        excluded = bool(self.exclude) and self._matches(Path(path))
        self.left_alone[Reason.EXCLUDED] += excluded
        return excluded

    def _is_in_excluded(self, path: str) -> bool:
        """A file that nobody came to through its folders."""
        excluded = bool(self.exclude) and any(map(self._matches, (Path(path), *Path(path).parents)))
        self.left_alone[Reason.EXCLUDED] += excluded
        return excluded

    def _matches(self, path: Path) -> bool:
        """Patterns count from the right, as .gitignore's do: `vendor`, `vendor/**`, `*/tests/*.yaml`."""
        return any(
            path.match(pattern.removesuffix("/**").removesuffix("/"))
            or fnmatch.fnmatchcase(path.as_posix(), f"*/{pattern.removeprefix('/')}")
            for pattern in self.exclude
        )


def find_files(paths: Iterable[str]) -> Iterator[str]:
    """Where nobody asks what was left out."""
    return Search().files(paths)


def is_inside(path: str, folder: str) -> bool:
    """Both without links."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def roots_of(paths: Iterable[str]) -> list[str]:
    """The trees that were given: a named file's is its folder."""
    folders = [path if Path(path).is_dir() else Path(path).parent for path in paths if path != STDIN]
    return [os.path.realpath(folder) for folder in folders]
