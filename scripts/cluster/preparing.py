"""Everything that takes long the first time: binaries, definitions, the seed."""

from scripts.cluster.binaries import Binaries, Say, find_binaries, locked, tell
from scripts.cluster.controlplane import Cluster
from scripts.cluster.definitions import find_definitions
from scripts.cluster.seeding import harvest, seed_folder


def prepare(*, say: Say = tell) -> Binaries:
    """Afterwards a cluster starts in seconds. Raises `NoBinariesError` where there can be none."""
    binaries = find_binaries(say=say)
    definitions = find_definitions()
    seed = seed_folder(binaries, definitions)
    if not seed.exists():
        seed.parent.mkdir(parents=True, exist_ok=True)
        with locked(seed.with_suffix(".lock"), say=say):
            if not seed.exists():
                say(f"cluster: preparing a seed with the definitions of {definitions.origin}")
                harvest(Cluster(binaries=binaries, seeded=False).start(), seed)
    return binaries
