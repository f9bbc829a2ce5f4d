"""Which kinds Argo CD looks at."""

import pytest

from argocd.settings.argocd_cm import ResourceFilter, Settings
from argocd.settings.resource_filters import covers, is_excluded

FOO = ResourceFilter(groups=("foo.io",), kinds=("Foo",))


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("events.k8s.io", "Event"),
        ("metrics.k8s.io", "PodMetrics"),
        ("", "Event"),
        ("coordination.k8s.io", "Lease"),
    ],
)
def test_some_kinds_are_never_watched(group: str, kind: str) -> None:
    assert is_excluded(Settings(), group=group, kind=kind)


def test_everything_else_is_watched_by_default() -> None:
    assert not is_excluded(Settings(), group="", kind="Secret")


def test_an_exclusion_beats_an_inclusion() -> None:
    settings = Settings(exclusions=(FOO,), inclusions=(FOO,))
    assert is_excluded(settings, group="foo.io", kind="Foo")


def test_an_inclusion_leaves_everything_else_out() -> None:
    settings = Settings(inclusions=(FOO,))
    assert not is_excluded(settings, group="foo.io", kind="Foo")
    assert is_excluded(settings, group="foo.io", kind="Bar")


def test_an_inclusion_for_another_cluster_says_nothing_here() -> None:
    settings = Settings(inclusions=(ResourceFilter(groups=("foo.io",), clusters=("https://c1",)),))
    assert not is_excluded(settings, group="", kind="Secret", cluster="https://c2")
    assert is_excluded(settings, group="", kind="Secret", cluster="https://c1")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (ResourceFilter(), True),
        (ResourceFilter(groups=("*.io",)), True),
        (ResourceFilter(groups=("bar.io", "foo.io")), True),
        (ResourceFilter(groups=("*.com",)), False),
        (ResourceFilter(groups=("[",)), False),
        (ResourceFilter(kinds=("*",)), True),
        (ResourceFilter(kinds=("F*",)), False),
        (ResourceFilter(clusters=("https://*",)), True),
        (ResourceFilter(clusters=("other",)), False),
    ],
)
def test_groups_and_clusters_are_globs_and_kinds_are_not(entry: ResourceFilter, *, expected: bool) -> None:
    assert covers(entry, group="foo.io", kind="Foo", cluster="https://c1") is expected
