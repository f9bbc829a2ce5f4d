"""`python -m scripts.cluster`: a local API server until Ctrl-C.

`… ensure` only fetches or builds what it needs; `… lend` is for programs: one line of JSON, and an end when standard
input closes. With `--argocd` a real Argo CD and kube-controller-manager run beside it: all of it, or what a hub or a
workload cluster with argocd-agent has of it.
"""

import argparse
import contextlib
import json
import signal
import sys
import time

from scripts.cluster.argocd.components import EVERYTHING, Component
from scripts.cluster.argocd.installation import ArgoCd
from scripts.cluster.argocd.programs import Programs, argocd_version, find_programs
from scripts.cluster.argocd.usage import usage_table
from scripts.cluster.binaries import NoBinariesError
from scripts.cluster.controlplane import Cluster
from scripts.cluster.definitions import find_definitions
from scripts.cluster.preparing import prepare
from tiphys.errors import TiphysError

ENDINGS = (signal.SIGINT, signal.SIGTERM)
WHOLE, HUB, WORKLOAD = "whole", "hub", "workload"
COMPONENTS = {
    WHOLE: EVERYTHING,
    HUB: (Component.REPO_SERVER, Component.SERVER),
    WORKLOAD: (Component.REPO_SERVER, Component.CONTROLLER),
}
PRICES = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}, "data": {"tea": "3"}}
"""What the repository of a lent Argo CD has in its folder `shop`."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.cluster", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["run", "ensure", "lend"], default="run")
    parser.add_argument(
        "--argocd", nargs="?", const=WHOLE, choices=list(COMPONENTS), help="start a real Argo CD on it"
    )
    options = parser.parse_args()
    try:
        return {"run": _run, "ensure": _ensure, "lend": _lend}[options.command](options.argocd)
    except TiphysError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _ensure(part: str | None) -> int:
    """Tests decide for themselves whether a missing API server is a failure, so this is none."""
    if part:
        find_programs()
    try:
        binaries = prepare()
    except NoBinariesError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 0
    print(f"cluster: binaries from {binaries.origin}, definitions from {find_definitions().origin}")
    return 0


def _lend(part: str | None) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    binaries = prepare()
    programs = find_programs() if part else None
    with Cluster(binaries=binaries) as cluster, contextlib.suppress(KeyboardInterrupt):
        told = {"kubeconfig": str(cluster.kubeconfig), "kubectl": str(binaries.kubectl)}
        if part and programs:
            told |= _start_part(cluster, part, programs)
        print(json.dumps(told), flush=True)
        sys.stdin.read()
    return 0


def _start_part(cluster: Cluster, part: str, programs: Programs) -> dict[str, str]:
    """Where its argocd-server is, if it has one, and a repository with something to deploy."""
    installation = ArgoCd(
        cluster,
        programs=programs,
        components=COMPONENTS[part],
        application_namespaces=("*",) if part == HUB else (),
    ).start()
    repository = installation.repository("manifests")
    repository.commit({"shop/prices.json": json.dumps(PRICES)})
    return {
        "argocd_server": installation.server,
        "argocd_password": str(installation.password_file),
        "repository": repository.url,
    }


def _run(part: str | None) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    binaries = prepare()
    programs = find_programs() if part else None
    started = time.monotonic()
    with Cluster(binaries=binaries) as cluster, contextlib.suppress(KeyboardInterrupt):
        ready = time.monotonic() - started
        installation = (
            ArgoCd(cluster, programs=programs, components=COMPONENTS[part]).start()
            if part and programs
            else None
        )
        # From here on they wait for us: one that comes just before a pause would not end it.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        print(f"binaries     {binaries.folder} ({binaries.origin})")
        print(f"definitions  {f'Argo CD {argocd_version()}' if part else cluster.definitions_from}")
        print(f"API server   {cluster.url}, ready after {ready:.1f} s")
        print(f"kubeconfig   {cluster.kubeconfig}")
        if installation and programs:
            _describe(installation, programs)
        print(f"\nexport KUBECONFIG={cluster.kubeconfig}\nIt ends with Ctrl-C.", flush=True)
        signal.sigwait(ENDINGS)
    return 0


def _describe(installation: ArgoCd, programs: Programs) -> None:
    repository = installation.repository("manifests")
    print(f"Argo CD      {argocd_version()}, http://{installation.server}, user admin")
    print(f"password     {installation.password_file}")
    print(f"repository   {repository.url} (commit to it: git -C {repository.folder})")
    print(f"argocd       {programs.argocd} --config {installation.client_config}")
    for line in usage_table(installation):
        print(f"             {line}")


if __name__ == "__main__":
    sys.exit(main())
