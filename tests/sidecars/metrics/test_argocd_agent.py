"""What principal and agent tell Prometheus, under argocd-agent's names and ours."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from argocd import names
from argocd.agents.vocabulary import Message, Target
from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore, Hooks
from kube.errors import InvalidError
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from sidecars.delivery.comparison import ComparisonReport, Difference
from sidecars.delivery.outbox import OutboxLimits
from sidecars.delivery.outcomes import DeadLetter, DeadLetterReason
from sidecars.delivery.timing import Backoff
from sidecars.metrics import argocd_agent
from sidecars.metrics.per_peer import agent_figures, principal_figures
from sidecars.mirroring.inventories import Inventories
from sidecars.mirroring.link import Link, LinkHandler, Runtime, SendAttempt
from sidecars.wire.events import Event, object_event
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub, Pair, application, change, describe, project, until
from tests.sidecars.processes import PATIENCE, Pki
from tests.sidecars.wire.listening_principal import until as eventually
from tiphys import __version__, metrics
from tiphys.errors import ObjectError, SurroundingsError

AGENT = "agent-a"
REFUSED = "refused"


class Scraped:
    """Samples by name and labels, in any order of labels."""

    def __init__(self, text: str) -> None:
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self._samples.get((name, frozenset(labels.items())), 0.0)

    def has(self, name: str, **labels: str) -> bool:
        return (name, frozenset(labels.items())) in self._samples

    def sum(self, name: str, **labels: str) -> float:
        """Over all other labels."""
        wanted = labels.items()
        return sum(
            value
            for (found, held), value in self._samples.items()
            if found == name and wanted <= dict(held).items()
        )

    def names(self) -> set[str]:
        return {name for name, _ in self._samples}


def now() -> Scraped:
    """Of this process, whose registry other tests have counted in too."""
    return Scraped(metrics.exposition().decode())


async def scraped(port: int, condition: Callable[[Scraped], Any]) -> Scraped:
    """Once the condition holds: figures follow events that a test does not see."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status, text = await processes.fetch(port, "/metrics")
            assert status == 200
            if condition(found := Scraped(text)):
                return found


async def refuse(request: AdmissionRequest) -> Admitted:
    if request.name == REFUSED:
        raise InvalidError("spec: never")
    return Admitted()


@asynccontextmanager
async def ends() -> AsyncIterator[tuple[EmbeddedStore, EmbeddedStore, Any, Any]]:
    hub = EmbeddedStore(namespaces=[ARGOCD, AGENT])
    workload = EmbeddedStore(namespaces=[ARGOCD], hooks=Hooks(admission=refuse))
    pki = Pki()
    await Hub(hub).know(AGENT)
    async with (
        processes.principal(hub, pki, allowed_namespaces=(AGENT,)) as principal,
        processes.connected_agent(workload, pki, name=AGENT, port=principal.port) as agent,
    ):
        yield hub, workload, principal, agent


def test_dead_letters_are_counted_from_nought_so_that_the_first_is_an_increase() -> None:
    found = Scraped(_of_a_new_process())
    for target in ("application", "appproject", "repository", "other"):
        for reason in DeadLetterReason:
            assert found.has("tiphys_sidecars_dead_letters_total", target=target, reason=reason.value)


def _of_a_new_process() -> str:
    code = "import sidecars.mirroring.link; from tiphys import metrics; print(metrics.exposition().decode())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


