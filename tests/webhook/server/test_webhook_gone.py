"""The webhook gone while it is registered: what is blocked, what is not, and how docs/emergency.md gets out."""

import json
import shlex
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from argocd import names
from argocd.judging.ratchet import PASSING_ANNOTATIONS
from certs.authority import Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from scripts.cluster.api import RefusedError
from scripts.cluster.controlplane import Cluster
from tests.webhook.conftest import ROOT
from tests.webhook.guarded_cluster import until
from tests.webhook.webhook_process import Guard

Object = dict[str, Any]

GROUP = "/apis/argoproj.io/v1alpha1/namespaces/{}/"
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
    for kind in ("validating", "mutating")
)
MERGE = "application/merge-patch+json"
DESTINATION = {"server": "https://example.test", "namespace": "a"}
SPECS: dict[str, Object] = {
    "applications": {
        "project": "default",
        "source": {"repoURL": "https://example.test/r", "path": "."},
        "destination": DESTINATION,
    },
    "appprojects": {"sourceRepos": ["https://example.test/r"], "destinations": [DESTINATION]},
    "applicationsets": {
        "generators": [],
        "template": {
            "metadata": {"name": "x"},
            "spec": {
                "project": "default",
                "source": {"repoURL": "https://example.test/r", "path": "."},
                "destination": DESTINATION,
            },
        },
    },
}
KINDS = {"applications": "Application", "appprojects": "AppProject", "applicationsets": "ApplicationSet"}
NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Write:
    """One dry run as the administrator."""

    name: str
    method: str
    path: str
    body: Object | None = None
    slow: bool = True
    """Whether an entry that fails open matches it: then a network that swallows packets delays it."""

    def blocked(self, cluster: Cluster) -> str:
        """What the API server said, empty where it did it."""
        kind = MERGE if self.method == "PATCH" else "application/json"
        try:
            cluster.request(self.method, f"{self.path}?dryRun=All", self.body, content_type=kind)
        except RefusedError as error:
            return str(error)
        return ""


def thing(plural: str, name: str) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": KINDS[plural],
        "metadata": {"name": name},
        "spec": SPECS[plural],
    }


def guarded_writes(argocd: str) -> list[Write]:
    place = GROUP.format(argocd)
    return [
        write
        for plural in KINDS
        for write in (
            Write(f"create {plural}", "POST", place + plural, thing(plural, "new")),
            Write(
                f"change {plural}", "PATCH", f"{place}{plural}/there", {"metadata": {"labels": {"a": "b"}}}
            ),
            Write(f"delete {plural}", "DELETE", f"{place}{plural}/there"),
        )
    ] + [
        Write(
            "a subscription to notifications",
            "PATCH",
            f"{place}applications/there",
            {
                "metadata": {
                    "annotations": {"notifications.argoproj.io/subscribe.on-sync-failed.slack": "shop"}
                }
            },
        )
    ]


def agent_writes(agent: str) -> list[Write]:
    """In a namespace that is labelled as an agent's."""
    place = f"{GROUP.format(agent)}applications"
    return [
        Write("create an agent's application", "POST", place, thing("applications", "new")),
        Write("delete an agent's application", "DELETE", f"{place}/there"),
    ]


