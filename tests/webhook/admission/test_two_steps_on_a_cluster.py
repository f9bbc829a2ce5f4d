"""What is refused in one step is refused in two, on a real API server that asks Tiphys."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from argocd import names
from tests.webhook.guarded_cluster import Guarded, until

CONFIGURATION = 'agents: {autonomous: ["agent-*"]}'
NO_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never-there", "uid": "0"}
DEV = "dev"

Object = dict[str, Any]


def project(name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"sourceRepos": ["https://example.test"], **spec},
    }


def patched(
    guarded: Guarded, kind: str, name: str, change: Object, *, writer: str = DEV, namespace: str = ""
) -> str:
    """What is said of a merge patch; empty where it is stored without a word."""
    return guarded.kubectl(
        "patch",
        kind,
        name,
        "-n",
        namespace or guarded.argocd,
        "--type=merge",
        "-p",
        json.dumps(change),
        writer=writer,
        check=False,
    ).stderr


def test_a_project_that_is_being_deleted_cannot_be_made_a_bad_one(guarded: Guarded) -> None:
    guarded.write(project("going", metadata={"finalizers": ["example.test/mine"]}))
    guarded.kubectl("delete", "appproject", "going", "-n", guarded.argocd, "--wait=false")
    assert "deletionTimestamp" in guarded.get("appproject", "going")["metadata"]
    bad = {"spec": {"sourceRepos": ["!*"], "destinations": [{"server": "!*", "namespace": "x"}]}}
    assert "Tiphys refuses this AppProject going" in patched(guarded, "appproject", "going", bad)
    again = guarded.kubectl("delete", "appproject", "going", "-n", guarded.argocd, "--wait=false")
    assert again.stderr == ""
    assert patched(guarded, "appproject", "going", {"metadata": {"finalizers": None}}) == ""
    assert (
        "NotFound" in guarded.kubectl("get", "appproject", "going", "-n", guarded.argocd, check=False).stderr
    )


@pytest.fixture
def hub(guarded: Guarded) -> Iterator[Guarded]:
    with guarded.configured(CONFIGURATION):
        probe = project(
            "probe", metadata={"annotations": {names.SOURCE_UID: "u"}}, sourceNamespaces=["agent-p"]
        )
        until(
            lambda: (
                "must be called agent-p-probe" in guarded.write(probe, "--dry-run=server", check=False).stderr
            ),
            what="the configuration of agents",
        )
        yield guarded


def test_a_mirror_cannot_be_given_an_owner_for_the_garbage_collector(hub: Guarded) -> None:
    mirror = project(
        "agent-o-shop",
        metadata={"annotations": {names.SOURCE_UID: "u"}},
        sourceNamespaces=["agent-o"],
        destinations=[],
    )
    hub.write(mirror, "--server-side", writer=hub.principal)
    deleted = hub.kubectl("delete", "appproject", "agent-o-shop", "-n", hub.argocd, writer=DEV, check=False)
    assert "agent/mirror-deleted" in deleted.stderr
    owned = {"metadata": {"ownerReferences": [NO_OWNER]}}
    told = patched(hub, "appproject", "agent-o-shop", owned)
    assert "metadata.ownerReferences: this is the mirror of" in told
    assert patched(hub, "appproject", "agent-o-shop", owned, writer=hub.principal) == ""


def test_no_project_can_be_given_an_owner(guarded: Guarded) -> None:
    """Neither one that may not be deleted nor one that nobody uses yet: the owner may go when somebody does."""
    owned = {"metadata": {"ownerReferences": [NO_OWNER]}}
    for name in ("default", "unused"):
        guarded.write(project(name))
        assert "[project/deletion]" in patched(guarded, "appproject", name, owned)
    assert patched(guarded, "appproject", "unused", owned, writer=guarded.principal) == ""


def secret(name: str, **metadata: Any) -> Object:
    twice = '{"tlsClientConfig": {"insecure": true}, "TLSClientConfig": {"insecure": false}}'
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, **metadata},
        "stringData": {"server": "https://east.example.test", "name": "east", "config": twice},
    }


def test_a_secret_that_becomes_argo_cds_is_judged_whole(guarded: Guarded) -> None:
    label = {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER}
    at_once = guarded.write(secret("at-once", labels=label), check=False)
    assert "[cluster/config-ambiguous]" in at_once.stderr
    guarded.write(secret("by-and-by"))
    told = patched(guarded, "secret", "by-and-by", {"metadata": {"labels": label}})
    assert "[cluster/config-ambiguous]" in told
    kept = {names.SECRET_TYPE: names.SECRET_TYPE_SCM_CREDS}
    guarded.write(secret("as-another", labels=kept))
    told = patched(guarded, "secret", "as-another", {"metadata": {"labels": label}})
    assert "[cluster/config-ambiguous]" in told


@pytest.fixture
def tracked(guarded: Guarded) -> Iterator[str]:
    namespace = guarded.cluster.create_namespace()
    guarded.kubectl("label", "namespace", namespace, f"{names.TIPHYS_TRACKING}={names.ENABLED}")
    yield namespace
    guarded.cluster.drop_namespace(namespace)


def config_map(name: str, **annotations: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}}


def test_another_installations_object_cannot_be_taken_by_way_of_no_installation(
    guarded: Guarded, tracked: str
) -> None:
    theirs = config_map("theirs", **{names.INSTALLATION_ID: "green"})
    with guarded.settings(installationID="blue"):
        guarded.write(theirs, namespace=tracked)
        ours = {"metadata": {"annotations": {names.INSTALLATION_ID: "blue"}}}
        until(
            lambda: (
                "[tracking/foreign-installation]"
                in patched(guarded, "configmap", "theirs", ours, namespace=tracked)
            ),
            what="our own installation id",
        )
        nobodys = {"metadata": {"annotations": {names.INSTALLATION_ID: None}}}
        told = patched(guarded, "configmap", "theirs", nobodys, namespace=tracked)
        assert "[tracking/foreign-installation]" in told
        hidden = {"metadata": {**nobodys["metadata"], "ownerReferences": [NO_OWNER]}}
        told = patched(guarded, "configmap", "theirs", hidden, namespace=tracked)
        assert "[tracking/foreign-installation]" in told


def test_a_tenant_cannot_mark_what_its_project_does_not_permit(guarded: Guarded, tracked: str) -> None:
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "tenant"},
        "spec": {
            "project": "tenant",
            "source": {"repoURL": "https://example.test", "path": ".", "targetRevision": "v1"},
            "destination": {"server": names.IN_CLUSTER_SERVER, "namespace": "tenants-own"},
        },
        "status": {
            "resources": [
                {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": tracked, "name": one}
                for one in ("victim", "settled")
            ]
        },
    }
    narrow = project("tenant", destinations=[{"server": "*", "namespace": "tenants-own"}])
    guarded.write([narrow, application])

    def marks(name: str) -> Object:
        done = guarded.write(config_map(name), "--dry-run=server", "-o", "json", namespace=tracked)
        found: Object = json.loads(done.stdout)["metadata"].get("annotations", {})
        return found

    assert names.TRACKING_ID not in marks("victim")
    permitted = project("tenant", destinations=[{"server": "*", "namespace": tracked}])
    guarded.write(permitted)
    until(lambda: names.TRACKING_ID in marks("settled"), what="the project permits it")
    guarded.write(narrow)
    until(lambda: names.TRACKING_ID not in marks("victim"), what="the project permits it no longer")
