from typing import Any

import pytest

from argocd import names
from tests.argocd.rules.asking import ask


def config_map(annotations: Any = None, **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shop", "annotations": annotations or {}},
        **parts,
    }


@pytest.mark.parametrize("text", ["", "first", "1.5", "1 ", "0x1"])
def test_a_wave_that_is_no_number(text: str) -> None:
    (finding,) = ask("object/sync-wave", config_map({names.SYNC_WAVE: text}))
    assert finding.message.endswith("in wave 0")


def test_the_wave_that_counts_instead_is_told() -> None:
    annotations = {names.SYNC_WAVE: "first", names.HELM_HOOK_WEIGHT: "5"}
    (finding,) = ask("object/sync-wave", config_map(annotations))
    assert finding.message.endswith("in wave 5")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("presync", "Write PreSync."),
        ("PreSync,postsync", "Write PostSync."),
        ("Before", "Use PostDelete, PostSync"),
        ("", "Use PostDelete, PostSync"),
    ],
)
def test_a_hook_that_never_runs(text: str, hint: str) -> None:
    (finding,) = ask("object/hook", config_map({names.HOOK: text}))
    assert finding.hint.startswith(hint)


@pytest.mark.parametrize("text", ["PreSync", "PreSync, PostSync", "Skip", "PostDelete"])
def test_hooks_that_run_are_fine(text: str) -> None:
    assert not ask("object/hook", config_map({names.HOOK: text}))
    assert not ask("object/hook", config_map())


def test_each_unknown_option_is_told_with_its_spelling() -> None:
    found = ask(
        "object/sync-options", config_map({names.SYNC_OPTIONS: "Prune=never, delete=FALSE, Force=true"})
    )
    assert [finding.hint.split(" ")[0] for finding in found] == ["Use", "Write"]


def test_a_lifetime_of_zero_matters_to_hooks_alone() -> None:
    job = config_map({names.HELM_HOOK: "pre-install"}, spec={"ttlSecondsAfterFinished": 0}) | {"kind": "Job"}
    assert ask("object/hook-lifetime", job)
    assert not ask("object/hook-lifetime", job | {"kind": "Deployment"})
    assert not ask("object/hook-lifetime", job | {"metadata": {}})


LARGE = {"x": "y" * 262_144}


@pytest.mark.parametrize(
    ("thing", "found"),
    [
        (config_map(data=LARGE), 1),
        (config_map(data={"x": "y"}), 0),
        (config_map({names.SYNC_OPTIONS: "Validate=false, ServerSideApply=true"}, data=LARGE), 0),
        (config_map({names.SYNC_OPTIONS: "Replace=true"}, data=LARGE), 0),
        (config_map({"a": "b" * 132_000}, data={}), 1),
        (config_map({"a": 7}, data={}), 0),
    ],
)
def test_what_client_side_apply_cannot_keep(thing: dict[str, Any], found: int) -> None:
    assert len(ask("object/too-large", thing)) == found


def test_what_is_no_object_has_no_size() -> None:
    assert not ask("object/too-large", {"replicas": 1, "dashboard": LARGE})


def test_what_is_stored_already_is_not_too_large() -> None:
    stored = config_map(data=LARGE)
    stored["metadata"]["uid"] = "1"
    assert not ask("object/too-large", stored)


def test_what_is_nested_too_deeply_to_be_written_is_not_measured() -> None:
    nested: dict[str, Any] = {}
    for _ in range(2_000):
        nested = {"a": nested}
    assert not ask("object/too-large", config_map(data=nested))
