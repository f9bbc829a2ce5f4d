"""Objects that are large and ordinary, and objects whose judging takes as much work as somebody could think of."""

from typing import Any

from argocd import names

HERE = names.IN_CLUSTER_SERVER

Object = dict[str, Any]


def own(kind: str, *, namespace: str = "argocd", **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "shop", "namespace": namespace, "uid": "1"},
        "spec": spec,
    }


def project(**spec: Any) -> Object:
    return own("AppProject", **spec)


def hostile(number: int = 400) -> list[Object]:
    return [{"server": HERE, "namespace": f"*a*a*b*a*{{a,b}}{index}"} for index in range(number)]


ORDINARY: dict[str, Object] = {
    "destinations": project(
        destinations=[{"server": HERE, "namespace": f"team-{index}-checkout"} for index in range(18_000)],
        destinationServiceAccounts=[{"server": HERE, "namespace": "*", "defaultServiceAccount": "deployer"}],
    ),
    "destinations with wildcards": project(
        destinations=[{"server": HERE, "namespace": f"team-{index}-*"} for index in range(18_000)]
    ),
    "denials": project(
        destinations=[
            {"server": HERE, "namespace": "*"},
            *({"server": HERE, "namespace": f"!team-{index}-x"} for index in range(18_000)),
        ]
    ),
    "repositories": project(
        sourceRepos=[
            f"https://git.example.com/team-{index}/repository-{index}.git" for index in range(25_000)
        ]
    ),
    "repositories by SSH": project(
        sourceRepos=[f"git@git.example.com:team-{index}/repository-{index}.git" for index in range(25_000)]
    ),
    "namespaces": project(sourceNamespaces=[f"team-{index}-namespace-of-team" for index in range(45_000)]),
    "accounts": project(
        destinations=[{"server": HERE, "namespace": f"team-{index}-x"} for index in range(8_000)],
        destinationServiceAccounts=[
            {"server": HERE, "namespace": f"team-{index}-*", "defaultServiceAccount": f"deployer-{index}"}
            for index in range(8_000)
        ],
    ),
    "roles": project(
        roles=[
            {
                "name": f"role-{index}",
                "policies": [f"p, proj:shop:role-{index}, applications, sync, shop/*, allow"],
                "groups": [f"group-{index}"],
            }
            for index in range(12_000)
        ]
    ),
    "windows": project(
        syncWindows=[
            {
                "kind": "allow",
                "schedule": f"{index % 60} {index % 24} * * 1-5",
                "duration": "1h",
                "applications": [f"app-{index}-*"],
            }
            for index in range(14_000)
        ]
    ),
    "kinds": project(
        namespaceResourceWhitelist=[
            {"group": "example.com", "kind": f"Kind{index}"} for index in range(32_000)
        ]
    ),
    "sources": own(
        "Application",
        project="shop",
        destination={"server": HERE, "namespace": "shop"},
        sources=[
            {
                "repoURL": f"https://git.example.com/{index}",
                "path": "deploy",
                "targetRevision": "v1",
                "helm": {"values": f"name: {index}\n" * 20},
            }
            for index in range(4_000)
        ],
    ),
    "elements": own(
        "ApplicationSet",
        goTemplate=True,
        goTemplateOptions=["missingkey=error"],
        generators=[
            {"list": {"elements": [{"name": f"team-{index}", "cluster": "east"} for index in range(32_000)]}}
        ],
        template={
            "metadata": {"name": "shop-{{.name}}"},
            "spec": {"project": "shop", "destination": {"server": HERE, "namespace": "shop"}},
        },
    ),
    "a ConfigMap": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "large", "namespace": "shop", "uid": "1"},
        "data": {f"key-{index}": "value " * 20 for index in range(11_000)},
    },
}


def with_elements(*texts: str) -> Object:
    return own(
        "ApplicationSet",
        goTemplate=True,
        generators=[{"list": {"elementsYaml": text}} for text in texts],
        template={"metadata": {"name": "shop-{{.name}}"}, "spec": {"project": "shop"}},
    )


def merge(by: list[str], elements: list[Object]) -> Object:
    lists = [{"list": {"elements": elements}}] * 2
    return own("ApplicationSet", generators=[{"merge": {"mergeKeys": by, "generators": lists}}], template={})


def aliases(number: int) -> str:
    """A list of lists in YAML, whose values are the square of its length."""
    return f"[&a [{'x,' * number}]{',*a' * number}]"


def keys(number: int) -> str:
    return ",".join(f"k{index}: 1" for index in range(number))