def free_writes(argocd: str, other: str) -> list[Write]:
    application, core = f"{GROUP.format(argocd)}applications/there", "/api/v1/namespaces/"
    meta: Callable[..., Object] = lambda name, **more: {"metadata": {"name": name, **more}}  # noqa: E731 - a table's shorthand
    pod = {"spec": {"containers": [{"name": "c", "image": "example.test/c:1"}]}}
    selected = {"selector": {"matchLabels": {"a": "b"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}
    lease = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    rules = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    labelled = {"labels": {"argocd.argoproj.io/secret-type": "cluster"}}
    asking = {"annotations": {"tiphys.dev/inject": "agent"}}
    return [
        Write("status of an application", "PATCH", application, {"status": {"summary": {}}}, slow=False),
        Write("an operation", "PATCH", application, {"operation": {"sync": {}}}, slow=False),
        *(
            Write(
                f"{key} of {plural}",
                "PATCH",
                f"{GROUP.format(argocd)}{plural}/there",
                {"metadata": {"annotations": {key: "normal"}}},
                slow=False,
            )
            for plural in ("applications", "applicationsets")
            for key in PASSING_ANNOTATIONS
        ),
        Write(
            "finalizers of an application",
            "PATCH",
            application,
            {"metadata": {"finalizers": ["a.example.test/b"]}},
            slow=False,
        ),
        Write(
            "an application elsewhere",
            "POST",
            f"{GROUP.format(other)}applications",
            thing("applications", "n"),
        ),
        Write("a cluster secret", "POST", f"{core}{argocd}/secrets", meta("cluster", **labelled)),
        Write("argocd-cm", "POST", f"{core}{argocd}/configmaps", meta("argocd-cm")),
        Write("a secret beside Argo CD", "POST", f"{core}{argocd}/secrets", meta("plain"), slow=False),
        Write("a lease beside Argo CD", "POST", lease.format(argocd), meta("lease"), slow=False),
        Write("a pod beside Argo CD", "POST", f"{core}{argocd}/pods", {**meta("pod"), **pod}, slow=False),
        Write("a tracked ConfigMap", "POST", f"{core}{other}/configmaps", meta("c")),
        Write(
            "a tracked Deployment",
            "POST",
            f"/apis/apps/v1/namespaces/{other}/deployments",
            {**meta("d"), "spec": {**selected, "template": template}},
        ),
        Write("a pod that asks for a sidecar", "POST", f"{core}{other}/pods", {**meta("p", **asking), **pod}),
        Write("a service account", "POST", f"{core}{argocd}/serviceaccounts", meta("account"), slow=False),
        Write("a namespace", "POST", "/api/v1/namespaces", meta("fresh"), slow=False),
        Write("the end of Argo CD's namespace", "DELETE", f"/api/v1/namespaces/{argocd}", slow=False),
        Write("the end of another namespace", "DELETE", f"/api/v1/namespaces/{other}", slow=False),
        Write("a node", "POST", "/api/v1/nodes", meta("node"), slow=False),
        Write("a node's lease", "POST", lease.format("kube-node-lease"), meta("node"), slow=False),
        Write("a pod of kube-system", "POST", f"{core}kube-system/pods", {**meta("p"), **pod}, slow=False),
        Write("a secret of kube-system", "POST", f"{core}kube-system/secrets", meta("s"), slow=False),
        Write("a role", "POST", rules, {**meta("role"), "rules": []}, slow=False),
        *(
            Write(f"the end of {path.rpartition('/')[2]}", "DELETE", f"{path}/tiphys", slow=False)
            for path in CONFIGURATIONS
        ),
    ]


@dataclass
class Forsaken:
    """A registration whose webhook was killed; what listens in its place is the test's choice."""

    guard: Guard
    other: str
    agent: str
    authority: Authority
    configurations: list[Object] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        return self.guard.cluster

    def restore(self) -> None:
        """As a GitOps tool does, with the caBundle of before."""
        for path, held in zip(CONFIGURATIONS, self.configurations, strict=True):
            with suppress(RefusedError):
                self.cluster.request("DELETE", f"{path}/tiphys")
            kept = {key: held[key] for key in ("apiVersion", "kind", "webhooks")}
            self.cluster.request("POST", path, {**kept, "metadata": {"name": "tiphys"}})
        self.until_blocked()

    def until_blocked(self) -> None:
        write = guarded_writes(self.guard.argocd)[0]
        until(lambda: write.blocked(self.cluster), what="the API server knows the registration")

    def until_free(self) -> None:
        writes = guarded_writes(self.guard.argocd)
        until(lambda: not writes[0].blocked(self.cluster), what="writes pass")
        assert {write.name: write.blocked(self.cluster) for write in writes} == {
            write.name: "" for write in writes
        }


@pytest.fixture(scope="module")
def forsaken(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forsaken]:
    authority = Authority.create("test authority", now=datetime.now(UTC))
    folder = tmp_path_factory.mktemp("mounted")
    pair = authority.issue(LeafSubject("localhost", dns_names=["localhost"]), now=datetime.now(UTC))
    publish(folder, {CERTIFICATE: pair.certificate, KEY: pair.key, BUNDLE: authority.pair.certificate})
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    other = cluster.create_namespace(
        labels={"tiphys.dev/tracking": "enabled", "tiphys.dev/injection": "enabled"}
    )
    agent = cluster.create_namespace(labels={names.TIPHYS_AGENT: "east"})
    cluster.request("POST", f"{GROUP.format(agent)}applications", thing("applications", "there"))
    for plural in KINDS:
        cluster.request("POST", GROUP.format(argocd) + plural, thing(plural, "there"))
    guard = Guard(
        cluster=cluster,
        folder=tmp_path_factory.mktemp("guard"),
        home=home,
        argocd=argocd,
        arguments=("--certificates", "files", "--certificate-folder", str(folder)),
    ).start()
    guard.tiphys("webhook", "register", "--url", guard.url, "--ca-file", str(folder / BUNDLE))
    forsaken = Forsaken(guard, other, agent, authority)
    forsaken.configurations = [cluster.request("GET", f"{path}/tiphys") for path in CONFIGURATIONS]
    guard.kill()
    until(lambda: not listens(guard.port), what="its processes end with it")
    yield forsaken
    guard.unregister()
    for namespace in (home, argocd, other, agent):
        cluster.drop_namespace(namespace)


@pytest.fixture
def registered(forsaken: Forsaken) -> Forsaken:
    forsaken.restore()
    return forsaken


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@contextmanager
def killed(_: Forsaken) -> Iterator[str]:
    yield "connection refused"


@contextmanager
def expired(forsaken: Forsaken, tmp: Path) -> Iterator[str]:
    """A server that goes on with a certificate which nobody renewed."""
    pair = forsaken.authority.issue(
        LeafSubject("localhost", dns_names=["localhost"]),
        now=datetime.now(UTC) - timedelta(minutes=30),
        lifetime=timedelta(minutes=20),
    )
    publish(tmp, {CERTIFICATE: pair.certificate, KEY: pair.key})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp / CERTIFICATE, tmp / KEY)

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError):
                context.wrap_socket(connection, server_side=True).close()

    with socket.create_server(("127.0.0.1", forsaken.guard.port)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield "certificate has expired or is not yet valid"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=10)


