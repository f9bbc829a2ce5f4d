"""Every line of the doctor, green on a well installation and not green once what it looks at is broken."""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from argocd import names
from checks.doctor import cluster_checks, pair_checks
from checks.doctor.diagnosis import CheckHealth, Diagnosis
from checks.doctor.examination import BEFORE_INSTALLATION, INSTALLED, look
from checks.doctor.examined import DoctorOptions, Examined
from cli.main import tiphys
from kube.live import LiveStore
from tests.checks.doctor.breaking import Broken
from tests.checks.doctor.broken_lines import BROKEN, ERROR
from tests.checks.doctor.well_installation import NO_WEBHOOK, SPOKE, WellInstallation
from tests.cli.golden_files import compare

pytestmark = pytest.mark.timeout(240)  # the first one starts an API server and three programs

SEEN_SECONDS = 30.0
CHECKS = {check.id: check for section in (*BEFORE_INSTALLATION, *INSTALLED) for check in section.checks}
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/applicationsets.argoproj.io"
PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"

ELSEWHERE = {
    "kubernetes/api",
    "kubernetes/version",
    "argocd/crds",
    *(check.id for check in pair_checks.SECTION.checks),
}
"""Below, or in test_pair_lines.py: they need more than a row."""


@contextlib.asynccontextmanager
async def examined(well: WellInstallation, broken: Broken) -> AsyncIterator[Examined]:
    kubeconfig = well.cluster.kubeconfig_of(broken.user) if broken.user else well.cluster.kubeconfig
    store = await LiveStore.connect(kubeconfig=kubeconfig)
    base = well.spoke if broken.spoke else well.hub
    try:
        yield Examined(store, broken.options(base), lambda: datetime.now(UTC) + broken.later)
    finally:
        await store.close()


async def seen(examined: Examined, id_: str, *, health: CheckHealth) -> Diagnosis:
    """What was written counts a moment later."""
    found = await look(examined, CHECKS[id_])
    deadline = asyncio.get_running_loop().time() + SEEN_SECONDS
    while found.health is not health and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.05)
        found = await look(examined, CHECKS[id_])
    return found


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: f"{broken.id} {broken.health}")
async def test_a_line_tells_what_is_broken_and_is_green_again(well: WellInstallation, broken: Broken) -> None:
    with broken.breaks(well):
        async with examined(well, broken) as patient:
            found = await seen(patient, broken.id, health=broken.health)
    assert found.health is broken.health, found
    assert broken.message in found.message
    assert found.remedy
    if broken.id == "tiphys/installed":
        return  # only ever asked where nothing is
    async with examined(well, replace(broken, later=timedelta(), options=_as_it_is, user="")) as patient:
        assert await seen(patient, broken.id, health=CheckHealth.OK) == await look(patient, CHECKS[broken.id])
        assert (await look(patient, CHECKS[broken.id])).health is CheckHealth.OK


def _as_it_is(options: DoctorOptions) -> DoctorOptions:
    return options


def test_no_line_is_left_out() -> None:
    assert {broken.id for broken in BROKEN} | ELSEWHERE == set(CHECKS)


async def test_an_api_server_that_is_away_is_told(well: WellInstallation) -> None:
    kubeconfig = well.cluster.folder / "away.kubeconfig"
    kubeconfig.write_text(well.cluster.kubeconfig.read_text().replace(str(well.cluster.port), "1"))
    store = await LiveStore.connect(kubeconfig=kubeconfig, deadline=2)
    try:
        found = await look(Examined(store, well.hub), CHECKS[cluster_checks.REACHABLE])
    finally:
        await store.close()
    assert found.health is ERROR
    assert "https://127.0.0.1:1" in found.message


async def test_an_api_server_that_is_too_old_is_told(
    well: WellInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_checks, "OLDEST", (9, 9))
    async with examined(well, BROKEN[0]) as patient:
        found = await look(patient, CHECKS["kubernetes/version"])
    assert found.health is ERROR
    assert "need 9.9" in found.message


