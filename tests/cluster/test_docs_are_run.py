"""Every shell block in the docs is run here on local API servers, is run by a named test, or says what it needs.

A block that needs more has a comment above it: `<!-- needs a real cluster: … -->` or `<!-- needs Docker -->`. Anything
else that is written into a page is run by this test, and fails here if it does not work.
"""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters
from tests.cluster.installation import installed, with_injection
from tests.house.test_docs import ROOT, WRITTEN
from tests.webhook.webhook_process import Guard

FENCE = re.compile(
    r"^(?P<above>[^\n]*)\n+ *```(?P<language>\w+)\n(?P<text>.*?)^ *```", re.MULTILINE | re.DOTALL
)
"""Also those of a list, which are indented."""
NEEDS = re.compile(r"<!-- needs (a real cluster|Docker)\b.*-->")
SHELL = {"sh", "bash", "shell", "console"}
SECONDS = 120

ELSEWHERE = {
    "make run": "tests/cli/commands/test_demo.py::test_make_run_is_the_same",
    'make run ARGS="--cluster --argocd"': "tests/cluster/argocd/test_demo.py::test_it_ends_with_an_application_that_is_synced",
    "make run ARGS=--cluster": "tests/cluster/test_demo_on_clusters.py::test_the_story_is_the_same_and_kubectl_can_look_at_it",
    "make cluster": "tests/cluster/test_ending.py::test_ctrl_c_ends_the_command_and_removes_its_folder",
    "make test": "tests/cluster/test_docs_are_run.py::test_what_a_page_says_works",
    ".venv/bin/python -m cli demo get appproject": "tests/cli/commands/test_demo.py::test_while_it_is_up_others_can_try_things_and_look_at_its_page",
    ".venv/bin/python -m cli demo apply -f project.yaml": "tests/cli/commands/test_demo.py::test_while_it_is_up_others_can_try_things_and_look_at_its_page",
    "python -m scripts.acceptance --kubeconfig control-plane.yaml --workload prod.yaml --agent prod": "tests/cluster/test_acceptance.py::test_an_installation_passes_the_acceptance_script",
    "tiphys webhook --certificates files --certificate-folder /etc/tiphys/certificate": "tests/webhook/keeper/test_certificate_files.py::",
}
"""Commands that run until they are ended, or that another test runs with more around them."""

