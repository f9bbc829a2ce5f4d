"""Live objects of a workload cluster, asked for at the control plane: both ends on real API servers."""

from typing import Any

import pytest

from argocd import names
from kube.errors import NotFoundError
from kube.live.raw import RawAnswer, RawApi
from kube.resources import APPLICATIONS, CONFIG_MAPS
from kube.store import Object, Resource
from tests.cluster.live_scene import DEPLOYMENTS, deployment, live
from tests.cluster.sidecar_ends import Ends
from tests.sidecars.captured_logs import logged
from tests.sidecars.pair_in_memory import application
from tests.sidecars.proxies.hub_caller import hub_caller

SUPPORTED_PATCHES = (
    ("application/merge-patch+json", {"data": {"merged": "1"}}),
    ("application/json-patch+json", [{"op": "add", "path": "/data/json", "value": "1"}]),
    ("application/strategic-merge-patch+json", {"data": {"strategic": "1"}}),
)


async def test_objects_of_an_application_are_read_and_nobody_elses(ends: Ends) -> None:
    async with live(ends) as at:
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine", data={"a": "1"}))
        await at.create(CONFIG_MAPS, {"metadata": {"name": "nobodys"}})
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "others", app="elsewhere"))
        copied = at.tracked(CONFIG_MAPS, "mine")
        copied["metadata"]["name"] = "copied"
        await at.create(CONFIG_MAPS, copied)

        answer = await at.hub.get(at.path(CONFIG_MAPS, "mine"))
        assert (answer.status, answer.json["data"]) == (200, {"a": "1"})
        for name in ("nobodys", "others", "copied"):
            refused = await at.hub.get(at.path(CONFIG_MAPS, name))
            assert refused.status == 403, name
            assert "leads to an Application of this agent" in refused.message
        assert (await at.hub.get(at.path(CONFIG_MAPS, "absent"))).status == 404

        listed = await at.hub.get(at.path(CONFIG_MAPS))
        assert [item["metadata"]["name"] for item in listed.json["items"]] == ["mine"]


async def test_discovery_is_the_workload_clusters_own(ends: Ends) -> None:
    async with live(ends) as at:
        version = await at.hub.get("/version")
        assert version.json["gitVersion"].startswith("v1.")
        assert (await at.hub.get("/api")).json["versions"] == ["v1"]
        groups = {group["name"] for group in (await at.hub.get("/apis")).json["groups"]}
        assert {"apps", "argoproj.io"} <= groups
        assert (await at.hub.get("/apis/apps?timeout=32s")).json["kind"] == "APIGroup"
        found = (await at.hub.get("/apis/apps/v1")).json["resources"]
        assert "deployments" in {each["name"] for each in found}
        assert (await at.hub.get("/openapi/v2")).json["swagger"] == "2.0"
        assert "apis/apps/v1" in (await at.hub.get("/openapi/v3")).json["paths"]
        assert (await at.hub.get("/openapi/v3/apis/apps/v1")).json["openapi"].startswith("3.")
        assert (await at.hub.get("/apis/nobodys.example.org/v1")).status == 404
        aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        answer = await at.hub.get("/apis", Accept=aggregated)
        assert answer.json["kind"] == "APIGroupDiscoveryList"
        assert answer.headers["Content-Type"] == aggregated
        protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        answer = await at.hub.get("/openapi/v2", Accept=protobuf)
        assert (answer.status, "protobuf" in answer.headers["Content-Type"]) == (200, True)


async def test_every_patch_is_the_patch_that_it_says(ends: Ends) -> None:
    lines = logged(level="info")
    async with live(ends) as at:
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine", data={"a": "1"}))
        for content_type, patch in SUPPORTED_PATCHES:
            answer = await at.hub("PATCH", at.path(CONFIG_MAPS, "mine"), patch, content_type=content_type)
            assert answer.status == 200, answer.body
        applied = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "mine"},
            "data": {"applied": "1"},
        }
        answer = await at.hub(
            "PATCH",
            at.path(CONFIG_MAPS, "mine") + "?fieldManager=argocd-controller&force=true",
            applied,
            content_type="application/apply-patch+yaml",
        )
        assert answer.status == 200, answer.body
        there = await at.there(CONFIG_MAPS, "mine")
        assert there["data"] == {"a": "1", "merged": "1", "json": "1", "strategic": "1", "applied": "1"}
        assert "argocd-controller" in {entry["manager"] for entry in there["metadata"]["managedFields"]}
        other = await at.hub("PATCH", at.path(CONFIG_MAPS, "mine"), {}, content_type="text/plain")
        assert other.status == 415
        audited = lines("asked to change an object")
        assert [(line["operation"], line["code"]) for line in audited] == [("PATCH", 200)] * 4 + [
            ("PATCH", 415)
        ]
        assert {(line["key"], line["user"]) for line in audited} == {(at.path(CONFIG_MAPS, "mine"), "-")}
        assert "strategic" not in str(audited)