async def test_a_kind_that_is_not_served_is_told(well: WellInstallation) -> None:
    def serve(*, served: bool) -> None:
        held = well.cluster.request("GET", DEFINITION)
        held["spec"]["versions"][0]["served"] = served
        well.cluster.request("PUT", DEFINITION, held)

    async with examined(well, replace(BROKEN[0], later=timedelta())) as patient:
        serve(served=False)
        try:
            found = await seen(patient, "argocd/crds", health=ERROR)
        finally:
            serve(served=True)
        assert found.health is ERROR
        assert "has no ApplicationSet" in found.message
        assert (await seen(patient, "argocd/crds", health=CheckHealth.OK)).health is CheckHealth.OK


# The command.


def doctor(well: WellInstallation, *words: str, color: bool = False) -> Result:
    kubeconfig = ("--kubeconfig", str(well.cluster.kubeconfig))
    return CliRunner().invoke(tiphys, ["doctor", *kubeconfig, *words], color=color)


def on_the_hub(well: WellInstallation) -> tuple[str, ...]:
    """The namespaces of Applications are those that the webhook's Deployment names."""
    return ("--principal-url", f"http://127.0.0.1:{well.pages_port}")


def on_the_spoke(well: WellInstallation) -> tuple[str, ...]:
    place = ("--namespace", NO_WEBHOOK, "--argocd-namespace", SPOKE)
    return (*place, "--server-address", "localhost", "--server-port", str(well.principal_port))


def settled(report: str) -> str:
    """Without what is another thing tomorrow."""
    report = re.sub(r"v1\.\d+\.\d+", "v1.36.0", report)
    report = re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:6443", report)
    report = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "2027-01-01 00:00 UTC", report)
    report = re.sub(r"(one of them leads|one shows signs of life): \S+", r"\1: somebody", report)
    report = re.sub(r"(has all|rights|\d+ of) \d+(?= rights|$)", r"\1 42", report, flags=re.MULTILINE)
    report = re.sub(r"2 of \d\S*", "2 of 0.1.0", report)
    report = re.sub(r"principal of \S+", "principal of 0.1.0", report)
    return re.sub(r"is (127\.0\.0\.1|::1)", "is 127.0.0.1", report)


def test_a_control_plane_that_is_well_is_all_green(well: WellInstallation) -> None:
    done = doctor(well, *on_the_hub(well))
    assert done.exit_code == 0, done.output
    compare("doctor/hub.txt", settled(done.output))


def test_a_workload_cluster_that_is_well_is_all_green(well: WellInstallation) -> None:
    done = doctor(well, *on_the_spoke(well))
    assert done.exit_code == 0, done.output
    compare("doctor/spoke.txt", settled(done.output))


def test_before_an_installation_it_tells_whether_there_can_be_one(well: WellInstallation) -> None:
    done = doctor(well, "--pre", *on_the_hub(well))
    assert done.exit_code == 0, done.output
    compare("doctor/pre.txt", settled(done.output))


def test_what_is_red_comes_with_what_to_do_and_ends_with_1(well: WellInstallation) -> None:
    done = doctor(well, "--namespace", "default", "--argocd-namespace", "default")
    assert done.exit_code == 1
    compare("doctor/red.txt", settled(done.output))


def test_a_control_plane_with_faults_names_them_among_what_is_well(well: WellInstallation) -> None:
    """`make pictures` shows what is told."""
    faults = {
        ("principal/blocklist", CheckHealth.ERROR),
        ("argocd/cluster-secrets", CheckHealth.ERROR),
        ("neighbours/mutating-webhooks", CheckHealth.WARNING),
    }
    with contextlib.ExitStack() as stack:
        for broken in BROKEN:
            if (broken.id, broken.health) in faults:
                stack.enter_context(broken.breaks(well))
        done = doctor(well, *on_the_hub(well))
    assert done.exit_code == 1
    compare("doctor/faults.txt", settled(done.output))


