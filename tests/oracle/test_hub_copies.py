"""The webhook beside a real principal: its copies of an autonomous agent's projects pass as they are.

Skipped where there are no recordings.
"""

import importlib.util
import sys
from datetime import date
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from argocd import names
from argocd.engine.configuration_file import parse_configuration
from argocd.engine.directory import Directory, Shelf
from argocd.judging.case import Surroundings
from argocd.settings.argocd_cm import read_settings
from webhook.admission.cluster_state import Snapshot
from webhook.admission.decisions import Decisions
from webhook.admission.offline import FixedState, rehearse
from webhook.admission.review import Review, ReviewAnswer

HERE = Path(__file__).resolve().parent


def _load() -> Any:
    # By path: an installed package called `tests` must not stand in the way.
    spec = importlib.util.spec_from_file_location("tiphys_hub_recordings", HERE / "recordings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


recordings = _load()

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not recordings.WIRE.is_dir(), reason="no recorded exchanges beside the repository"),
]

AGENT = "agent-b"
PRINCIPAL = "system:serviceaccount:argocd:argocd-agent-principal"


def decisions() -> Decisions:
    configuration, problems = parse_configuration({"agents": {"autonomous": ["agent-*"]}})
    assert not problems
    directory = Directory(argocd_namespace="argocd", known=[Shelf.PROJECTS, Shelf.APPLICATIONS])
    settings = read_settings(None, configuration=configuration)
    snapshot = Snapshot(Surroundings(settings=settings, configuration=configuration, neighbours=directory))
    return Decisions(FixedState(snapshot), today=lambda: date(2026, 11, 16))


def asked(thing: Any, *, old: Any = None, user: str = PRINCIPAL) -> ReviewAnswer:
    review = Review(
        uid="u",
        operation="UPDATE" if old else "CREATE",
        group="argoproj.io",
        version="v1alpha1",
        kind="AppProject",
        resource="appprojects",
        subresource="",
        name=thing["metadata"]["name"],
        namespace="argocd",
        user=user,
        groups=(),
        object=thing,
        old=old,
        dry_run=False,
    )
    return rehearse(decisions(), review)


@pytest.fixture(scope="module")
def copies() -> list[Any]:
    """Each version of an agent's project that the principal left on the hub."""
    entries = recordings.read("autonomous").entries
    found = [
        entry.stored
        for entry in entries
        if entry.side == "hub" and entry.what == "then" and (entry.stored or {}).get("kind") == "AppProject"
    ]
    assert len(found) >= 5
    return found


def test_each_copy_is_created_without_a_patch(copies: list[Any]) -> None:
    for copy in copies:
        answer = asked(copy)
        assert (answer.allowed, list(answer.patch)) == (True, []), answer.message


def test_each_copy_is_applied_again_without_a_patch_and_changed_by_nobody_else(copies: list[Any]) -> None:
    for old in copies:
        for new in copies:
            if old["metadata"]["name"] != new["metadata"]["name"]:
                continue
            answer = asked(new, old=old)
            assert (answer.allowed, list(answer.patch)) == (True, []), answer.message
            by_a_user = asked(new, old=old, user="jason")
            assert by_a_user.allowed == (old["spec"] == new["spec"])


def test_the_agents_own_project_becomes_what_the_principal_stored(copies: list[Any]) -> None:
    recording = recordings.read("autonomous")
    named = {copy["metadata"]["name"].removeprefix(f"{AGENT}-") for copy in copies}
    compared = 0
    for name in named:
        original = next(
            (entry.stored for entry in recording.stored("spoke", name) if entry.stored.get("spec")), None
        )
        if original is None:
            continue
        metadata = {
            "name": f"{AGENT}-{name}",
            "namespace": "argocd",
            "annotations": {names.TIPHYS_AGENT: AGENT},
        }
        sent = {**original, "metadata": metadata}
        stored = next(copy for copy in copies if copy["metadata"]["name"] == metadata["name"])
        answer = asked(sent)
        assert answer.allowed, answer.message
        assert jsonpatch.JsonPatch(list(answer.patch)).apply(sent)["spec"] == stored["spec"]
        compared += 1
    assert compared
