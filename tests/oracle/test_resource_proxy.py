"""argocd-agent's own tables of its resource proxy, and where ours answers otherwise on purpose."""

import json
from pathlib import Path
from typing import Any

import pytest

from argocd import names
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import read_settings
from sidecars.proxies.api_paths import PathError, parse_path, path_of
from sidecars.proxies.own_applications import OwnApplications

TABLES = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "proxies.json"

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not TABLES.is_file(), reason=f"no {TABLES.name} beside the repository"),
]

SERVED = {
    "path-d01": "/api",
    "path-d02": "/apis",
    "path-d04": "/apis/apps",
    "path-d05": "/apis/apps",
    "path-d14": "/openapi/v2",
    "path-d15": "/openapi/v3",
    "path-d16": "/version",
    "path-d08": "/api/v1/namespaces",
}
"""Refused there, understood here: new paths, and a slash at the end."""
OTHERWISE = {
    "path-d09": "a Namespace with a slash behind it is the Namespace",
    "path-d10": "status of a Namespace is its subresource, not a kind in it",
    "path-d11": "finalize likewise",
}
PARTS = ("group", "version", "namespace", "resource", "name", "subresource")


def table(about: str) -> list[Any]:
    if not TABLES.is_file():
        return []
    found = [each for each in json.loads(TABLES.read_text())["tables"] if each["about"].startswith(about)]
    return [pytest.param(case, id=case["id"]) for each in found for case in each["cases"]]


@pytest.mark.parametrize("case", table("resource proxy: which URL paths"))
def test_paths_are_understood_as_argocd_agent_does_and_more_of_them(case: Any) -> None:
    given, expected = case["input"]["path"], case["expect"]
    if case["id"] in SERVED:
        assert str(parse_path(given)) == SERVED[case["id"]]
        return
    if case["id"] in OTHERWISE:
        found = parse_path(given)
        assert (found.resource, found.name) == ("namespaces", "foo")
        return
    if not expected["match"]:
        with pytest.raises(PathError):
            parse_path(given)
        return
    found = parse_path(given)
    if found.document:
        assert not expected["resource"]
        # Only the core group and one of its own can be told apart by that.
        assert found.document.strip("/").split("/")[-1] in {expected["version"], "api", "apis"}
        return
    assert {part: getattr(found, part) for part in PARTS} == {part: expected[part] for part in PARTS}
    assert parse_path(str(found)) == found


@pytest.mark.parametrize(
    "case", [case for case in table("agent: resource request") if "-subpath-" in case.id]
)
def test_the_paths_of_subresources_are_made_as_argocd_agent_makes_them(case: Any) -> None:
    expected = case["expect"]
    parts = {"group": "", "version": "v1", "resource": "pods", "namespace": "", **case["input"]}
    if case["id"] == "agent-res-subpath-bad-empty-sub":
        return  # the object itself, where argocd-agent's function is asked for a subresource
    if "path" in expected:
        assert str(path_of(**parts)) == expected["path"]
        return
    with pytest.raises(PathError):
        path_of(**parts)


@pytest.mark.parametrize("case", table("agent: tracking test"))
def test_tracking_is_read_as_argocd_agent_reads_it(case: Any) -> None:
    """By the same settings; the value must name an Application besides, and be about the object."""
    given = case["input"]
    data = {key: given[key] for key in ("application.resourceTrackingMethod", "application.instanceLabelKey")}
    settings = read_settings({"data": data}, configuration=Configuration())
    application = {"metadata": {"name": "shop", "namespace": "argocd"}}
    known = OwnApplications(
        namespace="argocd",
        find=lambda namespace, name: application if (namespace, name) == ("argocd", "shop") else None,
        every=lambda: [application],
        project=lambda _: None,
        settings=lambda: settings,
    )
    label = given["application.instanceLabelKey"] or "app.kubernetes.io/instance"
    metadata: dict[str, Any] = {"name": "web", "namespace": "shop", "annotations": {}, "labels": {}}
    if given["has_instance_label"]:
        metadata["labels"][label] = "shop"
    if given["has_tracking_id"]:
        metadata["annotations"][names.TRACKING_ID] = "shop:/ConfigMap:shop/web"
    thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    assert (known.tracked(thing) is application) == case["expect"]["tracked"]
    if given["has_tracking_id"] and not given["has_instance_label"]:
        metadata["annotations"][names.TRACKING_ID] = "elsewhere:/ConfigMap:shop/web"
        assert known.tracked(thing) is None, "somebody else's"
