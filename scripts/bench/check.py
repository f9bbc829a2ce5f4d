"""`tiphys check` of a large repository: speed beside parsing alone, start-up, memory."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from argocd.judging.configuration import Configuration
from checks.check import judge_files
from checks.files.search import find_files
from scripts.bench.figures import Figure

NAME = "tiphys check of a repository, one core"
MANIFESTS = 2_000
MORE = 8
LARGE = 12_000
"""Files of a large repository of applications."""
ROUNDS = 5
STARTS = 9

_PROJECT = """\
# The projects of team {number}
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata:
  name: team-{number}
  namespace: argocd
  labels: {{team: team-{number}, tier: web}}
spec:
  description: What team {number} may do
  sourceRepos:
  - https://git.example.com/team-{number}/*
  - https://charts.example.com
  destinations:
  - server: https://kubernetes.default.svc
    namespace: team-{number}-*
  - name: prod-*
    namespace: team-{number}
  clusterResourceWhitelist:
  - {{group: "", kind: Namespace}}
  roles:
  - name: deployer
    description: May sync
    policies:
    - p, proj:team-{number}:deployer, applications, sync, team-{number}/*, allow
    groups: [team-{number}-deployers]
  syncWindows:
  - {{kind: allow, schedule: "0 8 * * *", duration: 8h, applications: ["*"]}}
"""
_APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: app-{number}
  namespace: argocd
  labels:
    team: team-{team}
  finalizers:
  - resources-finalizer.argocd.argoproj.io
spec:
  project: team-{team}
  source:
    repoURL: https://git.example.com/team-{team}/apps.git
    targetRevision: v1.{number}.0
    path: apps/app-{number}
    kustomize:
      images:
      - registry.example.com/app-{number}:v1.{number}.0
  destination:
    server: https://kubernetes.default.svc
    namespace: team-{team}-app-{number}
  syncPolicy:
    automated:
      prune: true
      selfHeal: true
    syncOptions:
    - CreateNamespace=true
    - ServerSideApply=true
    retry:
      limit: 5
      backoff: {{duration: 5s, factor: 2, maxDuration: 3m}}
"""
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-{number}
  labels: {{app.kubernetes.io/name: app-{number}}}
  annotations:
    argocd.argoproj.io/sync-wave: "2"
spec:
  replicas: 3
  selector:
    matchLabels: {{app.kubernetes.io/name: app-{number}}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: app-{number}}}
    spec:
      containers:
      - name: web
        image: registry.example.com/app-{number}:v1
        ports: [{{containerPort: 8080}}]
        resources:
          requests: {{cpu: 100m, memory: 128Mi}}
          limits: {{memory: 256Mi}}
"""


def repository(folder: Path, count: int) -> list[str]:
    """Files of one manifest each: a tenth projects, the rest half Applications and half Deployments."""
    for number in range(count):
        text = _PROJECT if number % 10 == 0 else _APPLICATION if number % 2 else _DEPLOYMENT
        team = (number // 10) * 10
        path = folder / f"team-{team:05}" / f"{number:05}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(number=number, team=team))
    return list(find_files([str(folder)]))


def judged(files: list[str]) -> int:
    result = judge_files(files, Configuration(), today=datetime.now(UTC).date(), processes=1)
    assert not result.unreadable
    return result.objects


def parsed(files: list[str]) -> None:
    for file in files:
        list(yaml.load_all(Path(file).read_bytes(), Loader=yaml.CSafeLoader))


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "few").mkdir()
        (folder / "many").mkdir()
        files = repository(folder / "few", MANIFESTS)
        repository(folder / "many", MANIFESTS * MORE)
        ours, theirs = _processor_side_by_side(lambda: judged(files), lambda: parsed(files))
        few, many = _peak(folder / "few"), _peak(folder / "many")
        (folder / "large").mkdir()
        repository(folder / "large", LARGE)
        large_memory = _peak(folder / "large")
        with _installed() as environment:
            start, bare = _starts(environment)
            call = [sys.executable, "-m", "cli", "check"]
            file = str(folder / "few/team-00000/00000.yaml")
            one = statistics.median(_processor_time([*call, file], "", environment) for _ in range(STARTS))
            large = _processor_time([*call, str(folder / "large")], "", environment)
    return [
        Figure("2 000 manifests in their files", MANIFESTS / ours, "manifests/s", goal=-600),
        Figure("the same", ours, "s", than="yaml.CSafeLoader alone", theirs=theirs),
        Figure("12 000 files, time of all processors", large, "s", goal=10),
        Figure("its memory in one process", large_memory, "MiB", goal=100),
        Figure("one file, processor's time", one * 1e3, "ms", goal=300),
        Figure("start-up, processor's time", start * 1e3, "ms", goal=300),
        Figure("the same", start * 1e3, "ms", than="python -c pass", theirs=bare * 1e3),
        Figure("memory at its peak", few, "MiB", goal=150),
        Figure("with 16 000 manifests", many, "MiB", than="2 000", theirs=few, goal=1.35),
        # All are each other's neighbours: something of each is kept, and the name of its file.
        Figure("each further one", (many - few) * 1024 / (MANIFESTS * (MORE - 1)), "KiB", goal=0.75),
    ]


def _processor_side_by_side(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """The processor's time, in turns: other work on the machine takes none of it."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        for index in (0, 1) if turn % 2 else (1, 0):
            started = time.process_time()
            (ours, theirs)[index]()
            times[index].append(time.process_time() - started)
    return statistics.median(times[0]), statistics.median(times[1])


def _peak(folder: Path) -> float:
    """MiB of a process that checks a folder; getrusage would count what forked it."""
    code = (
        "import sys\nfrom cli.commands.check import command\n"
        "try:\n    command([*sys.argv[1:], '--jobs', '1'])\nexcept SystemExit:\n"
        "    print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True, timeout=300
    )
    return float(done.stdout.splitlines()[-1]) / 1024


@contextmanager
def _installed() -> Iterator[dict[str, str]]:
    """With bytecode, as it is installed: compiling all modules each time takes half as long again."""
    with tempfile.TemporaryDirectory() as bytecode:
        yield {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}


def _starts(environment: dict[str, str]) -> tuple[float, float]:
    manifest = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
    checks, bare = [], []
    for _ in range(STARTS + 1):  # the first one compiles
        checks.append(_processor_time([sys.executable, "-m", "cli", "check", "-"], manifest, environment))
        bare.append(_processor_time([sys.executable, "-c", "pass"], "", environment))
    return statistics.median(checks[1:]), statistics.median(bare[1:])


def _processor_time(command: list[str], stdin: str, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, input=stdin, text=True, capture_output=True, check=True, timeout=300, env=environment
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