PROJECT = """\
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %s, namespace: argocd}
spec:
  sourceRepos: [https://git.example.org/web.git]
  destinations: [{server: https://kubernetes.default.svc, namespace: "*"}]
  destinationServiceAccounts:
    - {server: https://kubernetes.default.svc, namespace: "*", defaultServiceAccount: deployer}
"""
APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd}
spec:
  project: web
  source: {repoURL: https://git.example.org/web.git, path: .}
  destination: {server: https://kubernetes.default.svc, namespace: web}
"""
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team-web}
data: {colour: blue}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: controller, namespace: argocd, annotations: {tiphys.dev/inject: agent}}
spec: {containers: [{name: controller, image: argocd}]}
"""


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    marked: bool

    @property
    def commands(self) -> list[str]:
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        return [line.partition(" #")[0].strip() for line in lines if line.strip()]


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text()
    for found in FENCE.finditer(text):
        if found["language"] in SHELL:
            line = text.count("\n", 0, found.start("language")) + 1
            marked = bool(NEEDS.fullmatch(found["above"].strip()))
            yield Block(page, line, found["language"], textwrap.dedent(found["text"]), marked)


def files(page: str) -> Iterator[tuple[Path, str]]:
    """Manifests whose first line says where they belong."""
    for found in FENCE.finditer((ROOT / page).read_text()):
        if named := re.match(r"# (manifests/\S+)\n", found["text"]):
            yield Path(named[1]), found["text"]


PAGES = [page for page in WRITTEN if any(not block.marked for block in blocks(page))]


@dataclass
class Machine:
    """A reader's: two clusters with Tiphys on them, `tiphys` and `kubectl`, and files of the names that pages use."""

    clusters: Clusters
    guard: Guard
    folder: Path

    def furnish(self) -> None:
        bin_ = self.folder / "bin"
        bin_.mkdir()
        kubectl = self.clusters.control_plane.binaries.kubectl
        self._program("tiphys", f'exec "{sys.executable}" -m cli "$@"')
        self._program("kubectl", f'exec "{kubectl}" "$@"')
        self._program("kustomize", f'shift; exec "{kubectl}" kustomize "$@"')  # kustomize build FOLDER
        shutil.copytree(ROOT / "manifests", self.folder / "manifests")
        with_injection(
            self.folder / "manifests/overlays/own", "webhook-only", image="images.example.org/tiphys"
        )
        template = self.folder / "manifests/components/injection/templates.yaml"
        shutil.copy(template, self.folder / "templates.yaml")
        (self.folder / "agent.yaml").write_text(yaml.safe_load(template.read_text())["data"]["agent"])
        (self.folder / "argocd.yaml").write_text(POD)
        (self.folder / "project.yaml").write_text(PROJECT % "web" + "---\n" + PROJECT % "shop")
        for path, text in (("projects/web.yaml", PROJECT % "web"), ("apps/shop/app.yaml", SETTINGS)):
            (self.folder / path).parent.mkdir(parents=True)
            (self.folder / path).write_text(text)
        (self.folder / "apps/shop/kustomization.yaml").write_text("resources: [app.yaml]\n")
        shutil.copy(self.clusters.control_plane.folder / "ca.crt", self.folder / "agent.crt")
        hub, workload = self.clusters.control_plane, self.clusters.workload
        regions = {"region-a": hub, "region-b": workload}
        self._kubeconfig(prod=workload, **{"prod-eu-1": workload}, **regions)

    def _program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def _kubeconfig(self, **others: Cluster) -> None:
        """The control plane's, with a context for each other one."""
        merged = yaml.safe_load(self.clusters.control_plane.kubeconfig.read_text())
        for context, cluster in others.items():
            held = yaml.safe_load(cluster.kubeconfig.read_text())
            for part in ("clusters", "users"):
                merged[part].append({**held[part][0], "name": context})
            merged["contexts"].append({"name": context, "context": {"cluster": context, "user": context}})
        (self.folder / "kubeconfig").write_text(json.dumps(merged))

    def run(self, block: Block) -> None:
        text = "\n".join(command for command in block.commands if command not in ELSEWHERE)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={
                "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
                "HOME": str(self.folder),
                "KUBECONFIG": str(self.folder / "kubeconfig"),
                "PYTHONPATH": str(ROOT),
            },
        )
        # What is shown with its output may be about something that is wrong.
        allowed = {0, 1} if block.language == "console" else {0}
        where = f"{block.page}:{block.line}"
        assert done.returncode in allowed, f"{where}\n{text}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, f"{where}\n{done.stderr}"

    # What a page takes for granted.

    def registered(self) -> None:
        self.guard.register()

    def without_agents(self) -> None:
        for cluster in (self.clusters.control_plane, self.clusters.workload):
            cluster.kubectl("delete", "secrets", "--all", "--namespace", "argocd")

    def with_an_authority_alone(self) -> None:
        self.without_agents()
        self.run(Block("what it begins with", 1, "sh", "tiphys pki init", marked=False))


BEFORE: dict[str, Callable[[Machine], None]] = {
    "docs/agents.md": Machine.without_agents,
    "docs/getting-started.md": Machine.without_agents,
    "docs/high-availability.md": Machine.without_agents,
    "docs/live-resources.md": Machine.with_an_authority_alone,
}
"""Once before a page."""

BEFORE_EACH: dict[str, Callable[[Machine], None]] = {
    "docs/emergency.md": Machine.registered,
    "docs/registration.md": Machine.registered,
    "docs/upgrade.md": Machine.registered,
}
"""Before each of its blocks: these take away what they begin with."""


@pytest.fixture(scope="module")
def machine(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """With clusters of its own: `tiphys scan` on a page sees all that other tests left in theirs."""
    clusters, folder = Clusters(cluster_binaries), tmp_path_factory.mktemp("reader")
    with ExitStack() as stack:
        stack.callback(clusters.stop)
        hub = clusters.control_plane
        stack.enter_context(installed(hub, "control-plane"))
        stack.enter_context(installed(clusters.workload, "workload-managed"))
        for name in ("team-web", "web"):
            hub.create_namespace(name)
        hub.kubectl("create", "configmap", "argocd-cm", "--namespace", "argocd")
        hub.kubectl("apply", "-f", "-", stdin=f"{PROJECT % 'web'}---\n{APPLICATION}---\n{SETTINGS}")
        guard = Guard(
            cluster=hub,
            folder=folder,
            home="tiphys-system",
            argocd="argocd",
            kubeconfig=hub.kubeconfig_of_account("tiphys-webhook", namespace="tiphys-system"),
        ).start()
        guard.kubeconfig = None  # an admin registers
        stack.callback(guard.stop)
        stack.callback(guard.tiphys, "webhook", "unregister", check=False)
        made = Machine(clusters, guard, folder)
        made.furnish()
        yield made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_works(machine: Machine, page: str) -> None:
    for path, text in files(page):
        (machine.folder / path).parent.mkdir(exist_ok=True)
        (machine.folder / path).write_text(text)
    if page in BEFORE:
        BEFORE[page](machine)
    for block in blocks(page):
        if block.marked:
            continue
        if page in BEFORE_EACH:
            BEFORE_EACH[page](machine)
        machine.run(block)


@pytest.mark.parametrize("named", sorted(set(ELSEWHERE.values())))
def test_what_is_said_to_be_run_elsewhere_is_there(named: str) -> None:
    path, _, function = named.partition("::")
    assert f"def {function}" in (ROOT / path).read_text()


def test_the_reader_of_pages_sees_marks_and_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text(
        "Do:\n\n<!-- needs Docker -->\n```sh\ndocker build .\n```\n\n```sh\na \\\n  b  # why\n\nc\n```\n"
        "\n```console\n$ d\nwhat it says\n```\n\n```yaml\ne: f\n```\n\n1. And:\n\n   ```sh\n   g\n   ```\n"
    )
    monkeypatch.setattr("tests.cluster.test_docs_are_run.ROOT", tmp_path)
    found = list(blocks("page.md"))
    assert [(block.marked, block.commands) for block in found] == [
        (True, ["docker build ."]),
        (False, ["a    b", "c"]),
        (False, ["d"]),
        (False, ["g"]),
    ]
