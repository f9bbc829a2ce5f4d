"""Good and bad objects of every kind through kubectl on a real API server that asks Tiphys."""

import re
from collections.abc import Iterator

import pytest

from tests.webhook.guarded_cluster import GOLDEN, Guarded, compare_with_golden, until

BAD = (GOLDEN / "admission" / "bad.yaml").read_text()
GOOD = (GOLDEN / "admission" / "good.yaml").read_text()
WAYS = [("apply",), ("apply", "--server-side"), ("create",), ("apply", "--dry-run=server")]

PROJECT = """
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %s}
spec: {sourceRepos: ["%s"]}
"""


def plain(guarded: Guarded, text: str) -> str:
    """Without what differs from run to run: the namespace, kubectl's quotation of the whole manifest, and
    warnings, some of which are about what other tests have left in the cluster.
    """
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("Warning: "))
    return re.sub(r"\\\"|\n(Resource|Name): .*|for: \"STDIN\": ", "", text.replace(guarded.argocd, "argocd"))


@pytest.fixture
def good(guarded: Guarded) -> Iterator[Guarded]:
    """The good objects, before and gone after: `argocd-cm` among them changes what other tests meet."""
    yield guarded
    delete = ("delete", "--ignore-not-found", "-n", guarded.argocd, "-f", "-")
    until(  # a project may go once the webhook has seen its applications go
        lambda: guarded.kubectl(*delete, stdin=_reversed(GOOD), check=False).returncode == 0,
        what="all of them are gone",
    )


def _reversed(documents: str) -> str:
    """Applications before the project that they use."""
    return "\n---\n".join(reversed(documents.split("\n---\n")))


def test_all_findings_of_every_bad_object_are_shown_as_the_golden_file_says(guarded: Guarded) -> None:
    done = guarded.write(BAD, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "never-shown" not in done.stderr
    compare_with_golden("admission/bad.txt", plain(guarded, done.stderr))


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_bad_objects_are_refused_however_they_come(guarded: Guarded, way: tuple[str, ...]) -> None:
    done = guarded.write(BAD, *way, check=False)
    assert done.stdout == ""
    assert done.stderr.count("Tiphys refuses this ") == 9


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_good_objects_pass_however_they_come(good: Guarded, way: tuple[str, ...]) -> None:
    done = good.write(GOOD, *way)
    assert len(done.stdout.splitlines()) == 8
    # One apply brings an application and its project: rules on neighbours may warn, nothing else has a word.
    assert all("-unknown: " in line for line in done.stderr.splitlines())


def test_once_everything_is_there_nothing_is_said_any_more(good: Guarded) -> None:
    good.write(GOOD)
    changed = GOOD.replace("targetRevision: v1.0.0", "targetRevision: v1.0.1")
    until(
        lambda: good.write(changed, "--dry-run=server").stderr == "",
        what="good objects among good neighbours",
    )


def test_a_good_object_cannot_be_edited_or_patched_into_a_bad_one(guarded: Guarded) -> None:
    guarded.write(PROJECT % ("edited", "https://example.test"))
    edit = ("patch", "appproject", "edited", "-n", guarded.argocd, "--type=merge", "-p")
    refused = guarded.kubectl(*edit, '{"spec": {"sourceRepos": ["!*"]}}', check=False)
    assert "Tiphys refuses this AppProject edited: 1 finding" in refused.stderr
    assert guarded.kubectl(*edit, '{"spec": {"description": "still good"}}').stderr == ""


def test_warnings_are_shown_and_the_object_is_stored(guarded: Guarded) -> None:
    done = guarded.write(PROJECT % ("warned", "ssh://git@example.test:shop/deploy"))
    assert "Warning: project/source-repo-unreadable: spec.sourceRepos[0]: " in done.stderr
    assert "appproject.argoproj.io/warned created" in done.stdout


def test_a_project_in_use_and_the_default_project_cannot_be_deleted(guarded: Guarded) -> None:
    application = """
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: user-of-used}
spec:
  project: used
  source: {repoURL: "https://example.test", path: ., targetRevision: v1}
  destination: {server: "https://kubernetes.default.svc", namespace: shop}
"""
    guarded.write(f"{PROJECT % ('used', 'https://example.test')}---{application}")
    delete = ("delete", "appproject", "used", "-n", guarded.argocd)
    refused = until(
        lambda: (done := guarded.kubectl(*delete, "--dry-run=server", check=False)).returncode and done,
        what="the deletion of a project in use is refused",
    )
    assert "user-of-used" in refused.stderr
    guarded.kubectl("delete", "application", "user-of-used", "-n", guarded.argocd)
    until(
        lambda: guarded.kubectl(*delete, check=False).returncode == 0, what="an unused project can be deleted"
    )
    guarded.write(PROJECT % ("default", "https://example.test"))
    assert (
        "default"
        in guarded.kubectl("delete", "appproject", "default", "-n", guarded.argocd, check=False).stderr
    )


def test_a_secret_is_judged_while_it_has_the_label_or_had_it_and_others_are_never_seen(
    guarded: Guarded,
) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plain"}}
    labelled = {
        **secret,
        "metadata": {"name": "labelled", "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "stringData": {"url": "https://example.test"},
    }
    guarded.write([secret, labelled])
    asked = _reviews(guarded, "Secret")
    assert guarded.write({**secret, "stringData": {"server": "x"}}).stderr == ""
    assert _reviews(guarded, "Secret") == asked
    losing = '{"metadata": {"labels": null}, "data": {"url": null}}'
    patch = ("patch", "secret", "labelled", "-n", guarded.argocd, "--type=merge", "-p", losing)
    assert "Tiphys refuses this Secret labelled" in guarded.kubectl(*patch, check=False).stderr


def _reviews(guarded: Guarded, kind: str) -> float:
    _, page = guarded.guard.page("/metrics")
    lines = [line for line in page.splitlines() if line.startswith("tiphys_webhook_reviews_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if f'kind="{kind}"' in line)
