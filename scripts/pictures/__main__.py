"""`python -m scripts.pictures`: takes the pictures of README and docs anew, of the pages themselves, in a headless Chromium."""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from argocd.agents.vocabulary import Mode
from kube.resources import APPLICATIONS
from scripts.pictures.chromium import Tab, tab
from scripts.pictures.sample_fleet import SampleFleet, application, sample_fleet
from scripts.pictures.sample_webhook import sample_webhook
from scripts.pictures.terminal import terminal_page

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
DOCTOR = ROOT / "tests" / "cli" / "golden" / "doctor" / "faults.txt"
"""What the command printed on a real API server, held by a test."""
DOCTOR_HEIGHT = 1270
DESK, PHONE = 1280, 390
TOP, AGENTS = 715, 1100
"""Pixels: down to what is stuck, so that a README has room for more on its first screen; and all agents."""
SETTLE_SECONDS = 3.0
"""Until the page has said that it is live, and fonts have come."""


async def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        async with tab(chromium, Path(folder) / "browser") as browser, sample_fleet(8, regions=True) as fleet:
            await eventful(fleet)
            await taken(browser, fleet.address, "fleet", height=TOP)
            await taken(browser, fleet.address, "fleet-dark", height=TOP, dark=True)
            await taken(browser, fleet.address, "fleet-agents", height=AGENTS, at="agents")
            await taken(browser, fleet.address, "fleet-phone", width=PHONE, height=1400)
            why = "?project=billing&agent=us-east-prod&application=eu-west-prod/checkout"
            await taken(browser, fleet.address + why, "fleet-why", height=660, at="answer")
            with sample_webhook(Path(folder)) as status:
                await taken(browser, status, "status", height=1090, scripts=False)
            page = Path(folder) / "doctor.html"
            page.write_text(terminal_page("tiphys doctor", DOCTOR.read_text()))
            await taken(browser, page.as_uri(), "doctor", height=DOCTOR_HEIGHT, scripts=False)
    return 0


async def eventful(fleet: SampleFleet) -> None:
    """A day on which something is to be seen."""
    for number, name in enumerate(("till", "stock", "kiosk")):
        state = ("Healthy", "Synced") if number else ("Progressing", "OutOfSync")
        mirror = application(name, agent="edge-berlin", state=state)
        await fleet.store.create(APPLICATIONS, mirror, namespace="edge-berlin")
    await fleet.disconnect("us-west-prod")
    await fleet.disconnect("staging")
    await fleet.connect("staging", days=9)
    await fleet.disconnect("edge-osaka")
    await fleet.connect("edge-osaka", mode=Mode.AUTONOMOUS, days=80)
    for agent in ("eu-west-prod", "us-east-prod"):
        there = await fleet.store.get(APPLICATIONS, name="web", namespace=agent)
        await fleet.store.replace(
            APPLICATIONS, {**there, "spec": {**there["spec"], "revisionHistoryLimit": 3}}
        )
    fleet.refuse(
        "eu-north-prod",
        namespace="eu-north-prod",
        name="payments",
        message="applications.argoproj.io payments is forbidden: exceeded quota: applications, used: 40, limited: 40",
    )
    fleet.undo("us-east-prod", name="checkout", times=9, seconds=340, fields=("spec.source.targetRevision",))
    await asyncio.sleep(1)


async def taken(
    browser: Tab,
    address: str,
    name: str,
    *,
    height: int,
    width: int = DESK,
    dark: bool = False,
    scripts: bool = True,
    at: str = "",
) -> None:
    await browser.open(address, size=(width, height), dark=dark, scripts=scripts)
    await asyncio.sleep(SETTLE_SECONDS)
    if at:
        await browser.evaluate(f"document.getElementById('{at}').closest('section').scrollIntoView()")
    (IMAGES / f"{name}.png").write_bytes(await browser.picture())
    print(f"wrote docs/images/{name}.png")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
