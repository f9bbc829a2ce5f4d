"""What is in a cluster already."""

from datetime import date

import pytest

from argocd import names
from argocd.judging.configuration import Configuration
from checks.scan import Scan
from kube.embedded.store import EmbeddedStore
from kube.resources import CONFIG_MAPS

BAD = {
    names.ARGOCD_CM: ({"users.session.duration": "1h30m"}, "settings/value"),
    names.ARGOCD_RBAC_CM: ({"policy.default": "readonly"}, "rbac/default"),
    names.ARGOCD_CMD_PARAMS_CM: ({"server.insecure": "yes"}, "parameters/value"),
}


@pytest.mark.parametrize("name", sorted(BAD))
async def test_each_of_argo_cds_config_maps_is_judged(name: str) -> None:
    data, rule = BAD[name]
    store = EmbeddedStore(namespaces=[names.DEFAULT_NAMESPACE])
    await store.create(
        CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, namespace=names.DEFAULT_NAMESPACE
    )
    scanned = await Scan(store, Configuration(), today=date(2026, 9, 1)).run()
    assert [(found.rule, str(found.place)) for found in scanned.result.findings] == [
        (rule, f"ConfigMap/{names.DEFAULT_NAMESPACE}/{name}")
    ]