async def test_a_strategic_patch_keeps_the_second_container(ends: Ends) -> None:
    """What argocd-agent's agents answer with 200, and remove."""
    async with live(ends) as at:
        body = deployment("web", annotations=at.tracked(DEPLOYMENTS, "web")["metadata"]["annotations"])
        body["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "example.org/side:1"})
        await at.create(DEPLOYMENTS, body)
        patch = {
            "spec": {"template": {"spec": {"containers": [{"name": "web", "image": "example.org/web:2"}]}}}
        }
        answer = await at.hub(
            "PATCH",
            at.path(DEPLOYMENTS, "web"),
            patch,
            content_type="application/strategic-merge-patch+json",
        )
        containers = answer.json["spec"]["template"]["spec"]["containers"]
        assert {each["name"]: each["image"] for each in containers} == {
            "web": "example.org/web:2",
            "side": "example.org/side:1",
        }


async def test_objects_are_made_only_for_an_application_whose_project_permits_them(ends: Ends) -> None:
    forbidden = [{"group": "", "kind": "Secret"}]
    async with live(ends, namespaceResourceBlacklist=forbidden) as at:
        body = at.tracked(CONFIG_MAPS, "made", data={"a": "1"})
        dry = await at.hub("POST", at.path(CONFIG_MAPS) + "?dryRun=All", body)
        assert dry.status == 201
        with pytest.raises(NotFoundError):
            await at.there(CONFIG_MAPS, "made")
        assert (await at.hub("POST", at.path(CONFIG_MAPS), body)).status == 201
        assert (await at.there(CONFIG_MAPS, "made"))["data"] == {"a": "1"}

        nobodys = await at.hub("POST", at.path(CONFIG_MAPS), {"metadata": {"name": "nobodys"}})
        assert nobodys.status == 403
        secrets = Resource("", "v1", "secrets", "Secret")
        refused = await at.hub("POST", at.path(secrets), at.tracked(secrets, "hidden"))
        assert (refused.status, "Secret of group core is not permitted" in refused.message) == (403, True)
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        mark = {names.TRACKING_ID: f"shop:rbac.authorization.k8s.io/ClusterRole:{at.namespace}/all"}
        refused = await at.hub("POST", roles, {"metadata": {"name": "all", "annotations": mark}})
        assert (refused.status, "ClusterRole" in refused.message) == (403, True)
        mismatched = {**at.tracked(CONFIG_MAPS, "made"), "kind": "Secret"}
        assert (await at.hub("POST", at.path(CONFIG_MAPS), mismatched)).status == 400


async def test_an_api_server_chooses_no_name_that_a_project_denies(ends: Ends) -> None:
    role = {"group": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    denied = {**role, "name": "admin-*"}
    async with live(ends, clusterResourceWhitelist=[role], clusterResourceBlacklist=[denied]) as at:
        mark = {names.TRACKING_ID: f"shop:rbac.authorization.k8s.io/ClusterRole:{at.namespace}/any"}
        for naming, status in (
            ({"name": "any"}, 201),
            ({"name": "admin-a"}, 403),
            ({"generateName": "admin-"}, 403),
        ):
            body = {"metadata": {**naming, "annotations": mark}}
            roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All"
            assert (await at.hub("POST", roles, body)).status == status, naming


async def test_an_apply_of_what_is_not_there_is_judged_as_a_creation(ends: Ends) -> None:
    async with live(ends) as at:
        apply = {"content_type": "application/apply-patch+yaml"}
        query = "?fieldManager=argocd-controller&dryRun=All"
        body = {"apiVersion": "v1", "kind": "ConfigMap", **at.tracked(CONFIG_MAPS, "new")}
        made = await at.hub("PATCH", at.path(CONFIG_MAPS, "new") + query, body, **apply)
        assert made.status in {200, 201}
        nobodys = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
        assert (await at.hub("PATCH", at.path(CONFIG_MAPS, "new") + query, nobodys, **apply)).status == 403


@pytest.mark.parametrize("resource", [CONFIG_MAPS, APPLICATIONS], ids=lambda resource: resource.plural)
async def test_an_apply_of_what_is_not_there_leaves_alone_what_appears_meanwhile(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, resource: Resource
) -> None:
    request = RawApi.request
    async with live(ends) as at:
        path = at.path(resource, "new")
        theirs = {"metadata": {"name": "new", "annotations": {"whose": "theirs"}}}
        theirs["spec"] = application()["spec"]
        mine = {"apiVersion": resource.api_version, "kind": resource.kind, **at.tracked(resource, "new")}
        mine["spec"] = {**application()["spec"], "project": "mine"}
        if resource == CONFIG_MAPS:
            mine.pop("spec")
            theirs.pop("spec")

        async def meanwhile(api: RawApi, method: str, where: str, **how: Any) -> RawAnswer:
            if method == "PATCH" and where == path:
                await at.create(resource, theirs)
            return await request(api, method, where, **how)

        def applying() -> Any:
            query = "?fieldManager=argocd-controller&force=true"
            return at.hub("PATCH", path + query, mine, content_type="application/apply-patch+yaml")

        with monkeypatch.context() as patched:
            patched.setattr(RawApi, "request", meanwhile)
            conflict = await applying()
        assert (conflict.status, conflict.json["reason"]) == (409, "Conflict")
        assert (await at.there(resource, "new"))["metadata"]["annotations"] == {"whose": "theirs"}
        await ends.workload.delete(resource, name="new", namespace=at.namespace)
        made = await applying()
        assert made.status == 201, made.body
        assert (await applying()).status == 200, "and goes on as an apply"


async def test_what_is_deleted_is_the_object_that_was_tested(ends: Ends) -> None:
    async with live(ends) as at:
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine"))
        await at.create(CONFIG_MAPS, {"metadata": {"name": "nobodys"}})
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}}
        assert (await at.hub("DELETE", at.path(CONFIG_MAPS, "mine"), options)).status == 409
        assert (await at.hub("DELETE", at.path(CONFIG_MAPS, "nobodys"))).status == 403
        assert (await at.hub("DELETE", at.path(CONFIG_MAPS))).status == 405, "no collection"
        assert (await at.hub("DELETE", at.path(CONFIG_MAPS, "mine"))).status == 200
        with pytest.raises(NotFoundError):
            await at.there(CONFIG_MAPS, "mine")


