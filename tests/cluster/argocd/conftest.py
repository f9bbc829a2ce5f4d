"""`tiphys webhook`, enforcing, in front of a real Argo CD: both under the accounts that their manifests give them."""

from collections.abc import Iterator

import pytest

from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from tests.cluster.argocd.steered import Scene, Steered, config_map
from tests.webhook.conftest import ROOT
from tests.webhook.guarded_cluster import until
from tests.webhook.webhook_process import Guard

HOME = "tiphys-system"


@pytest.fixture(scope="session")
def steered(argo_cd: ArgoCd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steered]:
    """Shared: applications, projects and namespaces have names of their test's own."""
    cluster = argo_cd.cluster
    cluster.kubectl("apply", "--server-side", "-k", str(ROOT / "manifests" / "overlays" / "webhook-only"))
    guard = Guard(
        cluster=cluster,
        folder=tmp_path_factory.mktemp("guard"),
        home=HOME,
        argocd=NAMESPACE,
        kubeconfig=cluster.kubeconfig_of_account("tiphys-webhook", namespace=HOME),
    )
    guard.start()
    own, guard.kubeconfig = guard.kubeconfig, None  # an admin registers
    guard.register()
    guard.kubeconfig = own
    settings = f"/api/v1/namespaces/{NAMESPACE}/configmaps/argocd-cm"
    # The leader writes it while there is no Application: one before it would count as untracked for a while.
    until(
        lambda: (cluster.request("GET", settings).get("data") or {}).get("installationID"),
        what="an installation id",
    )
    yield Steered(argo_cd=argo_cd, guard=guard)
    guard.kubeconfig = None
    guard.unregister()
    guard.stop()


@pytest.fixture
def scene(steered: Steered) -> Iterator[Scene]:
    """With one ConfigMap `prices` in its repository's folder `shop`."""
    own = Scene.create(steered)
    own.repository.commit({"shop/prices.json": config_map("prices", tea="3")})
    yield own
    own.clear()
