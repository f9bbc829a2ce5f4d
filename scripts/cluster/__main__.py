"""`python -m scripts.cluster`: a local API server until Ctrl-C.

`… ensure` only fetches or builds what it needs; `… lend` is for programs: one line of JSON, and an end when standard
input closes. With `--argocd` a real Argo CD and kube-controller-manager run beside it.
"""

import argparse
import contextlib
import json
import signal
import sys
import time

from scripts.cluster.argocd.installation import ArgoCd
from scripts.cluster.argocd.programs import Programs, argocd_version, find_programs
from scripts.cluster.argocd.usage import usage_table
from scripts.cluster.binaries import NoBinariesError
from scripts.cluster.controlplane import Cluster
from scripts.cluster.definitions import find_definitions
from scripts.cluster.preparing import prepare
from tiphys.errors import TiphysError

ENDINGS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.cluster", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["run", "ensure", "lend"], default="run")
    parser.add_argument("--argocd", action="store_true", help="start a real Argo CD on it")
    options = parser.parse_args()
    try:
        if options.command == "run":
            return _run(argocd=options.argocd)
        return {"ensure": _ensure, "lend": _lend}[options.command]()
    except TiphysError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _ensure() -> int:
    """Tests decide for themselves whether a missing API server is a failure, so this is none."""
    try:
        binaries = prepare()
    except NoBinariesError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 0
    print(f"cluster: binaries from {binaries.origin}, definitions from {find_definitions().origin}")
    return 0


def _lend() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    binaries = prepare()
    with Cluster(binaries=binaries) as cluster, contextlib.suppress(KeyboardInterrupt):
        print(
            json.dumps({"kubeconfig": str(cluster.kubeconfig), "kubectl": str(binaries.kubectl)}), flush=True
        )
        sys.stdin.read()
    return 0


def _run(*, argocd: bool) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    binaries = prepare()
    programs = find_programs() if argocd else None
    started = time.monotonic()
    with Cluster(binaries=binaries) as cluster, contextlib.suppress(KeyboardInterrupt):
        ready = time.monotonic() - started
        installation = ArgoCd(cluster, programs=programs).start() if programs else None
        # From here on they wait for us: one that comes just before a pause would not end it.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        print(f"binaries     {binaries.folder} ({binaries.origin})")
        print(f"definitions  {f'Argo CD {argocd_version()}' if argocd else cluster.definitions_from}")
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
