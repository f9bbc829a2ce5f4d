"""Paths in jq's language, as gojq reads them for Argo CD: whether they parse, and name only what there is.

Where gojq's versions differ (0.12.17 to 0.12.19), what one of them takes is right.
"""

from collections.abc import Callable
from typing import ClassVar

from argocd.budget import remembered, spend
from argocd.go.jq_tokens import KEYWORDS, JqSyntaxError, JqTokens
from argocd.shortening import shortened

_LONGEST = 4096
"""Bytes that are read; people write far shorter paths."""
_SHORT = 200
"""Characters of what is remembered."""
_DEEPEST = 100
"""Terms and queries inside each other: two of them take five of the thousand frames that Python has."""
_STEPS = 5
"""For a character: one that is a token of its own takes 45 lines of this reader."""
_SHOWN = 60

_CONSTANTS = frozenset({"null", "true", "false", "number", "index", ".."})
_LEVELS = {"//": 1, "or": 3, "and": 4, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7}
_LEVELS |= dict.fromkeys(("=", "|=", "+=", "-=", "*=", "/=", "%=", "//="), 2)
_LEVELS |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 5)
"""The higher binds the tighter."""
_NOT_IN_A_ROW = frozenset({2, 5})
_BUILTINS = {
    0: """
    abs acos acosh add all any arrays ascii_downcase ascii_upcase asin asinh atan atanh booleans builtins cbrt ceil
    combinations cos cosh empty env erf erfc error exp exp10 exp2 explode expm1 fabs finites first flatten floor frexp
    from_entries fromdate fromdateiso8601 fromjson gamma gmtime halt halt_error implode infinite isfinite isinfinite
    isnan isnormal iterables j0 j1 keys last length lgamma localtime log log10 log1p log2 logb ltrim max min mktime modf
    modulemeta nan nearbyint normals not now nulls numbers objects paths recurse reverse rint round rtrim scalars
    significand sin sinh sort sqrt strings tan tanh tgamma to_entries toboolean todate todateiso8601 tojson tonumber
    tostream tostring transpose trim trunc type unique utf8bytelength values y0 y1
    """,
    1: """
    IN INDEX add all any bsearch capture combinations contains del delpaths endswith error first flatten format
    fromstream getpath group_by halt_error has in index indices inside isempty join last ltrimstr map map_values match
    max_by min_by nth path paths pick range recurse repeat rindex rtrimstr scan select sort_by split splits startswith
    strflocaltime strftime strptime test trimstr truncate_stream unique_by walk with_entries
    """,
    2: """
    IN INDEX JOIN all any atan2 capture copysign drem fdim fmax fmin fmod gsub hypot jn ldexp limit match nextafter
    nexttoward nth pow range recurse remainder scalb scalbln scan setpath skip split splits sub test until while yn
    """,
    3: "JOIN fma gsub range sub",
    4: "JOIN",
}
"""By the number of their arguments; input and debug are there only for gojq's own command."""
_KNOWN = frozenset(f"{name}/{count}" for count, some in _BUILTINS.items() for name in some.split()) | {"$ENV"}


class _TooDeepError(Exception):
    pass


@remembered(longest=_SHORT, most=512, most_long=4)
def path_problem(path: str) -> str:
    """Why Argo CD, which makes `del(path)` of it, cannot compile it; empty where it can, or nobody here can tell."""
    if len(path) > _LONGEST or len(path.encode(errors="replace")) > _LONGEST or "\0" in path:
        return ""
    spend(_STEPS * len(path))
    program = _Program(f"del({path})")
    try:
        program.read()
    except JqSyntaxError as error:
        return str(error)
    except _TooDeepError:
        return ""
    return program.undefined


