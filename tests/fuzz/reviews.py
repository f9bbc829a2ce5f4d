"""AdmissionReviews, what nearly is one, and noise, through a worker's application: answered in bounded steps."""

import asyncio
import copy
import gc
import random
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import yaml

from argocd import reading
from argocd.budget import DEFAULT_STEPS, StepBudget
from argocd.engine.configuration_file import parse_configuration
from argocd.engine.directory import Directory, Shelf
from argocd.judging.case import Kind, Surroundings, kind_of
from argocd.rules.any_object import TOO_COSTLY
from argocd.rules.catalogue import CATALOGUE
from argocd.settings.argocd_cm import read_settings
from tests.fuzz.target import Target
from tests.webhook.plain_server import Silent
from tiphys import logs
from webhook.admission.cluster_state import Snapshot
from webhook.admission.decisions import Decisions
from webhook.admission.offline import FixedState
from webhook.admission.review import Review, ReviewAnswer
from webhook.injection.templates import parse_template
from webhook.keeper.worker_reports import WorkerReporter
from webhook.server.asgi import ReviewApp
from webhook.server.composition import endpoints_of
from webhook.server.metrics import WorkerMetrics

PATHS = ("/validate", "/mutate", "/inject")
STATUSES = frozenset({200, 400, 413})
ENDED = (TOO_COSTLY.id.encode(), b"takes too long")
"""Of an answer that says that the budget was used up."""
LARGEST = 512 * 1024
"""Bytes of a body, but for some that are damaged: an input that is slow by its size alone says nothing."""
WRITERS = (
    "jason",
    "system:serviceaccount:argocd:argocd-application-controller",
    "system:serviceaccount:argocd:tiphys-principal",
    "system:serviceaccount:edge-1:agent",
    "",
)
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e308, 2**63, "", " ", "*", "!*", "[", "{{", "\x00", "\ud7ff", "é" * 70),
    *([], {}, [[]], [{}], [None], {"": None}, "a" * 5000, ["x"] * 300, {"a": {"b": {"c": {}}}}, "0 0 31 2 *"),
    *("https://kubernetes.default.svc", "system:serviceaccount:a:b", "true", "p, a, b, c, d, e", "1h"),
)
PIECES = (
    "{a,",
    "{*a,",
    "{,",
    "}",
    "{a,b}",
    "*a",
    "?*",
    "[ab]",
    "**/",
    "(a|b)*",
    "(",
    ")*",
    "(?=a)",
    "{{ ",
    " }}",
    "|.",
)
"""Of patterns, expressions and templates: a text of many of them is what a matcher may take long for."""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-0", "namespace": "web", "annotations": {"tiphys.dev/inject": "agent"}},
    "spec": {"containers": [{"name": "web", "image": "web"}], "volumes": [{"name": "v", "emptyDir": {}}]},
}


@cache
def corpus() -> tuple[dict[str, Any], ...]:
    """The examples of all rules, and a pod."""
    texts = [text for rule in CATALOGUE for text in (rule.good, rule.bad)]
    return (*(document for text in texts for document in yaml.safe_load_all(text) if document), POD)


def make(chance: random.Random) -> bytes:
    shape = chance.random()
    if shape < 0.02:
        return chance.randbytes(chance.randrange(200))
    first = chance.choice(corpus())
    review = _review(_mutated(first, chance), first, chance)
    if shape < 0.1:
        review = _mutated(review, chance)
    body = orjson.dumps(review, option=orjson.OPT_NON_STR_KEYS)
    return _damaged(body, chance) if shape > 0.95 else body


def _review(thing: Any, old: Any, chance: random.Random) -> dict[str, Any]:
    """As the API server asks: what it says of the request is right, whatever the object looks like."""
    group, _, version = old["apiVersion"].rpartition("/")
    metadata = reading.mapping(old, "metadata")
    operation = chance.choice(("CREATE", "UPDATE", "UPDATE", "DELETE", "CONNECT"))
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": group, "version": version, "kind": old["kind"]},
            "resource": {"group": group, "version": version, "resource": "things"},
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace", "argocd"),
            "operation": operation,
            "userInfo": {"username": chance.choice(WRITERS), "groups": ["system:authenticated"]},
            "object": None if operation == "DELETE" else thing,
            "oldObject": old if operation in {"UPDATE", "DELETE"} else None,
            "dryRun": chance.random() < 0.5,
        },
    }


