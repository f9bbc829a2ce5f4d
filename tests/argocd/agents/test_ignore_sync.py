from typing import Any

import pytest

from argocd import names
from argocd.agents import ignore_sync
from argocd.agents.ignore_sync import IgnoreSyncChange


def labelled(
    value: Any = None,
    *,
    kind: str = "Application",
    group: str = "argoproj.io/v1alpha1",
    name: str = "shop",
    secret_type: str = "",
) -> dict[str, Any]:
    labels = {} if value is None else {names.IGNORE_SYNC: value}
    if secret_type:
        labels[names.SECRET_TYPE] = secret_type
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize("value", ["TRUE", "True", "1", "", "false", "true ", None, True])
def test_only_the_exact_text_true_keeps_an_object_out(value: object) -> None:
    assert not ignore_sync.is_ignored(labelled(value))


def test_the_exact_text_true_keeps_an_object_out() -> None:
    assert ignore_sync.is_ignored(labelled("true"))
    assert not ignore_sync.is_ignored(None)
    assert not ignore_sync.is_ignored({})


@pytest.mark.parametrize(
    ("thing", "counts"),
    [
        (labelled(), True),
        (labelled(kind="AppProject"), True),
        (labelled(kind="ApplicationSet"), False),
        (labelled(kind="Application", group="app.k8s.io/v1"), False),
        (labelled(kind="Secret", group="v1", secret_type="repository"), True),
        (labelled(kind="Secret", group="v1", secret_type="repo-creds"), True),
        (labelled(kind="Secret", group="v1", secret_type="cluster"), False),
        (labelled(kind="Secret", group="v1"), False),
        (labelled(kind="ConfigMap", group="v1", name="argocd-gpg-keys-cm"), True),
        (labelled(kind="ConfigMap", group="v1", name="argocd-cm"), False),
        ({"kind": []}, False),
    ],
)
def test_the_label_counts_on_what_is_carried(thing: dict[str, Any], counts: object) -> None:
    assert ignore_sync.counts_for(thing) is counts


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (None, labelled("true"), IgnoreSyncChange.NONE),
        (labelled("true"), labelled("true"), IgnoreSyncChange.NONE),
        (labelled("TRUE"), labelled("false"), IgnoreSyncChange.NONE),
        (labelled(), labelled("true"), IgnoreSyncChange.WITHDRAWN),
        (labelled("TRUE"), labelled("true"), IgnoreSyncChange.WITHDRAWN),
        (labelled("true"), labelled(), IgnoreSyncChange.SYNCED),
        (labelled("true"), labelled("false"), IgnoreSyncChange.SYNCED),
        (labelled(kind="ApplicationSet"), labelled("true", kind="ApplicationSet"), IgnoreSyncChange.NONE),
    ],
)
def test_what_a_change_of_the_label_does(old: Any, new: Any, change: IgnoreSyncChange) -> None:
    assert ignore_sync.change(old, new) is change
