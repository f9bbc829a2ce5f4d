"""Is what arrives what is here?"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.agents.identity import (
    Adoption,
    Comparison,
    IdentityAction,
    Mismatch,
    adoption_policy,
    application_action,
    compare_application,
    deletion_action,
    has_source,
    is_managed,
    matches_source,
    mirror_action,
    mismatch_policy,
    project_action,
    repository_action,
    source_uid,
    under_first_identity,
)
from tests.argocd.agents.agent_objects import OBJECTS


def local(**annotations: str) -> dict[str, Any]:
    keys = {"source": names.SOURCE_UID, "principal": names.PRINCIPAL_UID}
    return {"metadata": {"annotations": {keys[key]: uid for key, uid in annotations.items()}}}


def incoming(uid: str = "", annotation: str = "") -> dict[str, Any]:
    annotations = {names.SOURCE_UID: annotation} if annotation else {}
    return {"metadata": {"uid": uid, "annotations": annotations}}


def test_a_mirror_is_mirrored_under_its_source() -> None:
    assert source_uid(incoming("own")) == "own"
    assert source_uid(incoming("own", "first")) == "first"
    assert source_uid({}) == ""


@pytest.mark.parametrize(
    ("here", "arriving", "principal", "expected"),
    [
        (None, incoming("1"), "p", Comparison()),
        (None, incoming("1"), "", Comparison(principal_unknown=True)),
        (local(), incoming("1"), "p", Comparison(exists=True, managed=False)),
        (
            local(source="1", principal="p"),
            incoming("1"),
            "p",
            Comparison(exists=True, source_matches=True, principal_matches=True),
        ),
        (
            local(source="1", principal="p"),
            incoming("own", "1"),
            "p",
            Comparison(exists=True, source_matches=True, principal_matches=True),
        ),
        (
            local(source="1", principal="p"),
            incoming("2"),
            "q",
            Comparison(exists=True, principal_changed=True),
        ),
        (
            local(source="1", principal="p"),
            incoming(),
            "p",
            Comparison(exists=True, source_unknown=True, principal_matches=True),
        ),
        (
            local(source="1", principal="p"),
            incoming("1"),
            "",
            Comparison(exists=True, source_matches=True, principal_matches=True, principal_unknown=True),
        ),
        (
            local(source="1"),
            incoming("2"),
            "p",
            Comparison(exists=True, principal_matches=True, principal_adopted=True),
        ),
    ],
)
def test_an_application_is_compared_with_what_is_here(
    here: Any, arriving: Any, principal: str, expected: Comparison
) -> None:
    assert compare_application(here, arriving, principal_uid=principal) == expected


@pytest.mark.parametrize(
    ("here", "arriving", "principal", "action"),
    [
        (None, incoming("1"), "p", IdentityAction.CREATE),
        (local(source="1", principal="p"), incoming("2"), "q", IdentityAction.TRANSITION),
        (local(source="1", principal="p"), incoming(), "p", IdentityAction.STAMP),
        (local(source="1", principal="p"), incoming(), "q", IdentityAction.TRANSITION),
        (local(source="1", principal="p"), incoming("1"), "p", IdentityAction.UPDATE),
        (local(source="1"), incoming("2"), "p", IdentityAction.TRANSITION),
        (local(source="1"), incoming("1"), "p", IdentityAction.UPDATE),
        (local(), incoming("1"), "p", IdentityAction.ADOPT),
        (local(source="1", principal="p"), incoming("2"), "p", IdentityAction.RECREATE),
        (local(source="1", principal="p"), incoming("2"), "", IdentityAction.RECREATE),
    ],
)
def test_what_is_done_follows_from_the_comparison(
    here: Any, arriving: Any, principal: str, action: IdentityAction
) -> None:
    assert application_action(compare_application(here, arriving, principal_uid=principal)) is action


def test_what_is_being_deleted_and_was_never_here_is_reported_gone() -> None:
    assert application_action(Comparison(), deleting=True) is IdentityAction.REPORT_GONE


def test_only_a_create_adopts_and_only_where_that_is_allowed() -> None:
    nobodys = Comparison(exists=True, managed=False)
    assert application_action(nobodys, creating=False) is IdentityAction.REFUSE
    assert application_action(nobodys, adoption=Adoption.NEVER) is IdentityAction.REFUSE


def test_a_mismatch_may_be_written_over() -> None:
    other = Comparison(exists=True, principal_matches=True)
    assert application_action(other, mismatch=Mismatch.UPSERT) is IdentityAction.UPSERT


@pytest.mark.parametrize(
    ("event", "existing", "uid", "policy", "action"),
    [
        (
            "create",
            {"source-uid": "old_uid", "managed": True},
            "new_uid",
            "recreate",
            IdentityAction.RECREATE,
        ),
        ("create", {"source-uid": "old_uid", "managed": True}, "old_uid", "recreate", IdentityAction.UPDATE),
        (
            "spec-update",
            {"source-uid": "old_uid", "managed": True},
            "new_uid",
            "recreate",
            IdentityAction.RECREATE,
        ),
        ("spec-update", None, "new_uid", "recreate", IdentityAction.CREATE),
        ("delete", {"source-uid": "old_uid", "managed": True}, "new_uid", "recreate", IdentityAction.DELETE),
        ("create", {"source-uid": None, "managed": False}, "new_uid", "recreate", IdentityAction.ADOPT),
        ("spec-update", {"source-uid": None, "managed": False}, "new_uid", "recreate", IdentityAction.ADOPT),
        ("delete", {"source-uid": None, "managed": True}, "new_uid", "recreate", IdentityAction.DELETE),
        (
            "spec-update",
            {"source-uid": "stale_uid", "managed": False},
            "principal_uid",
            "recreate",
            IdentityAction.ADOPT,
        ),
        ("create", {"source-uid": "old_uid", "managed": True}, "new_uid", "upsert", IdentityAction.UPSERT),
        (
            "spec-update",
            {"source-uid": "old_uid", "managed": True},
            "new_uid",
            "upsert",
            IdentityAction.UPSERT,
        ),
        ("delete", {"source-uid": None, "managed": False}, "new_uid", "recreate", IdentityAction.REFUSE),
        ("delete", None, "new_uid", "recreate", None),
    ],
)
def test_projects_at_a_managed_agent(
    event: str, existing: Any, uid: str, policy: str, action: IdentityAction | None
) -> None:
    managed = bool(existing and existing["managed"])
    if event == "delete":
        assert deletion_action(exists=existing is not None, managed=managed) is action
        return
    here = local(source=existing["source-uid"]) if existing and existing["source-uid"] else local()
    found = project_action(
        exists=existing is not None,
        managed=managed,
        source_matches=matches_source(here, incoming(uid)),
        mismatch=Mismatch(policy),
    )
    assert found is action


def test_credentials_that_somebody_put_here_are_not_overwritten() -> None:
    assert repository_action(exists=True, managed=False, source_matches=False) is IdentityAction.REFUSE
    assert repository_action(exists=True, managed=True, source_matches=True) is IdentityAction.UPDATE
    assert repository_action(exists=False, managed=False, source_matches=False) is IdentityAction.CREATE


def test_an_object_may_say_what_a_mismatch_means() -> None:
    def saying(word: Any) -> dict[str, Any]:
        return {"metadata": {"annotations": {names.SOURCE_UID_MISMATCH_POLICY: word}}}

    assert mismatch_policy(saying("upsert"), Mismatch.RECREATE) is Mismatch.UPSERT
    assert mismatch_policy(saying("recreate"), Mismatch.UPSERT) is Mismatch.RECREATE
    assert mismatch_policy(saying("Upsert"), Mismatch.RECREATE) is Mismatch.RECREATE
    assert mismatch_policy({}, Mismatch.UPSERT) is Mismatch.UPSERT


def test_a_local_application_may_say_whether_it_wants_to_be_adopted() -> None:
    never = {"metadata": {"annotations": {names.ADOPTION_POLICY: "never"}}}
    assert adoption_policy(never, Adoption.ALWAYS) is Adoption.NEVER
    assert adoption_policy({}, Adoption.ALWAYS) is Adoption.ALWAYS


def test_after_a_failover_an_object_is_sent_as_the_one_that_the_agents_know() -> None:
    replicated = {"metadata": {"name": "x", "uid": "new", "annotations": {names.SOURCE_UID: "first"}}}
    assert under_first_identity(replicated)["metadata"]["uid"] == "first"
    plain = {"metadata": {"uid": "own"}}
    assert under_first_identity(plain) is plain


@pytest.mark.parametrize(
    ("existing", "action"),
    [
        (None, IdentityAction.CREATE),
        ({"metadata": {"name": "a-b-c"}}, IdentityAction.REFUSE),
        ({**local(source="1"), "spec": {"sourceNamespaces": ["a"]}}, IdentityAction.UPDATE),
        ({**local(source="other"), "spec": {"sourceNamespaces": ["a"]}}, IdentityAction.UPDATE),
        ({**local(source="1"), "spec": {"sourceNamespaces": ["a", "added by hand"]}}, IdentityAction.UPDATE),
        ({**local(source="1"), "spec": {"sourceNamespaces": ["a-b"]}}, IdentityAction.REFUSE),
        ({**local(source="1"), "spec": {"sourceNamespaces": []}}, IdentityAction.REFUSE),
        ({**local(source="other"), "spec": {"sourceNamespaces": ["a-b"]}}, IdentityAction.REFUSE),
    ],
)
def test_a_mirror_takes_no_name_that_is_somebody_elses(existing: Any, action: IdentityAction) -> None:
    mirror = {**local(source="1"), "spec": {"sourceNamespaces": ["a"]}}
    assert mirror_action(existing, mirror) is action


@pytest.mark.parametrize(("annotations", "marked"), [({}, False), ({names.SOURCE_UID: ""}, True)])
def test_an_empty_uid_marks_a_copy_of_nobody_knows_what(annotations: dict[str, str], *, marked: bool) -> None:
    item = {"metadata": {"annotations": annotations}}
    assert has_source(item) is marked
    assert not is_managed(item)
    assert not has_source(None)


def test_an_object_with_a_source_is_managed() -> None:
    assert is_managed(local(source="1"))
    assert not is_managed(local())


@given(OBJECTS, OBJECTS, st.text(max_size=3))
def test_objects_of_any_shape_are_compared(here: Any, arriving: Any, principal: str) -> None:
    found = compare_application(here, arriving, principal_uid=principal)
    assert application_action(found) in set(IdentityAction)
    assert matches_source(here, arriving) in {True, False}
    assert mirror_action(here, arriving) in set(IdentityAction)
    assert isinstance(under_first_identity(here), dict)
    assert mismatch_policy(arriving, Mismatch.UPSERT) in set(Mismatch)
    assert adoption_policy(here, Adoption.NEVER) in set(Adoption)