def _mutated(thing: Any, chance: random.Random) -> Any:
    """A copy with something else at one to three random places."""
    changed = copy.deepcopy(thing)
    room = LARGEST
    for _ in range(chance.randint(1, 3)):
        holder, key = _place(changed, chance)
        if holder is None:
            continue
        choice, many = chance.random(), 1 << chance.randrange(13)
        if choice < 0.1:
            del holder[key]
        elif choice < 0.25:
            holder[key] = copy.deepcopy(_place(chance.choice(corpus()), chance)[0])
        elif choice < 0.45 and isinstance(holder, list):
            entry = copy.deepcopy(holder[key])
            many = min(many, room // (len(orjson.dumps(entry, option=orjson.OPT_NON_STR_KEYS)) + 8))
            holder += [_numbered(entry, number) for number in range(many)]
            room //= 4
        elif choice < 0.6 and isinstance(holder[key], str):
            at = chance.randint(0, len(holder[key]))
            hostile = "".join(chance.choices(PIECES, k=2)) * min(many, room // 16)
            holder[key] = holder[key][:at] + hostile + holder[key][at:]
            room //= 4
        else:
            holder[key] = copy.deepcopy(chance.choice(JUNK))
    return changed


def _numbered(entry: Any, number: int) -> Any:
    """Entries that differ, for what is alike is compared once."""
    if isinstance(entry, str):
        return f"{entry}{number}"
    if isinstance(entry, dict):
        return {key: _numbered(value, number) for key, value in entry.items()}
    return entry


def _place(thing: Any, chance: random.Random) -> tuple[Any, Any]:
    holder, key = None, None
    inner = thing
    while isinstance(inner, dict | list) and inner and (holder is None or chance.random() < 0.8):
        holder = inner
        key = chance.choice(list(inner)) if isinstance(inner, dict) else chance.randrange(len(inner))
        inner = holder[key]
    return holder, key


def _damaged(body: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(body))
    return chance.choice(
        (
            body[:at],
            body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :],
            body[:at] + body,
            body.replace(b'"spec"', b'"metadata"', 1),
            body.replace(b"{", b'{"a":1,"a":2,', 1),
            b"[" * 3000 + body,
            body.replace(b'"spec":', b'"spec":' + b'{"a":' * 400, 1).replace(b"}", b"}" * 401, 1),
            body.replace(b'"spec":', b'"status":[' + b"{}," * 250_000 + b'{}],"spec":', 1),
            body.replace(b'"spec":', b'"status":[' + b" [ ] ," * 100_000 + b'0],"spec":', 1),
            body.replace(b'"name":"', b'"name":"' + b"n" * 1_000_000, 1),
            body.replace(b'"kind":"', b'"kind":"' + b"K" * 1_000_000, 1),
        )
    )


class Watcher(WorkerMetrics):
    """What a worker counts; and it hears of crashes, and of rules that failed inside."""

    def __init__(self, reporter: WorkerReporter) -> None:
        super().__init__(reporter)
        self.failures: list[str] = []

    def crashed(self, path: str, error: Exception) -> None:
        self.failures.append(f"{path}: {error!r}")

    def answered(self, path: str, review: Review, answer: ReviewAnswer, seconds: float) -> None:
        super().answered(path, review, answer, seconds)
        for judgement in answer.judgements:
            if judgement.finding.message.startswith("this rule failed"):
                self.failures.append(f"{judgement.finding.rule}: {judgement.finding.message}")


@cache
def _served() -> tuple[ReviewApp, Watcher, asyncio.AbstractEventLoop]:
    logs.configure(level="critical")
    watcher = Watcher(WorkerReporter(Path(tempfile.gettempdir()) / "nobody-listens"))
    served = ReviewApp(
        endpoints=endpoints_of(Decisions(FixedState(_snapshot()), today=lambda: date(2027, 1, 1))),
        folder=Path(),
        background=Silent(),
        observer=watcher,
        drain_seconds=0,
    )
    # As a worker does: what is there before the first review is not looked through for garbage.
    gc.collect()
    gc.freeze()
    return served, watcher, asyncio.new_event_loop()


def _snapshot() -> Snapshot:
    configuration, problems = parse_configuration(
        {
            "agents": {
                "autonomous": ["edge-*"],
                "identity": "system:serviceaccount:(?P<agent>[a-z0-9-]+):agent",
            }
        }
    )
    assert not problems
    directory = Directory(argocd_namespace="argocd", known=list(Shelf))
    fill = {
        Kind.PROJECT: directory.put_project,
        Kind.APPLICATION: directory.put_application,
        Kind.CLUSTER: directory.put_secret,
        Kind.REPOSITORY: directory.put_secret,
    }
    for thing in corpus():
        if put := fill.get(kind_of(thing)):
            put(thing)
    settings = read_settings({"data": {"installationID": "guid-1"}}, configuration=configuration)
    template = parse_template("agent", "container: {image: tiphys}", origin="fuzzing")
    namespace = {
        "metadata": {
            "labels": {"tiphys.dev/tracking": "enabled"},
            "annotations": {"tiphys.dev/tracking-application": "shop"},
        }
    }
    return Snapshot(
        Surroundings(settings=settings, configuration=configuration, neighbours=directory),
        namespace=lambda _: namespace,
        templates={"agent": template},
    )


def _parts(body: bytes, options: random.Random) -> Iterator[dict[str, Any]]:
    """As it may come over the wire: in one piece, or in two."""
    at = options.choice((0, options.randint(0, len(body))))
    if at:
        yield {"type": "http.request", "body": body[:at], "more_body": True}
    yield {"type": "http.request", "body": body[at:], "more_body": False}


async def _ask(served: ReviewApp, body: bytes) -> tuple[int, bytes]:
    """By its bytes, so that an input does the same again."""
    options = random.Random(body)
    parts, sent = _parts(body, options), list[Mapping[str, Any]]()
    length = [(b"content-length", b"%d" % len(body))] if options.random() < 0.8 else []

    async def receive() -> dict[str, Any]:
        return next(parts)

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": options.choice(PATHS),
        "query_string": b"timeout=5s",
        "client": ("127.0.0.1", 1),
        "headers": [(b"content-type", b"application/json"), *length],
    }
    await served(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


def run(body: bytes) -> None:
    served, watcher, loop = _served()
    with StepBudget() as spent:
        status, answer = loop.run_until_complete(_ask(served, body))
    assert not watcher.failures, watcher.failures
    assert status in STATUSES, (status, answer[:1000])
    assert (b'"response"' in answer) is (status == 200), answer[:1000]
    # What costs more than it may has been ended, and whoever asked was told; a deletion passes without a word.
    ended = b'"operation":"DELETE"' in body or any(text in answer for text in ENDED)
    assert spent.steps <= DEFAULT_STEPS or ended, spent.steps


TARGET = Target("reviews", make=make, run=run, seconds=3, mebibytes=150)
