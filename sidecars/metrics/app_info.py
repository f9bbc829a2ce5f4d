"""`argocd_app_info` of all agents' Applications, told by the hub: the same labels as Argo CD's own controllers tell, so
that their dashboards show a fleet. Lines are written when an Application changes, not when somebody asks.
"""

from collections.abc import Callable, Mapping
from typing import Any

from argocd.applications.sources import project_of
from argocd.reading import mapping, sequence, text, value
from argocd.settings import git_urls
from tiphys import metrics
from tiphys.redaction import redacted_text

LABELS = (
    "namespace", "name", "project", "autosync_enabled", "repo", "dest_server", "dest_namespace", "sync_status",
    "health_status", "operation",
)  # fmt: skip

INFO = metrics.describe(
    "argocd_app_info",
    "gauge",
    "1 for each Application of an agent, as Argo CD's controller has it; off unless `--app-info-limit` says how many. A value ends after 512 characters.",
    labels=LABELS,
    bounded=True,
)
LEFT_OFF = metrics.describe(
    "tiphys_principal_app_info_left_off",
    "gauge",
    "Applications beyond `--app-info-limit`, of which argocd_app_info says nothing.",
)

Application = Mapping[str, Any]

LONGEST_VALUE = 512
"""Of a label: no name is longer, and an address that is says nothing more. Every scrape pays for it."""


class AppInfo:
    """Of the first `limit` Applications that have an agent; where one goes, one that was left off takes its place."""

    def __init__(
        self,
        *,
        limit: int,
        belongs: Callable[[Application], bool],
        server_of: Callable[[str], str],
        find: Callable[[str, str], Application | None],
    ) -> None:
        """`server_of` answers with the address of a cluster by its name, `find` with an Application by namespace and name."""
        self._limit = limit
        self._belongs = belongs
        self._server_of = server_of
        self._find = find
        self._lines: dict[tuple[str, str], str] = {}
        self._left_off: dict[tuple[str, str], None] = {}
        """Where they are alone: there may be any number of them."""

    def changed(self, old: Application | None, new: Application | None) -> None:
        item = new if new is not None else old
        place = text(item, "metadata", "namespace"), text(item, "metadata", "name")
        if new is None or not self._belongs(new):
            self._left_off.pop(place, None)
            if self._lines.pop(place, None) is not None:
                self._fill()
        elif place in self._lines or (place not in self._left_off and len(self._lines) < self._limit):
            self._lines[place] = self._line(new)
        else:
            self._left_off[place] = None

    def _fill(self) -> None:
        """One place is free."""
        while self._left_off:
            first = next(iter(self._left_off))
            del self._left_off[first]
            found = self._find(*first)
            if found is not None and self._belongs(found):
                self._lines[first] = self._line(found)
                return

    def page(self) -> bytes:
        head = f"# HELP {INFO.name} {INFO.text}\n# TYPE {INFO.name} gauge\n"
        tail = f"# HELP {LEFT_OFF.name} {LEFT_OFF.text}\n# TYPE {LEFT_OFF.name} gauge\n"
        left = f"{LEFT_OFF.name} {len(self._left_off)}\n"
        return "".join([head, *self._lines.values(), tail, left]).encode()

    def _line(self, application: Application) -> str:
        spec = mapping(application, "spec")
        destination = mapping(spec, "destination")
        values = (
            text(application, "metadata", "namespace"),
            text(application, "metadata", "name"),
            project_of(spec),
            "true" if _is_automated(spec) else "false",
            redacted_text(git_urls.normalize(_repository(spec))),
            text(destination, "server") or self._server_of(text(destination, "name")),
            text(destination, "namespace"),
            text(application, "status", "sync", "status") or "Unknown",
            text(application, "status", "health", "status") or "Unknown",
            _operation(application),
        )
        labels = ",".join(
            f'{name}="{_escaped(_cut(each))}"' for name, each in zip(LABELS, values, strict=True)
        )
        return f"{INFO.name}{{{labels}}} 1\n"


def _repository(spec: Mapping[str, Any]) -> str:
    """Of the first source, or of the dry one."""
    listed = sequence(spec, "sources")
    dry = text(spec, "sourceHydrator", "drySource", "repoURL")
    return dry or text(listed[0] if listed else mapping(spec, "source"), "repoURL")


def _is_automated(spec: Mapping[str, Any]) -> bool:
    """As Argo CD's IsAutomatedSyncEnabled: there, and not switched off."""
    automated = value(spec, "syncPolicy", "automated")
    return isinstance(automated, Mapping) and automated.get("enabled") is not False


def _operation(application: Application) -> str:
    if value(application, "metadata", "deletionTimestamp") is not None:
        return "delete"
    return "sync" if value(application, "operation", "sync") is not None else ""


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST_VALUE else f"{label[: LONGEST_VALUE - 1]}…"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
