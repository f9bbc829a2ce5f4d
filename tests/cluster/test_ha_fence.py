"""The fence of a pair on a real API server: who may write on a standby, and how soon a change of role counts."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from argocd import names
from kube.errors import ForbiddenError
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object, Resource
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters
from sidecars.replication.control.fence import Fence
from sidecars.replication.record import HaRecord, HaRole, RecordStore
from tests.cluster.installation import installed
from tests.cluster.paired_hubs import connected
from tests.sidecars.pair_in_memory import application, project

ARGOCD = "argocd"
FIRST = HaRecord(pair="pair-1", principal="principal-1", role=HaRole.STANDBY, epoch=2)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@contextmanager
def standby(cluster: Cluster) -> Iterator[Cluster]:
    with installed(cluster, "standby"):
        try:
            yield cluster
        finally:
            cluster.kubectl(
                "delete", "validatingadmissionpolicybinding", names.HA_FENCE, "--ignore-not-found"
            )


async def until_fenced(fence: Fence, record: HaRecord) -> None:
    report = await fence.prove(record, seconds=60)
    assert report.stands, report.problem


async def is_refused(store: LiveStore, name: str = "web") -> bool:
    try:
        await store.create(APP_PROJECTS, project(name), namespace=ARGOCD, dry_run=True)
    except ForbiddenError as error:
        return "this cluster is a standby" in str(error)
    return False


SET: Object = {
    "metadata": {"name": "set"},
    "spec": {
        "generators": [],
        "template": {
            "metadata": {"name": "x"},
            "spec": {"project": "web", "source": {"repoURL": "https://git", "path": "."}, "destination": {}},
        },
    },
}
REPOSITORY: Object = {
    "metadata": {"name": "git", "labels": {names.SECRET_TYPE: "repository"}},
    "stringData": {"url": "https://x"},
}
PLAIN: Object = {"metadata": {"name": "plain"}, "stringData": {"key": "value"}}
TAKE_OFF: Object = {"metadata": {"labels": {}}}
PUT_ON: Object = {"metadata": {"labels": {names.SECRET_TYPE: "repository"}}}
# Whoever cleans up after others, wherever it runs.
CLEANERS = (
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
)


async def changed(store: LiveStore, resource: Resource, name: str, change: Object) -> None:
    """Told, and not kept; by an update, for which everybody here has the right."""
    there = await store.get(resource, name=name, namespace=ARGOCD)
    metadata = {**there["metadata"], **change.get("metadata", {})}
    status = {"subresource": "status"} if "status" in change else {}
    await store.replace(resource, {**there, **change, "metadata": metadata}, dry_run=True, **status)


async def every_kind_is_refused(own: LiveStore, other: LiveStore) -> None:
    """Also the status of an ApplicationSet, which its controller writes."""
    await own.create(APPLICATION_SETS, SET, namespace=ARGOCD)
    for resource, body in ((APPLICATIONS, application("web")), (APPLICATION_SETS, SET)):
        with pytest.raises(ForbiddenError, match="this cluster is a standby"):
            await other.create(resource, body, namespace=ARGOCD, dry_run=True)
    with pytest.raises(ForbiddenError, match="this cluster is a standby"):
        await other.delete(APPLICATION_SETS, name="set", namespace=ARGOCD)
    status: Object = {"status": {"conditions": []}}
    with pytest.raises(ForbiddenError, match="this cluster is a standby"):
        await changed(other, APPLICATION_SETS, "set", status)
    await changed(own, APPLICATION_SETS, "set", status)


async def secrets_are_told_apart_by_the_label_that_they_had_and_have(
    own: LiveStore, other: LiveStore
) -> None:
    with pytest.raises(ForbiddenError, match="standby"):
        await other.create(SECRETS, REPOSITORY, namespace=ARGOCD)
    await own.create(SECRETS, REPOSITORY, namespace=ARGOCD)
    await other.create(SECRETS, PLAIN, namespace=ARGOCD)
    for name, change in (("git", TAKE_OFF), ("plain", PUT_ON)):
        with pytest.raises(ForbiddenError, match="standby"):
            await changed(other, SECRETS, name, change)
        with pytest.raises(ForbiddenError, match="repositories and clusters, and no others"):
            await changed(own, SECRETS, name, change)
    with pytest.raises(ForbiddenError, match="repositories and clusters, and no others"):
        await own.create(SECRETS, {"metadata": {"name": "jwt"}}, namespace=ARGOCD)
    with pytest.raises(ForbiddenError, match="repositories and clusters, and no others"):
        await own.delete(SECRETS, name="plain", namespace=ARGOCD)


async def test_on_a_standby_only_the_principal_writes_and_a_promotion_lets_others_in(
    clusters: Clusters,
) -> None:
    with standby(clusters.standby) as cluster:
        principal = cluster.kubeconfig_of_account("tiphys-principal", namespace=ARGOCD)
        admin = cluster.kubeconfig
        emergency = cluster.kubeconfig_of("jo", groups=("system:masters", "tiphys:break-glass"))
        async with connected(principal) as own, connected(admin) as other, connected(emergency) as jo:
            fence, records = Fence(own, namespace=ARGOCD), RecordStore(own, namespace=ARGOCD)
            # Before there is a record everything is refused, but for the record itself.
            held = await records.create(FIRST)
            await until_fenced(fence, held)
            assert await is_refused(other)
            assert not await is_refused(own)
            assert not await is_refused(jo)
            for cleaner in CLEANERS:
                async with connected(cluster.kubeconfig_of(cleaner, groups=("system:masters",))) as store:
                    assert not await is_refused(store)
            await every_kind_is_refused(own, other)
            await secrets_are_told_apart_by_the_label_that_they_had_and_have(own, other)
            # Nobody takes the fence's parameter away or edits it.
            with pytest.raises(ForbiddenError, match="written by the principal"):
                await other.delete(CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
            read = await jo.get(CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
            served: Object = {"data": {**read["data"], "role": "active"}}
            with pytest.raises(ForbiddenError, match="written by the principal"):
                await changed(other, CONFIG_MAPS, names.HA_RECORD, served)
            await changed(jo, CONFIG_MAPS, names.HA_RECORD, served)
            # Promotion: it may still be taken back; once it is over, nobody is refused any more.
            promoting = await records.change(replace(held, role=HaRole.PROMOTING, epoch=4))
            await until_fenced(fence, promoting)
            assert await is_refused(other)
            active = await records.change(replace(promoting, role=HaRole.ACTIVE))
            await until_fenced(fence, active)
            assert not await is_refused(other)
            with pytest.raises(ForbiddenError, match="repositories and clusters, and no others"):
                await changed(own, SECRETS, "plain", PUT_ON)
            demoted = await records.change(replace(active, role=HaRole.STANDBY))
            await until_fenced(fence, demoted)
            assert await is_refused(other)
            # A canary that somebody leaves there changes nothing, also below: admission comes first.
            left = {"epoch": str(demoted.epoch), "role": demoted.role.value}
            await other.create(
                CONFIG_MAPS, {"metadata": {"name": names.HA_CANARY}, "data": left}, namespace=ARGOCD
            )
            assert (await fence.prove(demoted, seconds=0.0)).stands
            # One that is gone is noticed. It is not put back here: an API server does not follow the parameter of a
            # binding that was deleted and made again until it restarts, which the canary notices too.
            cluster.kubectl("delete", "validatingadmissionpolicybinding", names.HA_FENCE)
            async with asyncio.timeout(60):
                while (await fence.prove(demoted, seconds=0.2)).stands:
                    pass  # an API server hears of it by its own watch
            assert "are not there" in (await fence.prove(demoted, seconds=0.5)).problem
            # Taken away in this order it leaves nobody refused: without its parameter it would refuse everybody.
            assert not await is_refused(other)
            await jo.delete(CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
            assert not await is_refused(other)
