"""`python -m tests.cluster.argocd.bad_objects`: where we and a real Argo CD disagree; --renew asks one anew."""

import argparse
import json
import sys

from scripts.cluster.argocd.installation import ArgoCd
from scripts.cluster.argocd.programs import argocd_version, find_programs
from scripts.cluster.controlplane import Cluster
from scripts.cluster.preparing import prepare
from tests.cluster.argocd.bad_objects.comparison import VERDICTS, compared
from tests.cluster.argocd.bad_objects.table import bad_objects, good_objects
from tests.cluster.argocd.bad_objects.verdicts import ask_argo_cd


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renew", action="store_true", help="start an Argo CD and write verdicts.json")
    if parser.parse_args().renew:
        binaries, programs = prepare(), find_programs()
        with Cluster(name="verdicts", binaries=binaries) as cluster:
            cases = [*good_objects().values(), *bad_objects().values()]
            verdicts = ask_argo_cd(ArgoCd(cluster, programs=programs).start(), cases)
        stored = {"release": argocd_version(), "verdicts": verdicts}
        VERDICTS.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    for each in compared():
        print(each)  # noqa: T201 - a table for people
    return 0


if __name__ == "__main__":
    sys.exit(main())
