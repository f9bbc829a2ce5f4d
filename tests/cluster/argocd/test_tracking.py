"""Whose objects are, with a real Argo CD: nothing is pruned that should stay, nothing is OutOfSync because of us."""

from typing import Any

import pytest
from click.testing import CliRunner

from argocd import names
from cli.commands import installation_id, tracking
from tests.cluster.argocd.argocd_settings import (
    setting,
    settings,
    track,
    tracking_format,
    write_settings,
)
from tests.cluster.argocd.steered import Object, Scene, config_map
from tests.webhook.guarded_cluster import until

METHODS = ("label", "annotation", "annotation+label")
FOREIGN = "another-installation"
HEALING = {"automated": {"prune": True, "selfHeal": True}}

pytestmark = pytest.mark.timeout(300)


def put_beside(scene: Scene, name: str, *, installation: str) -> None:
    """An object that is not in Git, as another installation or this one under a former id would have deployed it."""
    annotations = {
        names.TRACKING_ID: f"{scene.name}:/ConfigMap:{scene.name}/{name}",
        names.INSTALLATION_ID: installation,
    }
    body = {"metadata": {"name": name, "annotations": annotations}}
    scene.steered.cluster.request("POST", f"/api/v1/namespaces/{scene.name}/configmaps", body)


def run(scene: Scene, command: Any, *words: str) -> str:
    places = ("--argocd-namespace", "argocd", "--kubeconfig", str(scene.steered.cluster.kubeconfig))
    done = CliRunner().invoke(command, [*words, *places])
    assert done.exit_code == 0, done.output
    return str(done.output)


def deployed(scene: Scene, name: str = "prices") -> Object:
    found = scene.steered.config_map(scene.name, name)
    assert found, name
    return found


def mark(scene: Scene, key: str, name: str = "prices") -> str | None:
    found: str | None = deployed(scene, name)["metadata"].get("annotations", {}).get(key)
    return found


def wait_mark(scene: Scene, key: str, text: str) -> None:
    until(lambda: (mark(scene, key) or "") == text, what=f"{key} is {text!r}")


def compare_again(scene: Scene, *, times: int = 2) -> None:
    """What would be healed is healed after the first, and shows in the second."""
    for _ in range(times):
        scene.steered.cli("app", "get", scene.name, "--hard-refresh")


def sync(scene: Scene, *, check: bool = True) -> str:
    done = scene.steered.cli("app", "sync", scene.name, "--prune", "--timeout", "50", check=check)
    return done.stdout + done.stderr


def wait_synced(scene: Scene) -> None:
    until(lambda: scene.steered.status(scene.name, "sync", "status") == "Synced", what="synced")


def test_what_its_namespace_gives_to_an_application_leaves_that_in_peace(scene: Scene) -> None:
    steered = scene.steered
    track(steered, scene.name, application=scene.name)
    steered.apply(scene.application(syncPolicy=HEALING))
    steered.wait_synced(scene.name)

    steered.cluster.kubectl("create", "configmap", "guest", "-n", scene.name)
    until(
        lambda: mark(scene, names.TRACKING_ID, "guest") == f"{scene.name}:/ConfigMap:{scene.name}/guest",
        what="the guest is marked",
    )
    compare_again(scene)

    assert deployed(scene, "guest")
    assert steered.status(scene.name, "sync", "status") == "Synced"
    assert len(steered.status(scene.name, "history")) == 1


def test_a_renewed_installation_id_is_written_by_the_next_sync(scene: Scene) -> None:
    steered = scene.steered
    track(steered, scene.name)
    with settings(steered, installationID=setting(steered, "installationID")):
        first = setting(steered, "installationID") or ""
        steered.apply(scene.application())
        sync(scene)
        assert mark(scene, names.INSTALLATION_ID) == first
        put_beside(scene, "former", installation=first)
        put_beside(scene, "foreign", installation=FOREIGN)
        uid = deployed(scene)["metadata"]["uid"]

        run(scene, installation_id.command, "ensure", "--renew", "--yes")
        renewed = setting(steered, "installationID")
        assert renewed != first
        compare_again(scene, times=1)
        sync(scene)

        assert (mark(scene, names.INSTALLATION_ID), deployed(scene)["metadata"]["uid"]) == (renewed, uid)
        wait_synced(scene)
        assert deployed(scene, "former")
        assert deployed(scene, "foreign")


