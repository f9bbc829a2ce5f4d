"""What Argo CD itself writes all day passes, on objects that break rules already and on mirrors too."""

import json
from collections.abc import Iterator

import pytest

from tests.webhook.guarded_cluster import Guarded, until

BAD_APPLICATION = """
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s, annotations: {%s}}
spec:
  project: ""
  source: {repoURL: "https://example.test/shop", path: .}
  destination: {name: in-cluster, server: "https://kubernetes.default.svc", namespace: shop}
"""
BAD_PROJECT = """
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %s}
spec: {sourceRepos: ["!*"], destinations: [{server: "!*", namespace: a}]}
"""
MIRROR = """
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: edge-1-%s, annotations: {tiphys.dev/agent: edge-1}}
spec:
  sourceRepos: ["https://example.test"]
  sourceNamespaces: [edge-1]
  destinations: [{name: edge-1, server: "*", namespace: web}]
"""

OWN_WRITES = {
    "status through the main resource": {"status": {"sync": {"status": "Synced"}}},
    "a refresh": {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}},
    "the end of a refresh": {"metadata": {"annotations": {"argocd.argoproj.io/refresh": None}}},
    "an operation": {"operation": {"sync": {"revision": "v1"}}},
    "the end of an operation": {"operation": None},
    "a finalizer": {"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}},
    "no finalizer": {"metadata": {"finalizers": None}},
    "a notification": {"metadata": {"annotations": {"notified.notifications.argoproj.io": "{}"}}},
}


def unguarded(guarded: Guarded) -> str:
    """The one writer that the API server never asks us about: by it a test puts bad objects in."""
    return f"system:serviceaccount:{guarded.guard.home}:tiphys-webhook"


def patch(guarded: Guarded, kind: str, name: str, change: object, *, writer: str = "") -> str:
    done = guarded.kubectl(
        "patch",
        kind,
        name,
        "-n",
        guarded.argocd,
        "--type=merge",
        "-p",
        json.dumps(change),
        writer=writer,
        check=False,
    )
    return done.stderr


def test_argo_cds_own_writes_pass_on_an_application_that_breaks_rules(guarded: Guarded) -> None:
    guarded.write(BAD_APPLICATION % ("broken", ""), writer=unguarded(guarded))
    for what, change in OWN_WRITES.items():
        assert "refuses" not in patch(guarded, "application", "broken", change, writer=guarded.controller), (
            what
        )
    normalized = {"spec": {"project": "default"}}
    assert "refuses" not in patch(guarded, "application", "broken", normalized, writer=guarded.controller)
    worse = {"spec": {"destination": {"name": "other"}}}
    assert "can't have both name and server" in patch(
        guarded, "application", "broken", worse, writer=guarded.controller
    )


def test_a_user_may_touch_the_good_parts_of_a_bad_project(guarded: Guarded) -> None:
    guarded.write(BAD_PROJECT % "old-sins", writer=unguarded(guarded))
    assert patch(guarded, "appproject", "old-sins", {"spec": {"description": "better words"}}) == ""
    assert patch(guarded, "appproject", "old-sins", {"metadata": {"labels": {"team": "a"}}}) == ""
    more = {"spec": {"sourceRepos": ["!*", "https://example.test/more"]}}
    assert "refuses" not in patch(guarded, "appproject", "old-sins", more)
    worse = {
        "spec": {"destinations": [{"server": "!*", "namespace": "a"}, {"server": "!*", "namespace": "b"}]}
    }
    told = patch(guarded, "appproject", "old-sins", worse)
    assert "refuses this AppProject old-sins: 1 finding" in told
    assert "spec.destinations[1].server" in told


def test_an_object_on_its_way_out_can_be_finished_whatever_it_looks_like(guarded: Guarded) -> None:
    leaving = BAD_PROJECT.replace("metadata: {", "metadata: {finalizers: [example.test/wait], ")
    guarded.write(leaving % "leaving", writer=unguarded(guarded))
    guarded.kubectl("delete", "appproject", "leaving", "-n", guarded.argocd, "--wait=false")
    worse = {"metadata": {"finalizers": None}, "spec": {"sourceRepos": ["!*", "!*"]}}
    assert "refuses" in patch(guarded, "appproject", "leaving", worse)
    assert patch(guarded, "appproject", "leaving", {"metadata": {"finalizers": None}}) == ""


def test_a_status_subresource_is_not_judged(guarded: Guarded) -> None:
    template = '{metadata: {name: x}, spec: {project: "{{x}}", source: {repoURL: x}, destination: {}}}'
    guarded.write(
        "{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, metadata: {name: broken-set},"
        f" spec: {{generators: [], template: {template}}}}}",
        writer=unguarded(guarded),
    )
    done = guarded.kubectl(
        *(
            "patch",
            "applicationset",
            "broken-set",
            "-n",
            guarded.argocd,
            "--subresource=status",
            "--type=merge",
        ),
        *("-p", '{"status": {"resourcesCount": 1}}'),
    )
    assert done.stderr == ""


@pytest.fixture
def mirror(guarded: Guarded, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "ops"
    guarded.write(MIRROR % name, writer=guarded.principal)
    yield f"edge-1-{name}"
    guarded.kubectl("delete", "appproject", f"edge-1-{name}", "-n", guarded.argocd, writer=guarded.principal)


def test_argo_cds_own_writes_pass_on_a_mirror_and_a_users_do_not(guarded: Guarded, mirror: str) -> None:
    status = {"status": {"jwtTokensByRole": {"deploy": {"items": [{"iat": 1}]}}}}
    for change in (status, OWN_WRITES["a refresh"], OWN_WRITES["the end of a refresh"]):
        assert patch(guarded, "appproject", mirror, change, writer=guarded.controller) == ""
        assert patch(guarded, "appproject", mirror, change) == ""
    refused = patch(guarded, "appproject", mirror, {"spec": {"description": "mine now"}})
    assert "only the principal and that agent may change it" in refused
    stolen = {"metadata": {"annotations": {"tiphys.dev/agent": None}}}
    assert "only the principal and that agent may change it" in patch(guarded, "appproject", mirror, stolen)
    gone = guarded.kubectl("delete", "appproject", mirror, "-n", guarded.argocd, check=False)
    assert "only the principal and that agent may delete it" in gone.stderr


@pytest.mark.parametrize(
    ("role", "keeper", "who"),
    [
        ("workload", "tiphys-agent", "only the agent may change it"),
        ("standby", "tiphys-replica", "only the principal here writes"),
    ],
)
def test_mirrors_of_other_roles_change_only_by_their_keepers(
    guarded: Guarded, role: str, keeper: str, who: str
) -> None:
    name = f"copy-on-{role}"
    copy = MIRROR.replace("edge-1-%s", name).replace(
        "tiphys.dev/agent: edge-1", "argocd.argoproj.io/source-uid: u"
    )
    writer = guarded.account(keeper)
    with guarded.configured(f"role: {role}"):
        guarded.write(copy, writer=writer)
        change = {"spec": {"description": "mine now"}}
        refused = until(
            lambda: who in (told := patch(guarded, "appproject", name, change)) and told,
            what="a mirror is protected",
        )
        assert who in refused
        assert "refuses" not in patch(guarded, "appproject", name, change, writer=writer)
        by_argocd = patch(
            guarded, "appproject", name, {"spec": {"description": "x"}}, writer=guarded.controller
        )
        assert ("refuses" in by_argocd) == (role == "standby")
