"""`tiphys ha` to a real pair: what it prints for people and for programs, what is refused, with which exit code."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from cli.commands.ha import command
from cli.explanations.ha_status import HELD_COLUMNS, first_sync, held_rows, not_in_step, status_lines
from kube.resources import APP_PROJECTS
from kube.store import Object, Resource
from sidecars.replication.kinds import BY_NAME
from tests.cli.golden_files import compare
from tests.cli.terminals import Seen, on_a_terminal
from tests.sidecars.pair_in_memory import ARGOCD, project, until
from tests.sidecars.processes import PATIENCE
from tests.sidecars.replication.paired_principals import FencedStore, Region, regions
from tests.sidecars.wire.listening_principal import until as eventually
from tiphys.errors import CallError, TiphysError

VOLATILE = {
    **dict.fromkeys(("pair", "principal", "history", "when", "address", "compared_at"), "…"),
    **dict.fromkeys(("sequence", "applied", "seen", "sent", "acknowledged"), 0),
    **dict.fromkeys(
        ("asked_seconds", "reported_seconds", "compared_seconds", "lag_seconds", "lag_events", "lag_bytes"), 0
    ),
}
"""Keys of status whose values differ from run to run."""
CHANGING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{16,64}\b", "ID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "WHEN"),
    (r"(localhost|127\.0\.0\.1):\d+", r"\1:PORT"),
    (r"\S+@\S+(?=: )", "OPERATOR"),
    (r"token [0-9a-f]{8}", "token TOKEN"),
    (r"(?<=sequence )\d+|(?<=compared )\d+|(?<=told )\d+|\d+ of \d+(?= in history)|(?<= at )\d+(?=, )", "N"),
    (r"\d+ events, (\d+ bytes, )?[\d.]+ s behind", "N behind"),
    (r"for about \d+ s", "for about N s"),
    # How far the replica was when they met.
    (r"(?<=the peer is )syncing(?=\)|$)", "replicating"),
    # grpc's own words, which depend on what it tried last.
    (r"(UNAVAILABLE: |\()failed to connect[^)\n]*", r"\1…"),
)


def settled(text: str) -> str:
    for pattern, words in CHANGING:
        text = re.sub(pattern, words, text)
    return text


def settled_json(item: Any, key: str = "") -> Any:
    if key in VOLATILE and isinstance(item, int | float | str):
        return VOLATILE[key]
    if key in {"digests", "who"}:
        return sorted(item) if isinstance(item, dict) else "…"
    if isinstance(item, dict):
        return {name: settled_json(part, name) for name, part in item.items()}
    if isinstance(item, list):
        return [settled_json(part) for part in item]
    return settled(item) if isinstance(item, str) else item


class Operator:
    """At one region's admin port. A command has its own loop, so it runs in a thread of its own."""

    def __init__(self, region: Region) -> None:
        self._region = region

    async def __call__(self, *words: str) -> tuple[int, str]:
        return await asyncio.to_thread(run, *words, "--address", f"127.0.0.1:{await self._port()}")

    async def _port(self) -> int:
        assert self._region.process is not None
        assert self._region.process.pair is not None
        admin = self._region.process.pair.admin
        assert admin is not None
        async with asyncio.timeout(PATIENCE):
            await admin.listening.wait()
        return admin.port

    async def on_a_terminal(self, *words: str, looks: Callable[[str], object]) -> Seen:
        address = f"127.0.0.1:{await self._port()}"
        return await asyncio.to_thread(on_a_terminal, ["ha", *words, "--address", address], looks=looks)

    async def golden(self, name: str, *words: str, code: int = 0) -> None:
        """In text; JSON besides where something is printed."""
        ended, told = await self(*words)
        assert ended == code, told
        compare(f"ha/{name}.txt", settled(told))

    async def golden_json(self, name: str, *words: str) -> None:
        ended, told = await self(*words, "--format", "json")
        assert ended == 0, told
        compare(f"ha/{name}.json", json.dumps(settled_json(json.loads(told)), indent=2) + "\n")


