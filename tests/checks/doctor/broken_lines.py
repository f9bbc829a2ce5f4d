"""How each line of the doctor is made to be not green, and part of what it then tells."""

from dataclasses import replace
from datetime import timedelta

from argocd import names
from checks.doctor.diagnosis import CheckHealth
from tests.checks.doctor.breaking import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PROJECTS,
    ROLES,
    SECRETS,
    WEBHOOKS,
    Broken,
    added,
    another_webhook,
    bundle_gone,
    deployment,
    deserted_webhook,
    entry_gone,
    patched,
    proxy_switched_off,
    removed,
    settings,
)
from tests.checks.doctor.well_installation import ARGOCD, HOME, NO_WEBHOOK, SPOKE, TEAM
from tests.cluster.installation import AGENT

CLUSTER_SECRET = f"{SECRETS.format(ARGOCD)}/cluster-{AGENT}"
ERROR, WARNING = CheckHealth.ERROR, CheckHealth.WARNING
YEARS = timedelta(days=366)

BROKEN = [
    Broken("kubernetes/clock", ERROR, "this machine is", later=timedelta(minutes=3)),
    Broken(
        "kubernetes/argocd-namespace",
        ERROR,
        "there is no namespace gitops",
        options=lambda options: replace(options, argocd_namespace="gitops"),
    ),
    Broken(
        "kubernetes/own-namespace",
        ERROR,
        "both are in argocd",
        options=lambda options: replace(options, namespace=ARGOCD),
    ),
    Broken("installation/rights", ERROR, "you lack create namespaces", user="nobody"),
    Broken(
        "installation/leftovers",
        ERROR,
        "is registered and nobody answers",
        options=lambda options: replace(options, namespace=NO_WEBHOOK),
    ),
    Broken(
        "tiphys/installed",
        ERROR,
        "neither a webhook",
    ),
    Broken(
        "argocd/settings",
        ERROR,
        "there is no ConfigMap argocd/argocd-cm",
        removed(CONFIG_MAPS.format(ARGOCD), names.ARGOCD_CM),
    ),
    Broken(
        "argocd/version",
        ERROR,
        "Argo CD is 2.9",
        added(
            DEPLOYMENTS.format(ARGOCD), deployment("argocd-server", image="quay.io/argoproj/argocd:v2.9.1")
        ),
    ),
    Broken(
        "argocd/version",
        WARNING,
        "Argo CD is 3.1",
        added(
            DEPLOYMENTS.format(ARGOCD), deployment("argocd-server", image="quay.io/argoproj/argocd:v3.1.1")
        ),
    ),
    Broken(
        "argocd/tracking-method",
        ERROR,
        "none that Argo CD knows",
        settings(names.TRACKING_METHOD_KEY, "Label", namespace=SPOKE),
        spoke=True,
    ),
    Broken("argocd/tracking-method", WARNING, "it is label", settings(names.TRACKING_METHOD_KEY, "label")),
    Broken(
        "argocd/installation-id",
        ERROR,
        "argocd and argocd-spoke have the id hub",
        settings(names.INSTALLATION_ID_KEY, "hub", namespace=SPOKE, back="spoke"),
    ),
    Broken(
        "argocd/impersonation",
        ERROR,
        "the accounts of tenant are not used",
        added(
            PROJECTS.format(ARGOCD),
            {
                "apiVersion": names.API_VERSION,
                "kind": "AppProject",
                "metadata": {"name": "tenant"},
                "spec": {
                    "destinationServiceAccounts": [
                        {
                            "server": "https://kubernetes.default.svc",
                            "namespace": "web",
                            "defaultServiceAccount": "web",
                        }
                    ]
                },
            },
        ),
    ),
    Broken(
        "argocd/application-namespaces",
        ERROR,
        f"argocd-server shows no Application of {AGENT}",
        patched(
            f"{CONFIG_MAPS.format(ARGOCD)}/{names.ARGOCD_CMD_PARAMS_CM}",
            {"data": {names.APPLICATION_NAMESPACES_KEY: "other"}},
            back={"data": {names.APPLICATION_NAMESPACES_KEY: f"{AGENT},{TEAM}"}},
        ),
    ),
    Broken(
        "argocd/application-namespaces",
        WARNING,
        f"Argo CD takes Applications in {TEAM}, where Tiphys fails open",
        options=lambda options: replace(options, application_namespaces=()),
    ),
    Broken(
        "argocd/cluster-secrets",
        ERROR,
        f"lacks {names.SKIP_RECONCILE}",
        patched(
            CLUSTER_SECRET,
            {"metadata": {"annotations": {names.SKIP_RECONCILE: None}}},
            back={"metadata": {"annotations": {names.SKIP_RECONCILE: "true"}}},
        ),
    ),
    Broken(
        "webhook/rights",
        ERROR,
        "ServiceAccount tiphys-system/tiphys-webhook lacks",
        removed(ROLES.format(ARGOCD), "tiphys-webhook"),
    ),
    Broken(
        "webhook/rights",
        ERROR,
        f"list applications.argoproj.io in {TEAM}",
        removed(ROLES.format(TEAM), "tiphys-webhook"),
    ),
    Broken("webhook/replicas", ERROR, "none has renewed its Lease", later=timedelta(days=1)),
    Broken(
        "webhook/replicas",
        WARNING,
        "is alone",
        removed(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases", "tiphys-webhook-replica-second"),
    ),
    Broken("webhook/leader", ERROR, "nobody holds Lease", later=timedelta(days=1)),
    Broken(
        "webhook/configuration",
        ERROR,
        "profile",
        patched(
            f"{CONFIG_MAPS.format(HOME)}/tiphys",
            {"data": {"tiphys.yaml": "profile: unheard-of"}},
            back={"data": {"tiphys.yaml": ""}},
        ),
    ),
    Broken(
        "webhook/configuration",
        WARNING,
        "nothing is refused",
        patched(
            f"{CONFIG_MAPS.format(HOME)}/tiphys",
            {"data": {"tiphys.yaml": "enforcement: warn"}},
            back={"data": {"tiphys.yaml": ""}},
        ),
    ),
    Broken("webhook/certificate", ERROR, "ended", later=YEARS),
    Broken("webhook/registration", ERROR, "is not registered", entry_gone),
    Broken("webhook/ca-bundle", ERROR, "has no caBundle", bundle_gone),
    Broken("webhook/dry-run", ERROR, "it was accepted", entry_gone),
    Broken("principal/rights", ERROR, "lacks", removed(ROLES.format(ARGOCD), "tiphys-principal")),
    Broken(
        "principal/authority", ERROR, "does not exist", removed(SECRETS.format(ARGOCD), names.AGENT_CA_SECRET)
    ),
    Broken("principal/authority", ERROR, "no certificate that is still good", later=11 * YEARS),
    Broken("principal/certificate", ERROR, "ended", later=YEARS),
    Broken(
        "principal/proxy-certificates",
        ERROR,
        "argocd-redis-proxy-tls does not exist",
        removed(SECRETS.format(ARGOCD), names.REDIS_PROXY_TLS_SECRET),
    ),
    Broken(
        "principal/argocd-server",
        WARNING,
        "argocd-server asks its own Redis",
        added(DEPLOYMENTS.format(ARGOCD), deployment("argocd-server", image="argocd")),
    ),
    Broken(
        "principal/argocd-server",
        ERROR,
        "the principal has --disable-redis-proxy: nobody answers",
        proxy_switched_off,
    ),
    Broken("principal/certificate", WARNING, "should have been renewed", later=timedelta(days=300)),
    Broken(
        "principal/token-key",
        ERROR,
        "does not exist",
        removed(SECRETS.format(ARGOCD), names.AGENT_JWT_SECRET),
    ),
    Broken(
        "principal/blocklist",
        ERROR,
        "locks nobody out",
        added(CONFIG_MAPS.format(ARGOCD), {"metadata": {"name": names.TLS_BLOCKLIST}, "data": {"prod": ""}}),
    ),
    Broken("principal/agent-certificates", ERROR, f"those of {AGENT} have ended", later=YEARS),
    Broken("principal/lease", ERROR, "nobody holds Lease argocd/tiphys-principal", later=timedelta(days=1)),
    Broken(
        "principal/agents",
        ERROR,
        "1 of 2 agents is not connected: test",
        added(
            SECRETS.format(ARGOCD),
            {
                "metadata": {
                    "name": "cluster-test",
                    "labels": {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: "test"},
                },
                "stringData": {"name": "test", "server": "https://proxy:9090?agentName=test"},
            },
        ),
    ),
    Broken("agent/rights", ERROR, "lacks", removed(ROLES.format(SPOKE), "tiphys-agent"), spoke=True),
    Broken(
        "agent/certificate",
        ERROR,
        "does not exist",
        removed(SECRETS.format(SPOKE), names.AGENT_TLS_SECRET),
        spoke=True,
    ),
    Broken("agent/lease", ERROR, "nobody holds Lease", later=timedelta(days=1), spoke=True),
    Broken(
        "agent/address",
        ERROR,
        "principal.invalid has no address here",
        options=lambda options: replace(options, server_address="principal.invalid"),
        spoke=True,
    ),
    Broken(
        "agent/login",
        ERROR,
        "UNAVAILABLE",
        options=lambda options: replace(options, server_port=1),
        spoke=True,
    ),
    Broken("agent/clock", ERROR, "the principal's clock", later=timedelta(minutes=3), spoke=True),
    Broken(
        "neighbours/mutating-webhooks",
        WARNING,
        "Kyverno (kyverno-resource-mutating-webhook-cfg) may change",
        added(
            WEBHOOKS.format("mutating"),
            another_webhook(
                "kyverno-resource-mutating-webhook-cfg", kind="mutate", groups="argoproj.io", resources="*"
            ),
        ),
    ),
    Broken(
        "neighbours/validating-webhooks",
        WARNING,
        "Gatekeeper (gatekeeper-validating-webhook-configuration) judges",
        added(
            WEBHOOKS.format("validating"),
            another_webhook(
                "gatekeeper-validating-webhook-configuration", kind="validate", groups="*", resources="*"
            ),
        ),
    ),
    Broken(
        "neighbours/own-pods",
        WARNING,
        "Tiphys cannot start while it is away",
        added(
            WEBHOOKS.format("validating"),
            another_webhook("policies", kind="validate", groups="", resources="pods"),
        ),
    ),
    Broken(
        "neighbours/mutating-webhooks",
        ERROR,
        "Kyverno (kyverno-mutating) fails closed on Argo CD's objects in argocd, and its Service has nobody behind it",
        added(
            WEBHOOKS.format("mutating"),
            deserted_webhook("kyverno-mutating", groups="argoproj.io", resources="applicationsets"),
        ),
    ),
    Broken(
        "neighbours/validating-webhooks",
        ERROR,
        "Kyverno (kyverno-validating) fails closed on Argo CD's objects in argocd, and its Service has nobody behind it",
        added(
            WEBHOOKS.format("validating"),
            deserted_webhook("kyverno-validating", groups="argoproj.io", resources="applicationsets"),
        ),
    ),
    Broken(
        "neighbours/own-pods",
        ERROR,
        f"policies fails closed on pods in {HOME}, and its Service has nobody behind it",
        added(
            WEBHOOKS.format("validating"),
            deserted_webhook("policies", groups="", resources="pods"),
        ),
    ),
    Broken(
        "neighbours/argocd-agent",
        ERROR,
        "Deployment argocd-agent-principal in argocd is argocd-agent's",
        added(
            DEPLOYMENTS.format(ARGOCD),
            deployment("argocd-agent-principal", image="quay.io/argoprojlabs/argocd-agent:v0.9.0"),
        ),
    ),
]
