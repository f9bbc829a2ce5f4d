"""`tiphys match`: tries patterns the way Argo CD would, and says where it would surprise a reader."""

from typing import Any

import click

from argocd import globs
from argocd.explanations.explanation import ExplanationStep, Mark
from argocd.globs import Verdict
from argocd.globs.surprises import reads_as, surprises
from argocd.go import regexp2
from argocd.projects import pattern_lists
from argocd.projects.permissions import source_permitted
from argocd.settings import git_urls
from cli.explanations.explanation import show_step
from cli.options import format_option
from cli.output import is_data, show_data
from tiphys.printable import visible


@click.command()
@click.argument("patterns", nargs=-1, required=True)
@click.option("--text", "texts", multiple=True, required=True, help="What to compare with; may be repeated.")
@click.option(
    "--repository",
    is_flag=True,
    help="As in sourceRepos: * and ? stop at a slash, but * alone is all; upper case and .git do not count.",
)
@format_option()
def command(*, patterns: tuple[str, ...], texts: tuple[str, ...], repository: bool, form: str) -> None:
    """Compare patterns of a project with names as Argo CD and argocd-agent do.

    A ! before a pattern denies, /…/ is a regular expression. Ends with 0 if every text is permitted by some
    pattern and denied by none, else with 1.
    """
    tried_as = _tried_repository if repository else _tried
    told = [[tried_as(pattern, text) for pattern in patterns] for text in texts]
    if repository:
        project = {"spec": {"sourceRepos": patterns}}
        permitted = [source_permitted(project, text) is Verdict.YES for text in texts]
    else:
        permitted = [
            any(one["matches"] == "yes" and not one["denies"] for one in tried)
            and not any(one["matches"] == "yes" and one["denies"] for one in tried)
            for tried in told
        ]
    if is_data(form):
        data = [
            {"text": text, "permitted": fits, "patterns": tried}
            for text, fits, tried in zip(texts, permitted, told, strict=True)
        ]
        show_data(data, form)
    else:
        for text, fits, tried in zip(texts, permitted, told, strict=True):
            click.secho(
                visible(f"{text or '(the empty text)'}: {'permitted' if fits else 'not permitted'}"),
                fg="green" if fits else "red",
                bold=True,
            )
            for one in tried:
                _show(one)
    if not all(permitted):
        raise click.exceptions.Exit(1)


def _tried(pattern: str, text: str) -> dict[str, Any]:
    denies = pattern_lists.is_denial(pattern)
    bare = pattern.removeprefix("!") if denies else pattern
    if pattern_lists.is_expression(bare) and len(bare) > 1:
        return {
            "pattern": pattern,
            "denies": denies,
            "kind": "regular expression",
            "matches": pattern_lists.in_list((bare,), text).value,
            "problem": regexp2.compiled(bare[1:-1]).error,
            "notes": [],
        }
    return _as_glob(pattern, bare, text, denies=denies, separators="")


def _tried_repository(pattern: str, text: str) -> dict[str, Any]:
    """Both sides as Argo CD compares them."""
    denies = pattern_lists.is_denial(pattern)
    bare = git_urls.normalize(pattern.removeprefix("!") if denies else pattern)
    return _as_glob(pattern, bare, git_urls.normalize(text), denies=denies, separators="/")


def _as_glob(pattern: str, bare: str, text: str, *, denies: bool, separators: str) -> dict[str, Any]:
    everything = bool(separators) and bare == "*" and not denies
    verdict = Verdict.YES if everything else globs.match(bare, text, separators)
    return {
        "pattern": pattern,
        "denies": denies,
        "kind": "glob",
        "matches": verdict.value,
        "problem": globs.compile_error(bare, separators),
        "notes": [] if everything else _notes(bare, text, separators, verdict),
    }


_TROUBLES = {
    Verdict.PANIC: "Argo CD would panic on this comparison",
    Verdict.HANG: "Argo CD would not come to an end with this comparison",
    Verdict.UNKNOWN: "it cannot be told what Argo CD makes of this",
}


def _notes(pattern: str, text: str, separators: str, verdict: Verdict) -> list[str]:
    notes = [_TROUBLES[verdict]] if verdict in _TROUBLES else []
    expected = reads_as(pattern, text, separators)
    if expected is not None and verdict in {Verdict.YES, Verdict.NO} and expected != (verdict is Verdict.YES):
        notes.append(f"a textbook's glob would {'match' if expected else 'not match'} here")
    if verdict is Verdict.NO and globs.match(pattern.lower(), text.lower(), separators) is Verdict.YES:
        notes.append("differs in upper and lower case alone, and that counts")
    return [
        *notes,
        *(found.message for found in surprises(pattern, separators) if found.message not in notes),
    ]


def _show(one: dict[str, Any]) -> None:
    matched = one["matches"] == "yes"
    if one["denies"]:
        mark = Mark.NO if matched else Mark.NOTE
        words = {"yes": "denies it", "no": "does not deny it"}
    else:
        mark = Mark.of(matched)
        words = {"yes": "matches", "no": "does not match"}
    said = words.get(one["matches"], one["matches"])
    problem = [f"does not compile: {one['problem']}"] if one["problem"] else []
    show_step(ExplanationStep(mark, f"{one['pattern']}: {said}"), *problem, *one["notes"])
