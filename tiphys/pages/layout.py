"""Templates and headers of pages for people.

A page extends `layout.html` and serves `style_sheet()` beside itself as `STYLE_PATH`. Addresses in templates are
relative: the API server's proxy puts a path before them.
"""

from functools import cache, lru_cache
from importlib.resources import files

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

STYLE_PATH = "tiphys.css"
STYLE_TYPE = "text/css; charset=utf-8"
SCRIPT_TYPE = "text/javascript; charset=utf-8"
HTML_TYPE = "text/html; charset=utf-8"

HEADERS = {
    # Nothing from elsewhere and nothing inline: a name that somebody gave an object can never become a script.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Of every answer that a browser shows."""


def loader(package: str) -> BaseLoader:
    """The templates of a package, on those that all share."""
    return ChoiceLoader([PackageLoader(package), PackageLoader("tiphys.pages")])


def environment(package: str) -> Environment:
    """Where Flask does not make one."""
    made = Environment(
        loader=loader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["bar"] = bar
    made.filters["with_code"] = with_code
    return made


@lru_cache(maxsize=1024)
def bar(title: str, parts: tuple[tuple[str, int], ...]) -> Markup:
    """Parts of a whole, said in words to whoever does not see it. Not a macro: a page may have thousands."""
    total = sum(count for _, count in parts)
    there = [(name, count) for name, count in parts if count]
    words = ", ".join(f"{count} {name}" for name, count in there) or "none"
    drawn, at = [], 0.0
    for name, count in there:
        width = 100 * count / total
        drawn.append(f'<rect class="part-{escape(name)}" x="{at:.2f}" width="{width:.2f}" height="8"/>')
        at += width
    return Markup(  # noqa: S704 - what was given is escaped
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(title)}: {escape(words)}"><title>{escape(title)}: {escape(words)}</title>{"".join(drawn)}</svg>'
    )


def with_code(text: str) -> Markup:
    """What stands between backticks is something to type."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


@cache
def style_sheet() -> bytes:
    return files("tiphys.pages").joinpath("static", STYLE_PATH).read_bytes()
