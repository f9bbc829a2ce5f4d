"""Mutated reviews against the ASGI application in this process: reproducible by its seed.

`python -m tests.webhook.server.fuzzing --hours 2` runs more of them than the tests do; `--seed` begins elsewhere.
"""

import argparse
import asyncio
import copy
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import orjson
import yaml

from argocd import reading
from argocd.engine.configuration_file import parse_configuration
from argocd.engine.directory import Directory, Shelf
from argocd.judging.case import Kind, Surroundings, kind_of
from argocd.rules.catalogue import CATALOGUE
from argocd.settings.argocd_cm import read_settings
from tests.crowd import crowd
from tests.webhook.plain_server import Silent
from webhook.admission.cluster_state import Snapshot
from webhook.admission.decisions import Decisions
from webhook.admission.offline import FixedState
from webhook.admission.review import Review, ReviewAnswer
from webhook.injection.templates import parse_template
from webhook.server.asgi import ReviewApp
from webhook.server.composition import endpoints_of

PATHS = ("/validate", "/mutate", "/inject")
SLOWEST_SECONDS = 1.0
"""Of one review: far above what one takes, far below what the API server waits."""
MOST_MEBIBYTES = 150
"""What the largest body may take while it is read, and memos that are full."""
LOOK_EVERY = 50
"""Reviews between two looks at the memory."""
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
    *(
        "https://kubernetes.default.svc",
        "system:serviceaccount:a:b",
        "true",
        "True",
        "p, a, b, c, d, e",
        "1h",
    ),
)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-0", "namespace": "web", "annotations": {"tiphys.dev/inject": "agent"}},
    "spec": {"containers": [{"name": "web", "image": "web"}], "volumes": [{"name": "v", "emptyDir": {}}]},
}


@dataclass
class Outcome:
    """`failures` are what must not be: a 5xx, a rule that broke, an answer to somebody else."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    """Seconds of the processor: nothing here waits, and what other programs take is not ours."""
    most_mebibytes: float = 0.0
    """That this process has grown by since the first review, which loads what is loaded late."""

    @property
    def problems(self) -> list[str]:
        """Failures, and limits that were not kept."""
        found = list(self.failures)
        limit = SLOWEST_SECONDS * crowd()
        if self.slowest > limit:
            found.append(f"a review took {self.slowest:.2f} s of the processor, above {limit:g}")
        if self.most_mebibytes > MOST_MEBIBYTES:
            found.append(f"{self.most_mebibytes:.0f} MiB more than before, above {MOST_MEBIBYTES}")
        return found


class Watcher(Silent):
    """Hears of crashes, and of rules that failed inside."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def crashed(self, path: str, error: Exception) -> None:
        self._outcome.failures.append(f"{path}: {error!r}")

    def answered(self, path: str, review: Review, answer: ReviewAnswer, seconds: float) -> None:
        for judgement in answer.judgements:
            if judgement.finding.message.startswith("this rule failed"):
                self._outcome.failures.append(f"{judgement.finding.rule}: {judgement.finding.message}")


def corpus() -> list[dict[str, Any]]:
    """The examples of all rules, and a pod."""
    texts = [text for rule in CATALOGUE for text in (rule.good, rule.bad)]
    documents = [document for text in texts for document in yaml.safe_load_all(text) if document]
    return [*documents, POD]


def application(objects: list[dict[str, Any]], outcome: Outcome) -> ReviewApp:
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
    for thing in objects:
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
    snapshot = Snapshot(
        Surroundings(settings=settings, configuration=configuration, neighbours=directory),
        namespace=lambda _: namespace,
        templates={"agent": template},
    )
    watcher = Watcher(outcome)
    decisions = Decisions(FixedState(snapshot), today=lambda: date(2027, 1, 1))
    return ReviewApp(
        endpoints=endpoints_of(decisions),
        folder=Path(),
        background=watcher,
        observer=watcher,
        drain_seconds=0,
    )


def review_of(thing: Any, old: Any, chance: random.Random) -> dict[str, Any]:
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


def mutate(thing: Any, chance: random.Random, objects: list[dict[str, Any]]) -> Any:
    """A copy with something else at one to three random places."""
    changed = copy.deepcopy(thing)
    for _ in range(chance.randint(1, 3)):
        holder, key = _place(changed, chance)
        if holder is None:
            continue
        choice = chance.random()
        if choice < 0.15:
            del holder[key]
        elif choice < 0.3:
            holder[key] = copy.deepcopy(_place(chance.choice(objects), chance)[0])
        elif choice < 0.4 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif choice < 0.5 and isinstance(holder[key], str):
            at = chance.randint(0, len(holder[key]))
            holder[key] = holder[key][:at] + str(chance.choice(JUNK))[:40] + holder[key][at:]
        else:
            holder[key] = copy.deepcopy(chance.choice(JUNK))
    return changed


def _place(thing: Any, chance: random.Random) -> tuple[Any, Any]:
    holder, key = None, None
    inner = thing
    while isinstance(inner, dict | list) and inner and (holder is None or chance.random() < 0.8):
        holder = inner
        key = chance.choice(list(inner)) if isinstance(inner, dict) else chance.randrange(len(inner))
        inner = holder[key]
    return holder, key


def bodies(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    chance, objects = random.Random(seed), corpus()
    for _ in range(count):
        first = chance.choice(objects)
        thing = mutate(first, chance, objects)
        review = review_of(thing, first, chance)
        kind = chance.random()
        if kind < 0.1:
            review = mutate(review, chance, objects)
        body = orjson.dumps(review, option=orjson.OPT_NON_STR_KEYS)
        if kind > 0.95:
            body = _damaged(body, chance)
        yield chance.choice(PATHS), body


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


async def run(count: int, *, seed: int) -> Outcome:
    outcome = Outcome()
    served = application(corpus(), outcome)
    scope = {
        "type": "http",
        "method": "POST",
        "query_string": b"timeout=5s",
        "headers": [(b"content-type", b"application/json")],
    }
    before = 0.0
    for number, (path, body) in enumerate(bodies(count, seed)):
        sent: list[dict[str, Any]] = []

        async def receive(body: bytes = body) -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any], sent: list[dict[str, Any]] = sent) -> None:
            sent.append(message)

        begin = time.thread_time()
        await served({**scope, "path": path}, receive, send)
        outcome.slowest = max(outcome.slowest, time.thread_time() - begin)
        if number % LOOK_EVERY == 0:
            before = before or _mebibytes()
            outcome.most_mebibytes = max(outcome.most_mebibytes, _mebibytes() - before)
        status = sent[0]["status"]
        outcome.statuses[status] += 1
        if status >= 500 or len(outcome.failures) > 20:
            outcome.failures.append(f"{path} {status}: {body[:2000]!r}")
            break
    return outcome


def _mebibytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--hours", type=float, default=0.1)
    given.add_argument(
        "--seed", type=int, default=1000, help="of the first ten thousand; the next have the next"
    )
    options = given.parse_args()
    end = time.monotonic() + options.hours * 3600
    for seed in itertools.count(options.seed):
        outcome = asyncio.run(run(10_000, seed=seed))
        print(seed, outcome, flush=True)  # noqa: T201 - a program
        if outcome.problems or time.monotonic() > end:
            raise SystemExit("\n".join(outcome.problems))


if __name__ == "__main__":
    main()
