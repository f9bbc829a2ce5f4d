"""`impersonation.check-writer`: who names an account in a project must be allowed to act as it."""

from collections.abc import Iterator

import pytest

from tests.webhook.guarded_cluster import Guarded, until

PROJECT = """
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %s}
spec:
  sourceRepos: ["https://example.test"]
  destinations: [{server: "https://kubernetes.default.svc", namespace: web}]
  destinationServiceAccounts:
  - {server: "%s", namespace: "%s", defaultServiceAccount: %s}
"""
HERE = "https://kubernetes.default.svc"


@pytest.fixture(scope="module")
def checked(guarded: Guarded) -> Iterator[Guarded]:
    """With the switch on; `dev` may write projects, and act as the account web/deployer alone."""
    cluster = guarded.cluster
    projects = {"apiGroups": ["argoproj.io"], "resources": ["appprojects"], "verbs": ["*"]}
    cluster.grant(user="dev", namespace=guarded.argocd, rules=[projects])
    acting = {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "verbs": ["impersonate"],
        "resourceNames": ["deployer"],
    }
    cluster.create_namespace("web")
    cluster.grant(user="dev", namespace="web", rules=[acting])
    with guarded.configured("impersonation: {check-writer: true}"):
        until(
            lambda: "may not impersonate" in told(guarded, "probe", account="admin"), what="the switch counts"
        )
        yield guarded
    cluster.drop_namespace("web")


def told(
    guarded: Guarded,
    name: str,
    *,
    server: str = HERE,
    namespace: str = "web",
    account: str,
    user: str = "dev",
) -> str:
    done = guarded.cluster.kubectl(
        *("apply", "-n", guarded.argocd, "--dry-run=server", "-f", "-"),
        stdin=PROJECT % (name, server, namespace, account),
        kubeconfig=guarded.cluster.kubeconfig_of(user, groups=("system:masters",) if user == "root" else ()),
        check=False,
    )
    return done.stderr


def test_an_account_that_the_writer_may_not_be_is_refused(checked: Guarded) -> None:
    said = told(checked, "wrong", account="admin")
    assert (
        "spec.destinationServiceAccounts[0].defaultServiceAccount: dev may not impersonate the service account web/admin"
        in said
    )
    assert "kube-system/clusterrole-controller" in told(
        checked, "far", account="kube-system:clusterrole-controller"
    )


def test_an_account_that_the_writer_may_be_passes_and_so_does_everybody_who_may_all(checked: Guarded) -> None:
    assert "refuses" not in told(checked, "right", account="deployer")
    assert "refuses" not in told(checked, "root", account="admin", user="root")


@pytest.mark.parametrize(
    ("server", "namespace", "account", "said"),
    [
        (HERE, "kube-syste[m]", "deployer", "service accounts deployer of every namespace"),
        (HERE, "web*", "deployer", "service accounts deployer of every namespace"),
        (HERE, "", "argocd-application-controller", "argocd-application-controller of every namespace"),
        ("https://kubernetes.default.svc.cluster.local", "web", "admin", "the service account web/admin"),
        ("*", "web", "admin", "the service account web/admin"),
    ],
    ids=["one-meaning", "glob", "no-namespace", "other-url", "any-server"],
)
def test_no_way_of_writing_an_account_passes_by(
    checked: Guarded, server: str, namespace: str, account: str, said: str
) -> None:
    denial = told(checked, "by-the-way", server=server, namespace=namespace, account=account)
    assert "dev may not impersonate" in denial
    assert said in denial


def test_seventeen_entries_at_once_are_refused(checked: Guarded) -> None:
    entry = PROJECT.splitlines()[-1] % (HERE, "web", "deployer")
    others = [entry.replace("web", f"web-{number}") for number in range(17)]
    done = checked.cluster.kubectl(
        *("apply", "-n", checked.argocd, "--dry-run=server", "-f", "-"),
        stdin=PROJECT % ("many", HERE, "web", "deployer") + "\n".join(others),
        kubeconfig=checked.cluster.kubeconfig_of("dev"),
        check=False,
    )
    assert "this entry and those after it were not checked" in done.stderr


def test_who_may_impersonate_everywhere_may_write_globs(checked: Guarded) -> None:
    acting = {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "verbs": ["impersonate"],
        "resourceNames": ["deployer"],
    }
    projects = {"apiGroups": ["argoproj.io"], "resources": ["appprojects"], "verbs": ["*"]}
    checked.cluster.grant(user="wide", rules=[acting])
    checked.cluster.grant(user="wide", namespace=checked.argocd, rules=[projects])
    for namespace in ("web-*", "", "web"):
        assert "refuses" not in told(checked, "wide", namespace=namespace, account="deployer", user="wide")
    assert "may not impersonate" in told(checked, "wide", namespace="*", account="admin", user="wide")


def test_other_clusters_are_not_asked_about(checked: Guarded) -> None:
    said = told(checked, "beyond", server="https://elsewhere.test", account="admin")
    assert "may not impersonate" not in said


def test_an_old_entry_that_only_moves_is_not_asked_about(checked: Guarded) -> None:
    first, second = (PROJECT.splitlines()[-1] % (HERE, namespace, "admin") for namespace in ("shop", "web"))
    whole = PROJECT % ("moved", HERE, "shop", "admin") + second + "\n"
    checked.write(whole)
    shorter = whole.replace(first + "\n", "")
    assert shorter.count("defaultServiceAccount:") == 1
    done = checked.cluster.kubectl(
        *("apply", "-n", checked.argocd, "-f", "-"),
        stdin=shorter,
        kubeconfig=checked.cluster.kubeconfig_of("dev"),
    )
    assert "may not impersonate" not in done.stderr


def test_argo_cd_itself_and_unchanged_entries_are_not_asked(checked: Guarded) -> None:
    done = checked.write(PROJECT % ("old", HERE, "web", "admin"))
    assert done.returncode == 0
    change = PROJECT.replace("https://example.test", "https://other.test")
    kubeconfig = checked.cluster.kubeconfig_of("dev")
    apply = ("apply", "-n", checked.argocd, "-f", "-")
    again = checked.cluster.kubectl(
        *apply, stdin=change % ("old", HERE, "web", "admin"), kubeconfig=kubeconfig
    )
    assert "may not impersonate" not in again.stderr
