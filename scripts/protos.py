"""Generates the messages of `sidecars/wire` from their descriptions: `python -m scripts.protos [folder]`.

The output is committed, so that installing needs no compiler; a test compares it with a fresh run.
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "sidecars" / "wire" / "protos"
# Where the messages are imported from. The compiler derives Python imports from the path by which it
# finds a file, hence the mapping of this path to the folder of the sources.
PACKAGE = "sidecars/wire/generated"


def generate(root: Path) -> None:
    """Write the modules and their type stubs below `root`/sidecars/wire/generated."""
    names = sorted(source.name for source in SOURCES.glob("*.proto"))
    well_known = Path(protoc.__file__).parent / "_proto"
    (root / PACKAGE).mkdir(parents=True, exist_ok=True)
    arguments = [
        "protoc",
        f"--proto_path={PACKAGE}={SOURCES}",
        f"--proto_path={well_known}",
        f"--python_out={root}",
        f"--pyi_out={root}",
        *(f"{PACKAGE}/{name}" for name in names),
    ]
    if protoc.main(arguments) != 0:
        sys.exit("the protobuf compiler refused the files above")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
