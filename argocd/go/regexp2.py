"""Regular expressions in lists of namespaces, as Argo CD understands `/…/`, in linear time.

Argo CD runs them on regexp2, a backtracking engine in .NET's flavour, unanchored. Here they run on RE2. Of
what RE2 cannot express two forms are taken apart, because Argo CD's own documentation shows them: a lookahead
at the very beginning, and `^((?!x).)*$`. About the rest the answer is that we do not know.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import re2

from argocd.budget import remembered, spend
from argocd.charged_re2 import ChargedPattern
from argocd.go import runes

Search = Callable[[str], bool]
_Finding = Callable[[bytes], object]
"""In UTF-8: RE2 would otherwise count characters, which takes longer than to search a name."""

_LONG = 1000
"""Characters; nobody writes a longer expression for a namespace, and a compiled one may take megabytes."""

# What RE2 reads too, but not as regexp2 does: quoting, one-letter classes, POSIX classes, subtraction of
# classes, Python's groups, switches of its own.
_READ_DIFFERENTLY = re.compile(r"\\[QECpPZG_]|\(\?P|\(\?[imsU-]*U|\(\?[ims-]+\)[*+?{]|\[:|\[[^\[\]]*-\[")
_LOOKAHEAD = re.compile(r"\(\?[!=]")
_TEMPERED_DOT = re.compile(r"\^\((?:\?:)?(?=\(\?!)")
_TEMPERED_REST = re.compile(r"\.\)([*+])\$")
# A class that is not closed goes on to the end: looking for its end again and again would take for ever.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|\\?\Z)|.", re.DOTALL)
# Invalid in every flavour.
_PLAINLY_WRONG = (
    "missing )",
    "missing ]",
    "unexpected )",
    "no argument for repetition",
    "trailing",
    "bad repetition",
)


@dataclass(frozen=True, slots=True)
class Expression:
    """`error` says that Argo CD cannot read it either and so never matches it, `unsupported` that we cannot."""

    search: Search | None = None
    error: str = ""
    unsupported: str = ""


# One that repeats a class a thousand times takes half a megabyte.
@remembered(longest=_LONG, most=16, most_long=4)
def compiled(pattern: str) -> Expression:
    spend(len(pattern))
    if found := _READ_DIFFERENTLY.search(pattern):
        return Expression(unsupported=f"{found[0]} means something else to Argo CD than to RE2")
    try:
        if tempered := _without_tempered_dot(pattern):
            return Expression(_all([tempered]))
        conditions, rest = _leading_lookaheads(pattern)
        return Expression(_all([*conditions, ChargedPattern(rest).search]))
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        if reason.startswith(_PLAINLY_WRONG):
            return Expression(error=reason)
        return Expression(unsupported=f"RE2 cannot run it: {reason}")


def _all(findings: list[_Finding]) -> Search:
    only, *others = findings
    if not others:
        return lambda text: bool(only(runes.encode(text)))

    def search(text: str) -> bool:
        data = runes.encode(text)
        return all(find(data) for find in findings)

    return search


def _group(pattern: str, at: int) -> int:
    """Where the group that opens here ends, the parenthesis included; 0 where it does not."""
    depth = 0
    for token in _TOKEN.finditer(pattern, at):
        depth += (token[0] == "(") - (token[0] == ")")
        if not depth:
            return token.end()
    return 0


def _has_alternatives(pattern: str) -> bool:
    """A bar that is in no group."""
    depth = 0
    for token in _TOKEN.finditer(pattern):
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == "|" and not depth:
            return True
    return False


def _leading_lookaheads(pattern: str) -> tuple[list[_Finding], str]:
    """`^(?!x)(?=y)rest` is about one place only, so each part can be asked by itself."""
    conditions: list[_Finding] = []
    if not pattern.startswith("^(?") or _has_alternatives(pattern):
        return conditions, pattern
    at = 1
    while _LOOKAHEAD.match(pattern, at) and (end := _group(pattern, at)):
        inside = ChargedPattern(rf"\A(?:{pattern[at + 3 : end - 1]})")
        conditions.append(_not(inside.search) if pattern[at + 2] == "!" else inside.search)
        at = end
    return conditions, f"^{pattern[at:]}"


def _without_tempered_dot(pattern: str) -> _Finding | None:
    """`^((?!x).)*$`: x begins nowhere, and a dot is no line break."""
    opening = _TEMPERED_DOT.match(pattern)
    if not opening:
        return None
    end = _group(pattern, opening.end())
    closing = _TEMPERED_REST.fullmatch(pattern, end)
    if not end or not closing:
        return None
    unwanted = ChargedPattern(pattern[opening.end() + 3 : end - 1])
    shortest = int(closing[1] == "+")

    def find(data: bytes) -> bool:
        if b"\n" in data or len(data) < shortest:
            return False
        found = unwanted.search(data)
        # At the end of the text there is no character left to be refused.
        return found is None or found.start() == len(data)

    return find


def _not(find: _Finding) -> _Finding:
    return lambda data: not find(data)
