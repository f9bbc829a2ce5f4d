"""Every metric of every room, from the code that counts it."""

import importlib
import pkgutil

from tiphys import metrics

PAGE = "docs/metrics.md"
ROOMS = ("certs", "checks", "cli", "demo", "kube", "sidecars", "tiphys", "webhook")

HEAD = """# Metrics

Labels have few values by design: rules, kinds, results, configured agents; never names of objects or users. The one
exception is Argo CD's own `argocd_app_info`, which is off unless the principal has `--app-info-limit`.
"""


def generate() -> str:
    for room in ROOMS:
        _import_all(room)
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.text} |"
        for each in sorted(metrics.described, key=lambda each: each.name)
        if not each.name.startswith("tiphys_test_")
    ]
    if not rows:
        return f"{HEAD}\nNothing is counted yet.\n"
    return "\n".join([HEAD, "| name | kind | labels | |", "|---|---|---|---|", *rows, ""])


def _import_all(room: str) -> None:
    try:
        package = importlib.import_module(room)
    except ModuleNotFoundError:
        return  # a room appears with its first tenant
    for found in pkgutil.walk_packages(package.__path__, f"{room}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
