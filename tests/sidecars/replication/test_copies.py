"""Copies on a standby: what they look like there, and what a promotion makes of them."""

from argocd import names
from argocd.agents.replication import DELETING, PENDING_OPERATION, is_marked
from kube import queries
from kube.embedded import Call, EmbeddedStore, Phase
from kube.errors import UnavailableError
from kube.resources import APPLICATION_SETS, APPLICATIONS
from kube.store import Object
from sidecars.replication.kinds import APPLICATION
from tests.sidecars.replication.hubs import ARGOCD, Hub, Pair, application, create, embedded, until
from tests.simulation.world import WRITES

SYNC = {"sync": {"revision": "v2"}}


async def web(store: EmbeddedStore) -> Object:
    return await store.get(APPLICATIONS, name="web", namespace="agent-a")


def owned(owner: Object) -> Object:
    body = application("web")
    identity = {"kind": "ApplicationSet", "name": "set", "uid": owner["metadata"]["uid"]}
    body["metadata"]["ownerReferences"] = [{"apiVersion": names.API_VERSION, **identity}]
    return body


async def test_a_promotion_begins_what_the_primary_had_begun_and_nothing_twice() -> None:
    one, two = embedded(), embedded()
    ran = {"operationState": {"operation": SYNC, "phase": "Running"}}
    leaving = application("leaving")
    leaving["metadata"]["finalizers"] = [names.RESOURCES_FINALIZER]
    for body in (application("web", operation=SYNC), application("ran", operation=SYNC, status=ran), leaving):
        await create(one, APPLICATIONS, body, namespace="agent-a")
    await one.delete(APPLICATIONS, name="leaving", namespace="agent-a")
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        copy = await web(two)
        assert "operation" not in copy
        assert PENDING_OPERATION in copy["metadata"]["annotations"]
        there = await two.get(APPLICATIONS, name="leaving", namespace="agent-a")
        assert "deletionTimestamp" not in there["metadata"]
        await pair.follower.stop()
        counts = await pair.follower.adopt()
        assert (counts.operations, counts.deletions) == (1, 1)
        adopted = await web(two)
        assert adopted["operation"] == SYNC
        assert PENDING_OPERATION not in adopted["metadata"]["annotations"]
        assert "operation" not in await two.get(APPLICATIONS, name="ran", namespace="agent-a")
        gone = await two.get(APPLICATIONS, name="leaving", namespace="agent-a")
        assert gone["metadata"]["deletionTimestamp"]
        assert DELETING not in gone["metadata"]["annotations"]
        await until(lambda: not any(is_marked(item) for _, item in pair.standby.objects.items(APPLICATION)))
        again = await pair.follower.adopt()
        assert (again.operations, again.deletions) == (0, 0)


async def test_a_promotion_leaves_an_operation_that_is_there_already() -> None:
    one, two = embedded(), embedded()
    await create(one, APPLICATIONS, application("web", operation=SYNC), namespace="agent-a")
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        await pair.follower.stop()
        emergency = {"sync": {"revision": "by hand"}}
        await two.replace(APPLICATIONS, {**await web(two), "operation": emergency})
        counts = await pair.follower.adopt()
        adopted = await web(two)
        assert (counts.operations, adopted["operation"]) == (0, emergency)
        assert PENDING_OPERATION not in adopted["metadata"]["annotations"]


async def test_a_promotion_deletes_what_its_source_was_deleting_and_no_later_one_of_the_name() -> None:
    one, two = embedded(), embedded()
    leaving = application("leaving")
    leaving["metadata"]["finalizers"] = [names.RESOURCES_FINALIZER]
    await create(one, APPLICATIONS, leaving, namespace="agent-a")
    await one.delete(APPLICATIONS, name="leaving", namespace="agent-a")
    crossing: list[Object] = []

    async def make_anew(call: Call) -> None:
        """Somebody is faster than the promotion's deletion."""
        if (call.verb, call.phase, crossing) == ("delete", Phase.BEFORE, []):
            there = await two.get(APPLICATIONS, name="leaving", namespace="agent-a")
            crossing.append(there)
            await two.replace(APPLICATIONS, {**there, "metadata": {**there["metadata"], "finalizers": []}})
            await two.delete(APPLICATIONS, name="leaving", namespace="agent-a")
            crossing.append(await create(two, APPLICATIONS, application("leaving"), namespace="agent-a"))

    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        await pair.follower.stop()
        two.hooks.faults = make_anew
        counts = await pair.follower.adopt()
        assert counts.deletions == 0
        assert await two.get(APPLICATIONS, name="leaving", namespace="agent-a") == crossing[-1]


