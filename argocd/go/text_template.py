"""Go's text/template as far as it can be read without running it: what does not parse, and which values are plain.

The words of a problem are Go's. Nothing is executed: `{{.x.y}}` alone is understood, everything else is unknown.
The work is linear in the text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from argocd.go.template_tokens import (
    SPACES,
    ActionTokens,
    TemplateProblemError,
    action_tokens,
    after_comment,
    check_number,
    check_string,
    unexpected,
)

_BUILTINS = "and call html index slice js len not or print printf println urlquery eq ge gt le lt ne"
BUILTINS = frozenset(_BUILTINS.split())

_DEEPEST = 100
"""Parentheses in parentheses: far more than anybody writes, and few enough for Python's stack."""

_CONTROLS = frozenset({"if", "range", "with"})
_LITERALS = frozenset({"bool", "string", "number", "nil", "dot"})
_OPERANDS = _LITERALS | {"field", "variable", "identifier", "("}


@dataclass(frozen=True, slots=True)
class Variable:
    """`{{.x.y}}`: the keys to follow from the parameters."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Computed:
    """An action whose text is known to nobody who does not run it."""


Arguments = tuple[int, int | None]
"""How many a function takes, at least and at most; None where there is no end."""
Piece = str | Variable | Computed
COMPUTED = Computed()


@dataclass(frozen=True, slots=True)
class ParsedTemplate:
    """Text and actions in their order, or the first problem as Go tells it."""

    pieces: tuple[Piece, ...] = ()
    problem: str = ""


class _TooDeepError(Exception):
    """Nobody wrote this by hand, and nobody is told that it is wrong."""


def parse(text: str, *, functions: Mapping[str, Arguments]) -> ParsedTemplate:
    """`functions` are those besides Go's own."""
    if "{{" not in text:
        return ParsedTemplate((text,) if text else ())
    parser = _Parser(functions)
    try:
        parser.read(text)
    except TemplateProblemError as problem:
        return ParsedTemplate(problem=str(problem))
    except _TooDeepError:
        return ParsedTemplate((COMPUTED,))
    return ParsedTemplate(problem=parser.miscall) if parser.miscall else ParsedTemplate(tuple(parser.pieces))


@dataclass(slots=True)
class _Block:
    """What `{{end}}` closes; a definition has variables and loops of its own, and hides those outside."""

    kind: str
    variables: int
    outside: tuple[list[str], int] | None = None
    otherwise: bool = False


