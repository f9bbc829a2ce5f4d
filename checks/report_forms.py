"""All forms of a report by their names: those of `checks.reports`, and the lists that kubectl's users expect."""

from collections.abc import Callable

from checks.findings import CheckResult
from checks.reports import (
    as_data,
    as_json,
    closing,
    denials_first,
    github,
    gitlab,
    junit,
    markdown,
    sarif,
    text,
)
from tiphys.printable import visible
from tiphys.tables import table

HEAD = ("PLACE", "ACTION", "RULE", "OBJECT", "FIELD", "MESSAGE", "TO DO")


def wide(result: CheckResult, *, quiet: bool = False) -> str:
    """One line for each finding with all that is known of it, a summary last."""
    rows = [
        (
            str(found.place),
            "exempted" if found.exempted else found.action.value,
            found.rule,
            found.about,
            found.path,
            found.message,
            found.hint,
        )
        for found in denials_first(result.findings)
    ]
    rows += [
        (str(broken.place), "unreadable", "", "", "", broken.message, "") for broken in result.unreadable
    ]
    lines = table(HEAD, [[_cell(each) for each in row] for row in rows]) if rows else []
    if not quiet:
        lines += ["", *closing(result)] if lines else closing(result)
    return "".join(f"{line}\n" for line in lines)


def name(result: CheckResult) -> str:
    """The files, or the objects of a cluster, in which something was found or that could not be read; each once."""
    places = [found.place.file for found in result.findings]
    places += [broken.place.file for broken in result.unreadable]
    return "".join(f"{_cell(file)}\n" for file in dict.fromkeys(places))


def as_yaml(result: CheckResult) -> str:
    import yaml  # noqa: PLC0415 - the other forms need none of it

    # Not as Unicode: some of its characters turn a terminal's lines round.
    return str(yaml.safe_dump(as_data(result), sort_keys=False, width=1000))


def _cell(value: str) -> str:
    return visible(value).replace("\n", " ") or "-"


FORMATS: dict[str, Callable[[CheckResult], str]] = {
    "text": text,
    "wide": wide,
    "json": as_json,
    "yaml": as_yaml,
    "name": name,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "gitlab": gitlab,
    "markdown": markdown,
}


def written(result: CheckResult, form: str, *, quiet: bool = False) -> str:
    """`quiet`: without the summary that people get."""
    for_people = {"text": text, "wide": wide}
    return for_people[form](result, quiet=quiet) if form in for_people else FORMATS[form](result)
