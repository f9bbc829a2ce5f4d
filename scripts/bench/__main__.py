"""`python -m scripts.bench [NAME …]`: runs the benchmarks of this folder and prints their ratios."""

import argparse
import asyncio
import importlib
import inspect
import json
import pkgutil
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from scripts.bench.figures import Figure

HERE = Path(__file__).parent
NO_BENCHMARKS = {
    "__main__",
    "asking",
    "crowds",
    "figures",
    "go_replication",
    "live_replication",
    "live_sidecars",
    "paired",
    "pods_api",
    "replication_lag",
    "reviewing",
    "sidecar_processes",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these; all without any")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    known = sorted(each.name for each in pkgutil.iter_modules([str(HERE)]) if each.name not in NO_BENCHMARKS)
    if unknown := set(arguments.names) - set(known):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    failed = False
    figures: dict[str, list[Figure]] = {}
    for name in arguments.names or known:
        try:
            figures[name] = _run(name)
        except Exception:  # noqa: BLE001 - the others still have something to tell
            traceback.print_exc()
            failed = True
    if arguments.json:
        shown = {name: [asdict(figure) for figure in each] for name, each in figures.items()}
        arguments.json.write_text(json.dumps(shown, indent=1))
    return 1 if failed else 0


def _run(name: str) -> list[Figure]:
    module = importlib.import_module(f"scripts.bench.{name}")
    print(f"\n{module.NAME}", flush=True)
    outcome = module.run()
    figures: list[Figure] = asyncio.run(outcome) if inspect.iscoroutine(outcome) else outcome
    for line in table(figures):
        print(line, flush=True)
    return figures


def table(figures: list[Figure]) -> list[str]:
    rows = [("", "ours", "theirs", "ratio", "goal", "", "")]
    rows += [
        (
            figure.what,
            f"{_number(figure.ours)} {figure.unit}",
            f"{_number(figure.theirs)} {figure.unit}" if figure.theirs is not None else "",
            f"{figure.ratio:.2f}x" if figure.ratio is not None else "",
            _goal(figure),
            {True: "met", False: "MISSED", None: ""}[figure.met],
            f"than {figure.than}" if figure.than else "",
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    bound = f"{_number(abs(figure.goal))}{'x' if figure.theirs is not None else ' ' + figure.unit}"
    return f"{'≥' if figure.goal < 0 else '≤'} {bound}"


def _number(value: float | None) -> str:
    return f"{value:.3g}" if value is not None and abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - three digits either way


if __name__ == "__main__":
    sys.exit(main())