def run(*words: str) -> tuple[int, str]:
    """As `cli.main` ends. Standard error is the log of the principals in this process too."""
    done = CliRunner().invoke(command, words)
    if isinstance(done.exception, TiphysError):
        return done.exception.exit_code, f"{done.stdout}tiphys: {done.exception}\n"
    return done.exit_code, done.stdout


async def both_see_each_other(active: Region, standby: Region) -> None:
    await active.until("active")
    await standby.until("replicating")
    async with asyncio.timeout(PATIENCE):
        while True:
            view = active.controller.view
            replicas = active.controller.role.source.replicas()
            if (
                view is not None
                and view.handshake is not None
                and view.handshake.state == "replicating"
                and any(each.digests_equal for each in replicas)
                and standby.controller.role.replica.progress().digests_equal
                and active.controller.report is not None
                and standby.controller.report is not None
                and active.controller.fence_report.stands
                and standby.controller.fence_report.stands
                and all(each.controller.role.held_record().peer for each in (active, standby))
            ):
                return
            await active.controller.ask()
            await standby.controller.ask()
            await asyncio.sleep(0.01)


async def test_an_operators_words_from_a_look_to_a_switchover_and_back() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await asyncio.gather(one.start(), two.start())
        await one.until("active")
        await a.create(APP_PROJECTS, project("web"), namespace=ARGOCD)
        await until(b, APP_PROJECTS, lambda there: "web" in there)
        await both_see_each_other(one, two)
        first, second = Operator(one), Operator(two)
        await first.golden("status-active", "status")
        await first.golden_json("status-active", "status")
        await second.golden("status-standby", "status")
        await second.golden_json("status-standby", "status", "--held")
        assert "\nheld          nothing\n" in (await second("status", "--held"))[1]
        assert await second("status", "--held", "-o", "name") == (0, "")
        assert await second("status", "--held", "-o", "wide") == (0, "nothing is held back\n")
        steps = yaml.safe_load((await first("switchover", "--dry-run", "-o", "yaml"))[1])["steps"]
        assert len(steps) > 1
        await first.golden("switchover-dry-run", "switchover", "--dry-run")
        await first.golden_json("switchover-dry-run", "switchover", "--dry-run")
        # Refusals change nothing.
        records = [each.controller.role.record for each in (one, two)]
        await second.golden("refused-promote", "promote", "--reason", "why not", code=1)
        await second.golden("refused-force", "promote", "--force", "--reason", "why not", code=1)
        await second.golden("refused-demote", "demote", code=1)
        await second.golden("refused-switchover", "switchover", "--dry-run", code=1)
        await second.golden("refused-release", "release", code=1)
        await second.golden("refused-kind", "accept-deletions", "frogs", code=1)
        await first.golden("refused-resume", "resume", code=1)
        await first.golden("refused-accept-deletions", "accept-deletions", "appprojects", code=1)
        assert records == [each.controller.role.record for each in (one, two)]
        # There by switchover, back by demote and promote.
        await first.golden("switchover", "switchover", "--reason", "maintenance")
        await both_see_each_other(two, one)
        await second.golden_json("switchover", "switchover", "--reason", "and back")
        await both_see_each_other(one, two)
        await first.golden("demote", "demote", "--reason", "failback")
        await two.until("disconnected")
        await second.golden("promote", "promote", "--reason", "failback")
        await both_see_each_other(two, one)
        await second.golden("release", "release", "--reason", "nothing is missing")
        await second.golden_json("release", "release", "--agent", "prod")
        await second.golden_json("demote", "demote")
        await one.until("disconnected")
        await first.golden_json("promote", "promote", "--force", "--epoch", "4", "--reason", "I know")


async def test_a_principal_that_waits_is_let_serve() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await asyncio.gather(one.start(), two.start())
        await both_see_each_other(one, two)
        await two.stop()
        for form in ("text", "json"):
            await one.stop()
            await one.start()
            await one.until("recovering")
            await eventually(lambda: one.controller.fence_report.stands)
            operator = Operator(one)
            if form == "text":
                await operator.golden("status-waiting", "status")
                await operator.golden("refused-bootstrap", "resume", "--bootstrap", code=1)
                await operator.golden("resume", "resume", "--reason", "the other is gone for good")
            else:
                await operator.golden_json("resume", "resume")


