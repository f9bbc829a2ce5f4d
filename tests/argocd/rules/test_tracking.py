"""Rules about marks, beyond their examples."""

from collections.abc import Mapping
from typing import Any

import pytest

from argocd import names
from argocd.judging.case import Case, Kind, Surroundings, User
from argocd.judging.configuration import Configuration, Tracking, TrackingFormat
from argocd.judging.neighbours import Neighbours
from argocd.rules.tracking import RULES
from argocd.settings.argocd_cm import ResourceFilter, Settings, TrackingMethod
from tests.argocd.fake_neighbours import Neighbourhood, Nothing

ADA = User(user="ada")
ARGOCD = User(user="system:serviceaccount:argocd:argocd-application-controller")
RULE = {rule.id.removeprefix("tracking/"): rule for rule in RULES}
OWN_ID = "shop:/ConfigMap:shop/colours"
COPIED_ID = "shop:/ConfigMap:shop/shapes"


def config_map(
    tracking_id: str = "",
    *,
    installation: str = "",
    label: str = "",
    annotations: Mapping[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    marks = {names.TRACKING_ID: tracking_id, names.INSTALLATION_ID: installation, **(annotations or {})}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "colours",
            "namespace": "shop",
            "labels": {names.INSTANCE_LABEL: label} if label else {},
            "annotations": {key: value for key, value in marks.items() if value},
            **metadata,
        },
    }


def messages(
    rule: str,
    thing: dict[str, Any],
    *,
    old: dict[str, Any] | None = None,
    kind: Kind = Kind.ANY,
    settings: Settings | None = None,
    configuration: Configuration | None = None,
    neighbours: Neighbours | None = None,
    writer: User = ADA,
) -> list[str]:
    case = Case(
        kind=kind,
        object=thing,
        old=old,
        writer=writer,
        surroundings=Surroundings(
            settings=settings or Settings(),
            configuration=configuration or Configuration(),
            neighbours=neighbours or Nothing(),
        ),
    )
    return [finding.message for finding in RULE[rule].check(case)]


@pytest.mark.parametrize(
    "thing",
    [
        config_map(COPIED_ID, ownerReferences=[{"name": "parent"}]),
        config_map(COPIED_ID, annotations={names.HOOK: "Sync"}),
        config_map("shop:/ConfigMap:shop/", name="", generateName="colours-"),
        config_map("broken"),
        config_map(),
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "shop", "annotations": {names.TRACKING_ID: "shop:/Namespace:/shop"}},
        },
    ],
)
def test_ids_that_differ_for_a_reason_are_no_copies(thing: dict[str, Any]) -> None:
    assert messages("copied-id", thing) == []


def test_an_id_that_argocd_writes_is_no_copy() -> None:
    assert messages("copied-id", config_map(COPIED_ID), writer=ARGOCD) == []
    assert len(messages("copied-id", config_map(COPIED_ID), writer=User())) == 1


@pytest.mark.parametrize(
    ("tracking_format", "found"),
    [(TrackingFormat.RELEASED, 1), (TrackingFormat.PROPOSED, 1), (TrackingFormat.BOTH, 2)],
)
def test_ids_are_judged_in_the_configured_format(tracking_format: TrackingFormat, found: int) -> None:
    configuration = Configuration(tracking=Tracking(format=tracking_format))
    copied = config_map(COPIED_ID, annotations={names.PROPOSED_TRACKING_ID: "shop;/ConfigMap/shop/shapes"})
    broken = config_map("x", annotations={names.PROPOSED_TRACKING_ID: "y"})
    assert len(messages("copied-id", copied, configuration=configuration)) == found
    assert len(messages("malformed-id", broken, configuration=configuration)) == found