async def test_an_application_s_owner_is_the_set_of_that_name_here() -> None:
    one, two = embedded(), embedded()
    owner = await create(one, APPLICATION_SETS, {"metadata": {"name": "set"}, "spec": {}, "status": {"a": 1}})
    await create(one, APPLICATIONS, owned(owner), namespace="agent-a")
    await one.replace(APPLICATION_SETS, {**owner, "status": {"resources": []}}, subresource="status")
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        here = await two.get(APPLICATION_SETS, name="set", namespace=ARGOCD)
        (reference,) = (await web(two))["metadata"]["ownerReferences"]
        assert reference["uid"] == here["metadata"]["uid"] != owner["metadata"]["uid"]
        assert here["status"] == {"resources": []}
        await one.delete(APPLICATION_SETS, name="set", namespace=ARGOCD)
        await until(lambda: pair.source.last_sequence == 1)
        await pair.equal()
        assert await queries.find(two, APPLICATION_SETS, name="set", namespace=ARGOCD) is None


class Trouble:
    """An API server that does not answer for some writes of one object; those that it took are noted."""

    def __init__(self, name: str, *, times: int) -> None:
        self._name, self._left = name, times
        self.taken: list[tuple[str, str]] = []

    async def __call__(self, call: Call) -> None:
        if call.verb not in WRITES:
            return
        if call.phase is Phase.AFTER:
            self.taken.append((call.verb, call.name))
        elif call.name == self._name and self._left:
            self._left -= 1
            raise UnavailableError("etcd is away")


async def test_an_application_waits_for_its_set_that_is_still_being_written() -> None:
    one, two = embedded(), embedded()
    owner = await create(one, APPLICATION_SETS, {"metadata": {"name": "set"}, "spec": {}})
    await create(one, APPLICATIONS, owned(owner), namespace="agent-a")
    two.hooks.faults = trouble = Trouble("set", times=3)
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        written = [write for write in trouble.taken if write[1] in {"set", "web"}]
        assert written == [("create", "set"), ("create", "web")]  # never without its owner
        here = await two.get(APPLICATION_SETS, name="set", namespace=ARGOCD)
        (reference,) = (await web(two))["metadata"]["ownerReferences"]
        assert reference["uid"] == here["metadata"]["uid"]


async def test_a_set_goes_after_its_applications_were_told_apart_from_it() -> None:
    """Or a garbage collector would take those that stay."""
    one, two = embedded(), embedded()
    owner = await create(one, APPLICATION_SETS, {"metadata": {"name": "set"}, "spec": {}})
    await create(one, APPLICATIONS, owned(owner), namespace="agent-a")
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        two.hooks.faults = trouble = Trouble("web", times=3)
        there = await web(one)
        del there["metadata"]["ownerReferences"]
        await one.replace(APPLICATIONS, there)
        await one.delete(APPLICATION_SETS, name="set", namespace=ARGOCD)
        await until(lambda: pair.source.last_sequence == 2)
        await pair.equal()
        assert [write for write in trouble.taken if write[1] in {"set", "web"}] == [
            ("replace", "web"),
            ("delete", "set"),
        ]


async def test_gone_takes_the_finalizers_away_first_so_that_nothing_cascades() -> None:
    one, two = embedded(), embedded()
    body = application("web")
    body["metadata"]["finalizers"] = [names.RESOURCES_FINALIZER]
    await create(one, APPLICATIONS, body, namespace="agent-a")
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        there = await web(one)
        await one.delete(APPLICATIONS, name="web", namespace="agent-a")
        await until(lambda: pair.source.last_sequence == 1)
        await pair.equal()
        assert DELETING in (await web(two))["metadata"]["annotations"]
        there = await web(one)
        there["metadata"].pop("finalizers")
        await one.replace(APPLICATIONS, there)
        await until(lambda: pair.source.last_sequence == 2)
        await pair.equal()
        assert await queries.find(two, APPLICATIONS, name="web", namespace="agent-a") is None


async def test_a_name_used_again_is_the_same_copy_under_its_new_identity() -> None:
    one, two = embedded(), embedded()
    await create(one, APPLICATIONS, application("web"), namespace="agent-a")
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        before = await web(two)
        await pair.follower.stop()
        await one.delete(APPLICATIONS, name="web", namespace="agent-a")
        new = await create(one, APPLICATIONS, application("web"), namespace="agent-a")
        await until(lambda: pair.source.last_sequence == 2)
        pair.follower = pair.new_follower()
        await pair.follower.load()
        await pair.follower.start()
        await pair.equal()
        after = await web(two)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["annotations"][names.SOURCE_UID] == new["metadata"]["uid"]


async def test_what_is_being_deleted_on_the_standby_is_made_anew() -> None:
    one, two = embedded(), embedded()
    body = application("web")
    body["metadata"]["finalizers"] = [names.RESOURCES_FINALIZER]
    await create(one, APPLICATIONS, body, namespace="agent-a")
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        await two.delete(APPLICATIONS, name="web", namespace="agent-a")
        item = await web(one)
        item["spec"]["source"]["targetRevision"] = "v2"
        await one.replace(APPLICATIONS, item)
        await until(lambda: pair.source.last_sequence == 1)
        await pair.equal()
        assert "deletionTimestamp" not in (await web(two))["metadata"]
