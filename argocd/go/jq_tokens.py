"""The words of a program in jq's language, one after the other, as gojq tells them apart."""

import re

from argocd.shortening import shortened

_SHOWN = 60
KEYWORDS = frozenset(
    {"or", "and", "module", "import", "include", "def", "as", "label", "break", "null", "true", "false"}
    | {"if", "then", "elif", "else", "end", "try", "catch", "reduce", "foreach"}
)
# A backslash at a comment's end takes the next line along.
_SKIPPED = re.compile(r"(?:[ \t\r\n]|#(?:\\(?:[\\\n]|\r\n?)?|[^\\\r\n])*+)*+")
_TOKEN = re.compile(
    r"""
      (?P<qualified>[A-Za-z_]\w*+::[A-Za-z_]\w*+)
    | (?P<qualified_variable>\$[A-Za-z_]\w*+::[A-Za-z_]\w*+)
    | (?P<ident>[A-Za-z_]\w*+)
    | (?P<variable>\$[A-Za-z_]\w*+)
    | (?P<index>\.[A-Za-z_]\w*+)
    | (?P<format>@\w++)
    | (?P<number>(?>[0-9]+\.?[0-9]*|\.[0-9]+)(?:(?>[eE][+-]?[0-9]+)|(?!\.))(?![A-Za-z_]))
    | (?P<invalid>\.?[0-9][\w.]*+)
    | (?P<operator>\?//|//=|//|\.\.|[|+\-*/%=!<>]=|[.|,:;()\[\]{}?+\-*/%=<>"])
    """,
    re.VERBOSE | re.ASCII,
)
_CHARACTERS = re.compile(r'(?:[^"\\]|\\(?:["/\\bfnrt]|u[0-9a-fA-F]{4}))*+')


class JqSyntaxError(Exception):
    """The text is for people."""


def _shown(token: str) -> str:
    return shortened(token, _SHOWN) if token.isprintable() else repr(token)


class JqTokens:
    """With one token ahead. The kind of a keyword or an operator is its text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self._kind = self._token = ""
        self._advance()

    def _advance(self) -> None:
        text = self._text
        skipped = _SKIPPED.match(text, self._end)
        start = skipped.end() if skipped else self._end
        found = _TOKEN.match(text, start)
        if found:
            self._token, self._end = found[0], found.end()
            kind = found.lastgroup or ""
            by_text = kind == "operator" or (kind == "ident" and found[0] in KEYWORDS)
            self._kind = found[0] if by_text else kind
        else:
            self._kind, self._token = ("unknown", text[start]) if start < len(text) else ("eof", "")
            self._end = start

    def _takes(self, kind: str) -> bool:
        if self._kind != kind:
            return False
        self._advance()
        return True

    def _expect(self, kind: str) -> str:
        if self._kind != kind:
            raise self._unexpected()
        token = self._token
        self._advance()
        return token

    def _unexpected(self) -> JqSyntaxError:
        # The last parenthesis is Argo CD's.
        if self._kind == "eof" or (self._kind == ")" and self._end == len(self._text)):
            return JqSyntaxError("unexpected end")
        what = "invalid" if self._kind == "invalid" else "unexpected"
        return JqSyntaxError(f'{what} token "{_shown(self._token)}"')

    def _characters(self) -> bool:
        """Whether they end with the string; else a query follows, whose first token is the next."""
        found = _CHARACTERS.match(self._text, self._end)
        at = found.end() if found else self._end
        quoted = self._text[at : at + 2]
        if not (quoted.startswith('"') or quoted == "\\("):
            reason = (
                f"invalid escape sequence {_shown(quoted)} in string literal"
                if quoted[1:]
                else "unterminated string literal"
            )
            raise JqSyntaxError(reason)
        ends = quoted[0] == '"'
        self._end = at + (1 if ends else 2)
        self._advance()
        return ends
