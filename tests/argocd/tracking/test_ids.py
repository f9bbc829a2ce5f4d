"""Tracking ids in both formats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.tracking.ids import (
    TrackingId,
    TruncationError,
    group_of,
    id_for,
    instance_name,
    parse_proposed,
    parse_released,
    split_instance,
    split_qualified,
    truncate,
)

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "my-deployment", "namespace": "default"},
}
CLUSTER_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:reader"},
}


def test_the_formats_differ_in_their_separators() -> None:
    found = id_for(DEPLOYMENT, application="my-application")
    assert found.released == "my-application:apps/Deployment:default/my-deployment"
    assert found.proposed == "my-application;apps/Deployment/default/my-deployment"


def test_the_core_group_is_empty() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "some", "namespace": "ns"}}
    assert id_for(secret, application="app").released == "app:/Secret:ns/some"


def test_a_cluster_scoped_object_carries_the_namespace_of_the_destination() -> None:
    found = id_for(CLUSTER_ROLE, application="app", destination_namespace="shop")
    assert found.released == "app:rbac.authorization.k8s.io/ClusterRole:shop/system:reader"


def test_an_object_without_a_name_yet_has_an_id_that_ends_with_a_slash() -> None:
    hook = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "migrate-", "namespace": "ns"},
    }
    assert id_for(hook, application="app").released == "app:batch/Job:ns/"


def test_the_group_that_was_asked_for_counts_before_a_converted_one() -> None:
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "i", "namespace": "n"},
    }
    assert id_for(ingress, application="app", group="extensions").released == "app:extensions/Ingress:n/i"


@pytest.mark.parametrize(("version", "group"), [("v1", ""), ("apps/v1", "apps"), ("", ""), (None, "")])
def test_the_group_is_what_stands_before_the_version(version: object, group: str) -> None:
    assert group_of({"apiVersion": version}) == group


@pytest.mark.parametrize(
    "text",
    ["", "app", "a:b:c", "a:b/c", "a::d/e", "a:b/c:d/e/f", "a:b/c/d:e/f", "app;g/k/ns/n", "a:b/c:d"],
)
def test_another_text_is_no_released_id(text: str) -> None:
    assert parse_released(text) is None


@pytest.mark.parametrize("text", ["", "app", "app:g/k:ns/n", "app;g/k/ns", "app;g/k/ns/n/x"])
def test_another_text_is_no_proposed_id(text: str) -> None:
    assert parse_proposed(text) is None


def test_a_name_may_contain_colons() -> None:
    found = parse_released("app:rbac.authorization.k8s.io/ClusterRole:default/system:foo")
    assert found == TrackingId(
        application="app",
        group="rbac.authorization.k8s.io",
        kind="ClusterRole",
        namespace="default",
        name="system:foo",
    )


def test_empty_parts_are_parts() -> None:
    assert parse_released(":/:/") == TrackingId(application="", group="", kind="", namespace="", name="")


def without(characters: str) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_characters=characters))


@given(
    st.builds(
        TrackingId,
        application=without(":;"),
        group=without(":/"),
        kind=without(":/"),
        namespace=without("/"),
        name=without("/"),
    )
)
def test_reading_what_was_written_gives_the_same_id(found: TrackingId) -> None:
    assert parse_released(found.released) == found
    assert parse_proposed(found.proposed) == found


@given(st.text(alphabet=":;/ab"))
def test_writing_what_was_read_gives_the_same_text(text: str) -> None:
    if released := parse_released(text):
        assert released.released == text
    if proposed := parse_proposed(text):
        assert proposed.proposed == text


@pytest.mark.parametrize(
    ("part", "value"),
    [("group", "extensions"), ("kind", "StatefulSet"), ("namespace", "other"), ("name", "other")],
)
def test_an_id_is_about_one_object(part: str, value: str) -> None:
    parts = {"group": "apps", "kind": "Deployment", "namespace": "default", "name": "my-deployment"}
    assert TrackingId(application="any", **parts).is_about(DEPLOYMENT)
    assert not TrackingId(application="any", **{**parts, part: value}).is_about(DEPLOYMENT)


def test_the_namespace_in_a_cluster_scoped_objects_id_means_nothing() -> None:
    assert id_for(CLUSTER_ROLE, application="app", destination_namespace="x").is_about(CLUSTER_ROLE)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("", ""),
        ("a-", "a-"),
        ("a" * 63, "a" * 63),
        ("a" * 64, "a" * 63),
        ("a" * 62 + "_b", "a" * 62),
        ("a" * 61 + "-.bb", "a" * 61),
        ("a" * 62 + "é", "a" * 62),
        ("ä" + "b" * 63, "ä" + "b" * 61),
    ],
)
def test_a_label_is_cut_at_63_bytes_and_back_to_a_letter_or_digit(name: str, label: str) -> None:
    assert truncate(name) == label


@pytest.mark.parametrize("name", ["-" * 64, "é" * 40, "\ud800" * 30])
def test_a_name_without_letters_cannot_be_cut(name: str) -> None:
    with pytest.raises(TruncationError, match="unable to truncate label to not end with a special character"):
        truncate(name)


@given(st.text(min_size=50, max_size=200))
def test_a_cut_label_fits(name: str) -> None:
    try:
        label = truncate(name)
    except TruncationError:
        return
    assert len(label.encode(errors="replace")) <= 63
    assert truncate(label) == label


@pytest.mark.parametrize(
    ("namespace", "instance"), [("", "app"), ("argocd", "app"), ("team-a", "team-a_app")]
)
def test_an_application_elsewhere_carries_its_namespace(namespace: str, instance: str) -> None:
    assert instance_name("app", namespace=namespace, argocd_namespace="argocd") == instance


def test_an_instance_name_is_taken_apart_at_its_first_underscore() -> None:
    assert split_instance("team-a_app_x") == ("app_x", "team-a")
    assert split_instance("app", default_namespace="argocd") == ("app", "argocd")


def test_a_qualified_name_is_taken_apart_at_its_slash() -> None:
    assert split_qualified("team-a/app") == ("app", "team-a")
    assert split_qualified("team-a_app", default_namespace="argocd") == ("team-a_app", "argocd")