async def test_both_ends_count_attempts_and_failures_by_kind_direction_and_agent() -> None:
    before = now()
    async with ends() as (hub, workload, principal, agent):
        await hub.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await hub.create(APPLICATIONS, application(), namespace=AGENT)
        await hub.create(APPLICATIONS, application(REFUSED), namespace=AGENT)
        there = await until(workload, APPLICATIONS, lambda there: "shop" in there)
        await workload.replace(APPLICATIONS, {**there["shop"], "status": {"health": {"status": "Healthy"}}})
        shown = await until(
            hub,
            APPLICATIONS,
            lambda there: there["shop"].get("status") and there[REFUSED].get("status"),
            namespace=AGENT,
        )
        assert "never" in str(shown[REFUSED]["status"])

        sent = {"agent": AGENT, "direction": "sent"}
        received = {"agent": AGENT, "direction": "received"}
        attempts, failures = "tiphys_sidecars_sync_attempts_total", "tiphys_sidecars_sync_failures_total"
        found = await scraped(
            principal.metrics.port, lambda found: found("tiphys_sidecars_queue_events", agent=AGENT) == 0
        )
        assert found(attempts, kind="appproject", **sent) == 1
        assert found(attempts, kind="application", **sent) >= 2
        assert found(attempts, kind="application", **received) >= 2  # the status, and the error
        assert found(failures, kind="application", **received) == 0
        assert (
            found(
                "principal_event_processing_time_count",
                status="success",
                agent_name=AGENT,
                resource_type="application",
            )
            >= 2
        )
        assert found("principal_events_sent") - before("principal_events_sent") >= 3
        assert found("principal_events_received") - before("principal_events_received") >= 2
        assert found("argocd_principal_connected_agents") == 1
        assert found("agent_connected_with_principal") == 1
        assert found("argocd_principal_agent_connections_total", agent_name=AGENT) >= 1
        assert 0 < found("principal_agent_avg_connection_time") < PATIENCE / 60
        assert found("argocd_agent_build_info", version=__version__, git_revision="") == 1

        found = await scraped(
            agent.metrics.port,
            lambda found: (
                found("tiphys_sidecars_dead_letters_total", target="application", reason="rejected")
                > before("tiphys_sidecars_dead_letters_total", target="application", reason="rejected")
            ),
        )
        assert found(attempts, kind="application", **received) >= 2
        assert found(failures, kind="application", **received) == 1
        assert found(attempts, kind="application", **sent) >= 2
        processing = {"agent_mode": "managed", "resource_type": "application"}
        assert found("agent_event_processing_time_count", status="success", **processing) >= 1
        assert found("agent_event_processing_time_count", status="failure", **processing) == 1
        assert found("agent_event_processing_time_bucket", status="failure", le="+Inf", **processing) == 1
        assert found.sum("agent_errors") > before.sum("agent_errors")
        assert found("agent_events_received") > before("agent_events_received")
        assert found("agent_events_sent") > before("agent_events_sent")
        assert found("argocd_agent_connection_status") == 1
        assert found("argocd_agent_connection_start_timestamp_seconds") > 0
        assert found("argocd_agent_connections_total") > before("argocd_agent_connections_total")
        latency = "agent_event_propagation_latency_seconds_count"
        assert found(latency, resource_type="application") > before(latency, resource_type="application")
        for direction in ("sent", "received"):
            labels = {"kind": "application", "direction": direction}
            name = "tiphys_sidecars_propagation_seconds_count"
            assert found(name, **labels) > before(name, **labels)


async def test_a_principal_counts_what_comes_changes_and_goes_on_the_control_plane() -> None:
    before = now()
    repository = {
        "metadata": {"name": "repo", "labels": {names.SECRET_TYPE: "repository"}},
        "stringData": {"project": "web", "url": "https://git.example.org/web.git"},
    }
    keys = {"metadata": {"name": names.ARGOCD_GPG_KEYS_CM}, "data": {"A": "-", "B": "-"}}
    async with ends() as (hub, _, principal, _):
        await hub.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await describe(hub, "web", "new")
        await hub.create(APPLICATIONS, application(), namespace=AGENT)
        await change(hub, APPLICATIONS, "shop", namespace=AGENT, metadata={"labels": {"a": "b"}})
        await hub.create(SECRETS, repository, namespace=ARGOCD)
        await change(hub, SECRETS, "repo", stringData={"password": "hunter2"})
        await hub.create(CONFIG_MAPS, keys, namespace=ARGOCD)
        await hub.delete(SECRETS, name="repo", namespace=ARGOCD)
        await hub.delete(APPLICATIONS, name="shop", namespace=AGENT)
        await hub.delete(APP_PROJECTS, name="web", namespace=ARGOCD)
        words = ("created", "updated", "deleted")
        series = [
            f"principal_{kind}_{word}"
            for kind in ("applications", "app_projects", "repositories")
            for word in words
        ]
        found = await scraped(
            principal.metrics.port,
            lambda found: (
                all(found(name) > before(name) for name in series)
                and found("argocd_principal_gpg_keys_count") == 2
            ),
        )
        assert found("principal_app_projects_created") - before("principal_app_projects_created") == 1


async def test_what_waits_for_an_absent_agent_has_an_age_and_a_size() -> None:
    pair = Pair()
    await pair.hub.know(AGENT)
    async with pair.principal_alone() as principal:
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
            await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)
        stored = await pair.hub.store.create(APP_PROJECTS, project("late"), namespace=ARGOCD)
        await principal.hub_state.projects.reached(stored["metadata"]["resourceVersion"])
        links = [(agent.name, agent.link) for agent in principal.known_agents]
        found = Scraped(principal_figures(links).decode())
        assert found("tiphys_sidecars_queue_events", agent=AGENT) >= 1
        assert found("tiphys_sidecars_queue_bytes", agent=AGENT) > 100
        assert found("tiphys_sidecars_queue_age_seconds", agent=AGENT) > 0
        assert found("principal_agent_avg_connection_time") == 0