class _Program(JqTokens):
    """Reads from left to right, and knows which names are known there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.undefined = ""
        self._names: list[str] = []
        self._counts: dict[str, int] = {}
        self._depth = 0

    def read(self) -> None:
        self._query()
        if self._kind != "eof":
            message = f'unexpected token "{self._token}"'
            raise JqSyntaxError(message)

    # Names

    def _declare(self, *names: str) -> None:
        for name in names:
            self._names.append(name)
            self._counts[name] = self._counts.get(name, 0) + 1

    def _forget(self, since: int) -> list[str]:
        names = self._names[since:]
        del self._names[since:]
        for name in names:
            self._counts[name] -= 1
        return names

    def _use(self, declared: str, *, what: str, name: str) -> None:
        # Those with _ in front are gojq's own, and differ from version to version.
        known = declared in _KNOWN or self._counts.get(declared) or declared.startswith("_")
        if not (known or self.undefined):
            self.undefined = f"{what} not defined: {shortened(name, _SHOWN)}"

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _TooDeepError

    # Grammar

    def _query(self, *, leaks: bool = False) -> None:
        """What is declared in it ends with it, but for a pattern's keys, where gojq forgets to end it."""
        self._enter()
        since = len(self._names)
        while True:
            if self._takes("def"):
                self._definition()
            elif self._takes("label"):
                self._declare(f"label {self._expect('variable')}")
                self._expect("|")
            else:
                self._expression()
                if self._takes("as"):
                    self._pattern()
                    while self._takes("?//"):
                        self._pattern()
                    self._expect("|")
                elif not (self._takes("|") or self._takes(",")):
                    break
        if not leaks:
            self._forget(since)
        self._depth -= 1

    def _definition(self) -> None:
        name = self._expect("ident")
        parameters: list[str] = []
        if self._takes("("):
            parameters.append(self._parameter())
            while self._takes(";"):
                parameters.append(self._parameter())
            self._expect(")")
        self._expect(":")
        self._declare(f"{name}/{len(parameters)}")
        since = len(self._names)
        for parameter in parameters:
            self._declare(parameter, f"{parameter.removeprefix('$')}/0")
        self._query()
        self._forget(since)
        self._expect(";")

    def _parameter(self) -> str:
        return self._expect("variable" if self._kind == "variable" else "ident")

    def _expression(self) -> None:
        self._term()
        open_levels: list[int] = []
        while level := _LEVELS.get(self._kind):
            while open_levels and open_levels[-1] > level:
                open_levels.pop()
            if not open_levels or open_levels[-1] != level:
                open_levels.append(level)
            elif level in _NOT_IN_A_ROW:
                raise self._unexpected()
            self._advance()
            self._term()

    def _term(self) -> None:
        self._enter()
        while self._kind in {"+", "-"}:
            self._advance()
        kind, token = self._kind, self._token
        if kind == '"':
            self._string()
        elif kind in self._COMPOUND:
            self._advance()
            self._COMPOUND[kind](self)
        elif kind in _CONSTANTS:
            self._advance()
        elif kind in {"variable", "qualified_variable"}:
            self._use(token, what="variable", name=token)
            self._advance()
        elif kind in {"ident", "qualified"}:
            self._advance()
            self._call(token)
        else:
            raise self._unexpected()
        self._suffixes()
        self._depth -= 1

    def _suffixes(self) -> None:
        while True:
            if self._takes("["):
                self._subscript()
            elif self._takes("."):
                if self._kind == '"':
                    self._string()
                else:
                    self._expect("[")
                    self._subscript()
            elif not (self._takes("index") or self._takes("?")):
                return

    def _subscript(self) -> None:
        if self._takes("]"):
            return
        if not self._takes(":"):
            self._query()
            if not self._takes(":") or self._kind == "]":
                self._expect("]")
                return
        self._query()
        self._expect("]")

    def _identity(self) -> None:
        """Or a format: a string may follow both."""
        if self._kind == '"':
            self._string()

    def _call(self, name: str) -> None:
        count = 0
        if self._takes("("):
            self._query()
            count = 1
            while self._takes(";"):
                self._query()
                count += 1
            self._expect(")")
        name = f"{name}/{count}"
        self._use(name, what="function", name=name)

    def _string(self) -> None:
        while not self._characters():
            self._query()
            if self._kind != ")":
                raise self._unexpected()

    def _array(self) -> None:
        if not self._takes("]"):
            self._query()
            self._expect("]")

    def _object(self) -> None:
        while not self._takes("}"):
            if self._takes("("):
                self._query()
                self._expect(")")
                self._expect(":")
                self._object_value()
            else:
                if self._kind == "variable":
                    self._use(self._token, what="variable", name=self._token)
                self._key()
                if self._takes(":"):
                    self._object_value()
            if self._kind != "}":
                self._expect(",")

    def _key(self) -> None:
        if self._kind == '"':
            self._string()
        elif self._kind in {"ident", "variable"} or self._kind in KEYWORDS:
            self._advance()
        else:
            raise self._unexpected()

    def _object_value(self) -> None:
        self._expression()
        while self._takes("|"):
            self._expression()

    def _if(self) -> None:
        self._query()
        self._expect("then")
        self._query()
        while self._takes("elif"):
            self._query()
            self._expect("then")
            self._query()
        if self._takes("else"):
            self._query()
        self._expect("end")

    def _try(self) -> None:
        self._term()
        if self._takes("catch"):
            self._term()

    def _reduce(self) -> None:
        self._loop(extracts=False)

    def _foreach(self) -> None:
        self._loop(extracts=True)

    def _loop(self, *, extracts: bool) -> None:
        self._expression()
        self._expect("as")
        since = len(self._names)
        self._pattern()
        self._expect("(")
        # The start does not see what is bound for each step.
        bound = self._forget(since)
        self._query()
        self._expect(";")
        self._declare(*bound)
        self._query()
        if extracts and self._takes(";"):
            self._query()
        self._expect(")")
        self._forget(since)

    def _break(self) -> None:
        label = self._expect("variable")
        self._use(f"label {label}", what="label", name=label)

    def _group(self) -> None:
        self._query()
        self._expect(")")

    def _pattern(self) -> None:
        self._enter()
        if self._kind == "variable":
            self._declare(self._token)
            self._advance()
        elif self._takes("["):
            self._pattern()
            while self._takes(","):
                self._pattern()
            self._expect("]")
        else:
            self._expect("{")
            self._pattern_entry()
            while self._takes(","):
                self._pattern_entry()
            self._expect("}")
        self._depth -= 1

    def _pattern_entry(self) -> None:
        alone = self._kind == "variable"
        if alone:
            self._declare(self._token)
        if self._takes("("):
            self._query(leaks=True)
            self._expect(")")
        else:
            self._key()
        if not alone or self._kind == ":":
            self._expect(":")
            self._pattern()

    _COMPOUND: ClassVar[dict[str, Callable[["_Program"], None]]] = {
        ".": _identity,
        "format": _identity,
        "[": _array,
        "{": _object,
        "(": _group,
        "if": _if,
        "try": _try,
        "reduce": _reduce,
        "foreach": _foreach,
        "break": _break,
    }
