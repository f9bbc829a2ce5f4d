"""What is between the braces of a Go template, word by word, and what Go says where a word is none."""

import json
import re

_SHOWN = 10
SPACES = " \t\r\n"
_TERMINATORS = frozenset(f"{SPACES}.,|:()")
_KEYWORDS = frozenset(
    {"block", "break", "continue", "define", "else", "end", "if", "range", "nil", "template", "with"}
)

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n]+)
    | (?P<string>"(?:\\[^\n]|[^"\\\n])*"|`[^`]*`)
    | (?P<character>'(?:\\[^\n]|[^'\\\n])*')
    | (?P<declare>:=)
    | (?P<variable>\$\w*)
    | (?P<number>[+-]?\.?[0-9][\w.]*(?:(?<=[eEpP])[+-]\w+)?)
    | (?P<field>\.\w+)
    | (?P<identifier>\w+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = re.compile(
    r"""(?:[^\\]|\\(?:[abfnrtv\\"]|x[0-9a-fA-F]{2}|[0-7]{3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*""", re.DOTALL
)
_UNTERMINATED = {
    '"': "unterminated quoted string",
    "`": "unterminated raw quoted string",
    "'": "unterminated character constant",
}

Token = tuple[str, str]


class TemplateProblemError(Exception):
    """What Go says of a template that does not parse."""


class ActionTokens:
    """Those of one action, with a place in them."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def directly(self) -> Token:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def skip(self) -> None:
        self._at += 1

    def peek(self) -> Token:
        """The next one that is no space."""
        while self.directly()[0] == "space":
            self._at += 1
        token = self.directly()
        if token[0] == "error":
            raise TemplateProblemError(token[1])
        return token

    def take(self) -> Token:
        token = self.peek()
        self._at += 1
        return token

    def after(self) -> Token:
        """The one behind the next."""
        at = self._at
        self.take()
        token = self.peek()
        self._at = at
        return token

    def expect_end(self, context: str) -> None:
        token = self.take()
        if token[0] != "end":
            raise unexpected(token, context)

    def plain(self) -> tuple[str, ...]:
        """The keys, where the action is a chain of fields and nothing else."""
        found = [token for token in self._tokens[:-1] if token[0] != "space"]
        spaces = [index for index, token in enumerate(self._tokens) if token[0] == "space"]
        inner = any(0 < index < len(self._tokens) - 2 for index in spaces)
        if inner or any(kind != "field" for kind, _ in found):
            return ()
        return tuple(text[1:] for _, text in found)


def action_tokens(text: str, at: int) -> tuple[list[Token], int]:
    """The action that begins here, up to its end or its first mistake, and where the text goes on."""
    tokens: list[Token] = []
    depth = 0
    while True:
        if text.startswith("}}", at):
            tokens.append(("end", "}}") if not depth else ("error", "unclosed left paren"))
            return tokens, at + 2
        found = _TOKEN.match(text, at)
        if found is None:
            return [*tokens, ("error", "unclosed action")], len(text)
        kind, value, at = str(found.lastgroup), found[0], found.end()
        if kind == "space" and text.startswith("-}}", at):
            if len(value) > 1:
                tokens.append((kind, value))
            tokens.append(("end", "}}") if not depth else ("error", "unclosed left paren"))
            return tokens, at + 3 + _spaces_at(text, at + 3)
        depth += {"(": 1, ")": -1}.get(value, 0)
        token = ("error", "unexpected right paren") if depth < 0 else _token(kind, value, text, at)
        tokens.append(token)
        if token[0] == "error":
            return tokens, len(text)


def _token(kind: str, value: str, text: str, at: int) -> Token:
    if kind in {"variable", "field", "identifier"} and not _ends(text, at):
        return "error", f"bad character {_named(text[at])}"
    if kind == "identifier":
        if value in {"true", "false"}:
            return "bool", value
        return ("nil", value) if value == "nil" else ("keyword" if value in _KEYWORDS else kind, value)
    if kind == "character":
        return "number", value
    if kind != "other":
        return kind, value
    return _other(value, text, at)


def _other(value: str, text: str, at: int) -> Token:
    if value in _UNTERMINATED:
        return "error", _UNTERMINATED[value]
    if value == ".":
        return ("dot", value) if _ends(text, at) else ("error", f"bad character {_named(text[at])}")
    if value in "()|=":
        return value, value
    if value == ":":
        return "error", "expected :="
    if value in "+-":
        return "error", f'illegal number syntax: "{value}"'
    if value.isascii() and value.isprintable():
        return "character", value
    return "error", f"unrecognized character in action: {_named(value)}"


def _ends(text: str, at: int) -> bool:
    return at >= len(text) or text[at] in _TERMINATORS or text.startswith("}}", at)


def _spaces_at(text: str, at: int) -> int:
    found = _TOKEN.match(text, at)
    return len(found[0]) if found and found.lastgroup == "space" else 0


def after_comment(text: str, at: int) -> int:
    end = text.find("*/", at + 2)
    if end < 0:
        raise TemplateProblemError("unclosed comment")
    end += 2
    if text.startswith("}}", end):
        return end + 2
    if text[end : end + 1] in tuple(SPACES) and text.startswith("-}}", end + 1):
        return end + 4 + _spaces_at(text, end + 4)
    raise TemplateProblemError("comment ends before closing delimiter")


def _named(character: str) -> str:
    """As Go's %#U."""
    code = f"U+{ord(character):04X}"
    return f"{code} '{character}'" if character.isprintable() else code


def unexpected(token: Token, context: str) -> TemplateProblemError:
    kind, text = token
    if kind == "error":
        return TemplateProblemError(text)
    shown = f"<{text}>" if kind == "keyword" else _quoted(text)
    return TemplateProblemError(f"unexpected {shown} in {context}")


def _quoted(text: str) -> str:
    """As Go shows a token: its first ten characters."""
    return json.dumps(text[:_SHOWN], ensure_ascii=False) + ("..." if len(text) > _SHOWN else "")


def check_string(text: str) -> None:
    if text[0] == '"' and not _ESCAPES.fullmatch(text[1:-1]):
        raise TemplateProblemError("invalid syntax")


def check_number(text: str) -> None:
    """A character is a number too."""
    if text[0] == "'":
        inner = text[1:-1]
        if len(inner) == 1 or inner.startswith("\\"):
            return
        raise TemplateProblemError(f"malformed character constant: {text}" if inner else "invalid syntax")
    # What looks like a whole number and is none (08) is too large for Go, or what it calls so.
    readers = (float, float.fromhex) if set(".eEpPi") & set(text) else ()
    for read in (_whole, *readers):
        try:
            read(text.removesuffix("i"))
        except (ValueError, OverflowError):
            continue
        return
    digits = text.lstrip("+-").isdigit()
    raise TemplateProblemError(f'{"integer overflow" if digits else "bad number syntax"}: "{text}"')


def _whole(text: str) -> float:
    return int(text, 0)