async def test_what_takes_an_objects_name_after_the_test_is_left_alone(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RawApi.request
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"mine": "1"}}
    forced = "?fieldManager=argocd-controller&force=true"
    cases: list[tuple[str, str, Any]] = [
        ("PUT", "application/json", mine),
        ("PATCH", "application/merge-patch+json", mine),
        ("PATCH", "application/strategic-merge-patch+json", mine),
        ("PATCH", "application/apply-patch+yaml", mine),
        ("PATCH", "application/json-patch+json", [{"op": "add", "path": "/data/mine", "value": "1"}]),
        ("DELETE", "application/json", {}),
    ]
    async with live(ends) as at:
        path = at.path(CONFIG_MAPS, "mine")
        await at.create(CONFIG_MAPS, {"metadata": {"name": "mine"}})

        async def replaced(body: Object) -> None:
            await ends.workload.delete(CONFIG_MAPS, name="mine", namespace=at.namespace)
            await at.create(CONFIG_MAPS, body)

        async def replaced_before(api: RawApi, method: str, where: str, **how: Any) -> RawAnswer:
            if method != "GET" and where == path:
                await replaced({"metadata": {"name": "mine"}, "data": {"theirs": "1"}})
            return await request(api, method, where, **how)

        monkeypatch.setattr(RawApi, "request", replaced_before)
        for method, content_type, body in cases:
            await replaced(at.tracked(CONFIG_MAPS, "mine", data={"a": "1"}))
            query = forced if "apply" in content_type else ""
            answer = await at.hub(method, path + query, body, content_type=content_type)
            assert (answer.status, answer.json["kind"]) == (409, "Status"), (content_type, answer.body)
            assert (await at.there(CONFIG_MAPS, "mine"))["data"] == {"theirs": "1"}, content_type


async def test_a_subresource_is_read_changed_and_never_taken_for_its_object(ends: Ends) -> None:
    async with live(ends) as at:
        marks = at.tracked(DEPLOYMENTS, "web")["metadata"]["annotations"]
        await at.create(DEPLOYMENTS, deployment("web", annotations=marks))
        await at.create(DEPLOYMENTS, deployment("nobodys"))
        scale = await at.hub.get(at.path(DEPLOYMENTS, "web", subresource="scale"))
        assert (scale.status, scale.json["kind"]) == (200, "Scale")
        put = await at.hub(
            "PUT", at.path(DEPLOYMENTS, "web", subresource="scale"), {**scale.json, "spec": {"replicas": 3}}
        )
        assert (put.status, (await at.there(DEPLOYMENTS, "web"))["spec"]["replicas"]) == (200, 3)
        assert (await at.hub.get(at.path(DEPLOYMENTS, "nobodys", subresource="scale"))).status == 403
        assert (await at.hub("DELETE", at.path(DEPLOYMENTS, "web", subresource="scale"))).status == 405
        await at.there(DEPLOYMENTS, "web")
        status = {"status": {"observedGeneration": 1}}
        patched = await at.hub(
            "PATCH",
            at.path(DEPLOYMENTS, "web", subresource="status"),
            status,
            content_type="application/merge-patch+json",
        )
        assert patched.status == 200
        missing = await at.hub(
            "PATCH",
            at.path(CONFIG_MAPS, "absent", subresource="status"),
            status,
            content_type="application/merge-patch+json",
        )
        assert missing.status == 404


