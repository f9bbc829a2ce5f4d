"""How Argo CD's components, Redis and kube-controller-manager are called."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Component(StrEnum):
    """Named as its service account is, and mostly as the program."""

    REPO_SERVER = "argocd-repo-server"
    SERVER = "argocd-server"
    CONTROLLER = "argocd-application-controller"
    APPLICATION_SETS = "argocd-applicationset-controller"
    NOTIFICATIONS = "argocd-notifications-controller"


EVERYTHING = tuple(Component)
"""In the order of their start."""

PROGRAMS = {Component.NOTIFICATIONS: "argocd-notifications"}
"""Those with another name than their account."""

REDIS = "redis-server"
SELF_HEAL_SECONDS = 2  # 5 by default: tests wait for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Of one component; only the ApplicationSet controller has a probe apart."""

    serving: int
    metrics: int
    probe: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all components of an installation share."""

    redis: str
    repo_server: str
    resync_seconds: int
    application_namespaces: tuple[str, ...]


def arguments(component: Component, *, ports: Ports, settings: Settings) -> list[str]:
    redis, repo_server = f"--redis={settings.redis}", f"--repo-server={settings.repo_server}"
    namespaces = ",".join(settings.application_namespaces)
    apart = [f"--application-namespaces={namespaces}"] if namespaces else []
    listening = ["--address=127.0.0.1", f"--port={ports.serving}"]
    metrics = [f"--metrics-port={ports.metrics}", "--metrics-address=127.0.0.1"]
    match component:
        case Component.REPO_SERVER:
            return [*listening, *metrics, redis]
        case Component.SERVER:
            return [*listening, *metrics, redis, repo_server, "--insecure", *apart]
        case Component.CONTROLLER:
            return [
                *(redis, repo_server, f"--metrics-port={ports.metrics}", *apart),
                *(f"--app-resync={settings.resync_seconds}", "--app-resync-jitter=0"),
                f"--self-heal-timeout-seconds={SELF_HEAL_SECONDS}",
            ]
        case Component.APPLICATION_SETS:
            return [
                f"--argocd-repo-server={settings.repo_server}",
                f"--webhook-addr=127.0.0.1:{ports.serving}",
                f"--probe-addr=127.0.0.1:{ports.probe}",
                f"--metrics-addr=127.0.0.1:{ports.metrics}",
                "--enable-progressive-syncs",
                *([f"--applicationset-namespaces={namespaces}"] if namespaces else []),
            ]
        case Component.NOTIFICATIONS:
            return [
                f"--argocd-repo-server={settings.repo_server}",
                f"--metrics-port={ports.metrics}",
                *apart,
            ]


def health(component: Component, ports: Ports) -> tuple[int, str]:
    """Port and path that answer once it is at work."""
    match component:
        case Component.SERVER:
            return ports.serving, "/healthz"
        case Component.APPLICATION_SETS | Component.NOTIFICATIONS:
            return ports.metrics, "/metrics"  # the probe of one knows no check at all, the other has none
        case _:
            return ports.metrics, "/healthz"


def environment(component: Component, *, folder: Path, kubeconfig: Path, path: str) -> dict[str, str]:
    """A home of its own; "in-cluster" means the kubeconfig."""
    return {
        "ARGOCD_BINARY_NAME": PROGRAMS.get(component, component.value),
        "ARGOCD_FAKE_IN_CLUSTER": "true",
        "ARGOCD_GPG_ENABLED": "false",
        "ARGOCD_PLUGINSOCKFILEPATH": str(folder / "plugins"),
        "ARGOCD_SSH_DATA_PATH": str(folder / "ssh"),
        "ARGOCD_TLS_DATA_PATH": str(folder / "tls"),
        "HOME": str(folder),
        "HOSTNAME": "ctl-0",  # from which the controller tells its shard
        "KUBECONFIG": str(kubeconfig),
        "PATH": path,
        "TMPDIR": str(folder / "tmp"),
    }


def redis_command(program: Path, *, port: int, folder: Path) -> list[str]:
    """Nothing is kept on disk."""
    return [
        *(str(program), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)),
        *("--save", "", "--appendonly", "no"),
    ]


def controller_manager_command(program: Path, *, kubeconfig: Path) -> list[str]:
    """Each controller as its own account, as admission sees them elsewhere."""
    controllers = ("garbage-collector-controller", "namespace-controller", "serviceaccount-controller")
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--secure-port=0",
    ]
