"""Flags that the sidecars share with argocd-agent: its names, its environment variables, its defaults."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from kube.store import Store
from sidecars.materials import Files, Secrets, Source
from tiphys import logs
from tiphys.errors import CallError

F = TypeVar("F", bound=Callable[..., Any])

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

    def option(self, name: str, *names: str, env: str = "", **options: Any) -> Callable[[F], F]:
        suffix = env or name.removeprefix("--").replace("-", "_").upper()
        shown = options.get("default") is not None and not options.get("is_flag")
        return click.option(name, *names, envvar=f"{self._prefix}_{suffix}", show_default=shown, **options)

    def switch(self, name: str, *names: str, env: str = "", text: str) -> Callable[[F], F]:
        return self.option(name, *names, env=env, is_flag=True, help=text)

    def texts(self, name: str, *, env: str = "", text: str) -> Callable[[F], F]:
        return self.option(name, env=env, multiple=True, callback=_flattened, help=text)

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


def combined(*options: Callable[[F], F]) -> Callable[[F], F]:
    """In the order in which they are shown."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def warn_of_unused(given: dict[str, Any], unused: Iterable[tuple[str, str]]) -> None:
    named = [
        f"--{name}"
        for name, _ in unused
        if given.pop(name.replace("-", "_"), None) not in {None, "", "false"}
    ]
    if named:
        logs.get_logger().warning("accepted, but without effect in this version", flags=named)


def configure_logs(level: tuple[str, ...], form: str) -> None:
    """argocd-agent's levels may be told per component (`resource=debug`); ours is one."""
    plain = [word for word in level if "=" not in word] or ["info"]
    word = _GO_LEVELS.get(plain[-1].lower(), plain[-1].lower())
    if word not in LEVELS:
        raise CallError(f"--log-level {plain[-1]}: known are {', '.join(LEVELS)}")
    logs.configure(level=word, form=_FORMS.get(form, form))


def certificates(
    store: Store,
    *,
    namespace: str,
    pair: tuple[Path | None, Path | None],
    authorities: Path | None,
    pair_secret: str,
    authorities_secret: str,
) -> Source:
    """Files where files are named, else Secrets."""
    certificate, key = pair
    if (certificate is None) != (key is None):
        raise CallError("a certificate and its key are named together")
    if certificate is None and authorities is None:
        return Secrets(store=store, namespace=namespace, pair=pair_secret, authorities=authorities_secret)
    if pair_secret and certificate is None:
        raise CallError(
            "certificates come from files or from Secrets: --root-ca-path needs a certificate and a key as files too"
        )
    return Files(certificate=certificate, key=key, authorities=authorities)


def parse_labels(pairs: Iterable[str]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        name, equals, content = pair.partition("=")
        if not name or not equals:
            raise CallError(f"--namespace-create-labels {pair}: write name=value")
        labels[name] = content
    return labels


def _flattened(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())
