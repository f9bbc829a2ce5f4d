"""`python -m tests.fuzz.child NAME SECONDS SEED FOLDER`: one target in this process."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.target import limit_memory, run_here
from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    name, seconds, seed, folder = sys.argv[1:]
    limit_memory(TARGETS[name])
    outcome = run_here(TARGETS[name], seconds=float(seconds), seed=int(seed), folder=Path(folder))
    sys.stdout.write(json.dumps(asdict(outcome)))
