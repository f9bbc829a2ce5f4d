"""Objects in our own pages, manifests and demonstration are judged: what we show as good is not refused."""

import re
from contextlib import AsyncExitStack
from datetime import date
from pathlib import Path

import pytest
import yaml

from argocd.agents.vocabulary import Mode
from argocd.engine.judge import judge
from argocd.judging.case import Action, Case, kind_of
from argocd.judging.configuration import Configuration
from checks.check import judge_files
from checks.known_objects import in_default_namespace, known_from
from demo.clusters import AUTONOMOUS, DEVELOPER, MANAGED, EmbeddedClusters
from demo.demonstration import MISTAKEN
from demo.embedded_webhook import embedded_webhook
from demo.sidecars import DemoFleet
from demo.story import Story, prepare
from kube.store import Identity, Object
from tiphys import running

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 9, 1)
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")} - {ROOT / "docs" / "rules.md"})
"""The page of rules shows bad objects too; each rule's examples are judged with the rule."""
_BLOCK = re.compile(r"^( *)```(?:ya?ml|sh)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<-?'?EOF'?\n(.*?)^EOF$", re.MULTILINE | re.DOTALL)


def shown_in(page: Path) -> list[str]:
    """The manifests of a page, in blocks of YAML and in those of shell that write one."""
    texts = [found[2] for found in _BLOCK.finditer(page.read_text())]
    inside = [one for text in texts for one in _HERE_DOCUMENT.findall(text)]
    return [text for text in (*texts, *inside) if re.search(r"^\s*kind: \w", text, re.MULTILINE)]


def denials(files: list[str]) -> list[str]:
    result = judge_files(files, Configuration(), today=TODAY)
    assert result.unreadable == []
    assert result.objects
    return [f"{found.place} {found.rule}" for found in result.findings if found.action is Action.DENY]


def test_no_object_of_a_page_is_refused(tmp_path: Path) -> None:
    examples = [(page.stem, text) for page in PAGES for text in shown_in(page)]
    assert examples
    refused = {}
    for number, (page, text) in enumerate(examples):
        file = tmp_path / f"{page}-{number}.yaml"
        file.write_text(text)
        refused[file.name] = denials([str(file)])
    assert {name: found for name, found in refused.items() if found} == {}


def test_no_object_of_our_manifests_is_refused() -> None:
    assert denials([str(path) for path in sorted((ROOT / "manifests").rglob("*.yaml"))]) == []


class RecordedClusters(EmbeddedClusters):
    """Remembers what somebody wrote, and whether it was stored."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[Object, bool]] = []

    async def write(
        self, cluster: str, thing: Object, *, user: Identity = DEVELOPER
    ) -> tuple[Object | None, list[str]]:
        stored, said = await super().write(cluster, thing, user=user)
        self.written.append((thing, stored is not None))
        return stored, said


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Object, bool]]:
    clusters = RecordedClusters()
    folder = tmp_path_factory.mktemp("demo")

    async def show(life: running.Running) -> None:
        async with AsyncExitStack() as stack:
            await prepare(clusters)
            fleet = await stack.enter_async_context(DemoFleet(life, clusters, folder=folder))
            await fleet.start_principals()
            webhook = await stack.enter_async_context(embedded_webhook(life, clusters, folder=folder))
            stack.push_async_callback(fleet.end)
            await fleet.start_agent(MANAGED, mode=Mode.MANAGED)
            await fleet.start_agent(AUTONOMOUS, mode=Mode.AUTONOMOUS)
            await Story(clusters, webhook=webhook, fleet=fleet).tell()

    running.run(show)
    return clusters.written


def test_the_demonstration_stores_what_a_check_lets_pass_and_shows_refusals(
    demonstrated: list[tuple[Object, bool]],
) -> None:
    surroundings = known_from((), Configuration()).surroundings(Configuration())
    by_verdict: dict[bool, int] = {True: 0, False: 0}
    for thing, stored in demonstrated:
        body = in_default_namespace(thing, Configuration())
        case = Case(kind=kind_of(body), object=body, surroundings=surroundings)
        denied = [one.finding.rule for one in judge(case, today=TODAY) if one.action is Action.DENY]
        by_verdict[stored] += 1
        assert not (stored and denied), denied
    assert all(by_verdict.values())


def test_what_the_demonstration_calls_a_mistake_is_one(tmp_path: Path) -> None:
    mistaken = {"apiVersion": "argoproj.io/v1alpha1", **yaml.safe_load(MISTAKEN)}
    file = tmp_path / "mistaken.yaml"
    file.write_text(yaml.safe_dump(mistaken))
    assert denials([str(file)])
