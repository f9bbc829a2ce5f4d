"""What an agent may read and change of its cluster for the control plane, from the roles in manifests/."""

from pathlib import Path

import yaml

PAGE = "docs/live-resources-rights.md"
MANIFESTS = Path(__file__).parents[2] / "manifests"
READS = MANIFESTS / "base" / "agent" / "live-resources.yaml"
WRITES = MANIFESTS / "components" / "live-resources-edit" / "role.yaml"

HEAD = """# What may an agent see and change of its cluster?

Only objects of its own Applications, whatever stands here ([live resources](live-resources.md)). No Secrets: whoever wants
them shown adds a role of their own, and so for kinds of their own definitions.
"""


def generate() -> str:
    return "\n".join(
        [
            HEAD,
            "## By default",
            "",
            *_table(READS),
            "",
            "## With the component `live-resources-edit`, besides",
            "",
            *_table(WRITES),
            "",
        ]
    )


def _table(path: Path) -> list[str]:
    rows = ["| group | kinds | verbs |", "|---|---|---|"]
    for thing in yaml.safe_load_all(path.read_text()):
        for rule in thing.get("rules", ()):
            group = rule["apiGroups"][0] or "core"
            kinds = ", ".join(f"`{kind}`" for kind in rule["resources"])
            rows.append(f"| {group} | {kinds} | {', '.join(rule['verbs'])} |")
    return rows