def test_an_id_that_nobody_wrote_down_is_anothers_until_somebody_does(scene: Scene) -> None:
    steered = scene.steered
    track(steered, scene.name)
    with settings(steered, installationID="first"):
        steered.apply(scene.application())
        sync(scene)
        write_settings(steered, installationID="second")
        compare_again(scene, times=1)
        assert "the object belongs to the Argo CD installation 'first'" in sync(scene, check=False)
        assert mark(scene, names.INSTALLATION_ID) == "first"

        write_settings(steered, former_ids="first")
        until(
            lambda: (
                "Succeeded" in sync(scene, check=False) and mark(scene, names.INSTALLATION_ID) == "second"
            ),
            what="the second id",
        )
        wait_synced(scene)


def test_an_installation_id_that_is_set_first_or_taken_away_prunes_nothing(scene: Scene) -> None:
    steered = scene.steered
    track(steered, scene.name)
    with settings(steered, installationID=""):
        steered.apply(scene.application(syncPolicy=HEALING))
        steered.wait_synced(scene.name)
        uid = deployed(scene)["metadata"]["uid"]
        put_beside(scene, "former", installation="before")
        put_beside(scene, "foreign", installation=FOREIGN)
        for now in ("fresh", ""):
            write_settings(steered, installationID=now)
            compare_again(scene)
            wait_mark(scene, names.INSTALLATION_ID, now)
            wait_synced(scene)
            assert deployed(scene)["metadata"]["uid"] == uid
            assert deployed(scene, "former")
            assert deployed(scene, "foreign")


def test_from_method_to_method_while_it_runs(scene: Scene) -> None:
    steered = scene.steered
    track(steered, scene.name)
    scene.repository.commit({"shop/hours.json": config_map("hours", open="9")})
    with settings(steered, **{names.TRACKING_METHOD_KEY: "annotation"}):
        steered.apply(scene.application(syncPolicy=HEALING))
        steered.wait_synced(scene.name)
        put_beside(scene, "former", installation="before")
        put_beside(scene, "foreign", installation=FOREIGN)
        beside = ("prices", "hours", "former", "foreign")
        uids = {name: deployed(scene, name)["metadata"]["uid"] for name in beside}
        for method in ("label", "annotation+label", "annotation"):
            assert f"argocd-cm says {method} now" in run(
                scene, tracking.command, "migrate", "--to", method, "--yes"
            )
            compare_again(scene)
            wait_synced(scene)
            assert {name: deployed(scene, name)["metadata"]["uid"] for name in uids} == uids

        # It still knows its objects: what leaves Git goes.
        scene.repository.commit({"shop/hours.json": None})
        compare_again(scene)
        until(lambda: steered.config_map(scene.name, "hours") is None, what="it is pruned")
        assert deployed(scene, "former")
        assert deployed(scene, "foreign")


@pytest.mark.parametrize("written", ["released", "proposed", "both"])
@pytest.mark.parametrize("method", METHODS)
def test_marks_of_each_method_and_format_leave_an_application_in_sync(
    scene: Scene, method: str, written: str
) -> None:
    steered = scene.steered
    track(steered, scene.name)
    probe = steered.cluster.create_namespace()
    track(steered, probe, application="probe")
    with (
        tracking_format(steered, written, probe=probe),
        settings(steered, **{names.TRACKING_METHOD_KEY: method}),
    ):
        steered.apply(scene.application(syncPolicy=HEALING))
        steered.wait_synced(scene.name)
        compare_again(scene)

        assert steered.status(scene.name, "sync", "status") == "Synced"
        assert len(steered.status(scene.name, "history")) == 1
        if method != "label" and written != "released":
            assert mark(scene, names.PROPOSED_TRACKING_ID) == f"{scene.name};/ConfigMap/{scene.name}/prices"
        scene.repository.commit({"shop/prices.json": None, "shop/hours.json": config_map("hours", open="9")})
        compare_again(scene)
        until(lambda: steered.config_map(scene.name, "prices") is None, what="it is pruned")
    steered.cluster.drop_namespace(probe)