async def test_a_comparison_tells_how_many_keys_it_compared_and_repaired() -> None:
    pair = Pair()
    before, compared = now(), "tiphys_sidecars_compared_keys_total"
    await pair.hub.store.create(APP_PROJECTS, project("one"), namespace=ARGOCD)
    async with pair.together():
        await until(pair.workload, APP_PROJECTS, lambda there: "one" in there)
    await pair.hub.store.create(APP_PROJECTS, project("two"), namespace=ARGOCD)
    async with pair.together():
        await until(pair.workload, APP_PROJECTS, lambda there: "two" in there)
        await eventually(lambda: now()(compared) > before(compared))
    name = "tiphys_sidecars_repaired_keys_total"
    assert now()(name) >= before(name) + 2


class Indifferent(LinkHandler):
    """Does nothing about its peer."""

    async def handle(self, event: Event) -> None: ...

    def interact(self, event: Event) -> bool:
        return False

    def unsendable(self, event: Event) -> None: ...

    def done(self, event: Event) -> None: ...

    def repair(self, scope: str, differences: list[Difference]) -> None: ...

    def compared(self, report: ComparisonReport) -> None: ...

    def relieved(self) -> None: ...

    def everything(self) -> Iterable[SendAttempt]:
        return ()

    async def report_unapplied(self, letter: DeadLetter) -> None: ...

    async def report_unsent(self, letter: DeadLetter) -> None: ...


def a_link(runtime: Runtime) -> Link:
    return Link(
        peer=AGENT,
        handler=Indifferent(),
        inventories=Inventories({}, version=lambda: 0),
        figures=argocd_agent.PRINCIPAL,
        runtime=runtime,
    )


def an_event() -> Event:
    item = project()
    item["metadata"] |= {"namespace": ARGOCD, "uid": "u", "resourceVersion": "1"}
    return object_event(Message.SPEC_UPDATE, target=Target.PROJECT, obj=item)


class Choosy:
    """A stream that takes no projects, and breaks when it is read."""

    def __init__(self) -> None:
        self.refused = asyncio.Event()

    async def send(self, event: Event) -> None:
        self.refused.set()
        raise ObjectError("larger than any message may be")

    async def send_many(self, events: Iterable[Event]) -> None:
        raise ObjectError("larger than any message may be")

    async def receive(self) -> Event | None:
        await self.refused.wait()
        await asyncio.sleep(0)
        raise SurroundingsError("the stream broke")


async def test_what_can_never_be_sent_is_counted_where_argocd_agent_counts_it() -> None:
    link = a_link(Runtime())
    link.send(an_event())
    with suppress(SurroundingsError):
        await link.serve(Choosy())
    found = Scraped(principal_figures([(AGENT, link)]).decode())
    errors = "principal_event_writer_send_errors_total"
    assert found(errors, agent_name=AGENT, reason="unsendable") == 1
    assert found(errors, agent_name=AGENT, reason="stream_lost") == 1
    discarded = "argocd_principal_event_writer_events_discarded_total"
    assert found(discarded, agent_name=AGENT, event_type="spec-update", resource_type="appproject") == 1
    sync = {"agent": AGENT, "kind": "appproject", "direction": "sent"}
    assert found("tiphys_sidecars_sync_failures_total", **sync) == 1
    found = Scraped(agent_figures([(AGENT, link)], mode="managed").decode())
    discarded = "argocd_agent_event_writer_events_discarded_total"
    assert found(discarded, event_type="spec-update", resource_type="appproject") == 1
    await link.close()


class Deaf:
    """A stream that takes everything and never answers, until it has got something twice."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.again = asyncio.Event()

    async def send(self, event: Event) -> None:
        if event.event_id in self.taken:
            self.again.set()
        self.taken.append(event.event_id)

    async def send_many(self, events: Iterable[Event]) -> None:
        for event in events:
            await self.send(event)

    async def receive(self) -> Event | None:
        await self.again.wait()
        return None


async def test_what_is_sent_again_without_an_answer_is_a_failed_attempt() -> None:
    before = now()
    limits = OutboxLimits(resend=Backoff(base=0.01))
    link = a_link(Runtime(outbox=limits))
    link.send(an_event())
    async with asyncio.timeout(PATIENCE):
        await link.serve(Deaf())
    found = Scraped(principal_figures([(AGENT, link)]).decode())
    sync = {"agent": AGENT, "kind": "appproject", "direction": "sent"}
    assert found("tiphys_sidecars_sync_attempts_total", **sync) >= 2
    assert found("tiphys_sidecars_sync_failures_total", **sync) >= 1
    name = "tiphys_sidecars_resent_events_total"
    assert now()(name) > before(name)
    await link.close()
