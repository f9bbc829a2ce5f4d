"""The texts of an ApplicationSet's template: what is wrong with them, and what they become with known parameters.

Nothing is executed. `{{.x.y}}`, or `{{x}}` without goTemplate, is replaced; any other action makes its value unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argocd import reading
from argocd.applications.template_functions import FUNCTIONS
from argocd.budget import spend
from argocd.go import text_template
from argocd.go.text_template import COMPUTED, ParsedTemplate, Piece, Variable

_IDENTITY = (
    ("metadata", "name"),
    ("spec", "project"),
    ("spec", "destination", "name"),
    ("spec", "destination", "namespace"),
    ("spec", "destination", "server"),
    ("spec", "source", "chart"),
    ("spec", "source", "path"),
    ("spec", "source", "repoURL"),
    ("spec", "source", "targetRevision"),
)
"""Fields in which braces have no other meaning; values for Helm or Kustomize may be templates of their own."""

BUDGET = 128 * 1024
"""Characters of templates that are read of one object: a few tenths of a second at the very worst, and more than honest
ones hold. The rest counts as unknown."""

Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A text of which nobody knows some parts (None) before Argo CD renders it."""

    parts: tuple[str | None, ...]

    def filled(self, sample: str) -> str:
        return "".join(sample if part is None else part for part in self.parts)


UNKNOWN = Unknown((None,))


class TemplateReader:
    """Reads each text once, and no more of them than anybody writes."""

    def __init__(self, *, go: bool) -> None:
        self.go = go
        self._left = BUDGET
        self._read: dict[str, ParsedTemplate] = {}

    def parsed(self, text: str) -> ParsedTemplate:
        found = self._read.get(text)
        if found is None:
            self._left -= len(text)
            if self._left < 0:
                return ParsedTemplate((COMPUTED,))
            spend(len(text))
            found = text_template.parse(text, functions=FUNCTIONS) if self.go else _plain(text)
            self._read[text] = found
        return found


def _plain(text: str) -> ParsedTemplate:
    """Without goTemplate: a name between braces, and no more."""
    if not any(map(_is_tagged, text.split("\n"))):
        return ParsedTemplate((text,) if text else ())
    pieces: list[Piece] = []
    at = 0
    while (start := text.find("{{", at)) >= 0:
        end = text.find("}}", start)
        if end < 0:
            return ParsedTemplate(problem='Cannot find end tag="}}" in the template')
        if start > at:
            pieces.append(text[at:start])
        pieces.append(Variable((text[start + 2 : end],)))
        at = end + 2
    return ParsedTemplate((*pieces, text[at:]) if at < len(text) else tuple(pieces))


def _is_tagged(line: str) -> bool:
    """What Argo CD looks for before it replaces anything: both marks in one line."""
    start = line.find("{{")
    return start >= 0 and line.find("}}", start + 2) >= 0


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text inside with its path; keys are rendered too and stand at what they name."""
    waiting = [(path, value)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                at = below(path, key)
                waiting.append((at, inner))
                if "{{" in str(key):
                    yield at, str(key)
        elif isinstance(value, Sequence):
            waiting.extend((f"{path}[{index}]", inner) for index, inner in enumerate(value))


def identity_texts(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Those of the set's template that say which application it is, and where it goes."""
    template = reading.mapping(spec, "template")
    for path in _IDENTITY:
        yield f"spec.template.{'.'.join(path)}", reading.text(template, *path)
    for index, source in enumerate(reading.sequence(template, "spec", "sources")):
        for key in ("chart", "path", "repoURL", "targetRevision"):
            yield f"spec.template.spec.sources[{index}].{key}", reading.text(source, key)


def below(path: str, key: Any) -> str:
    """The path of a key, in brackets where it has dots itself."""
    name = str(key)
    if "." in name or "/" in name:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def rendered(value: Any, parameters: Parameters | None, reader: TemplateReader) -> Any:
    """The same with every text replaced, or with `Unknown` where it cannot be told.

    Without parameters nothing is known of them.
    """
    if isinstance(value, str):
        return _text(value, parameters, reader) if "{{" in value else value
    if isinstance(value, Mapping):
        return {key: rendered(inner, parameters, reader) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rendered(inner, parameters, reader) for inner in value]
    return value


def _text(text: str, parameters: Parameters | None, reader: TemplateReader) -> str | Unknown:
    template = reader.parsed(text)
    if template.problem:
        return UNKNOWN
    replace = _go_part if reader.go else _plain_part
    parts = tuple(
        piece if isinstance(piece, str) else replace(piece, parameters) for piece in template.pieces
    )
    known = [part for part in parts if part is not None]
    return "".join(known) if len(known) == len(parts) else Unknown(parts)


def _plain_part(piece: Piece, parameters: Parameters | None) -> str | None:
    """What is no parameter stays as it is written: others tell of it, and it is unknown what was meant."""
    if parameters is None or not isinstance(piece, Variable):
        return None
    found = parameters.get(piece.keys[0].strip())
    return found if isinstance(found, str) else None


def _go_part(piece: Piece, parameters: Parameters | None) -> str | None:
    if parameters is None or not isinstance(piece, Variable):
        return None
    found: Any = parameters
    for key in piece.keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, str | int) else None


def filled(value: Any, sample: str) -> Any:
    """With the sample in place of all that is unknown."""
    if isinstance(value, Unknown):
        return value.filled(sample)
    if isinstance(value, dict):
        return {key: filled(inner, sample) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, sample) for inner in value]
    return value


def unknowns(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where something is unknown, as the steps to it."""
    if isinstance(value, Unknown):
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from unknowns(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from unknowns(inner, (*path, str(index)))
