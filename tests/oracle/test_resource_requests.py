"""argocd-agent's tables of what its agent does with a request for an object, and where ours does otherwise on purpose."""

from base64 import b64encode
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from argocd.agents.vocabulary import Target
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import read_settings
from kube.live.raw import RawAnswer
from kube.store import Object
from sidecars.proxies.agent_resources import DisabledResources, ResourceHandler
from sidecars.proxies.discovery import Discovery
from sidecars.proxies.own_applications import OwnApplications
from sidecars.proxies.ownership import LookupLimit, Ownership
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import message_event
from tests.oracle.test_resource_proxy import pytestmark, table
from tests.sidecars.pair_in_memory import application, project

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["pytestmark"]

PODS = "/api/v1/namespaces/default/pods"
PATH = f"{PODS}/test-pod"
LISTS = {
    "/api/v1": ("v1", [("pods", "Pod", True), ("events", "Event", True), ("namespaces", "Namespace", False)]),
    "/apis/apps/v1": ("apps/v1", [("deployments", "Deployment", True), ("replicasets", "ReplicaSet", True)]),
    "/apis/operators.coreos.com/v1": (
        "operators.coreos.com/v1",
        [("operatorgroups", "OperatorGroup", True)],
    ),
    "/apis/operators.coreos.com/v1alpha1": (
        "operators.coreos.com/v1alpha1",
        [("clusterserviceversions", "ClusterServiceVersion", True)],
    ),
}
OTHERWISE = {
    "agent-res-invalid": "400 with the reason, not silence",
    "agent-res-list-forbidden": "lists of every kind, of what is ours",
    "agent-res-listopt-not-watch": "a watch is refused with 501, not answered with a list",
    "agent-res-listopts-bad-limit": "400: a list without the limit that was meant is too long",
    "agent-res-post-ok": "201, as an API server says it, where the caller is ours",
    "agent-res-disabled": "answered at once with 403 and the flag",
    "agent-res-delete-no-body": "an empty body is a deletion without options, as for an API server",
    "agent-res-delete-subresource": "the subresource is meant, not its object",
    "owned-annotation": "the value must name an Application of ours and be about the object",
    "owned-owner-other-namespace": "no error: such an owner is none",
    "owned-owner-missing": "nobody's, 403: an owner that is gone says nothing",
    "owned-limit-2": "nobody's, 403: no error, the chain is five long",
    "owned-olm-missing-group": "nobody's, 403",
    "tracked-unknown-method": "nobody's: nothing is shown by a method that is not known",
}
"""Why, by case; the expectation of each is in the tests below."""


