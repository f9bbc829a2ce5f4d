"""`tiphys tracking migrate` and `tiphys installation-id` on a real API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from argocd import names
from cli.commands import installation_id, tracking
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl
from tests.cli.terminals import on_a_terminal

LONG = "a" * 70


class Place:
    """An Argo CD that exists only as objects."""

    def __init__(self, cluster: Cluster, kubectl: Kubectl, argocd: str, target: str) -> None:
        self._cluster, self._kubectl, self.argocd, self.target = cluster, kubectl, argocd, target

    def settings(self, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": data}
        self._kubectl("apply", "-n", self.argocd, "-f", "-", stdin=json.dumps(body))

    def setting(self, key: str) -> str | None:
        found: str | None = self.get("configmap", "argocd-cm", self.argocd).get("data", {}).get(key)
        return found

    def application(self, name: str, *resources: str, **resource: Any) -> None:
        body = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": name},
            "spec": {
                "project": "default",
                "destination": {"server": names.IN_CLUSTER_SERVER, "namespace": self.target},
                "source": {"repoURL": "https://example.test", "path": "."},
            },
            "status": {
                "resources": [
                    {"version": "v1", "kind": "ConfigMap", "namespace": self.target, "name": one, **resource}
                    for one in resources
                ]
            },
        }
        self._kubectl("apply", "-n", self.argocd, "-f", "-", stdin=json.dumps(body))

    def config_map(self, name: str, *, label: str = "") -> None:
        metadata = {"name": name, "labels": {names.INSTANCE_LABEL: label} if label else {}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        self._kubectl("apply", "-n", self.target, "-f", "-", stdin=json.dumps(body))

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self._kubectl("get", kind, name, "-n", namespace, "-o", "json").stdout
        )
        return found

    def marks(self, name: str) -> tuple[str | None, str | None]:
        metadata = self.get("configmap", name, self.target)["metadata"]
        label = metadata.get("labels", {}).get(names.INSTANCE_LABEL)
        return label, metadata.get("annotations", {}).get(names.TRACKING_ID)

    def migrate(self, *arguments: str) -> Result:
        return self._run(tracking.command, "migrate", *arguments)

    def installation_id(self, *arguments: str) -> Result:
        return self._run(installation_id.command, *arguments)

    def _run(self, command: Any, *arguments: str) -> Result:
        return CliRunner().invoke(command, [*arguments, *self.reached])

    @property
    def reached(self) -> list[str]:
        where = ["--argocd-namespace", self.argocd, "--namespace", self.argocd]
        return [*where, "--kubeconfig", str(self._cluster.kubeconfig)]


@pytest.fixture
def place(cluster: Cluster, kubectl: Kubectl, namespace: str) -> Iterator[Place]:
    target = cluster.create_namespace()
    yield Place(cluster, kubectl, namespace, target)
    cluster.drop_namespace(target)


def test_objects_are_marked_then_the_setting_changes_and_the_way_back_is_the_same(place: Place) -> None:
    place.settings(**{names.TRACKING_METHOD_KEY: "label"})
    place.config_map("one", label="shop")
    place.config_map("two", label="shop")
    place.application("shop", "one", "two", "gone")
    tried = place.migrate("--to", "annotation")
    assert tried.output == (
        "label -> annotation: 2 to be marked, 1 ready, 0 in the way; nothing was changed; --yes does it\n"
    )
    assert place.marks("one") == ("shop", None)

    done = place.migrate("--to", "annotation", "--yes")
    assert done.output == (
        "label -> annotation: 2 marked, 1 ready, 0 in the way; argocd-cm says annotation now\n"
    )
    assert place.marks("one") == ("shop", f"shop:/ConfigMap:{place.target}/one")
    assert place.setting(names.TRACKING_METHOD_KEY) == "annotation"

    assert "0 marked, 3 ready" in place.migrate("--to", "annotation", "--yes").output
    back = place.migrate("--to", "label", "--yes")
    assert (back.exit_code, place.setting(names.TRACKING_METHOD_KEY)) == (0, "label")


def test_a_move_is_told_to_programs_and_shows_its_progress_on_a_terminal_alone(place: Place) -> None:
    place.settings(**{names.TRACKING_METHOD_KEY: "label"})
    place.config_map("one", label="shop")
    place.application("shop", "one")
    told = place.migrate("--to", "annotation", "-o", "json")
    assert json.loads(told.output) == {
        "from": "label",
        "to": "annotation",
        "prepared": 1,
        "ready": 0,
        "inTheWay": [],
        "switched": False,
    }
    seen = on_a_terminal(["tracking", "migrate", "--to", "annotation", *place.reached])
    assert "Applications" in seen.screen
    assert seen.out.startswith("label -> annotation: 1 to be marked")


def test_an_installation_id_is_told_to_programs(place: Place) -> None:
    place.settings()
    assert yaml.safe_load(place.installation_id("show", "-o", "yaml").output) == {
        "installationId": None,
        "generated": False,
        "applications": 0,
    }
    made = json.loads(place.installation_id("ensure", "--yes", "-o", "json").output)
    assert made["generated"]
    assert json.loads(place.installation_id("ensure", "-o", "json").output) == {**made, "generated": False}


def test_a_run_that_was_interrupted_goes_on_where_it_was(place: Place) -> None:
    place.settings(**{names.TRACKING_METHOD_KEY: "annotation", names.INSTALLATION_ID_KEY: "guid-1"})
    place.application("shop", "one", "two")
    place.config_map("one")
    place.config_map("two")
    assert "0 marked, 2 ready" in place.migrate("--to", "annotation+label", "--yes").output
    place.settings(**{names.TRACKING_METHOD_KEY: "label"})
    place.config_map("one", label="shop")
    place.config_map("two", label="other")
    assert "2 to be marked" in place.migrate("--to", "annotation").output


def test_what_would_be_lost_is_named_and_nothing_is_switched(place: Place) -> None:
    place.settings(**{names.TRACKING_METHOD_KEY: "annotation"})
    place.config_map("one")
    place.application(LONG, "one")
    marked = {"metadata": {"annotations": {names.TRACKING_ID: f"{LONG}:/ConfigMap:{place.target}/one"}}}
    place._kubectl("patch", "configmap", "one", "-n", place.target, "--type=merge", "-p", json.dumps(marked))
    done = place.migrate("--to", "label", "--yes")
    assert done.exit_code == 1
    assert "in the way: ConfigMap" in done.stderr
    assert "would no longer be tracked" in done.stderr
    assert place.setting(names.TRACKING_METHOD_KEY) == "annotation"


def test_a_kind_that_is_not_there_is_named(place: Place) -> None:
    place.settings()
    place.application("shop", "one", kind="Widget", group="widgets.test")
    assert "a kind that this API server does not have" in place.migrate("--to", "label").stderr


def test_without_argocd_cm_the_namespace_is_asked_for(place: Place) -> None:
    for done in (place.migrate("--to", "label"), place.installation_id("show")):
        assert "--argocd-namespace" in str(done.exception)


def test_an_installation_id_is_shown_and_made_only_when_told_so(place: Place) -> None:
    place.settings()
    place.application("shop", "one")
    assert "argocd-cm has no installationID" in place.installation_id("show").output
    tried = place.installation_id("ensure").output
    assert "the objects of 1 Application count as untracked until they are synced again" in tried
    assert "--yes does it" in tried
    assert place.setting(names.INSTALLATION_ID_KEY) is None
    assert place.installation_id("ensure", "--yes").output.startswith("generated the installation id ")
    made = place.setting(names.INSTALLATION_ID_KEY)
    assert made
    for arguments in (["show"], ["ensure"], ["ensure", "--yes"]):
        assert place.installation_id(*arguments).output == f"{made}\n"
    place.settings(**{names.INSTALLATION_ID_KEY: ""})
    assert "which opts out" in place.installation_id("ensure", "--yes").output


def test_where_argo_cd_tracks_by_label_an_installation_id_changes_nothing(place: Place) -> None:
    place.settings(**{names.TRACKING_METHOD_KEY: "label"})
    place.application("shop", "one")
    tried = place.installation_id("ensure").output
    assert "Argo CD tracks by label and reads no installation id, so this changes nothing" in tried


def test_a_renewed_installation_id_leaves_word_of_those_before_it(place: Place) -> None:
    place.settings(**{names.INSTALLATION_ID_KEY: "east"})
    assert "nothing was changed" in place.installation_id("ensure", "--renew").output
    made = ["east"]
    for _ in range(2):
        assert place.installation_id("ensure", "--renew", "--yes").exit_code == 0
        annotations = place.get("configmap", "argocd-cm", place.argocd)["metadata"]["annotations"]
        assert annotations[names.TIPHYS_FORMER_INSTALLATION_IDS] == ",".join(made)
        made.append(place.setting(names.INSTALLATION_ID_KEY) or "")
    assert len(set(made)) == 3


def test_renewing_does_not_undo_an_opt_out(place: Place) -> None:
    place.settings(**{names.INSTALLATION_ID_KEY: ""})
    assert "which opts out" in place.installation_id("ensure", "--renew", "--yes").output
