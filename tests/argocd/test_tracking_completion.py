"""What Tiphys adds to an object so that it is known whose it is."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from argocd import names, policy
from argocd.judging import Surroundings, Writer
from argocd.neighbours import Cluster
from argocd.policy import Configuration, TrackingFormat
from argocd.settings import ResourceFilter, Settings, TrackingMethod
from argocd.tracking import is_prune_candidate
from argocd.tracking_completion import NOTHING, Completion, complete
from tests.argocd.neighbourhood import Neighbourhood

ARGOCD = Writer(user="system:serviceaccount:argocd:argocd-application-controller")
REMOTE_ARGOCD = Writer(user="system:serviceaccount:kube-system:argocd-manager")
ADA = Writer(user="ada")

OWN_ID = "shop:/ConfigMap:shop/colours"
COPIED_ID = "shop:/ConfigMap:shop/shapes"


@dataclass
class Cluster1(Neighbourhood):
    """Applications with the objects that they list."""

    listing: list[Mapping[str, Any]] = field(default_factory=list)
    knows_clusters: bool = True

    def clusters_by_name(self, name: str) -> Sequence[Cluster] | None:
        return super().clusters_by_name(name) if self.knows_clusters else None

    def clusters_by_server(self, server: str) -> Sequence[Cluster] | None:
        return super().clusters_by_server(server) if self.knows_clusters else None

    def applications_listing(
        self, group: str, kind: str, namespace: str, name: str
    ) -> Sequence[Mapping[str, Any]] | None:
        assert (namespace, name) == ("shop", "colours")
        assert (group, kind) in {("", "ConfigMap"), ("extensions", "Ingress"), ("argoproj.io", "Rollout")}
        return self.listing


def application(
    name: str = "shop", *, namespace: str = "argocd", destination: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"destination": destination or {"server": names.IN_CLUSTER_SERVER, "namespace": "shop"}},
    }


def config_map(
    annotations: dict[str, str] | None = None, *, labels: dict[str, str] | None = None, **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "colours",
            "namespace": "shop",
            "labels": labels or {},
            "annotations": annotations or {},
            **metadata,
        },
    }


def namespace(application_name: str = "", *, enabled: str = "enabled") -> dict[str, Any]:
    annotations = {names.TIPHYS_TRACKING_APPLICATION: application_name} if application_name else {}
    return {"metadata": {"labels": {names.TIPHYS_TRACKING: enabled}, "annotations": annotations}}


def completed(
    thing: dict[str, Any],
    *,
    listing: Sequence[Mapping[str, Any]] = (),
    known: Sequence[Mapping[str, Any]] = (),
    clusters: Sequence[Cluster] | None = (),
    owner: str = "",
    writer: Writer = ADA,
    settings: Settings | None = None,
    configuration: Configuration | None = None,
    group: str | None = None,
) -> Completion:
    surroundings = Surroundings(
        settings=settings or Settings(),
        configuration=configuration or Configuration(),
        neighbours=Cluster1(
            listing=list(listing),
            applications=list(known),
            clusters=list(clusters or ()),
            knows_clusters=clusters is not None,
        ),
    )

    def once(judged: dict[str, Any]) -> Completion:
        return complete(
            judged, namespace=namespace(owner), writer=writer, surroundings=surroundings, group=group
        )

    found = once(thing)
    after = applied(thing, found)
    assert replace(once(after), warnings=()) == NOTHING, "a second pass changes something"
    if writer == ARGOCD or listing:
        return found  # what it manages already
    version = surroundings.configuration.argocd.version
    if not is_prune_candidate(thing, settings=surroundings.settings, version=version):
        assert not is_prune_candidate(after, settings=surroundings.settings, version=version)
    return found


def applied(thing: dict[str, Any], completion: Completion) -> dict[str, Any]:
    after = copy.deepcopy(thing)
    for key in completion.removed:
        del after["metadata"]["annotations"][key]
    after["metadata"]["annotations"].update(completion.annotations)
    after["metadata"]["labels"].update(completion.labels)
    return after


def by(method: TrackingMethod, **more: Any) -> Settings:
    return Settings(tracking_method=method, **more)


def in_format(tracking_format: TrackingFormat, **more: Any) -> Configuration:
    return Configuration(tracking=policy.Tracking(format=tracking_format, **more))


def test_an_object_that_an_application_lists_gets_that_applications_id() -> None:
    assert completed(config_map(), listing=[application()]) == Completion(
        annotations={names.TRACKING_ID: OWN_ID}
    )


def test_an_application_of_another_namespace_carries_its_namespace() -> None:
    found = completed(config_map(), listing=[application(namespace="team-a")])
    assert found.annotations == {names.TRACKING_ID: "team-a_shop:/ConfigMap:shop/colours"}


@pytest.mark.parametrize(
    ("method", "labels", "annotations"),
    [
        (TrackingMethod.LABEL, {names.INSTANCE_LABEL}, set()),
        (TrackingMethod.ANNOTATION, set(), {names.TRACKING_ID, names.INSTALLATION_ID}),
        (TrackingMethod.UNKNOWN, set(), {names.TRACKING_ID, names.INSTALLATION_ID}),
        (
            TrackingMethod.ANNOTATION_AND_LABEL,
            {names.INSTANCE_LABEL},
            {names.TRACKING_ID, names.INSTALLATION_ID},
        ),
    ],
)
def test_the_method_decides_what_is_added(
    method: TrackingMethod, labels: set[str], annotations: set[str]
) -> None:
    found = completed(config_map(), listing=[application()], settings=by(method, installation_id="x"))
    assert (set(found.labels), set(found.annotations)) == (labels, annotations)


def test_an_application_may_have_a_method_of_its_own() -> None:
    own = application()
    own["metadata"]["annotations"] = {names.TIPHYS_TRACKING_METHOD: "label"}
    assert completed(config_map(), listing=[own]).labels == {names.INSTANCE_LABEL: "shop"}
    assert completed(config_map(), owner="shop", known=[own]).labels == {names.INSTANCE_LABEL: "shop"}


@pytest.mark.parametrize(
    ("tracking_format", "annotations"),
    [
        (TrackingFormat.RELEASED, {names.TRACKING_ID: OWN_ID, names.INSTALLATION_ID: "x"}),
        (
            TrackingFormat.PROPOSED,
            {
                names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/colours",
                names.PROPOSED_INSTALLATION_ID: "x",
            },
        ),
        (
            TrackingFormat.BOTH,
            {
                names.TRACKING_ID: OWN_ID,
                names.INSTALLATION_ID: "x",
                names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/colours",
                names.PROPOSED_INSTALLATION_ID: "x",
            },
        ),
    ],
)
def test_the_format_decides_which_annotations_are_added(
    tracking_format: TrackingFormat, annotations: dict[str, str]
) -> None:
    found = completed(
        config_map(),
        listing=[application()],
        settings=Settings(installation_id="x"),
        configuration=in_format(tracking_format),
    )
    assert found.annotations == annotations


@pytest.mark.parametrize("installation", [None, ""])
def test_without_an_installation_id_in_argocd_cm_none_is_written(installation: str | None) -> None:
    found = completed(
        config_map(),
        listing=[application()],
        settings=Settings(installation_id=installation),
        configuration=in_format(TrackingFormat.BOTH),
    )
    assert set(found.annotations) == {names.TRACKING_ID, names.PROPOSED_TRACKING_ID}


def test_an_argocd_that_knows_no_installation_ids_gets_none() -> None:
    found = completed(
        config_map(),
        listing=[application()],
        settings=Settings(installation_id="x"),
        configuration=Configuration(argocd=policy.ArgoCD(version=(2, 12))),
    )
    assert set(found.annotations) == {names.TRACKING_ID}


def test_two_applications_that_list_an_object_are_both_named_and_nothing_is_added() -> None:
    found = completed(config_map(), listing=[application("shop"), application("blue", namespace="team-a")])
    assert found == Completion(
        warnings=("not tracked: the applications shop and team-a_blue list this object",)
    )


@pytest.mark.parametrize(
    ("destination", "clusters", "here"),
    [
        ({"server": names.IN_CLUSTER_SERVER}, [], True),
        ({"name": "in-cluster"}, [], True),
        ({"server": "https://c1"}, [], False),
        ({"name": "edge"}, [], False),
        ({"name": "edge"}, [Cluster(server="https://c1", name="edge")], False),
        ({"name": "me"}, [Cluster(server=names.IN_CLUSTER_SERVER, name="me")], True),
        ({"name": "a", "server": "b"}, [], False),
        ({"server": names.IN_CLUSTER_SERVER}, None, True),
        ({"name": "in-cluster"}, None, True),
        ({"name": "edge"}, None, False),
    ],
)
def test_an_application_for_another_cluster_is_no_owner(
    destination: dict[str, str], clusters: list[Cluster] | None, *, here: bool
) -> None:
    found = completed(config_map(), listing=[application(destination=destination)], clusters=clusters)
    assert bool(found.annotations) is here


def test_what_argocd_writes_is_completed() -> None:
    found = completed(
        config_map({names.TRACKING_ID: OWN_ID}),
        writer=ARGOCD,
        settings=by(TrackingMethod.ANNOTATION_AND_LABEL, installation_id="x"),
        configuration=in_format(TrackingFormat.BOTH),
    )
    assert found == Completion(
        labels={names.INSTANCE_LABEL: "shop"},
        annotations={
            names.INSTALLATION_ID: "x",
            names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/colours",
            names.PROPOSED_INSTALLATION_ID: "x",
        },
    )


def test_an_id_in_the_proposed_format_is_evidence_too() -> None:
    found = completed(config_map({names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/colours"}), writer=ARGOCD)
    assert found.annotations == {names.TRACKING_ID: OWN_ID}


def test_an_argocd_elsewhere_does_not_get_the_id_of_the_one_here() -> None:
    found = completed(
        config_map({names.TRACKING_ID: OWN_ID}),
        writer=REMOTE_ARGOCD,
        settings=by(TrackingMethod.ANNOTATION_AND_LABEL, installation_id="x"),
    )
    assert found == Completion(labels={names.INSTANCE_LABEL: "shop"})


def test_what_carries_an_id_gets_no_label_that_would_track_it() -> None:
    thing = config_map({names.TRACKING_ID: OWN_ID})
    assert completed(thing, writer=REMOTE_ARGOCD, settings=by(TrackingMethod.LABEL)) == NOTHING


@pytest.mark.parametrize(
    ("writer", "annotations"),
    [
        (ADA, {names.TRACKING_ID: OWN_ID}),
        (ARGOCD, {names.TRACKING_ID: COPIED_ID}),
        (ARGOCD, {names.TRACKING_ID: ":/ConfigMap:shop/colours"}),
        (ARGOCD, {}),
    ],
)
def test_an_id_that_argocd_did_not_write_about_the_object_is_no_evidence(
    writer: Writer, annotations: dict[str, str]
) -> None:
    settings = by(TrackingMethod.ANNOTATION_AND_LABEL)
    assert completed(config_map(annotations), writer=writer, settings=settings) == NOTHING


def test_an_instance_label_alone_is_evidence_of_nothing() -> None:
    assert completed(config_map(labels={names.INSTANCE_LABEL: "shop"})) == NOTHING


@pytest.mark.parametrize(
    ("named", "instance"),
    [
        ("shop", "shop"),
        ("team-a/shop", "team-a_shop"),
        ("argocd/shop", "shop"),
        ("team-a_shop", "team-a_shop"),
    ],
)
def test_the_admins_word_adds_an_id_and_forbids_pruning(named: str, instance: str) -> None:
    assert completed(config_map(), owner=named) == Completion(
        annotations={
            names.TRACKING_ID: f"{instance}:/ConfigMap:shop/colours",
            names.SYNC_OPTIONS: "Prune=false",
        }
    )


def test_the_admins_word_needs_no_second_ban_on_pruning() -> None:
    found = completed(config_map({names.SYNC_OPTIONS: "Prune=false,Delete=false"}), owner="shop")
    assert found.annotations == {names.TRACKING_ID: OWN_ID}


@pytest.mark.parametrize("options", ["Validate=false", ""])
def test_the_admins_word_is_not_enough_where_pruning_cannot_be_forbidden(options: str) -> None:
    assert completed(config_map({names.SYNC_OPTIONS: options}), owner="shop") == Completion(
        warnings=("not tracked: argocd.argoproj.io/sync-options is set and lacks Prune=false",)
    )


def test_an_application_that_lists_the_object_counts_before_the_admins_word() -> None:
    found = completed(config_map(), owner="other", listing=[application()])
    assert found.annotations == {names.TRACKING_ID: OWN_ID}


@pytest.mark.parametrize(
    "annotations",
    [
        {names.TRACKING_ID: "other:/ConfigMap:shop/colours"},
        {names.PROPOSED_TRACKING_ID: "other;/ConfigMap/shop/colours"},
        {names.INSTALLATION_ID: "another"},
    ],
)
def test_an_object_that_says_it_is_anothers_is_left_alone(annotations: dict[str, str]) -> None:
    assert completed(config_map(annotations), listing=[application()]) == NOTHING


def test_present_values_are_never_changed() -> None:
    found = completed(
        config_map({names.TRACKING_ID: "broken"}, labels={names.INSTANCE_LABEL: "chart"}),
        listing=[application()],
        settings=by(TrackingMethod.ANNOTATION_AND_LABEL, installation_id="x"),
    )
    assert found == Completion(annotations={names.INSTALLATION_ID: "x"})


@pytest.mark.parametrize(
    ("method", "label", "warning"),
    [
        (TrackingMethod.ANNOTATION_AND_LABEL, "a" * 63, ()),
        (
            TrackingMethod.LABEL,
            None,
            (f"no label app.kubernetes.io/instance: {'a' * 70} is no label's value",),
        ),
    ],
)
def test_a_long_name_is_cut_only_where_argocd_cuts_it(
    method: TrackingMethod, label: str | None, warning: tuple[str, ...]
) -> None:
    found = completed(config_map(), listing=[application("a" * 70)], settings=by(method))
    assert found.labels.get(names.INSTANCE_LABEL) == label
    assert found.warnings == warning


def test_a_name_that_cannot_be_cut_is_said() -> None:
    found = completed(
        config_map(), listing=[application("-" * 70)], settings=by(TrackingMethod.ANNOTATION_AND_LABEL)
    )
    assert found.labels == {}
    assert found.warnings == (
        "no label app.kubernetes.io/instance: unable to truncate label to not end with a special character",
    )


@pytest.mark.parametrize(
    "thing",
    [
        {**config_map(), "kind": "Pod"},
        {**config_map(), "apiVersion": "example.com/v1"},
        config_map(ownerReferences=[{"name": "parent"}]),
        config_map({names.HOOK: "PreSync"}),
        config_map({names.HELM_HOOK: "pre-install"}),
        config_map(name="", generateName="colours-"),
        config_map(deletionTimestamp="2026-09-01T00:00:00Z"),
    ],
)
def test_other_objects_are_left_alone(thing: dict[str, Any]) -> None:
    assert completed(thing, listing=[application()]) == NOTHING


def test_a_kind_that_argocd_does_not_watch_is_left_alone() -> None:
    settings = Settings(exclusions=(ResourceFilter(kinds=("ConfigMap",)),))
    assert completed(config_map(), listing=[application()], settings=settings) == NOTHING


def test_even_a_listed_crd_is_left_alone() -> None:
    crd = {**config_map(), "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    configuration = in_format(
        TrackingFormat.RELEASED, kinds=("CustomResourceDefinition.apiextensions.k8s.io",)
    )
    assert completed(crd, listing=[application()], configuration=configuration) == NOTHING


def test_kinds_can_be_added() -> None:
    thing = {**config_map(), "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    configuration = in_format(TrackingFormat.RELEASED, kinds=("Rollout.argoproj.io",))
    assert completed(thing, owner="shop") == NOTHING
    found = completed(thing, owner="shop", configuration=configuration)
    assert found.annotations[names.TRACKING_ID] == "shop:argoproj.io/Rollout:shop/colours"


def test_a_namespace_without_the_label_is_left_alone() -> None:
    surroundings = Surroundings(
        settings=Settings(), configuration=Configuration(), neighbours=Cluster1(listing=[application()])
    )
    for around in (namespace(enabled="yes"), {}):
        found = complete(config_map(), namespace=around, writer=ADA, surroundings=surroundings)
        assert found == NOTHING


def test_the_group_of_the_request_counts_for_a_converted_object() -> None:
    ingress = {**config_map(), "apiVersion": "networking.k8s.io/v1", "kind": "Ingress"}
    found = completed(ingress, listing=[application()], group="extensions")
    assert found.annotations == {names.TRACKING_ID: "shop:extensions/Ingress:shop/colours"}


NEUTRALIZING = Configuration(tracking=policy.Tracking(neutralize_copies=True))


def test_copies_stay_by_default() -> None:
    assert completed(config_map({names.TRACKING_ID: COPIED_ID})) == NOTHING


def test_copied_ids_are_removed_where_that_is_wanted() -> None:
    found = completed(
        config_map(
            {
                names.TRACKING_ID: COPIED_ID,
                names.INSTALLATION_ID: "y",
                names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/shapes",
                names.PROPOSED_INSTALLATION_ID: "y",
            }
        ),
        configuration=NEUTRALIZING,
    )
    assert set(found.removed) == {
        names.TRACKING_ID,
        names.INSTALLATION_ID,
        names.PROPOSED_TRACKING_ID,
        names.PROPOSED_INSTALLATION_ID,
    }


def test_a_copied_id_alone_is_removed_alone() -> None:
    found = completed(
        config_map({names.TRACKING_ID: COPIED_ID, names.PROPOSED_TRACKING_ID: "a;/ConfigMap/shop/b"}),
        configuration=NEUTRALIZING,
    )
    assert found.removed == (names.TRACKING_ID, names.PROPOSED_TRACKING_ID)


def test_a_copied_id_gives_way_to_the_right_one() -> None:
    found = completed(
        config_map({names.TRACKING_ID: COPIED_ID}), listing=[application()], configuration=NEUTRALIZING
    )
    assert found == Completion(annotations={names.TRACKING_ID: OWN_ID})


def test_what_argocd_writes_is_never_removed() -> None:
    thing = config_map({names.TRACKING_ID: COPIED_ID})
    assert completed(thing, writer=ARGOCD, configuration=NEUTRALIZING) == NOTHING


@examples(max_examples=400, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [names.TRACKING_ID, names.INSTALLATION_ID, names.PROPOSED_TRACKING_ID, names.SYNC_OPTIONS]
        ),
        st.sampled_from([OWN_ID, COPIED_ID, "shop;/ConfigMap/shop/colours", "x", "", "Prune=false"]),
    ),
    st.sampled_from([TrackingMethod.LABEL, TrackingMethod.ANNOTATION, TrackingMethod.ANNOTATION_AND_LABEL]),
    st.sampled_from(list(TrackingFormat)),
    st.sampled_from(["", "shop"]),
    st.sampled_from([ADA, ARGOCD, REMOTE_ARGOCD]),
    st.booleans(),
)
def test_whatever_the_object_carries_a_second_pass_adds_nothing_and_nothing_becomes_prunable(  # noqa: PLR0917 - one property
    annotations: dict[str, str],
    method: TrackingMethod,
    tracking_format: TrackingFormat,
    owner: str,
    writer: Writer,
    neutralize: bool,  # noqa: FBT001 - hypothesis gives arguments by position
) -> None:
    completed(
        config_map(annotations),
        owner=owner,
        writer=writer,
        settings=by(method, installation_id="x"),
        configuration=in_format(tracking_format, neutralize_copies=neutralize),
    )