class _Parser:
    def __init__(self, functions: Mapping[str, Arguments]) -> None:
        self.pieces: list[Piece] = []
        self.miscall = ""
        self._functions = functions
        self._blocks: list[_Block] = []
        self._variables = ["$"]
        self._loops = 0

    def read(self, text: str) -> None:
        at = 0
        while (start := text.find("{{", at)) >= 0:
            inside = start + 2
            trims = text[inside : inside + 1] == "-" and text[inside + 1 : inside + 2] in tuple(SPACES)
            literal = text[at:start]
            self._add(literal.rstrip(SPACES) if trims else literal)
            inside += 2 if trims else 0
            if text.startswith("/*", inside):
                at = after_comment(text, inside)
                continue
            tokens, at = action_tokens(text, inside)
            self._action(ActionTokens(tokens))
        self._add(text[at:])
        if self._blocks:
            raise TemplateProblemError("unexpected EOF")

    def _add(self, piece: Piece) -> None:
        """Only what stands outside of blocks: what is inside one may appear, or not, or twice."""
        if piece and not self._blocks:
            self.pieces.append(piece)

    def _action(self, tokens: ActionTokens) -> None:
        kind, word = tokens.peek()
        handle = getattr(self, f"_on_{word}", None) if kind == "keyword" else None
        if handle is not None and not (word == "define" and self._blocks):
            tokens.take()
            handle(tokens)
            return
        plain = tokens.plain()
        self._pipeline(tokens, "command")
        self._add(Variable(plain) if plain else COMPUTED)

    def _open(self, kind: str, *, definition: bool = False) -> None:
        self._add(COMPUTED)
        outside = (self._variables, self._loops) if definition else None
        self._blocks.append(_Block(kind, len(self._variables), outside))
        if definition:
            self._variables, self._loops = ["$"], 0

    def _control(self, tokens: ActionTokens, kind: str) -> None:
        self._open(kind)
        self._pipeline(tokens, kind)
        self._loops += kind == "range"

    def _on_if(self, tokens: ActionTokens) -> None:
        self._control(tokens, "if")

    def _on_range(self, tokens: ActionTokens) -> None:
        self._control(tokens, "range")

    def _on_with(self, tokens: ActionTokens) -> None:
        self._control(tokens, "with")

    def _on_define(self, tokens: ActionTokens) -> None:
        kind, text = tokens.take()
        if kind != "string":
            raise unexpected((kind, text), "define clause")
        check_string(text)
        tokens.expect_end("define clause")
        self._open("define", definition=True)

    def _on_block(self, tokens: ActionTokens) -> None:
        kind, text = tokens.take()
        if kind != "string":
            raise unexpected((kind, text), "block clause")
        check_string(text)
        self._pipeline(tokens, "block clause")
        self._open("block", definition=True)

    def _on_template(self, tokens: ActionTokens) -> None:
        kind, text = tokens.take()
        if kind != "string":
            raise unexpected((kind, text), "template clause")
        check_string(text)
        if tokens.peek()[0] != "end":
            self._pipeline(tokens, "template clause")
        self._add(COMPUTED)

    def _on_else(self, tokens: ActionTokens) -> None:
        chained = tokens.peek()
        if chained not in {("keyword", "if"), ("keyword", "with")}:
            tokens.expect_end("else")
        if not self._blocks:
            raise TemplateProblemError("unexpected {{else}}")
        block = self._blocks[-1]
        if block.kind not in _CONTROLS:
            raise TemplateProblemError(f"unexpected {{{{else}}}} in {block.kind} clause")
        if block.otherwise:
            raise TemplateProblemError("expected end; found {{else}}")
        if chained[0] != "keyword":
            if block.kind == "range":
                self._loops -= 1
            block.otherwise = True
        elif chained[1] == block.kind:
            tokens.take()
            self._pipeline(tokens, block.kind)
        else:
            raise unexpected(chained, "input")

    def _on_end(self, tokens: ActionTokens) -> None:
        tokens.expect_end("end")
        if not self._blocks:
            raise TemplateProblemError("unexpected {{end}}")
        block = self._blocks.pop()
        if block.outside:
            self._variables, self._loops = block.outside
        else:
            del self._variables[block.variables :]
            self._loops -= block.kind == "range" and not block.otherwise

    def _on_break(self, tokens: ActionTokens, word: str = "break") -> None:
        if tokens.peek()[0] != "end":
            raise unexpected(tokens.peek(), f"{{{{{word}}}}}")
        if not self._loops:
            raise TemplateProblemError(f"{{{{{word}}}}} outside {{{{range}}}}")

    def _on_continue(self, tokens: ActionTokens) -> None:
        self._on_break(tokens, "continue")

    def _pipeline(self, tokens: ActionTokens, context: str, *, end: str = "end", depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise _TooDeepError
        self._declarations(tokens, context)
        stage = 0
        while (token := tokens.peek())[0] != end:
            if token[0] not in _OPERANDS:
                raise unexpected(token, context)
            stage += 1
            first = self._command(tokens, depth=depth, piped=stage > 1)
            if stage > 1 and first in _LITERALS:
                raise TemplateProblemError(f"non executable command in pipeline stage {stage}")
        if not stage:
            raise TemplateProblemError(f"missing value for {context}")
        tokens.take()

    def _declarations(self, tokens: ActionTokens, context: str) -> None:
        declared = 0
        while tokens.peek()[0] == "variable":
            after = tokens.after()
            if after[0] in {"declare", "="}:
                self._variables.append(tokens.take()[1])
                tokens.take()
                return
            if after != ("character", ","):
                return
            self._variables.append(tokens.take()[1])
            tokens.take()
            declared += 1
            if context != "range" or declared > 1:
                raise TemplateProblemError(f"too many declarations in {context}")
            if tokens.peek()[0] not in {"variable", "end", ")"}:
                raise TemplateProblemError("range can only initialize variables")

    def _command(self, tokens: ActionTokens, *, depth: int, piped: bool) -> str:
        """The kind of its first operand."""
        _, name = tokens.peek()
        first = ""
        operands = 0
        while True:
            kind = self._operand(tokens, depth=depth)
            first = first or kind
            operands += bool(kind)
            token = tokens.directly()
            if token[0] == "space":
                tokens.skip()
                continue
            if token[0] in {"end", ")"}:
                break
            tokens.skip()
            if token[0] == "|":
                break
            raise unexpected(token, "operand")
        if not first:
            raise TemplateProblemError("empty command")
        if first == "identifier":
            self._call(name, operands - 1 + piped)
        return first

    def _call(self, name: str, given: int) -> None:
        """Go counts when it runs the call, after all else is parsed; one in a block may never be run."""
        least, most = self._functions.get(name, (0, None))
        if self._blocks or self.miscall or (least <= given and (most is None or given <= most)):
            return
        wanted = f"at least {least}" if most is None else most
        self.miscall = f"wrong number of args for {name}: want {wanted} got {given}"

    def _operand(self, tokens: ActionTokens, *, depth: int) -> str:
        """What it is, a chain where fields follow, or nothing where none stands."""
        kind, text = tokens.peek()
        if kind not in _OPERANDS:
            return ""
        tokens.take()
        if kind == "identifier" and text not in BUILTINS and text not in self._functions:
            raise TemplateProblemError(f'function "{text}" not defined')
        if kind == "variable" and text not in self._variables:
            raise TemplateProblemError(f'undefined variable "{text}"')
        if kind == "string":
            check_string(text)
        if kind == "number":
            check_number(text)
        if kind == "(":
            self._pipeline(tokens, "parenthesized pipeline", end=")", depth=depth + 1)
        if tokens.directly()[0] == "field" and kind in _LITERALS:
            raise TemplateProblemError(f"unexpected . after term {json.dumps(text, ensure_ascii=False)}")
        while tokens.directly()[0] == "field":
            tokens.skip()
            kind = "chain"
        return kind