async def test_owners_lead_to_the_application_and_events_are_those_of_owned_objects(ends: Ends) -> None:
    replica_sets = Resource("apps", "v1", "replicasets", "ReplicaSet")
    pods = Resource("", "v1", "pods", "Pod")
    events = Resource("", "v1", "events", "Event")

    def owned_by(owner: Object, kind: str) -> list[Object]:
        metadata = owner["metadata"]
        return [{"apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}]

    def pod(name: str, **metadata: Any) -> Object:
        container = {"name": "web", "image": "example.org/web:1"}
        return {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}

    async with live(ends) as at:
        marks = at.tracked(DEPLOYMENTS, "web")["metadata"]["annotations"]
        top = await at.create(DEPLOYMENTS, deployment("web", annotations=marks))
        middle = await at.create(
            replica_sets, deployment("web-1", ownerReferences=owned_by(top, "Deployment"))
        )
        mine = await at.create(pods, pod("web-1-a", ownerReferences=owned_by(middle, "ReplicaSet")))
        other = await at.create(pods, pod("nobodys"))
        forged = owned_by(middle, "ReplicaSet")
        forged[0]["uid"] = "00000000-0000-0000-0000-000000000000"
        await at.create(pods, pod("forged", ownerReferences=forged))
        for about in (mine, other):
            reference = {"apiVersion": "v1", "kind": "Pod", "namespace": at.namespace}
            metadata = about["metadata"]
            reference |= {"name": metadata["name"], "uid": metadata["uid"]}
            await at.create(
                events,
                {
                    "metadata": {"name": f"{metadata['name']}.1"},
                    "involvedObject": reference,
                    "message": "started",
                },
            )
        assert (await at.hub.get(at.path(pods, "web-1-a"))).status == 200
        assert (await at.hub.get(at.path(pods, "forged"))).status == 403
        listed = (await at.hub.get(at.path(pods))).json["items"]
        assert [item["metadata"]["name"] for item in listed] == ["web-1-a"]
        found = (await at.hub.get(at.path(events))).json["items"]
        assert [item["metadata"]["name"] for item in found] == ["web-1-a.1"]
        selector = f"?fieldSelector=involvedObject.uid={other['metadata']['uid']}"
        assert (await at.hub.get(at.path(events) + selector)).json["items"] == []
        await ends.workload.delete(pods, name="web-1-a", namespace=at.namespace)
        found = (await at.hub.get(at.path(events))).json["items"]
        assert [item["metadata"]["name"] for item in found] == ["web-1-a.1"], "also when it is gone"


async def test_an_agent_that_is_away_and_what_is_not_served_are_said_in_words(ends: Ends) -> None:
    async with live(ends) as at:
        watch = await at.hub.get(at.path(CONFIG_MAPS) + "?watch=true")
        assert (watch.status, "watches" in watch.message) == (501, True)
        for path in ("/healthz", "/api/v1/namespaces/x/services/s/proxy/deeper", "/api/v1/%2e%2e/secrets"):
            assert (await at.hub.get(path)).status == 400, path
        assert (await at.hub.get(at.path(CONFIG_MAPS) + "?limit=1&limit=2")).status == 400
        assert (await at.hub("OPTIONS", at.path(CONFIG_MAPS))).status == 405
        assert (await at.hub.get("/api/v1/nodes/x/proxy")).status in {403, 404}
        port = int(at.hub.url.rpartition(":")[2])
        async with hub_caller(ends.pki, port, agent="agent-nobody") as stranger:
            away = await stranger.get("/version")
            assert (away.status, "agent-nobody is not connected" in away.message) == (502, True)
        async with hub_caller(ends.pki, port, agent=None) as stranger:
            assert (await stranger.get("/version")).status == 401
            assert (await stranger.get("/version", Authorization="Bearer nonsense")).status == 401


async def test_namespaces_that_are_not_listed_are_not_shown(ends: Ends) -> None:
    ends.agent_settings["resource_proxy_namespaces"] = ("elsewhere-*",)
    async with live(ends) as at:
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine"))
        refused = await at.hub.get(at.path(CONFIG_MAPS, "mine"))
        assert (refused.status, "--resource-proxy-namespaces" in refused.message) == (403, True)
        assert (await at.hub.get("/apis/apps/v1")).status == 200


async def test_an_agent_with_its_proxy_off_says_so_at_once(ends: Ends) -> None:
    ends.agent_settings["resource_proxy"] = False
    async with live(ends) as at:
        refused = await at.hub.get(at.path(CONFIG_MAPS, "mine"))
        assert (refused.status, "--enable-resource-proxy" in refused.message) == (403, True)
