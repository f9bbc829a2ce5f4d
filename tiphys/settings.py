"""Where a command's settings come from: flags, then the environment, then a file, then defaults.

A setting has one name. `--resync-interval 5m` on the command line of `tiphys principal` is
`TIPHYS_PRINCIPAL_RESYNC_INTERVAL=5m` in the environment and `resync-interval: 5m` in the file that `--settings`
names. A name that nobody knows is an error, in each of them, and the nearest known one is proposed.

    @click.command(cls=settings.Command)
    @click.option("--resync-interval", type=settings.DURATION, default="5m", help="…")
    def command(resync_interval: float) -> None: ...
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tiphys import logs, safe_yaml
from tiphys.command_group import CommandGroup
from tiphys.errors import CallError

F = TypeVar("F", bound=Callable[..., Any])

FILE_OPTION = "settings"

_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://\S+:[0-9]+")
_SERVICE_LINK_NAME = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PORT|ADDR|PROTO))?)?$"
)


class _Settled(click.Command):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                [f"--{FILE_OPTION}"],
                type=click.Path(path_type=Path),
                is_eager=True,
                expose_value=False,
                callback=self._read_file,
                help="A YAML file with settings; flags and the environment go before it.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self._check_environment(ctx)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            raise self._located(ctx, error) from error

    def _read_file(self, ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
        if path is None:
            return
        options = {_key(param): param for param in self._options()}
        ctx.meta[__name__] = path
        given = read_file(path)
        check_keys(given, options, where=str(path))
        ctx.default_map = {options[key].name: value for key, value in given.items()}

    def _options(self) -> list[click.Parameter]:
        return [
            param for param in self.params if isinstance(param, click.Option) and param.name != FILE_OPTION
        ]

    def _check_environment(self, ctx: click.Context) -> None:
        prefix = f"{ctx.auto_envvar_prefix}_"
        if not ctx.auto_envvar_prefix:
            return
        known = {f"{prefix}{_variable(param)}" for param in self.params if isinstance(param, click.Option)}
        of_others = tuple(_prefixes_of_others(ctx, longer_than=prefix))
        given = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(prefix)
            and not (of_others and name.startswith(of_others))
            and not (_SERVICE_LINK_NAME.search(name) and name not in known)
        }
        check_keys(given, known, where="the environment")

    def _located(self, ctx: click.Context, error: click.BadParameter) -> Exception:
        """A bad value is shown with the place that it came from; one of a flag as click does it."""
        param = error.param
        source = ctx.get_parameter_source(param.name) if param and param.name else None
        if param and source is ParameterSource.ENVIRONMENT:
            return CallError(f"{ctx.auto_envvar_prefix}_{_variable(param)}: {error.message}")
        if param and source is ParameterSource.DEFAULT_MAP:
            return CallError(f"{ctx.meta[__name__]}: {_key(param)}: {error.message}")
        return error


class Command(_Settled):
    """A command with `--settings FILE`."""


class Group(_Settled, CommandGroup):
    """The same for a command that has commands below it; theirs are settings of their own."""


def log_options(command: F) -> F:
    """`--log-level` and `--log-format`, for `logs.configure(level=log_level, form=log_format)`."""
    add_form = click.option(
        "--log-format",
        type=click.Choice([form.value for form in logs.Form]),
        default=logs.Form.AUTO.value,
        show_default=True,
        help="auto: for people on a terminal, JSON lines otherwise.",
    )
    add_level = click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="Lines below this level are left out.",
    )
    return add_level(add_form(command))


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases of click
    """`90`, `90s`, `1.5m`, `2h`, `250ms`, as seconds; and Go's `1h30m`, which Kubernetes writes."""

    name = "duration"
    _UNITS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    _WHOLE = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+")
    _PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        text = str(value)
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            return float(text)
        if not self._WHOLE.fullmatch(text):
            self.fail(f"{text!r} is not a duration such as 90s, 5m or 1h30m", param, ctx)
        return sum(float(number) * self._UNITS[unit] for number, unit in self._PART.findall(text))


DURATION = Duration()


def read_file(path: Path) -> dict[str, Any]:
    """A YAML file with a mapping at its top; an empty one is a good configuration."""
    try:
        content = safe_yaml.load(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CallError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CallError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise CallError(f"{path} must hold a mapping of settings, not a {type(content).__name__}")
    return content


def check_keys(given: Iterable[object], known: Iterable[str], *, where: str) -> None:
    """`where` names the file, and inside of it the section, for the one line that a user reads."""
    known = list(known)
    for key in given:
        if key in known:
            continue
        nearest = difflib.get_close_matches(str(key), known, n=1)
        proposal = f"; did you mean {nearest[0]}?" if nearest else f"; known are {', '.join(sorted(known))}"
        raise CallError(f"{where}: unknown key {key}{proposal}")


def forget_service_links(environment: MutableMapping[str, str]) -> None:
    """Kubernetes puts `TIPHYS_PRINCIPAL_METRICS_PORT=tcp://10.0.0.1:8000` into pods beside a Service of that
    name: an address, where a reader of our settings would look for a number.
    """
    for name, value in list(environment.items()):
        if name.startswith("TIPHYS_") and _SERVICE_LINK_NAME.search(name) and _SERVICE_LINK.fullmatch(value):
            del environment[name]


def _key(param: click.Parameter) -> str:
    long = [name for name in param.opts if name.startswith("--")]
    return (long[0] if long else str(param.name)).removeprefix("--")


def _variable(param: click.Parameter) -> str:
    """As click forms it: from the argument of the function, which may be a plural where the flag is not."""
    return str(param.name).upper()


def _prefixes_of_others(ctx: click.Context, *, longer_than: str) -> Iterable[str]:
    """`TIPHYS_AGENT_` also begins the names that belong to commands `agent-keys` and `agent create`."""
    for group in (ctx, ctx.parent):
        if group and isinstance(group.command, click.Group):
            for name in group.command.list_commands(group):
                prefix = f"{group.auto_envvar_prefix}_{name.replace('-', '_').upper()}_"
                if prefix != longer_than and prefix.startswith(longer_than):
                    yield prefix