class ApiServer:
    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.fails = 0

    async def request(self, method: str, path: str, **how: Any) -> RawAnswer:
        self.asked.append((method, path, how))
        if path in LISTS:
            version, kinds = LISTS[path]
            made = [
                {"name": name, "kind": kind, "namespaced": namespaced, "verbs": ["get"]}
                for name, kind, namespaced in kinds
            ]
            return self._answer(200, {"groupVersion": version, "resources": made})
        if path == "/apis":
            groups = [
                {"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
            ]
            return self._answer(200, {"kind": "APIGroupList", "groups": groups})
        if method != "GET":
            return self._answer(self.fails or (201 if method == "POST" else 200), {"metadata": {}})
        if path in {PODS, "/api/v1/events", "/api/v1/namespaces/default/events"}:
            return self._answer(200, {"kind": "List", "metadata": {}, "items": []})
        found = self.objects.get(path)
        return self._answer(404 if found is None else 200, found or {"kind": "Status", "code": 404})

    def _answer(self, status: int, body: Any) -> RawAnswer:
        return RawAnswer(status, "application/json", orjson.dumps(body))

    def writes(self) -> list[tuple[str, str, dict[str, Any]]]:
        return [each for each in self.asked if each[0] != "GET"]


class Agent:
    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.api = ApiServer()
        api: Any = self.api
        read = read_settings({"data": settings or {}}, configuration=Configuration())
        own = {"metadata": {"name": "shop", "namespace": "argocd"}, "spec": application()["spec"]}
        applications = OwnApplications(
            namespace="argocd",
            find=lambda namespace, name: own if (namespace, name) == ("argocd", "shop") else None,
            every=lambda: [own],
            project=lambda _: project(destinations=[{"server": "*", "namespace": "*"}]),
            settings=lambda: read,
        )
        discovery = Discovery(api, clock=lambda: 0.0)
        self.ownership = Ownership(
            api, discovery=discovery, applications=applications, namespace="argocd", clock=lambda: 0.0
        )
        self.handler = ResourceHandler(
            api, discovery=discovery, ownership=self.ownership, applications=applications
        )

    async def asked(self, method: str, request: dict[str, Any], *, disabled: bool = False) -> Any:
        event = message_event(method, target=Target.RESOURCE, payload=orjson.dumps(request))
        handler = DisabledResources() if disabled else self.handler
        answer = await handler.handle(event)
        assert answer is not None
        return orjson.loads(answer)

    def pod(self, name: str = "test-pod", *, tracked: bool = True) -> None:
        self.api.objects[f"{PODS}/{name}"] = thing("Pod", name, tracked=tracked)


def thing(
    kind: str, name: str, *, tracked: bool = False, owner: Object | None = None, namespace: str = "default"
) -> Object:
    group, version = {
        "Pod": ("", "v1"),
        "Namespace": ("", "v1"),
        "ReplicaSet": ("apps", "v1"),
        "Deployment": ("apps", "v1"),
        "OperatorGroup": ("operators.coreos.com", "v1"),
        "ClusterServiceVersion": ("operators.coreos.com", "v1alpha1"),
    }[kind]
    if kind == "Namespace":
        namespace = ""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"uid-{kind}-{name}"}
    if tracked:
        mark = f"shop:{group}/{kind}:{namespace}/{name}"
        metadata["annotations"] = {"argocd.argoproj.io/tracking-id": mark}
    if owner is not None:
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        metadata["ownerReferences"] = [{**reference, **{k: owner["metadata"][k] for k in ("name", "uid")}}]
    return {"apiVersion": f"{group}/{version}".lstrip("/"), "kind": kind, "metadata": metadata}


def parts(**changed: Any) -> dict[str, Any]:
    """As argocd-agent's principal tells a path."""
    return {"version": "v1", "namespace": "default", "resource": "pods", "name": "test-pod", **changed}


def body(value: Any) -> str:
    return b64encode(value.encode() if isinstance(value, str) else orjson.dumps(value)).decode()


CASES = [case for case in table("agent: resource request") if "-subpath-" not in case.id]


@pytest.mark.parametrize("case", [case for case in CASES if "-get-" in case.id])
async def test_an_object_is_read_where_it_is_managed(case: Any) -> None:
    agent = Agent()
    if "missing" not in case["id"]:
        agent.pod(tracked=case["id"].endswith("-managed"))
    answer = await agent.asked("GET", parts())
    assert answer["status"] == case["expect"]["status"]


@pytest.mark.parametrize("case", [case for case in CASES if case.id == "agent-res-invalid"])
async def test_what_is_no_request_is_answered(case: Any) -> None:
    assert case["id"] in OTHERWISE
    event = message_event("GET", target=Target.RESOURCE, payload=b"not a ResourceRequest")
    with pytest.raises(MalformedError):  # 400 by the dispatcher
        await Agent().handler.handle(event)