@contextmanager
def cut(forsaken: Forsaken) -> Iterator[str]:
    """Packets go nowhere: connections are taken and never answered."""
    with socket.create_server(("127.0.0.1", forsaken.guard.port), backlog=128):
        yield "context deadline exceeded"


@pytest.mark.parametrize("way", ["killed", "expired", "cut"])
def test_only_argo_cds_kinds_where_argo_cd_reads_them_are_blocked(
    registered: Forsaken, tmp_path: Path, way: str
) -> None:
    cluster, argocd = registered.cluster, registered.guard.argocd
    ways = {"killed": killed(registered), "expired": expired(registered, tmp_path), "cut": cut(registered)}
    closed = [(write, "argocd.validate.tiphys.dev") for write in guarded_writes(argocd)]
    closed += [(write, "agents.validate.tiphys.dev") for write in agent_writes(registered.agent)]
    free = free_writes(argocd, registered.other)
    if way == "cut":  # each call costs its whole timeout: one that waits of each sort
        closed = [one for one in closed if one[0].name == "delete applications"]
        free = [write for write in free if not write.slow or write.name == "a cluster secret"]
    with ExitStack() as stack:
        cause = stack.enter_context(ways[way])
        for write, entry in closed:
            said = write.blocked(cluster)
            assert f'failed calling webhook "{entry}"' in said, write.name
            assert cause in said, write.name
        assert {write.name: write.blocked(cluster) for write in free} == {write.name: "" for write in free}


def test_kubernetes_can_clean_up_a_namespace_and_its_applications(registered: Forsaken) -> None:
    argocd = registered.guard.argocd
    deletion = ("delete", "application", "there", "-n", argocd, "--dry-run=server")
    acting = ("--as", NAMESPACE_CONTROLLER, "--as-group", "system:masters")
    assert registered.cluster.kubectl(*deletion, check=False).returncode != 0
    assert registered.cluster.kubectl(*deletion, *acting).returncode == 0


def documented(beginning: str) -> list[str]:
    """A command of docs/emergency.md, so that the page cannot say another than works."""
    page = (ROOT / "docs/emergency.md").read_text()
    [found] = [line for line in page.splitlines() if line.startswith(beginning)]
    return shlex.split(found)[1:]


def test_the_one_command_takes_it_out_of_the_way_with_nothing_running(registered: Forsaken) -> None:
    done = registered.guard.tiphys(*documented("tiphys webhook unregister"))
    assert done.stdout.splitlines()[0] == "removed ValidatingWebhookConfiguration tiphys"
    assert "removed MutatingWebhookConfiguration tiphys" in done.stdout
    registered.until_free()


@pytest.mark.parametrize("beginning", ["kubectl delete", "kubectl patch"])
def test_kubectl_alone_takes_it_out_of_the_way(registered: Forsaken, beginning: str) -> None:
    registered.cluster.kubectl(*documented(beginning))
    registered.until_free()


def test_unregister_works_without_the_namespace_that_it_lived_in(registered: Forsaken) -> None:
    guard = registered.guard
    home, guard.home = guard.home, "gone-long-ago"
    try:
        assert "removed ValidatingWebhookConfiguration tiphys" in guard.tiphys("webhook", "unregister").stdout
    finally:
        guard.home = home
    registered.until_free()


def test_unregister_without_the_right_is_one_line_that_names_it(registered: Forsaken) -> None:
    guard = registered.guard
    guard.kubeconfig = registered.cluster.kubeconfig_of("a-passer-by")
    try:
        done = guard.tiphys("webhook", "unregister", check=False)
    finally:
        guard.kubeconfig = None
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert 'cannot get resource "validatingwebhookconfigurations"' in line


def test_status_says_what_is_wrong_and_register_does_not_make_it_worse(registered: Forsaken) -> None:
    guard = registered.guard
    told = guard.tiphys("webhook", "status", check=False)
    assert told.returncode == 1
    assert told.stdout.startswith("NOT guarded: ")
    assert "connection refused" in told.stdout
    assert "no replica has shown a sign of life" in told.stdout
    again = guard.tiphys("webhook", "register", "--url", guard.url, check=False)
    assert again.returncode == 2
    assert "would block writes" in again.stderr or "name --ca-file" in again.stderr
    assert json.loads(guard.tiphys("webhook", "status", "--format", "json", check=False).stdout)["problems"]