@pytest.mark.parametrize("words", [(), ("--pre",)], ids=["installed", "before"])
def test_whoever_has_no_right_is_told_so_line_by_line(well: WellInstallation, words: tuple[str, ...]) -> None:
    kubeconfig = well.cluster.kubeconfig_of("nobody")
    done = CliRunner().invoke(tiphys, ["doctor", "--kubeconfig", str(kubeconfig), "--format", "json", *words])
    told = {check["id"]: check for check in json.loads(done.output)["checks"]}
    assert set(told) == {
        check.id for section in (BEFORE_INSTALLATION if words else INSTALLED) for check in section.checks
    }
    red = {id_ for id_, check in told.items() if check["health"] == "error"}
    assert red == ({"installation/rights"} if words else set()), done.output
    assert "neighbours/argocd-agent" in told
    for id_ in ("webhook/rights", "principal/agents", "pair/peer", "agent/login") if not words else ():
        assert told[id_]["health"] == "warning"
        assert told[id_]["message"].startswith("not looked at: ")
        assert told[id_]["remedy"] == "ask as a cluster admin"


def test_programs_read_json(well: WellInstallation) -> None:
    done = doctor(well, "--format", "json", *on_the_spoke(well))
    told = json.loads(done.output)
    assert done.exit_code == 0
    assert told["version"] == 1
    assert told["healthy"] is True
    assert {check["health"] for check in told["checks"]} == {"ok"}
    assert {"id", "section", "title", "health", "message", "remedy"} == set(told["checks"][0])
    assert "agent/login" in {check["id"] for check in told["checks"]}


def test_the_lines_are_listed_in_every_form(well: WellInstallation) -> None:
    def told(form: str) -> str:
        return doctor(well, "--pre", *on_the_hub(well), "-o", form).stdout

    checks = json.loads(told("json"))["checks"]
    assert yaml.safe_load(told("yaml"))["checks"] == checks
    assert told("name").split() == [check["id"] for check in checks]
    head, *rows = told("wide").splitlines()
    assert head.split() == ["CHECK", "HEALTH", "SECTION", "TITLE", "MESSAGE", "TO", "DO"]
    assert [row.split()[:2] for row in rows] == [[check["id"], check["health"]] for check in checks]


def test_a_cluster_that_cannot_be_asked_ends_with_2(well: WellInstallation) -> None:
    kubeconfig = well.cluster.folder / "gone.kubeconfig"
    kubeconfig.write_text(well.cluster.kubeconfig.read_text().replace(str(well.cluster.port), "1"))
    done = CliRunner().invoke(tiphys, ["doctor", "--kubeconfig", str(kubeconfig)])
    assert done.exit_code == 2
    assert "0 √, 0 ‼, 1" in done.output


def test_with_wait_it_looks_until_all_is_well(well: WellInstallation) -> None:
    name = "made-while-it-waits"

    def install() -> None:
        well.cluster.create_namespace(name)
        settings = {"metadata": {"name": names.ARGOCD_CM}, "data": {names.INSTALLATION_ID_KEY: name}}
        well.cluster.request("POST", f"/api/v1/namespaces/{name}/configmaps", settings)

    made = threading.Timer(1.0, install)
    made.start()
    try:
        done = doctor(well, "--pre", "--argocd-namespace", name, "--wait", "60s", "--format", "json")
    finally:
        made.join()
        well.cluster.drop_namespace(name)
    health = {check["id"]: check["health"] for check in json.loads(done.output)["checks"]}
    assert health["kubernetes/argocd-namespace"] == "ok"
    assert done.exit_code == 0


def test_colours_are_for_terminals_alone(well: WellInstallation) -> None:
    assert "\x1b" not in doctor(well, "--pre").output
    assert "\x1b[32m√" in doctor(well, "--pre", color=True).output


def test_every_line_has_its_paragraph_in_the_docs() -> None:
    named = set(re.findall(r"^\| `([a-z-]+/[a-z-]+)`", PAGE.read_text(), re.MULTILINE))
    assert named == set(CHECKS)
