"""Lists of live objects and the forms in which they come, from a real API server."""

from kube.resources import CONFIG_MAPS
from tests.cluster.live_scene import live
from tests.cluster.sidecar_ends import Ends


async def test_tables_and_metadata_are_answered_to_those_who_ask(ends: Ends) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    partials = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    async with live(ends) as at:
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine", data={"a": "1"}))
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine-too", data={"a": "1"}))
        await at.create(CONFIG_MAPS, {"metadata": {"name": "nobodys"}})
        one, every = at.path(CONFIG_MAPS, "mine"), at.path(CONFIG_MAPS)
        shown = (await at.hub.get(one, Accept=f"{table}, application/json")).json
        assert (shown["kind"], shown["rows"][0]["cells"][:2]) == ("Table", ["mine", 1])
        shown = (await at.hub.get(one, Accept=partial)).json
        assert (shown["kind"], "data" in shown) == ("PartialObjectMetadata", False)
        assert (await at.hub.get(at.path(CONFIG_MAPS, "nobodys"), Accept=partial)).status == 403
        rows = (await at.hub.get(every, Accept=table)).json["rows"]
        assert [row["cells"][0] for row in rows] == ["mine", "mine-too"]
        shown = (await at.hub.get(every, Accept=partials)).json
        assert [item["metadata"]["name"] for item in shown["items"]] == ["mine", "mine-too"]
        assert shown["kind"] == "PartialObjectMetadataList"
        protobuf = "application/vnd.kubernetes.protobuf"
        assert (await at.hub.get(one, Accept=f"{protobuf}, application/json")).json["kind"] == "ConfigMap"
        assert (await at.hub.get(one, Accept=protobuf)).status == 406
        patch = {"metadata": {"labels": {"a": "b"}}}
        merge = "application/merge-patch+json"
        patched = await at.hub("PATCH", one, patch, content_type=merge, Accept=partial)
        assert (patched.json["kind"], patched.json["metadata"]["labels"]) == (
            "PartialObjectMetadata",
            {"a": "b"},
        )


async def test_pages_of_an_api_server_are_complete(ends: Ends) -> None:
    async with live(ends) as at:
        for number in range(7):
            await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, f"mine-{number}"))
            await at.create(CONFIG_MAPS, {"metadata": {"name": f"nobodys-{number}"}})
        for start in ("?limit=4", "?limit=4&resourceVersion=0&resourceVersionMatch=NotOlderThan"):
            found, path, pages = [], at.path(CONFIG_MAPS) + start, 0
            while path:
                page = (await at.hub.get(path)).json
                assert len(page["items"]) <= 4
                found += [item["metadata"]["name"] for item in page["items"]]
                pages += 1
                token = page["metadata"].get("continue")
                path = f"{at.path(CONFIG_MAPS)}?limit=4&continue={token}" if token else ""
            assert (found, pages >= 4) == ([f"mine-{number}" for number in range(7)], True)
