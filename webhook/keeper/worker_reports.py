"""What workers tell the keeper: one datagram each, dropped rather than waited for.

The status page shows the last denials and the state of each worker's caches; a page is not worth a stalled
review, so a full socket loses the message and the next one tells the state again.
"""

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import orjson

from argocd.judging.case import Finding
from kube.cache import Health
from webhook.admission.review import Review
from webhook.keeper.last_hour import LastHour

DATAGRAM_LIMIT = 64 * 1024
REMEMBERED_DENIALS = 50
REMEMBERED_EXEMPTIONS = 200
SOCKET = "keeper.sock"
OWN_FOLDER = "webhook-"
"""What the name of a process's own folder in the runtime folder begins with; eight random characters follow."""
LONGEST_FOLDER = 107 - len(f"/{OWN_FOLDER}12345678/{SOCKET}")
"""Bytes of the runtime folder's path: Linux's sun_path has 108 with its end."""

LONGEST_PATH = 200
"""Keys of labels and data are part of it, and as long as their writer likes."""

FORGET_AFTER = timedelta(seconds=15)
"""Three reports that did not come."""


@dataclass(frozen=True, slots=True)
class Denial:
    """For the page: who was refused what, and by which rules. Never the object, nor a value of it."""

    time: str
    kind: str
    namespace: str
    name: str
    user: str
    findings: list[tuple[str, str]]
    """Rule and path of each, a few at most."""

    @classmethod
    def of(cls, review: Review, findings: Sequence[Finding]) -> Self:
        told = [(finding.rule, finding.path[:LONGEST_PATH]) for finding in findings[:10]]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(now, review.kind, review.namespace, review.name, review.user[:253], told)


class WorkerReporter:
    """A worker's end."""

    def __init__(self, folder: Path) -> None:
        self._address = str(folder / SOCKET)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's signature

    def denied(self, denial: Denial) -> None:
        self._send({"denial": asdict(denial)})

    def exempted(self, rule: str, reason: str) -> None:
        self._send({"exemption": [rule, reason[:300]]})

    def certificate(self, fingerprint: str, expiry: datetime) -> None:
        self._send({"certificate": {"fingerprint": fingerprint, "expiry": expiry.isoformat()}})

    def trouble(self, what: str, text: str) -> None:
        """Something became wrong, or with an empty text right again."""
        self._send({"trouble": [what, text[:1000]]})

    def counted(self, *, reviews: int, denials: int, rules: Mapping[str, int]) -> None:
        """Since the last time."""
        self._send({"counted": {"reviews": reviews, "denials": denials, "rules": dict(rules)}})

    def caches(self, health: Mapping[str, Health]) -> None:
        self._send({"caches": {name: asdict(state) for name, state in health.items()}})

    def close(self) -> None:
        self._socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        data = orjson.dumps({"worker": os.getpid(), **message})
        with contextlib.suppress(OSError):
            self._socket.sendto(data[:DATAGRAM_LIMIT], self._address)


@dataclass(slots=True)
class WorkerState:
    caches: dict[str, dict[str, Any]] = field(default_factory=dict)
    certificate: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    heard: datetime = field(default_factory=lambda: datetime.now(UTC))


class Reports:
    """The keeper's end: what all workers told, bounded."""

    def __init__(self, denied: Callable[[Denial], None] = lambda _: None) -> None:
        self._denied = denied
        self.denials: deque[Denial] = deque(maxlen=REMEMBERED_DENIALS)
        self.exemptions: dict[tuple[str, str], int] = {}
        self.workers: dict[int, WorkerState] = {}
        self.last_hour = LastHour()

    def take(self, datagram: bytes) -> None:
        """A message that is not ours is dropped: any process in this pod could send one."""
        try:
            message = orjson.loads(datagram)
            worker = self._worker(int(message["worker"]))
            if "denial" in message:
                denial = Denial(**message["denial"])
                self.denials.appendleft(denial)
                self._denied(denial)
            if "exemption" in message:
                self._exempted(*message["exemption"])
            if "counted" in message:
                self.last_hour.add(**message["counted"])
            worker.caches = message.get("caches", worker.caches)
            worker.certificate = message.get("certificate", worker.certificate)
            if "trouble" in message:
                what, text = message["trouble"]
                worker.troubles = {**worker.troubles, what: text}  # whole: pages read it from other threads
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
            return

    def _worker(self, pid: int) -> WorkerState:
        """A new worker comes when another ended, and that one has nothing to say any more."""
        now = datetime.now(UTC)
        if pid not in self.workers:
            self.workers = {
                other: state for other, state in self.workers.items() if now - state.heard < FORGET_AFTER
            }
        worker = self.workers.setdefault(pid, WorkerState())
        worker.heard = now
        return worker

    def _exempted(self, rule: str, reason: str) -> None:
        key = (rule, reason)
        if key in self.exemptions or len(self.exemptions) < REMEMBERED_EXEMPTIONS:
            self.exemptions[key] = self.exemptions.get(key, 0) + 1
