"""What `check --fix` mends: only what has one answer that changes nothing else.

The text is cut exactly where the mistake is, so comments, order and quoting stay as they were written. The
result is read again, and an edit that changed anything but what it should is not made.
"""

import copy
import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from argocd import names, reading
from argocd.applications import sync_annotations
from argocd.settings import secrets
from checks.files.content import read_text
from checks.findings import PlacedFinding
from checks.manifests import Manifest, Position, child, parse

Bodies = dict[Position, Any]


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters to replace, and the same change to the data that they are read as."""

    start: int
    end: int
    text: str
    position: Position
    apply: Callable[[Any], None]


Fix = Callable[[Manifest, str, str], Edit | None]
"""Of the manifest, the finding's path and the whole text."""


def fixed(file: str, findings: Iterable[PlacedFinding]) -> tuple[str, str, int]:
    """The file's text before and after, and how many edits that took. Raises UnreadableError."""
    text = read_text(file)
    there = {found.position: found for found in parse(text, file) if isinstance(found, Manifest)}
    wanted: dict[tuple[int, int], Edit] = {}  # two findings in one text have one edit
    for found in findings:
        if found.rule in FIXES and found.position in there:
            edit = FIXES[found.rule](there[found.position], found.path, text)
            if edit:
                wanted[edit.start, edit.end] = edit
    # From the end backwards: what stands before an edit stays where it was, also in lists.
    edits = [edit for _, edit in sorted(wanted.items(), reverse=True)]
    bodies: Bodies = {key: manifest.body for key, manifest in there.items()}
    after = _applied(file, text, bodies, edits)
    if after is not None:
        return text, after[0], len(edits)
    made, done = text, 0
    for edit in edits:
        alone = _applied(file, made, bodies, [edit])
        if alone is not None:
            made, bodies = alone
            done += 1
    return text, made, done


def difference(file: str, before: str, after: str) -> str:
    name = Path(file).as_posix().lstrip("/")
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    )


def _applied(file: str, text: str, bodies: Bodies, edits: Sequence[Edit]) -> tuple[str, Bodies] | None:
    """The edited text, if it is read as what was meant; None otherwise."""
    expected = copy.deepcopy(bodies)
    limit = len(text)
    for edit in edits:
        if edit.end > limit:
            return None
        limit = edit.start
        text = f"{text[: edit.start]}{edit.text}{text[edit.end :]}"
        edit.apply(expected[edit.position])
    read = {one.position: one.body for one in parse(text, file) if isinstance(one, Manifest)}
    return (text, expected) if read == expected else None


def _without_repetition(manifest: Manifest, path: str, text: str) -> Edit | None:
    """An entry of a list that is the same as one before it."""
    *above, index = reading.steps_of(path)
    items = _data_at(manifest.body, above)
    listed = _node_at(manifest.node, above)
    if (
        not isinstance(index, int)
        or not isinstance(items, list)
        or not isinstance(listed, yaml.SequenceNode)
        or not 0 < index < len(items)
        or items[index] not in items[:index]
    ):
        return None
    item, previous = listed.value[index], listed.value[index - 1]
    if listed.flow_style:
        start, end = previous.end_mark.index, item.end_mark.index
    else:
        dash = text.rfind("-", _last(previous), item.start_mark.index)
        start = text.rfind("\n", 0, dash) + 1
        newline = text.find("\n", _last(item))
        end = len(text) if newline < 0 else newline + 1
    return Edit(start, end, "", manifest.position, lambda body: _data_at(body, above).pop(index))


def _spelt(known: frozenset[str]) -> Fix:
    """An option that differs from a known one in case and spaces alone."""

    def fix(manifest: Manifest, path: str, text: str) -> Edit | None:
        return _rewritten(
            manifest, path, text, lambda value: sync_annotations.spelling(value, known) or value
        )

    return fix


def _all_spelt(key: str, known: frozenset[str]) -> Fix:
    """The same in an annotation's comma list, whatever entry was found."""

    def fix(manifest: Manifest, _path: str, text: str) -> Edit | None:
        def respelt(value: str) -> str:
            parts = [part.strip() for part in value.split(",")]
            return ",".join(
                part if part in known else sync_annotations.spelling(part, known) or part for part in parts
            )

        return _rewritten(manifest, f"metadata.annotations[{key}]", text, respelt)

    return fix


def _rewritten(manifest: Manifest, path: str, text: str, respell: Callable[[str], str]) -> Edit | None:
    *above, last = reading.steps_of(path)
    node = _node_at(manifest.node, [*above, last])
    if not isinstance(node, yaml.ScalarNode) or node.style in {"|", ">"}:
        return None
    meant = respell(node.value)
    if meant == node.value:
        return None

    def apply(body: Any) -> None:
        _data_at(body, above)[last] = meant

    start, end = node.start_mark.index, node.end_mark.index
    return Edit(start, end, _quoted(meant, text[start:end]), manifest.position, apply)


def _renamed_key(manifest: Manifest, path: str, text: str) -> Edit | None:
    """A key of a Secret in the spelling that Argo CD reads, unless that is there too."""
    _, last = path.split(".", 1)
    meant = dict(secrets.misspelt_keys(manifest.body)).get(last, "")
    for section in ("stringData", "data"):
        held = reading.mapping(manifest.body, section)
        if not meant or last not in held or meant in held:
            continue
        key = next(key for key, _ in _node_at(manifest.node, [section]).value if key.value == last)
        start, end = key.start_mark.index, key.end_mark.index
        apply = partial(_rename, section=section, old=last, new=meant)
        return Edit(start, end, _quoted(meant, text[start:end]), manifest.position, apply)
    return None


def _rename(body: Any, *, section: str, old: str, new: str) -> None:
    body[section][new] = body[section].pop(old)


def _quoted(value: str, instead_of: str) -> str:
    if instead_of.startswith('"'):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}'" if instead_of.startswith("'") else value


def _node_at(node: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        node = child(node, step)
    return node


def _data_at(body: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def _last(node: Any) -> int:
    """Where the text of a node ends; a block's own end mark is where the next thing begins."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        end: int = node.end_mark.index
        return end
    inner = node.value[-1]
    return _last(inner[1] if isinstance(inner, tuple) else inner)


FIXES: dict[str, Fix] = {
    **dict.fromkeys(
        (
            "project/duplicate-destination",
            "project/duplicate-source-namespace",
            "project/duplicate-source-repo",
            "project/duplicate-destination-service-account",
            "project/duplicate-role",
            "project/duplicate-policy",
            "project/duplicate-group",
            "project/duplicate-sync-window",
        ),
        _without_repetition,
    ),
    "application/sync-option": _spelt(sync_annotations.APPLICATION_OPTIONS),
    "object/sync-options": _all_spelt(names.SYNC_OPTIONS, sync_annotations.RESOURCE_OPTIONS),
    "object/compare-options": _all_spelt(names.COMPARE_OPTIONS, sync_annotations.COMPARE_OPTIONS),
    "secret/key-case": _renamed_key,
}
"""The rules whose findings can be mended; a finding that needs a decision is left to its reader."""
