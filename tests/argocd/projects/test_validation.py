"""A whole project as Argo CD's API server would judge it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.projects.validation import Code, validate

VERSION = (3, 5)
SERVER = "https://kubernetes.default.svc"
WINDOW = {"kind": "allow", "schedule": "0 8 * * *", "duration": "1h", "applications": ["*"]}


def problems(**spec: Any) -> list[tuple[str, str, str]]:
    found = validate({"metadata": {"name": "shop"}, "spec": spec}, version=VERSION)
    return [(one.rule.removeprefix("project/"), one.path.removeprefix("spec."), one.message) for one in found]


def test_a_good_project_has_no_problems() -> None:
    assert not problems(
        sourceRepos=["https://git.example.com/*"],
        sourceNamespaces=["shop"],
        destinations=[{"server": SERVER, "namespace": "shop"}, {"name": "eu", "namespace": "shop"}, {}],
        roles=[
            {
                "name": "dev",
                "policies": ["p, proj:shop:dev, applications, get, shop/*, allow"],
                "groups": ["acme:dev"],
            },
            {"name": "ops"},
        ],
        syncWindows=[WINDOW, None, {**WINDOW, "kind": "deny"}],
        destinationServiceAccounts=[
            {"server": "*", "namespace": "a", "defaultServiceAccount": "x"},
            {"server": "*", "defaultServiceAccount": "ns:x"},
        ],
    )
    assert not problems()
    assert not validate({}, version=VERSION)
    assert not validate({"metadata": None, "spec": None}, version=VERSION)


def test_all_problems_are_told_at_once_in_argocds_order() -> None:
    found = problems(
        destinationServiceAccounts=[
            {"server": "!x", "namespace": "[a", "defaultServiceAccount": " "},
            {"server": "!x", "namespace": "[a", "defaultServiceAccount": "a/b"},
        ],
        syncWindows=[{"kind": "x"}, WINDOW, {**WINDOW, "manualSync": True}],
        roles=[
            {"name": "dev", "policies": ["p", "p"], "groups": ["a,b", "a,b"]},
            {"name": "dev"},
            {"name": ""},
        ],
        sourceRepos=["a", "!*", "a"],
        sourceNamespaces=["a", "b", "a"],
        destinations=[
            {"name": "!*", "server": "!*", "namespace": "!*"},
            {"name": "a", "namespace": "n"},
            {"server": "a", "namespace": "n"},
        ],
    )
    form = "invalid policy rule 'p': must be of the form: 'p, sub, res, act, obj, eft'"
    assert found == [
        ("destination-format", "destinations[0].name", "name has an invalid format, '!*'"),
        ("destination-format", "destinations[0].server", "server has an invalid format, '!*'"),
        ("destination-format", "destinations[0].namespace", "namespace has an invalid format, '!*'"),
        ("duplicate-destination", "destinations[2]", "destination 'a/n' already added"),
        ("duplicate-source-namespace", "sourceNamespaces[2]", "source namespace 'a' already added"),
        ("source-repo-format", "sourceRepos[1]", "source repository has an invalid format, '!*'"),
        ("duplicate-source-repo", "sourceRepos[2]", "source repository 'a' already added"),
        ("policy", "roles[0].policies[0]", form),
        ("duplicate-policy", "roles[0].policies[1]", "policy 'p' already exists for role 'dev'"),
        ("policy", "roles[0].policies[1]", form),
        ("group-name", "roles[0].groups[0]", "group 'a,b' must be quoted"),
        ("duplicate-group", "roles[0].groups[1]", "group 'a,b' already exists for role 'dev'"),
        ("group-name", "roles[0].groups[1]", "group 'a,b' must be quoted"),
        ("duplicate-role", "roles[1]", "role 'dev' already exists"),
        (
            "role-name",
            "roles[2].name",
            (
                "invalid role name ''. Must consist of alphanumeric characters, '-' or '_', and must start and end "
                "with an alphanumeric character"
            ),
        ),
        ("sync-window-kind", "syncWindows[0].kind", "kind 'x' mismatch: can only be allow or deny"),
        ("sync-window-schedule", "syncWindows[0].schedule", "cannot parse schedule '': empty spec string"),
        (
            "sync-window-duration",
            "syncWindows[0].duration",
            "cannot parse duration '': time: invalid duration \"\"",
        ),
        (
            "sync-window-target",
            "syncWindows[0]",
            "window 'x':'':'' requires one of application, cluster or namespace",
        ),
        (
            "duplicate-sync-window",
            "syncWindows[2]",
            "sync window with kind 'allow', schedule '0 8 * * *', and duration '1h' already exists",
        ),
        (
            "destination-service-account",
            "destinationServiceAccounts[0].server",
            "server has an invalid format, '!x'",
        ),
        (
            "destination-service-account",
            "destinationServiceAccounts[0].defaultServiceAccount",
            "defaultServiceAccount has an invalid format, ' '",
        ),
        (
            "destination-service-account",
            "destinationServiceAccounts[0].namespace",
            "namespace has an invalid format, '[a'",
        ),
        (
            "destination-service-account",
            "destinationServiceAccounts[1].server",
            "server has an invalid format, '!x'",
        ),
        (
            "destination-service-account",
            "destinationServiceAccounts[1].defaultServiceAccount",
            "defaultServiceAccount has an invalid format, 'a/b'",
        ),
        (
            "destination-service-account",
            "destinationServiceAccounts[1].namespace",
            "namespace has an invalid format, '[a'",
        ),
        (
            "duplicate-destination-service-account",
            "destinationServiceAccounts[1]",
            "destinationServiceAccount '!x/[a' already added",
        ),
    ]


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (("[a", "[b", "a*"), ["defaultServiceAccount", "server", "namespace"]),
        (("[a", "!b", "a*"), ["namespace", "defaultServiceAccount", "server"]),
        (("[!a", "[b", "a*"), ["server", "defaultServiceAccount", "namespace"]),
        (("[a", "!b", "a"), ["namespace", "server"]),
        (("!a", "!b", " "), ["server", "namespace", "defaultServiceAccount"]),
    ],
)
def test_patterns_of_accounts_are_compiled_after_a_look_at_all_characters(
    entry: tuple[str, str, str], named: list[str]
) -> None:
    fields = dict(zip(("server", "namespace", "defaultServiceAccount"), entry, strict=True))
    found = problems(destinationServiceAccounts=[fields])
    assert [path.rpartition(".")[2] for _, path, _ in found] == named


def test_one_part_of_a_destination_that_denies_everything_is_told_alone() -> None:
    assert problems(destinations=[{"server": "x", "namespace": "!*"}]) == [
        ("destination-format", "destinations[0].namespace", "namespace has an invalid format, '!*'")
    ]


def test_one_account_that_is_wrong_is_told_alone() -> None:
    assert problems(destinationServiceAccounts=[{"server": "*", "defaultServiceAccount": "a*"}]) == [
        (
            "destination-service-account",
            "destinationServiceAccounts[0].defaultServiceAccount",
            "defaultServiceAccount has an invalid format, 'a*'",
        )
    ]


def test_the_codes_are_those_of_the_api_server() -> None:
    found = validate(
        {
            "spec": {
                "destinations": [{}, {}],
                "roles": [{"name": "a"}, {"name": "a"}],
                "syncWindows": [{"kind": "x", "schedule": "* * * * *", "duration": "1h"}],
            }
        },
        version=VERSION,
    )
    assert [one.code for one in found] == [
        Code.INVALID_ARGUMENT,
        Code.ALREADY_EXISTS,
        Code.NONE,
        Code.OUT_OF_RANGE,
    ]


def test_before_3_2_windows_of_the_same_time_were_the_same() -> None:
    spec = {"syncWindows": [WINDOW, {**WINDOW, "applications": ["a"]}]}
    assert not validate({"spec": spec}, version=(3, 2))
    assert [one.rule for one in validate({"spec": spec}, version=(3, 1))] == ["project/duplicate-sync-window"]


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ({"destinations": ["*"]}, [("destinations[0]", "must be an object")]),
        ({"destinations": "*"}, [("destinations", "must be a list")]),
        (
            {"destinations": [{"server": 1, "namespace": None}]},
            [("destinations[0].server", "must be a text")],
        ),
        ({"sourceRepos": [1, None, "a"]}, [("sourceRepos[0]", "must be a text")]),
        ({"roles": [{"name": "a", "policies": "x"}]}, [("roles[0].policies", "must be a list")]),
        ({"roles": [{"name": "a", "groups": ["g", 2]}]}, [("roles[0].groups[1]", "must be a text")]),
        ({"syncWindows": ["x"]}, [("syncWindows[0]", "must be an object")]),
        ({"syncWindows": [{**WINDOW, "clusters": 1}]}, [("syncWindows[0].clusters", "must be a list")]),
    ],
)
def test_what_fits_no_field_is_said(spec: dict[str, Any], shapes: list[tuple[str, str]]) -> None:
    found = [(path, message) for rule, path, message in problems(**spec) if rule == "shape"]
    assert found == shapes


def test_a_spec_that_is_none_is_said() -> None:
    assert [one.path for one in validate({"spec": [], "metadata": "x"}, version=VERSION)] == [
        "spec",
        "metadata",
    ]


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.just("!*"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
LISTS = (
    "destinations",
    "sourceRepos",
    "sourceNamespaces",
    "roles",
    "syncWindows",
    "destinationServiceAccounts",
)
FIELDS = ("name", "server", "namespace", "policies", "groups", "kind", "schedule", "duration", "applications")
entries = st.lists(st.dictionaries(st.sampled_from(FIELDS), json, max_size=4) | json, max_size=4)


@given(st.dictionaries(st.sampled_from(LISTS), entries | json, max_size=6))
def test_no_json_makes_it_fail(spec: dict[str, Any]) -> None:
    for one in validate({"metadata": {"name": "shop"}, "spec": spec}, version=VERSION):
        assert one.rule.startswith("project/")
        assert one.path.startswith("spec")