async def test_deletions_that_wait_are_accepted() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await asyncio.gather(one.start(), two.start())
        names = [f"project-{number}" for number in range(30)]
        for name in names:
            await a.create(APP_PROJECTS, project(name), namespace=ARGOCD)
        await until(b, APP_PROJECTS, lambda there: set(names) <= set(there))
        await both_see_each_other(one, two)
        await one.stop()
        for name in names[:25]:
            await a.delete(APP_PROJECTS, name=name, namespace=ARGOCD)
        await one.start()
        await one.until("active")
        await eventually(lambda: bool(two.controller.role.replica.progress().held_deletions))
        await Operator(two).golden(
            "accept-deletions", "accept-deletions", "appprojects", "--reason", "cleaned up"
        )
        await until(b, APP_PROJECTS, lambda there: not set(names[:25]) & set(there))


class HaltedStore(FencedStore):
    """Projects are written up to the tenth, and then no more before `goes_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self._projects = 0

    async def create(self, resource: Resource, body: Object, **more: Any) -> Object:
        if resource is APP_PROJECTS:
            self._projects += 1
            if self._projects > 10:
                await self.goes_on.wait()
        return await super().create(resource, body, **more)


async def test_who_waits_for_a_replica_sees_how_much_of_its_first_sync_is_written() -> None:
    a, b = FencedStore(), HaltedStore()
    for number in range(40):
        await a.create(APP_PROJECTS, project(f"project-{number}"), namespace=ARGOCD)
    loop = asyncio.get_running_loop()

    def looks(screen: str) -> None:
        if re.search(r"25%.*: 30 of 40 missing", screen):
            loop.call_soon_threadsafe(b.goes_on.set)

    async with regions(a, b) as (one, two):
        await asyncio.gather(one.start(), two.start())
        await eventually(lambda: two.controller.role.replica.progress().expected == 40)
        operator = Operator(two)
        code, told = await operator("status", "--wait", "10ms")
        assert code == 1, told
        assert (
            " missing\n" in told.partition("tiphys: the pair is not in step: this principal is syncing: ")[2]
        )
        seen = await operator.on_a_terminal("status", "--wait", "1m", looks=looks)
        assert seen.code == 0, seen.screen
        assert seen.out.startswith("state         replicating\n")
        code, told = await Operator(one)("status", "--wait", "1m")
        assert code == 0, told
        assert told.startswith("state         active\n")


def test_a_pair_is_in_step_where_both_are_fenced_and_equal() -> None:
    equal = {"digests_equal": dict.fromkeys(BY_NAME, True)}
    standby = {"fenced": True, "state": "replicating", "replication": {**equal, "synced_once": True}}
    active = {"fenced": True, "state": "active", "replicas": [{"identity": "principal-b", **equal}]}
    assert [not_in_step(standby), not_in_step(active)] == ["", ""]
    assert not_in_step({**standby, "fenced": False, "fence_problem": "gone"}) == (
        "this cluster is not fenced: gone"
    )
    assert not_in_step(
        {**standby, "replication": {"digests_equal": {**equal["digests_equal"], "clusters": False}}}
    ) == ("clusters differ, or were not compared yet")
    assert not_in_step({**standby, "state": "disconnected"}) == "this principal is disconnected"
    assert not_in_step({**active, "replicas": []}) == "nobody follows this principal"
    assert not_in_step({**active, "replicas": [{"identity": "principal-b"}]}).startswith(
        "principal-b: appprojects, "
    )
    # argocd-agent's compares nothing.
    assert not not_in_step({**standby, "replication": {}, "peer": {"argocd_agent": True}})
    assert not not_in_step({**active, "replicas": [], "argocd_agent_replicas": 1})


def test_a_first_sync_has_a_size_once_the_primary_has_told_it() -> None:
    assert first_sync({"replication": {"missing": 30, "expected": 40}}) == (10, 40)
    for unknown in ({"missing": -1, "expected": 0}, {"missing": 0, "expected": 0}, {}):
        assert first_sync({"replication": unknown}) == (0, None)


def test_what_cannot_be_asked_ends_with_2(tmp_path: Path) -> None:
    file = tmp_path / "tls.crt"
    file.write_text("no certificate")
    for name, words in (
        ("nobody-answers", ("status", "--address", "127.0.0.1:1")),
        ("nobody-answers", ("status", "--wait", "10ms", "--address", "127.0.0.1:1")),
        ("half-a-certificate", ("status", "--tls-cert", str(file))),
        (
            "no-certificate",
            ("status", *(word for flag in ("cert", "key", "ca") for word in (f"--tls-{flag}", str(file)))),
        ),
    ):
        code, told = run(*words)
        assert code == 2, told
        compare(f"ha/{name}.txt", settled(told).replace(str(tmp_path), "FOLDER"))


def test_trouble_of_a_standby_is_told() -> None:
    """What no healthy pair shows."""
    told = {
        "state": "disconnected",
        "detail": "diverged",
        "reason": "the primary began another history",
        "epoch": 2,
        "highest_epoch": 3,
        "pair": "p",
        "principal": "b",
        "fenced": False,
        "fence_problem": "ValidatingAdmissionPolicy tiphys-ha-fence and its binding are not there, or not in force",
        "connected_agents": 0,
        "peer": {
            "address": "a:443",
            "reachable": True,
            "state": "active",
            "epoch": 3,
            "differences": ["namespace argocd, ours argo"],
            "report": {
                "detail": "demoting",
                "sequence": 9,
                "lag_events": 2,
                "digests": {"applications": "ab"},
                "connected_agents": 12,
                "agents": [
                    {"name": f"prod-{number}", "mode": "managed", "since": "2026-01-01T00:00:00Z"}
                    for number in range(12)
                ],
            },
            "reported_seconds": 4.2,
        },
        "replication": {
            "applied": 7,
            "seen": 9,
            "history": "h",
            "synced_once": False,
            "missing": 4,
            "digests_equal": {"appprojects": False, "applications": True},
            "compared_seconds": 3.0,
            "held_deletions": {"appprojects": 25},
            "dead_letter_count": 12,
            "dead_letters": [
                {
                    "kind": "applications",
                    "namespace": "prod",
                    "name": f"shop-{number}",
                    "reason": "admission refused \x1b[31m",
                }
                for number in range(12)
            ],
            "surplus_count": 1,
            "surplus": [{"what": "deleted", "kind": "applications", "namespace": "prod", "name": "till"}],
        },
        "held_count": 1,
        "held": [{"agent": "prod", "kind": "Application", "namespace": "prod", "name": "shop"}],
        "audit": [{"when": "2026-01-01T00:00:00Z", "who": "jo@ops", "what": "promotion", "why": "fire"}],
    }
    compare("ha/status-trouble.txt", "\n".join(status_lines(told)) + "\n")


def test_what_is_held_is_listed_in_the_forms_of_lists() -> None:
    held = [
        {"agent": "prod", "kind": "Application", "namespace": "prod", "name": "shop"},
        {"agent": "edge", "kind": "AppProject", "namespace": "argocd", "name": "till"},
    ]
    rows = held_rows({"held": held})
    assert HELD_COLUMNS.lines(rows, "name") == ["application/prod/shop", "appproject/argocd/till"]
    assert HELD_COLUMNS.lines(rows, "wide") == [
        "AGENT  KIND         NAMESPACE  NAME",
        "prod   Application  prod       shop",
        "edge   AppProject   argocd     till",
    ]


def test_forms_of_lists_need_a_list() -> None:
    result = CliRunner().invoke(command, ["status", "-o", "name"])
    assert isinstance(result.exception, CallError)
    assert str(result.exception) == "-o name is a form of lists: say --held too"
