"""Reading argocd-cm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.judging.configuration import ArgoCD, Behaviour, Configuration, ImpersonationOptions
from argocd.settings.argocd_cm import (
    GlobalProject,
    ImpersonationSwitch,
    ResourceFilter,
    Settings,
    TrackingMethod,
    read_settings,
)


def of_version(*version: int) -> Configuration:
    return Configuration(argocd=ArgoCD(version=version))


def read(data: dict[str, object], configuration: Configuration | None = None) -> Settings:
    return read_settings({"data": data}, configuration=configuration or Configuration())


def test_no_config_map_is_an_empty_one_that_nobody_has_seen() -> None:
    assert read_settings(None, configuration=Configuration()) == Settings()
    assert read({}) == Settings(known=True)


@pytest.mark.parametrize(
    ("data", "version", "expected"),
    [
        ({}, (3, 5), TrackingMethod.ANNOTATION),
        ({}, (2, 14), TrackingMethod.LABEL),
        ({names.TRACKING_METHOD_KEY: ""}, (3, 5), TrackingMethod.ANNOTATION),
        ({names.TRACKING_METHOD_KEY: "label"}, (3, 5), TrackingMethod.LABEL),
        ({names.TRACKING_METHOD_KEY: "annotation+label"}, (2, 9), TrackingMethod.ANNOTATION_AND_LABEL),
        ({names.TRACKING_METHOD_KEY: "Label"}, (3, 5), TrackingMethod.UNKNOWN),
        ({names.PROPOSED_TRACKING_METHOD_KEY: "label"}, (3, 5), TrackingMethod.LABEL),
        (
            {names.TRACKING_METHOD_KEY: "annotation", names.PROPOSED_TRACKING_METHOD_KEY: "label"},
            (3, 5),
            TrackingMethod.ANNOTATION,
        ),
    ],
)
def test_the_tracking_method_is_the_released_key_then_the_proposed_one_then_the_versions_default(
    data: dict[str, object], version: tuple[int, ...], expected: TrackingMethod
) -> None:
    assert read(data, of_version(*version)).tracking_method is expected


def test_the_instance_label_can_be_renamed() -> None:
    assert read({}).instance_label == "app.kubernetes.io/instance"
    assert read({names.INSTANCE_LABEL_KEY: ""}).instance_label == "app.kubernetes.io/instance"
    assert read({names.INSTANCE_LABEL_KEY: "example.com/app"}).instance_label == "example.com/app"


def test_ids_of_the_past_are_read_from_an_annotation() -> None:
    noted = {"metadata": {"annotations": {names.TIPHYS_FORMER_INSTALLATION_IDS: "east, ,west"}}}
    assert read_settings(noted, configuration=Configuration()).former_installation_ids == ("east", "west")
    assert read({}).former_installation_ids == ()


def test_the_installation_id_has_three_states() -> None:
    assert read({}).installation_id is None
    assert read({names.INSTALLATION_ID_KEY: ""}).installation_id == ""
    assert read({names.INSTALLATION_ID_KEY: "x"}).installation_id == "x"


@pytest.mark.parametrize(
    ("data", "configuration", "enabled", "enforced"),
    [
        ({}, Configuration(), False, True),
        ({names.IMPERSONATION_ENABLED_KEY: "true"}, Configuration(), True, True),
        ({names.IMPERSONATION_ENABLED_KEY: "True"}, Configuration(), False, True),
        ({names.IMPERSONATION_ENABLED_KEY: "true"}, of_version(2, 12), False, True),
        ({names.IMPERSONATION_ENFORCED_KEY: "false"}, Configuration(), False, False),
        ({names.IMPERSONATION_ENFORCED_KEY: "no"}, Configuration(), False, True),
        ({names.IMPERSONATION_ENFORCED_KEY: "false"}, of_version(3, 4), False, True),
        ({names.PROPOSED_IMPERSONATION_KEY: "true"}, Configuration(), False, True),
        (
            {names.PROPOSED_IMPERSONATION_KEY: "true"},
            Configuration(impersonation=ImpersonationOptions(behaviour=Behaviour.PROPOSAL)),
            True,
            True,
        ),
    ],
)
def test_impersonation_is_switched_by_the_key_that_counts_here(
    data: dict[str, object], configuration: Configuration, *, enabled: bool, enforced: bool
) -> None:
    found = read(data, configuration).impersonation
    assert (found.enabled, found.enforced) == (enabled, enforced)


def test_the_proposals_switch_alone_switches_nothing_in_a_released_argo_cd() -> None:
    assert read({names.PROPOSED_IMPERSONATION_KEY: "true"}).impersonation == ImpersonationSwitch()
    assert read({names.IMPERSONATION_ENABLED_KEY: "true"}).impersonation == ImpersonationSwitch(enabled=True)


def test_resource_filters_and_global_projects_are_yaml_in_a_string() -> None:
    found = read(
        {
            names.RESOURCE_EXCLUSIONS_KEY: "- {apiGroups: ['*.io'], kinds: [Foo], clusters: [c1]}\n- 3",
            names.RESOURCE_INCLUSIONS_KEY: "- kinds: ['*', 7]",
            names.GLOBAL_PROJECTS_KEY: "- {projectName: base, labelSelector: {matchLabels: {a: b}}}\n- x",
        }
    )
    assert found.exclusions == (ResourceFilter(groups=("*.io",), kinds=("Foo",), clusters=("c1",)),)
    assert found.inclusions == (ResourceFilter(kinds=("*",)),)
    assert found.global_projects == (GlobalProject(project="base", selector={"matchLabels": {"a": "b"}}),)


def test_yaml_that_cannot_be_read_is_named_and_counts_as_nothing() -> None:
    found = read({names.RESOURCE_EXCLUSIONS_KEY: "a: [", names.GLOBAL_PROJECTS_KEY: "{}"})
    assert (found.exclusions, found.global_projects) == ((), ())
    assert (found.exclusions, found.global_projects) == ((), ())


def test_the_own_cluster_can_be_switched_off() -> None:
    assert read({names.IN_CLUSTER_ENABLED_KEY: "yes"}).in_cluster
    assert not read({names.IN_CLUSTER_ENABLED_KEY: "false"}).in_cluster


def test_the_namespaces_of_applications_are_unknown_or_listed() -> None:
    def namespaces(parameters: dict[str, object] | None) -> tuple[str, ...] | None:
        found = read_settings({}, configuration=Configuration(), command_parameters=parameters)
        return found.application_namespaces

    assert namespaces(None) is None
    assert namespaces({}) == ()
    assert namespaces({"data": {names.APPLICATION_NAMESPACES_KEY: " team-a, ,team-*"}}) == (
        "team-a",
        "team-*",
    )


KEYS = [value for name, value in vars(names).items() if name.endswith("_KEY")]


@given(
    st.none()
    | st.dictionaries(
        st.just("data"),
        st.none()
        | st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers() | st.text() | st.lists(st.text())),
    )
)
def test_any_config_map_gives_settings(config_map: dict[str, object] | None) -> None:
    found = read_settings(config_map, configuration=Configuration(), command_parameters=config_map)
    assert isinstance(found, Settings)