HOSTILE: dict[str, Object] = {
    "stars": project(destinations=hostile(15_000)),
    "nested braces": project(
        destinations=[
            {"server": HERE, "namespace": "{a," * 30 + str(index) + "}" * 30} for index in range(9_000)
        ]
    ),
    "accounts that are all globs": project(
        destinationServiceAccounts=[
            {"server": HERE, "namespace": f"a{index}**", "defaultServiceAccount": "a"}
            for index in range(15_000)
        ]
    ),
    "expressions that become large": project(
        sourceNamespaces=[f"/(?i:\\pL){{200}}{index}/" for index in range(30_000)]
    ),
    "expressions of what may be left out": project(
        sourceNamespaces=[f"/{'a{0,1000}' * 20}{index}/" for index in range(200)]
    ),
    "long expressions": project(sourceNamespaces=["/" + "a?" * 450_000 + "/", "/" + "a?" * 450_000 + "a/"]),
    "windows of days": project(
        syncWindows=[
            {"kind": "deny", "schedule": f"0 0 {index % 28 + 1} * *", "duration": f"{index + 800}h"}
            for index in range(15_000)
        ]
    ),
    "names with many variables": own(
        "ApplicationSet",
        generators=[{"list": {"elements": [{"a": "b"}] * 100_000}}],
        template={"metadata": {"name": "{{a}}" * 200}},
    ),
    "long jq paths": own(
        "Application",
        ignoreDifferences=[
            {"kind": "Job", "jqPathExpressions": [f"{index:04}" + ";a" * 2_000]} for index in range(350)
        ],
    ),
    "a long address": project(sourceRepos=["\u00e9*" * 1_000_000]),
    "a long kind": project(clusterResourceWhitelist=[{"group": "?*" * 600_000, "kind": "a"}]),
    "a long duration": project(
        syncWindows=[{"kind": "deny", "schedule": "0 0 * * *", "duration": "0s" * 600_000}]
    ),
    "what is wrong everywhere": project(sourceNamespaces=["?"] * 300_000),
    "generators of nothing": own("ApplicationSet", generators=[{}] * 300_000, template={}),
    "merges by many keys": merge(
        [f"k{index}" for index in range(2_000)], [{"k": str(index)} for index in range(2_000)]
    ),
    "a matrix with many parameters": own(
        "ApplicationSet",
        goTemplate=True,
        generators=[
            {
                "matrix": {
                    "generators": [
                        {"list": {"elements": [{f"k{index}": 1 for index in range(60_000)}]}},
                        {"list": {"elements": [{"b": index} for index in range(300)]}},
                    ]
                }
            }
        ],
        template={"metadata": {"name": "{{.b}}"}},
    ),
    "generators with templates of their own": own(
        "ApplicationSet",
        goTemplate=True,
        generators=[{"list": {"elements": [{"a": "b"}], "template": {"metadata": {"name": "b"}}}}] * 5_000,
        template={"metadata": {"labels": {f"k{index}": "v" for index in range(50_000)}}},
    ),
    "aliases in many texts": with_elements(*[aliases(440)] * 400),
    "aliases of aliases": with_elements(*["[&a {b: &c [" + "d," * 300 + "]}" + ",{b: *c}" * 300 + "]"] * 300),
    "merges in many texts": with_elements(*["[&a {" + keys(300) + "}" + ",{<<: *a}" * 300 + "]"] * 200),
    "many texts that end in an error": with_elements(*["[" + "a," * 1_000 + "}"] * 500),
    "a long list in a text": with_elements("[" + "{a: b}," * 60_000 + "]"),
    "a patch of aliases": own(
        "ApplicationSet",
        goTemplate=True,
        templatePatch="spec: {sources: " + aliases(300).replace("x", "{repoURL: 1}") + "}",
    ),
}
"""Refused: the budget ends."""

HOSTILE_SETTINGS: dict[str, Object] = {
    key: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "argocd"},
        "data": {key: text},
    }
    for name, key, text in (
        ("argocd-cm", "resource.exclusions", "[" + "{kinds: [a]}," * 30_000 + "]"),
        ("argocd-cm", "resource.customizations", "{" + keys(60_000) + "}"),
        (
            "argocd-cm",
            "resource.customizations.ignoreDifferences.apps_Deployment",
            "{jsonPointers: " + aliases(440) + "}",
        ),
        ("argocd-cm", "oidc.config", "{" + keys(60_000) + "}"),
        ("argocd-cm", "dex.config", "{connectors: " + aliases(440) + "}"),
        ("argocd-cm", "globalProjects", "[" + "{a: b}," * 60_000 + "]"),
        ("argocd-rbac-cm", "policy.csv", "g, a, b\n" * 300_000),
        ("argocd-rbac-cm", "scopes", "[" + "a," * 150_000 + "]"),
    )
}
"""Warned of: their entries fail open."""
