"""Shows on any cluster that an installation does what it must.

    python -m scripts.acceptance --kubeconfig control-plane.yaml
    python -m scripts.acceptance --kubeconfig control-plane.yaml --workload prod.yaml --agent prod

The webhook must be running (manifests/ or `tiphys webhook`), for the second form a principal and the managed
agent too. It registers the webhook and takes it out again at the end unless told to keep it.
"""

import argparse
import sys
import time
from pathlib import Path

from scripts.acceptance.clusters import FailedError, Place
from scripts.acceptance.steps import Acceptance

ALONE = ("register", "deny", "warn", "mutate", "inject")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts.acceptance", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="the control plane's, as an administrator"
    )
    parser.add_argument(
        "--url", default="", help="where the API server finds the webhook if not by its Service"
    )
    parser.add_argument("--namespace", default="tiphys-system", help="Tiphys's namespace")
    parser.add_argument("--argocd-namespace", default="argocd")
    parser.add_argument("--workload", type=Path, help="the kubeconfig of a managed agent's cluster")
    parser.add_argument("--workload-argocd-namespace", default="argocd")
    parser.add_argument("--agent", default="", help="the name of that agent")
    parser.add_argument("--kubectl", default="kubectl")
    parser.add_argument("--keep", action="store_true", help="leave the webhook registered")
    given = parser.parse_args()
    if bool(given.workload) != bool(given.agent):
        parser.error("--workload and --agent belong together")
    acceptance = Acceptance(
        control_plane=Place(
            kubeconfig=given.kubeconfig,
            kubectl=given.kubectl,
            home=given.namespace,
            argocd=given.argocd_namespace,
        ),
        url=given.url,
        workload=Place(
            kubeconfig=given.workload, kubectl=given.kubectl, argocd=given.workload_argocd_namespace
        )
        if given.workload
        else None,
        agent=given.agent,
    )
    steps = [
        *ALONE,
        *(("stream",) if given.workload else ()),
        "rotate",
        *(() if given.keep else ("unregister",)),
    ]
    with acceptance.cleaning:
        for step in steps:
            begin = time.monotonic()
            try:
                getattr(acceptance, step)()
            except FailedError as error:
                print(f"{step:<12}FAILED: {error}", file=sys.stderr)
                return 1
            print(f"{step:<12}ok {time.monotonic() - begin:6.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
