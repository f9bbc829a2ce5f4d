"""`make sbom`: what the image holds, from the lock and the metadata of what is installed.

CycloneDX is plain JSON, so that no further package is needed to say which packages there are.
"""

import importlib.metadata
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tiphys import __version__

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "runtime.txt"
SPEC = "1.6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    name: str
    version: str
    hashes: tuple[str, ...]
    licence: str
    home: str


def locked(text: str) -> dict[str, tuple[Requirement, tuple[str, ...]]]:
    """Name -> requirement and hashes, of those that this machine's markers select."""
    found = {}
    for entry in re.split(r"\n(?=\S)", text.strip()):
        requirement = Requirement(entry.split("\\\n", maxsplit=1)[0].strip())
        if requirement.marker is None or requirement.marker.evaluate():
            found[requirement.name] = requirement, tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
    return found


def packages(text: str) -> list[Package]:
    made = []
    for name, (requirement, hashes) in sorted(locked(text).items()):
        metadata = importlib.metadata.metadata(name)
        version = next(iter(requirement.specifier)).version
        if metadata["Version"] != version:
            raise SystemExit(
                f"{name} {metadata['Version']} is installed, {version} is locked: run `make test`"
            )
        made.append(
            Package(
                name=name, version=version, hashes=hashes, licence=_licence(metadata), home=_home(metadata)
            )
        )
    return made


def _licence(metadata: Any) -> str:
    """The expression where there is one, else the classifiers, else the first line of the field."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classified = [
        classifier.rsplit(" :: ", maxsplit=1)[1]
        for classifier in metadata.get_all("Classifier") or ()
        if classifier.startswith("License :: ") and not classifier.endswith("OSI Approved")
    ]
    if classified:
        return ", ".join(classified)
    return str(metadata.get("License") or "unknown").splitlines()[0].strip()


def _home(metadata: Any) -> str:
    if page := metadata.get("Home-page"):
        return str(page)
    for entry in metadata.get_all("Project-URL") or ():
        label, _, address = entry.partition(", ")
        if label.lower() in {"homepage", "source", "source code", "repository", "github"}:
            return str(address)
    return ""


def bill_of_materials(found: list[Package]) -> dict[str, Any]:
    """The same lock gives the same bytes: neither a time nor a serial number is in it."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "tiphys",
                "name": "tiphys",
                "version": __version__,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{package.name}@{package.version}",
                "name": package.name,
                "version": package.version,
                "purl": f"pkg:pypi/{package.name}@{package.version}",
                "licenses": [{"license": {"name": package.licence}}],
                # One of these is what was installed: a lock names the wheels of every platform.
                "properties": [
                    {"name": "tiphys:locked-sha256", "value": digest} for digest in package.hashes
                ],
                **(
                    {"externalReferences": [{"type": "website", "url": package.home}]} if package.home else {}
                ),
            }
            for package in found
        ],
        "dependencies": [
            {"ref": "tiphys", "dependsOn": [f"pkg:pypi/{one.name}@{one.version}" for one in found]}
        ],
    }


def licence_list(found: list[Package]) -> str:
    rows = [f"{one.name} {one.version}\t{one.licence}\t{one.home}" for one in found]
    return "\n".join([f"tiphys {__version__}\tApache-2.0\t", *rows]) + "\n"


def main(folder: Path) -> None:
    found = packages(LOCK.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sbom.cdx.json").write_text(json.dumps(bill_of_materials(found), indent=1) + "\n")
    (folder / "licences.tsv").write_text(licence_list(found))
    unknown = [one.name for one in found if one.licence.lower() == "unknown"]
    print(f"{len(found)} packages: {folder / 'sbom.cdx.json'}, {folder / 'licences.tsv'}")
    if unknown:
        raise SystemExit(f"no licence is known of: {', '.join(unknown)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build")