@pytest.mark.parametrize(
    "settings",
    [
        Settings(tracking_method=TrackingMethod.LABEL),
        Settings(exclusions=(ResourceFilter(kinds=("ConfigMap",)),)),
        Settings(inclusions=(ResourceFilter(kinds=("Secret",)),)),
    ],
)
def test_ids_that_argocd_does_not_read_are_not_judged(settings: Settings) -> None:
    assert messages("copied-id", config_map(COPIED_ID), settings=settings) == []
    assert messages("malformed-id", config_map("broken"), settings=settings) == []


@pytest.mark.parametrize(
    ("ours", "before", "after", "refused"),
    [
        ("blue", "green", "blue", True),
        ("blue", "blue", "blue", False),
        ("blue", "", "blue", False),
        ("blue", "green", "green", False),
        ("blue", "green", "", True),
        ("blue", "green", "red", True),
        ("blue", "blue", "", False),
        ("", "green", "blue", False),
        (None, "green", "blue", False),
    ],
)
def test_another_installations_object_keeps_its_id(
    ours: str | None, before: str, after: str, *, refused: bool
) -> None:
    found = messages(
        "foreign-installation",
        config_map(installation=after),
        old=config_map(installation=before),
        settings=Settings(installation_id=ours),
        writer=ARGOCD,
    )
    assert found == (["the object belongs to the Argo CD installation 'green'"] if refused else [])


@pytest.mark.parametrize(("after", "refused"), [("", False), ("red", False), ("blue", True)])
def test_an_argocd_elsewhere_may_take_its_own_id_away_but_not_write_ours(
    after: str, *, refused: bool
) -> None:
    found = messages(
        "foreign-installation",
        config_map(installation=after),
        old=config_map(installation="green"),
        settings=Settings(installation_id="blue"),
        writer=User(user=names.ARGOCD_MANAGER),
    )
    assert bool(found) is refused


def test_a_takeover_names_the_application_that_owns_the_object() -> None:
    assert messages(
        "foreign-installation",
        config_map(OWN_ID, installation="blue"),
        old=config_map(OWN_ID, installation="green"),
        settings=Settings(installation_id="blue"),
    ) == ["the object belongs to the Argo CD installation 'green' and its application 'shop'"]


class Listing(Nothing):
    """One Application that lists whatever is asked for."""

    def applications_listing(
        self, group: str, kind: str, namespace: str, name: str
    ) -> list[Mapping[str, Any]]:
        destination = {"server": names.IN_CLUSTER_SERVER, "namespace": "shop"}
        return [
            {"metadata": {"name": "shop", "namespace": "argocd"}, "spec": {"destination": destination}},
        ]


@pytest.mark.parametrize(
    ("former", "writer", "neighbours", "findings"),
    [
        (("grey", "green"), ARGOCD, Listing(), 0),
        (("green",), ADA, Listing(), 1),
        (("green",), ARGOCD, Nothing(), 1),
        (("grey",), ARGOCD, Listing(), 1),
        ((), ARGOCD, Listing(), 1),
    ],
    ids=["its own past", "by hand", "not listed", "not its past", "no past"],
)
def test_argo_cd_may_renew_an_id_of_its_own_past_on_what_its_application_lists(
    former: tuple[str, ...], writer: User, neighbours: Neighbours, findings: int
) -> None:
    found = messages(
        "foreign-installation",
        config_map(OWN_ID, installation="blue"),
        old=config_map(OWN_ID, installation="green"),
        settings=Settings(installation_id="blue", former_installation_ids=former),
        neighbours=neighbours,
        writer=writer,
    )
    assert len(found) == findings


def test_a_created_object_takes_nothing_over() -> None:
    settings = Settings(installation_id="blue")
    assert messages("foreign-installation", config_map(installation="blue"), settings=settings) == []


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (config_map(), "the object is managed by 'shop'; this change hides it from Argo CD"),
        (
            config_map("blue:/ConfigMap:shop/colours"),
            "the object is managed by 'shop'; this change gives it to 'blue', which may prune it",
        ),
    ],
)
def test_a_mark_that_is_changed_by_hand_is_noticed(after: dict[str, Any], message: str) -> None:
    assert messages("changed-by-hand", after, old=config_map(OWN_ID)) == [message]


