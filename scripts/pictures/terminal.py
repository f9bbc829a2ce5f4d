"""What a command prints, as a terminal shows it: a page to take a picture of."""

import html
import re

COLOURS = {"√": "#3fb950", "‼": "#d29922", "×": "#f85149"}  # noqa: RUF001 - the marks of `tiphys doctor`
STYLE = """
body { margin: 0; padding: 24px; background: #ffffff; }
main { background: #0d1117; color: #e6edf3; border-radius: 10px; overflow: hidden; }
header { background: #161b22; color: #8b949e; padding: 10px 16px; font: 13px system-ui, sans-serif; }
pre { margin: 0; padding: 16px; font: 14px/1.45 "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
b { color: #ffffff; }
"""


def terminal_page(command: str, printed: str) -> str:
    """The marks coloured as the command does it, the titles of sections bold."""
    text = html.escape(printed.rstrip("\n"))
    for mark, colour in COLOURS.items():
        text = text.replace(mark, f'<span style="color: {colour}">{mark}</span>')
    text = re.sub(r"^([a-z-]+)\n(?=-+$)", r"<b>\1</b>\n", text, flags=re.MULTILINE)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(command)}</title>'
        f"<style>{STYLE}</style><main><header>$ {html.escape(command)}</header><pre>{text}</pre></main></html>"
    )
