"""Tracking metadata through kubectl: what is added, to the letter, and that `kubectl diff` stays empty."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from argocd import names
from cli.commands.tracking import command as tracking_command
from tests.webhook.guarded_cluster import Guarded, compare_with_golden, until

GUID = "61199294-412c-4e78-a237-3ebba6784fcd"
LONG = "payments-production-eu-central-1-availability-zone-b-checkout-frontend"

Object = dict[str, Any]
Marks = tuple[dict[str, str], dict[str, str]]


def deployment(name: str = "my-deployment") -> Object:
    labels = {"app": name}
    container = {"name": "web", "image": "example.test/web:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def secret(name: str = "some-secret") -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"a": "b"}}


def application(name: str, namespace: str, *things: Object, **annotations: str) -> Object:
    listed = [
        {
            "group": thing["apiVersion"].rpartition("/")[0],
            "version": "v1",
            "kind": thing["kind"],
            "namespace": namespace,
            "name": thing["metadata"]["name"],
        }
        for thing in things
    ]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://example.test", "path": ".", "targetRevision": "v1"},
            "destination": {"server": names.IN_CLUSTER_SERVER, "namespace": namespace},
        },
        "status": {"resources": listed},
    }


def marks_of(thing: Object) -> Marks:
    metadata = thing["metadata"]
    annotations = {
        key: value for key, value in metadata.get("annotations", {}).items() if not key.startswith("kubectl.")
    }
    return metadata.get("labels", {}), annotations


class Tracked:
    """A namespace whose objects are completed."""

    def __init__(self, guarded: Guarded, namespace: str) -> None:
        self.guarded, self.namespace = guarded, namespace

    def tried(self, thing: Object, *flags: str, writer: str = "") -> Marks:
        done = self.guarded.write(
            thing, "--dry-run=server", "-o", "json", *flags, namespace=self.namespace, writer=writer
        )
        return marks_of(json.loads(done.stdout))

    def becomes(self, thing: Object, marks: Marks) -> None:
        """Applied in both ways the object has exactly these labels and annotations, and nothing differs after."""
        kind, name = thing["kind"], thing["metadata"]["name"]
        until(lambda: self.tried(thing, "--server-side") == marks, what=f"{kind} {name} is completed")
        for flags in ((), ("--server-side", "--force-conflicts")):
            self.guarded.write(thing, *flags, namespace=self.namespace)
            assert marks_of(self.guarded.get(kind, name, self.namespace)) == marks
            self.assert_no_diff(thing, *flags)

    def assert_no_diff(self, thing: Object, *flags: str) -> None:
        done = self.guarded.write(thing, "diff", *flags, namespace=self.namespace, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.fixture(autouse=True, scope="module")
def default_project(guarded: Guarded) -> None:
    """Argo CD makes it when it starts; what it permits decides which listings count."""
    guarded.write(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": names.DEFAULT_PROJECT},
            "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]},
        }
    )


@pytest.fixture
def tracked(guarded: Guarded) -> Iterator[Tracked]:
    namespace = guarded.cluster.create_namespace(labels={names.TIPHYS_TRACKING: names.ENABLED})
    yield Tracked(guarded, namespace)
    guarded.kubectl("delete", "applications", "--all", "-n", guarded.argocd)
    guarded.cluster.drop_namespace(namespace)


@pytest.fixture
def in_default(guarded: Guarded) -> Iterator[Tracked]:
    label = f"{names.TIPHYS_TRACKING}={names.ENABLED}"
    guarded.kubectl("label", "namespace", "default", label)
    yield Tracked(guarded, "default")
    guarded.kubectl("label", "namespace", "default", f"{names.TIPHYS_TRACKING}-")
    guarded.kubectl("delete", "deployment", "my-deployment", "-n", "default")
    guarded.kubectl("delete", "applications", "--all", "-n", guarded.argocd)


@pytest.fixture
def in_some_namespace(guarded: Guarded) -> Iterator[Tracked]:
    guarded.cluster.create_namespace("some-namespace", labels={names.TIPHYS_TRACKING: names.ENABLED})
    yield Tracked(guarded, "some-namespace")
    guarded.kubectl("delete", "applications", "--all", "-n", guarded.argocd)
    guarded.cluster.drop_namespace("some-namespace")


def test_the_proposals_first_example_to_the_letter(in_default: Tracked) -> None:
    guarded = in_default.guarded
    with guarded.configured("tracking: {format: proposed}"), guarded.settings(trackingMethod="annotation"):
        guarded.write(application("my-application", "default", deployment()))
        in_default.becomes(
            deployment(),
            ({}, {"app.kubernetes.io/instance": "my-application;apps/Deployment/default/my-deployment"}),
        )


def test_the_proposals_second_example_to_the_letter(in_some_namespace: Tracked) -> None:
    guarded = in_some_namespace.guarded
    with guarded.configured("tracking: {format: proposed}"), guarded.settings(installationID=GUID):
        guarded.write(application("my-application", "some-namespace", secret()))
        in_some_namespace.becomes(
            secret(),
            (
                {},
                {
                    "app.kubernetes.io/instance": "my-application;/Secret/some-namespace/some-secret",
                    "argo-cd.argoproj.io/installation-id": GUID,
                },
            ),
        )


@pytest.mark.parametrize("installation", [GUID, ""], ids=["with-id", "without-id"])
@pytest.mark.parametrize("method", ["label", "annotation", "annotation+label"])
@pytest.mark.parametrize("form", ["released", "both"])
def test_each_method_and_format_as_the_golden_file_says(
    tracked: Tracked, form: str, method: str, installation: str
) -> None:
    guarded = tracked.guarded
    data = {names.TRACKING_METHOD_KEY: method, names.INSTALLATION_ID_KEY: installation}
    with guarded.configured(f"tracking: {{format: {form}}}"), guarded.settings(**data):
        guarded.write(application("shop", tracked.namespace, deployment()))
        expected = _expected(tracked.namespace, form, method, installation)
        tracked.becomes(deployment(), expected)
        labels, annotations = marks_of(guarded.get("Deployment", "my-deployment", tracked.namespace))
    told = json.dumps({"labels": labels, "annotations": annotations}, indent=2, sort_keys=True) + "\n"
    name = f"{form}-{method}-{'with' if installation else 'without'}-id"
    compare_with_golden(f"tracking/{name}.json", told.replace(tracked.namespace, "web"))


def _expected(namespace: str, form: str, method: str, installation: str) -> Marks:
    """What to wait for; the golden files say it once more, for people."""
    labels = {names.INSTANCE_LABEL: "shop"} if "label" in method else {}
    annotations: dict[str, str] = {}
    if "annotation" in method:
        annotations[names.TRACKING_ID] = f"shop:apps/Deployment:{namespace}/my-deployment"
        ids = {names.INSTALLATION_ID: installation}
        if form == "both":
            annotations[names.PROPOSED_TRACKING_ID] = f"shop;apps/Deployment/{namespace}/my-deployment"
            ids[names.PROPOSED_INSTALLATION_ID] = installation
        annotations |= {key: value for key, value in ids.items() if value}
    return labels, annotations


def test_one_application_may_use_another_method_than_the_system(tracked: Tracked) -> None:
    guarded = tracked.guarded
    with guarded.settings(**{names.TRACKING_METHOD_KEY: "annotation"}):
        override = {names.TIPHYS_TRACKING_METHOD: "label"}
        guarded.write(application("on-its-own", tracked.namespace, deployment("own"), **override))
        guarded.write(application("as-all", tracked.namespace, deployment("all")))
        tracked.becomes(deployment("own"), ({names.INSTANCE_LABEL: "on-its-own"}, {}))
        found = {names.TRACKING_ID: f"as-all:apps/Deployment:{tracked.namespace}/all"}
        tracked.becomes(deployment("all"), ({}, found))


def test_an_application_with_a_long_name_is_found_again_by_its_label(tracked: Tracked) -> None:
    guarded = tracked.guarded
    assert len(LONG) == 70
    with guarded.settings(**{names.TRACKING_METHOD_KEY: "annotation+label"}):
        guarded.write(application(LONG, tracked.namespace, deployment()))
        label = LONG[:63].rstrip("-")
        found = {names.TRACKING_ID: f"{LONG}:apps/Deployment:{tracked.namespace}/my-deployment"}
        tracked.becomes(deployment(), ({names.INSTANCE_LABEL: label}, found))
        listed = guarded.kubectl(
            "get", "deployments", "-A", "-l", f"{names.INSTANCE_LABEL}={label}", "-o", "name"
        )
        assert listed.stdout == "deployment.apps/my-deployment\n"


def test_an_id_that_was_copied_stays_unless_copies_are_neutralized(tracked: Tracked) -> None:
    guarded = tracked.guarded
    copied = {names.TRACKING_ID: f"shop:/Secret:{tracked.namespace}/original"}
    copy = {**secret("copy"), "metadata": {"name": "copy", "annotations": dict(copied)}}
    assert tracked.tried(copy) == ({}, copied)
    with guarded.configured("tracking: {neutralize-copies: true}"):
        until(lambda: tracked.tried(copy, "--server-side") == ({}, {}), what="a copied id is removed")
        guarded.write(copy, "--server-side", namespace=tracked.namespace)
        assert marks_of(guarded.get("secret", "copy", tracked.namespace)) == ({}, {})
        tracked.assert_no_diff(copy, "--server-side")


def test_an_object_of_another_installation_is_neither_completed_nor_taken(tracked: Tracked) -> None:
    guarded = tracked.guarded
    theirs = {
        names.TRACKING_ID: f"their-shop:/Secret:{tracked.namespace}/contested",
        names.INSTALLATION_ID: "their-installation",
    }
    contested = {**secret("contested"), "metadata": {"name": "contested", "annotations": theirs}}
    with guarded.settings(installationID=GUID):
        guarded.write(application("our-shop", tracked.namespace, contested))
        guarded.write(contested, "--server-side", namespace=tracked.namespace)
        ours = {
            **contested,
            "metadata": {
                "name": "contested",
                "annotations": {
                    names.TRACKING_ID: f"our-shop:/Secret:{tracked.namespace}/contested",
                    names.INSTALLATION_ID: GUID,
                },
            },
        }
        refused = until(
            lambda: (
                (
                    done := guarded.write(
                        *(ours, "--server-side", "--force-conflicts", "--dry-run=server"),
                        namespace=tracked.namespace,
                        writer=guarded.controller,
                        check=False,
                    )
                ).returncode
                and done
            ),
            what="taking over is refused",
        )
        assert (
            "belongs to the Argo CD installation 'their-installation' and its application 'their-shop'"
            in refused.stderr
        )
        assert marks_of(guarded.get("secret", "contested", tracked.namespace)) == ({}, theirs)


def test_two_applications_that_list_one_object_are_named_and_nothing_is_added(tracked: Tracked) -> None:
    guarded = tracked.guarded
    for name in ("first", "second"):
        guarded.write(application(name, tracked.namespace, secret()))
    told = until(
        lambda: (
            "first and second"
            in (done := guarded.write(secret(), "--dry-run=server", namespace=tracked.namespace)).stderr
            and done
        ),
        what="a warning names both applications",
    )
    assert "Warning: not tracked: the applications first and second list this object" in told.stderr
    assert tracked.tried(secret()) == ({}, {})


def test_the_administrators_word_owns_what_nobody_lists_and_keeps_it_from_pruning(guarded: Guarded) -> None:
    namespace = guarded.cluster.create_namespace(labels={names.TIPHYS_TRACKING: names.ENABLED})
    guarded.kubectl("annotate", "namespace", namespace, f"{names.TIPHYS_TRACKING_APPLICATION}=shop")
    expected = {
        names.TRACKING_ID: f"shop:/Secret:{namespace}/some-secret",
        names.SYNC_OPTIONS: "Prune=false",
        names.COMPARE_OPTIONS: "IgnoreExtraneous",
    }
    Tracked(guarded, namespace).becomes(secret(), ({}, expected))
    guarded.cluster.drop_namespace(namespace)


def test_what_has_an_owner_and_namespaces_without_the_label_are_left_alone(
    guarded: Guarded, namespace: str
) -> None:
    guarded.write(application("shop", namespace, secret()))
    assert Tracked(guarded, namespace).tried(secret()) == ({}, {})
    guarded.kubectl("delete", "application", "shop", "-n", guarded.argocd)


def test_moving_to_annotations_and_back_leaves_no_difference(tracked: Tracked) -> None:
    guarded = tracked.guarded
    found = {names.TRACKING_ID: f"shop:apps/Deployment:{tracked.namespace}/my-deployment"}
    label = {names.INSTANCE_LABEL: "shop"}
    where = ["--argocd-namespace", guarded.argocd, "--kubeconfig", str(guarded.cluster.kubeconfig)]
    with guarded.settings(**{names.TRACKING_METHOD_KEY: "label"}):
        guarded.write(application("shop", tracked.namespace, deployment()))
        tracked.becomes(deployment(), (label, {}))
        for method in ("annotation", "label"):
            done = CliRunner().invoke(tracking_command, ["migrate", "--to", method, "--yes", *where])
            assert f"argocd-cm says {method} now" in done.output
            assert marks_of(guarded.get("Deployment", "my-deployment", tracked.namespace)) == (label, found)
            tracked.assert_no_diff(deployment())