@pytest.mark.parametrize(
    "writer",
    [
        ARGOCD,
        User(),
        User(user="system:serviceaccount:tiphys-system:tiphys-webhook"),
        User(user="system:serviceaccount:argocd:tiphys-agent"),
    ],
)
def test_those_who_write_marks_may_change_them(writer: User) -> None:
    assert messages("changed-by-hand", config_map(), old=config_map(OWN_ID), writer=writer) == []


@pytest.mark.parametrize(
    "old",
    [
        None,
        config_map(),
        config_map(COPIED_ID),
        config_map("broken"),
        config_map(OWN_ID, ownerReferences=[{"name": "parent"}]),
    ],
)
def test_what_was_not_managed_may_lose_its_mark(old: dict[str, Any] | None) -> None:
    assert messages("changed-by-hand", config_map(), old=old) == []


def test_a_kept_mark_is_fine() -> None:
    assert messages("changed-by-hand", config_map(OWN_ID), old=config_map(OWN_ID)) == []


def test_with_label_tracking_the_label_is_the_mark() -> None:
    settings = Settings(tracking_method=TrackingMethod.LABEL)
    case_path = RULE["changed-by-hand"].check(
        Case(
            kind=Kind.ANY,
            object=config_map(OWN_ID),
            old=config_map(OWN_ID, label="shop"),
            writer=ADA,
            surroundings=Surroundings(settings=settings, configuration=Configuration(), neighbours=Nothing()),
        )
    )
    assert [finding.path for finding in case_path] == ["metadata.labels[app.kubernetes.io/instance]"]


def application(name: str, *, namespace: str = "argocd", method: str = "") -> dict[str, Any]:
    annotations = {names.TIPHYS_TRACKING_METHOD: method} if method else {}
    return {"metadata": {"name": name, "namespace": namespace, "annotations": annotations}}


@pytest.mark.parametrize(
    ("thing", "method", "found"),
    [
        (application("a" * 64), TrackingMethod.LABEL, 1),
        (application("a" * 63), TrackingMethod.LABEL, 0),
        (application("a" * 60, namespace="team-a"), TrackingMethod.LABEL, 1),
        (application("a" * 64), TrackingMethod.ANNOTATION, 0),
        (application("a" * 64, method="label"), TrackingMethod.ANNOTATION, 1),
        (application("a" * 64, method="annotation"), TrackingMethod.LABEL, 0),
    ],
)
def test_a_name_is_too_long_only_for_a_label(
    thing: dict[str, Any], method: TrackingMethod, found: int
) -> None:
    settings = Settings(tracking_method=method)
    assert len(messages("name-too-long", thing, kind=Kind.APPLICATION, settings=settings)) == found


@pytest.mark.parametrize(
    ("name", "neighbours", "found"),
    [
        ("a" * 63 + "1", Neighbourhood(applications=[application("a" * 63 + "2")]), 1),
        ("a" * 63 + "1", Neighbourhood(applications=[application("a" * 63 + "1")]), 0),
        ("a" * 63 + "1", Nothing(), 0),
        ("a" * 63, Neighbourhood(applications=[application("a" * 63 + "2")]), 0),
        ("-" * 64, Neighbourhood(), 0),
    ],
)
def test_long_names_collide_with_others_that_begin_alike(
    name: str, neighbours: Neighbours, found: int
) -> None:
    settings = Settings(tracking_method=TrackingMethod.ANNOTATION_AND_LABEL)
    judged = application(name)
    assert len(messages("label-collision", judged, settings=settings, neighbours=neighbours)) == found
    assert messages("label-collision", judged, neighbours=neighbours) == []


@pytest.mark.parametrize(("method", "found"), [("", 0), ("label", 0), ("labels", 1), ("unknown", 1)])
def test_a_method_is_one_of_three(method: str, found: int) -> None:
    assert len(messages("unknown-method", application("a", method=method))) == found