@pytest.mark.parametrize("case", [case for case in CASES if "-list" in case.id])
async def test_lists_take_the_same_parameters_and_more_kinds(case: Any) -> None:
    agent, given = Agent(), case["input"]
    request = parts(name="", resource=given.get("resource", "events"))
    request["namespace"] = given.get("namespace", "default")
    params = given.get("params") or ({given["param"]: "1"} if "param" in given else {})
    if case["id"] == "agent-res-list-limit-continue":
        params = {"limit": "7", "continue": "token"}
    answer = await agent.asked("GET", {**request, "params": params})
    if case["id"] == "agent-res-listopt-not-watch":
        assert (answer["status"], case["id"] in OTHERWISE) == (501, True)
        return
    if case["id"] == "agent-res-listopts-bad-limit":
        assert (answer["status"], case["id"] in OTHERWISE) == (400, True)
        return
    assert answer["status"] == 200
    query = agent.api.asked[0][2]["query"]
    known = {"fieldSelector", "labelSelector", "resourceVersion", "continue", "limit"}
    assert query == {"limit": "500", **{key: each for key, each in params.items() if key in known}}
    if "param" in given:
        assert (given["param"] in known) is case["expect"]["known"]


@pytest.mark.parametrize(
    "case", [case for case in CASES if any(f"-{word}-" in case.id for word in ("post", "patch", "delete"))]
)
async def test_changes_are_made_where_the_object_is_managed(case: Any) -> None:
    agent, given, name = Agent(), case["input"], case["id"]
    method = given["method"]
    managed = given.get("managed", True)
    if method != "POST":
        agent.pod(tracked=managed)
    agent.api.fails = 409 if given.get("api") == "error" else 0
    sent = given.get("body", {"metadata": {"labels": {"a": "b"}}} if method == "PATCH" else {})
    if method == "POST" and name != "agent-res-post-bad-json":
        sent = thing("Pod", "test-pod", tracked=True)
    request = parts(body=body(sent), params=given.get("params"), name="" if method == "POST" else "test-pod")
    if name == "agent-res-patch-bad-force":
        agent.api.fails = 400  # the API server reads it
    answer = await agent.asked(method, request)
    failed = case["expect"].get("error", False)
    assert (answer["status"] >= 400) is failed, answer
    if failed and "api" not in given and "force" not in name:
        assert agent.api.writes() == []
        return
    [(written, _, how)] = agent.api.writes()
    assert written == method
    if case["expect"].get("passed_to_api"):
        assert how["query"] == given["params"]
    if method == "PATCH":
        assert how["content_type"] == "application/merge-patch+json"


@pytest.mark.parametrize("case", table("DELETE"))
async def test_deletions_that_argocd_agent_refuses_or_widens(case: Any) -> None:
    assert case["id"] in OTHERWISE
    agent = Agent()
    agent.pod()
    subresource = case["input"].get("subresource", "")
    await agent.asked("DELETE", parts(subresource=subresource))
    [(_, path, _)] = agent.api.writes()
    assert path == (f"{PATH}/{subresource}" if subresource else PATH)


@pytest.mark.parametrize("case", [case for case in CASES if "-discovery-" in case.id])
async def test_discovery_is_the_clusters_own(case: Any) -> None:
    answer = await Agent().asked("GET", {**case["input"], "name": "", "resource": ""})
    if case["expect"].get("error"):
        assert answer["status"] == 404
        return
    found = orjson.loads(answer["resource"])
    assert answer["status"] == 200
    if "groups_have" in case["expect"]:
        assert all(set(case["expect"]["groups_have"]) <= set(group) for group in found["groups"])
    else:
        assert found["groupVersion"] == case["expect"]["groupVersion"]


@pytest.mark.parametrize("case", table("agent: resource request with"))
async def test_an_agent_whose_proxy_is_off_says_so(case: Any) -> None:
    assert case["id"] in OTHERWISE
    answer = await Agent().asked("GET", parts(), disabled=True)
    assert (answer["status"], "--enable-resource-proxy" in answer["resource"]) == (403, True)


