"""Flags that the sidecars share with argocd-agent: its names, its environment variables, its defaults."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import click

from argocd import names
from certs.sources import Files, Joined, LoadedSource, Secrets
from cli.options import F, combined
from cli.options.cluster import connected, context_option, kubeconfig_option
from kube.store import Store
from tiphys import logs
from tiphys.errors import CallError
from tiphys.running import Running, run
from tiphys.tracing import exported

PATH = click.Path(path_type=Path)
LEVELS = ("debug", "info", "warning", "error")
_GO_LEVELS = {"trace": "debug", "warn": "warning", "fatal": "error", "panic": "error"}
_FORMS = {"text": logs.Form.HUMAN.value}


class Flags:
    """Options whose environment variable is argocd-agent's: `prefix` and the suffix given here.

    Ours, `TIPHYS_PRINCIPAL_…` and `TIPHYS_AGENT_…`, go on existing beside it.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def option(
        self, name: str, *short: str, env: str = "", also: Sequence[str] = (), **options: Any
    ) -> Callable[[F], F]:
        """`also` are further variables, whole."""
        options.setdefault("show_default", options.get("default") is not None)
        return click.option(name, *short, envvar=[f"{self._prefix}_{env or _suffix(name)}", *also], **options)

    def switch(self, name: str, *, env: str = "", default: bool = False, text: str) -> Callable[[F], F]:
        """As in Go: `--name`, `--name=true` and `--name=false`."""
        suffix = env or _suffix(name)
        return click.option(
            name,
            envvar=f"{self._prefix}_{suffix}",
            type=click.BOOL,
            is_flag=False,
            flag_value="true",
            default=default,
            metavar="[=false]",
            help=text,
        )

    def texts(self, name: str, *, env: str = "", text: str) -> Callable[[F], F]:
        return self.option(name, env=env, multiple=True, callback=_flattened, help=text)

    def log_and_cluster_options(self, *, also_format: Sequence[str] = ()) -> Callable[[F], F]:
        forms = click.Choice(["auto", "human", "json", "text"])
        return combined(
            self.texts("--log-level", text="debug, info, warning or error."),
            self.option("--log-format", also=also_format, default="auto", type=forms, help="Of lines."),
            kubeconfig_option(),
            context_option("--kubecontext"),
        )

    def unused(self, unused: Iterable[tuple[str, str]], *, prefixed: bool = True) -> Callable[[F], F]:
        """Accepted, so that an installation can change its image and nothing else; said in one warning."""

        def add(command: F) -> F:
            for name, env in unused:
                variable = f"{self._prefix}_{env}" if prefixed else env
                command = click.option(
                    f"--{name}", envvar=variable, is_flag=False, flag_value="true", default=None, hidden=True
                )(command)
            return command

        return add


# Of both sidecars, and without a flag: the speed of Go's client and the places in its queues.
UNUSED_VARIABLES = (
    "ARGOCD_AGENT_KUBE_QPS",
    "ARGOCD_AGENT_KUBE_BURST",
    "ARGOCD_AGENT_RECV_QUEUE_SIZE",
    "ARGOCD_AGENT_SEND_QUEUE_SIZE",
)


def warn_of_unused(given: dict[str, Any], unused: Iterable[tuple[str, str]]) -> None:
    named = [
        f"--{name}"
        for name, _ in unused
        if given.pop(name.replace("-", "_"), None) not in {None, "", "false"}
    ]
    named += [name for name in UNUSED_VARIABLES if os.environ.get(name)]
    if named:
        logs.get_logger().warning("accepted, but without effect in this version", flags=named)


def configure_logs(level: tuple[str, ...], form: str) -> None:
    """argocd-agent's levels may be told per component (`resource=debug`); ours is one."""
    plain = [word for word in level if "=" not in word] or ["info"]
    word = _GO_LEVELS.get(plain[-1].lower(), plain[-1].lower())
    if word not in LEVELS:
        raise CallError(f"--log-level {plain[-1]}: known are {', '.join(LEVELS)}")
    logs.configure(level=word, form=_FORMS.get(form, form))


class SidecarProcess(Protocol):
    async def run(self) -> None: ...


def run_sidecar(
    given: dict[str, Any], make: Callable[[Store], Awaitable[SidecarProcess]], *, name: str
) -> None:
    """Until SIGTERM."""

    async def serve(running: Running) -> None:
        async with connected(kubeconfig=given["kubeconfig"], context=given["kubecontext"]) as store:
            process = await make(store)
            work = running.start(process.run(), name=name)
            await running.stopping.wait()
            work.cancel()
            await asyncio.wait({work})  # says goodbye while the API server can still be reached

    with exported(f"tiphys-{name}"):
        run(serve)


def certificates(
    store: Store,
    *,
    namespace: str,
    pair: tuple[Path | None, Path | None],
    authorities: Path | None,
    pair_secret: str,
    authorities_secret: str,
) -> LoadedSource:
    """Files where files are named, else Secrets, for either."""
    certificate, key = pair
    if (certificate is None) != (key is None):
        raise CallError("a certificate and its key are named together")
    secrets = partial(Secrets, store=store, namespace=namespace)
    if certificate is not None and (authorities is not None or not authorities_secret):
        return Files(certificate=certificate, key=key, authorities=authorities)
    if certificate is not None:
        return Joined(
            Files(certificate=certificate, key=key, authorities=None),
            secrets(pair="", authorities=authorities_secret),
        )
    if authorities is not None:
        return Joined(
            secrets(pair=pair_secret, authorities=""),
            Files(certificate=None, key=None, authorities=authorities),
        )
    return secrets(pair=pair_secret, authorities=authorities_secret)


def parse_labels(pairs: Iterable[str]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        name, equals, content = pair.partition("=")
        if not name or not equals:
            raise CallError(f"--namespace-create-labels {pair}: write name=value")
        labels[name] = content
    return labels


# Where a pod learns which namespace it is in.
POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def own_namespace(path: Path = POD_NAMESPACE) -> str:
    """The pod's, as argocd-agent's principal has it; elsewhere Argo CD's usual one."""
    try:
        return path.read_text().strip() or names.DEFAULT_NAMESPACE
    except OSError:
        return names.DEFAULT_NAMESPACE


def port(given: int) -> int | None:
    """As in argocd-agent, 0 switches the page off."""
    return given or None


def _suffix(name: str) -> str:
    return name.removeprefix("--").replace("-", "_").upper()


def _flattened(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())