def chain(*things: Object) -> list[Object]:
    """Each is owned by the next."""
    for dependent, owner in pairwise(things):
        metadata = owner["metadata"]
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        reference |= {"name": metadata["name"], "uid": metadata["uid"]}
        dependent["metadata"]["ownerReferences"] = [reference]
    return list(things)


def operator(*, annotated: bool = True) -> Object:
    made = thing("ClusterServiceVersion", "csv")
    if annotated:
        made["metadata"]["annotations"] = {"olm.operatorGroup": "my-operator"}
    return made


def owned_things(name: str, given: Any) -> list[Object]:
    pod, replica_set = thing("Pod", "pod1"), thing("ReplicaSet", "rs1")
    group = thing("OperatorGroup", "my-operator", tracked=True)
    made: dict[str, Callable[[], list[Object]]] = {
        "owned-owner-chain": lambda: chain(pod, replica_set, thing("Deployment", "depl1", tracked=True)),
        "owned-owner-cluster-scoped": lambda: chain(
            pod, replica_set, thing("Namespace", "ns1", tracked=True)
        ),
        "owned-owner-other-namespace": lambda: chain(
            pod, replica_set, thing("Deployment", "depl1", tracked=True, namespace="argocd")
        ),
        "owned-owner-missing": lambda: chain(pod, thing("Pod", "pod2"))[:1],
        "owned-limit-3": lambda: chain(pod, thing("Pod", "pod2"), thing("Pod", "pod3", tracked=True)),
        "owned-limit-2": lambda: chain(
            pod, *(thing("Pod", f"pod{number}") for number in range(2, 6)), thing("Pod", "pod6", tracked=True)
        ),
        "owned-olm-csv": lambda: [operator(), group],
        "owned-olm-chain": lambda: [*chain(pod, thing("Deployment", "operator"), operator()), group],
        "owned-olm-no-annotation": lambda: [operator(annotated=False), group],
        "owned-olm-missing-group": lambda: [operator()],
    }
    if name in made:
        return made[name]()
    for key, value in (
        ("annotations", {"argocd.argoproj.io/tracking-id": "shop:/Pod:default/pod1"}),
        ("labels", {given.get("instanceLabelKey", "app.kubernetes.io/instance"): "shop"}),
    ):
        if given.get(key):
            pod["metadata"][key] = value
    return [pod]


def path_to(made: Object) -> str:
    plurals = {kind: plural for _, kinds in LISTS.values() for plural, kind, _ in kinds}
    version, namespace = made["apiVersion"], made["metadata"]["namespace"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{place}/{plurals[made['kind']]}/{made['metadata']['name']}"


@pytest.mark.parametrize("case", table("agent: is an object managed"))
async def test_whose_an_object_is_is_found_as_argocd_agent_finds_it(case: Any) -> None:
    given = case["input"]
    settings = {"application.resourceTrackingMethod": given.get("method", "annotation")}
    if "instanceLabelKey" in given:
        settings["application.instanceLabelKey"] = given["instanceLabelKey"]
    agent = Agent(settings)
    things = owned_things(case["id"], given)
    agent.api.objects = {path_to(each): each for each in things}
    found = await agent.ownership.application_of(things[0], LookupLimit())
    assert (found is not None) is case["expect"]["managed"]
    if case["id"] == "owned-annotation":
        copied = thing("Pod", "other")
        copied["metadata"]["annotations"] = things[0]["metadata"]["annotations"]
        assert await agent.ownership.application_of(copied, LookupLimit()) is None, OTHERWISE[case["id"]]
    if case["expect"].get("error") or "error_contains" in case["expect"]:
        assert case["id"] in OTHERWISE


@pytest.mark.parametrize("case", table("unknown tracking method"))
async def test_by_a_method_that_is_not_known_nothing_is_ours(case: Any) -> None:
    agent = Agent(case["input"])
    assert case["id"] in OTHERWISE
    assert await agent.ownership.application_of(thing("Pod", "pod1", tracked=True), LookupLimit()) is None
