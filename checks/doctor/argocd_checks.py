"""Argo CD: its kinds, and settings of its own that contradict what Tiphys does."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from argocd import names, reading
from argocd.globs import Verdict
from argocd.impersonation.derivation import entries_of
from argocd.projects.pattern_lists import in_list
from argocd.settings.argocd_cm import TrackingMethod
from checks.doctor.cluster_checks import NAMESPACE
from checks.doctor.diagnosis import Diagnosis, DoctorCheck, DoctorSection, counted, error, ok, some, warning
from checks.doctor.examined import Examined, InstalledPart
from kube import queries
from kube.errors import ForbiddenError
from kube.resources import APP_PROJECTS, CONFIG_MAPS, DEPLOYMENTS, SECRETS
from kube.secrets import decoded_data
from kube.store import Object
from sidecars.fleet.agents import Fleet
from webhook.registration.status import open_namespaces

KINDS = "argocd/crds"
SETTINGS = "argocd/settings"
WANTED = ("Application", "AppProject", "ApplicationSet")
CONFIG_MAP_LIMIT = 500


async def _kinds(examined: Examined) -> Diagnosis:
    served = await examined.store.discover(group=names.GROUP, version="v1alpha1")
    if lacking := [kind for kind in WANTED if kind not in served]:
        return error(
            f"{names.API_VERSION} has no {some(lacking)}",
            remedy="install Argo CD's custom resource definitions, on workload clusters too",
        )
    return ok(", ".join(WANTED))


async def _settings(examined: Examined) -> Diagnosis:
    namespace = examined.options.argocd_namespace
    if await examined.config_map(names.ARGOCD_CM) is None:
        return error(
            f"there is no ConfigMap {namespace}/{names.ARGOCD_CM}",
            remedy="install Argo CD, or say where it is: --argocd-namespace",
        )
    return ok(f"ConfigMap {namespace}/{names.ARGOCD_CM}")


async def _version(examined: Examined) -> Diagnosis:
    page = await examined.store.list(DEPLOYMENTS, namespace=examined.options.argocd_namespace)
    versions = sorted({version for deployment in page.items for version in _versions(deployment)})
    if not versions:
        return ok("no image here tells it")
    configuration, _ = await examined.configuration()
    judged = configuration.argocd.version[:2]
    if any(version != judged for version in versions):
        told = " and ".join(".".join(map(str, version)) for version in versions)
        meant = ".".join(map(str, judged))
        # The next minor release adds; another major one has other defaults, that of tracking among them.
        diagnose = warning if all(version[0] == judged[0] for version in versions) else error
        return diagnose(
            f"Argo CD is {told}, and rules judge as {meant} would",
            remedy=f'write `argocd: {{version: "{".".join(map(str, versions[-1]))}"}}` in ConfigMap'
            f" {examined.options.namespace}/{names.TIPHYS_CONFIG_MAP}",
        )
    return ok(".".join(map(str, judged)))


def _versions(deployment: Object) -> Iterator[tuple[int, ...]]:
    for container in reading.sequence(deployment, "spec", "template", "spec", "containers"):
        if found := re.search(r"/argocd:v(\d+)\.(\d+)\.", reading.text(container, "image")):
            yield int(found[1]), int(found[2])


async def _tracking(examined: Examined) -> Diagnosis:
    method = (await examined.settings()).tracking_method
    if method is TrackingMethod.UNKNOWN:
        return error(
            f"{names.TRACKING_METHOD_KEY} of {names.ARGOCD_CM} is none that Argo CD knows: it trusts every annotation",
            remedy=f"write {TrackingMethod.ANNOTATION.value}",
        )
    if method is TrackingMethod.LABEL:
        return warning(
            f"it is label: Helm charts and operators write {names.INSTANCE_LABEL} too",
            remedy=f"tiphys tracking migrate --to {TrackingMethod.ANNOTATION.value}",
        )
    return ok(method.value)


async def _installation_id(examined: Examined) -> Diagnosis:
    mine = (await examined.settings()).installation_id or ""
    try:
        found = await examined.store.list(
            CONFIG_MAPS, field_selector=f"metadata.name={names.ARGOCD_CM}", limit=CONFIG_MAP_LIMIT
        )
    except ForbiddenError as refusal:
        return warning(f"other installations are not seen: {refusal}", remedy="ask as a cluster admin")
    others = [
        reading.text(each, "metadata", "namespace")
        for each in found.items
        if reading.text(each, "metadata", "namespace") != examined.options.argocd_namespace
        and reading.text(each, "data", names.INSTALLATION_ID_KEY) == mine
    ]
    if others:
        told = f"have the id {mine}" if mine else "have no installation id"
        return error(
            f"{examined.options.argocd_namespace} and {some(others)} {told}: each may prune what the other deployed",
            remedy="tiphys installation-id ensure --yes" + (" --renew" if mine else ""),
        )
    return ok(mine or "none is needed")


async def _impersonation(examined: Examined) -> Diagnosis:
    switch = (await examined.settings()).impersonation
    naming: list[str] = []
    silent: list[str] = []
    pages = queries.pages(examined.store, APP_PROJECTS, namespace=examined.options.argocd_namespace)
    async for page in pages:
        for project in page:
            named = bool(entries_of(project))
            (naming if named else silent).append(reading.text(project, "metadata", "name"))
    if naming and not switch.enabled:
        return error(
            f"it is off, so the accounts of {some(naming)} are not used: they sync as Argo CD itself",
            remedy=f'write {names.IMPERSONATION_ENABLED_KEY}: "true" in {names.ARGOCD_CM}',
        )
    if switch.enabled and switch.enforced and silent:
        return warning(
            f"it is on, and Applications of {some(silent)} do not sync: these projects name no account",
            remedy="give them destinationServiceAccounts; `tiphys explain service-account` tells which is used",
        )
    return ok("on" if switch.enabled else "off")


async def _application_namespaces(examined: Examined) -> Diagnosis:
    enabled = (await examined.settings()).application_namespaces or ()
    parameters = f"{names.APPLICATION_NAMESPACES_KEY} of {names.ARGOCD_CMD_PARAMS_CM}"
    if await examined.has(InstalledPart.PRINCIPAL) and (unseen := await _unseen_agents(examined, enabled)):
        return error(
            f"argocd-server shows no Application of {some(unseen)}: {parameters} does not have their namespaces",
            remedy=f"add them there, separated by commas, and restart Argo CD: {','.join(unseen)}",
        )
    if await examined.has(InstalledPart.WEBHOOK) and (
        others := await open_namespaces(examined.store, examined.registration, enabled)
    ):
        return warning(
            f"Argo CD takes Applications in {some(others)}, where Tiphys fails open",
            remedy="start the webhook, `register` and this command with --application-namespace for each",
        )
    return ok(", ".join(enabled) or "Argo CD's own alone")


async def _unseen_agents(examined: Examined, enabled: Sequence[str]) -> list[str]:
    fleet = Fleet(store=examined.store, namespace=examined.options.argocd_namespace)
    return [agent.name for agent in await fleet.all() if in_list(enabled, agent.name) is Verdict.NO]


async def _clusters(examined: Examined) -> Diagnosis:
    secrets: list[Object] = []
    selector = f"{names.SECRET_TYPE}={names.SECRET_TYPE_CLUSTER}"
    async for page in queries.pages(
        examined.store, SECRETS, namespace=examined.options.argocd_namespace, label_selector=selector
    ):
        secrets += page
    problems = [*_doubled(secrets), *(line for secret in secrets for line in _agent_problems(secret))]
    if problems:
        return error(
            some(problems), remedy="correct the Secret, or `tiphys agents remove` and `create` the agent anew"
        )
    return ok(counted(len(secrets), "cluster"))


def _doubled(secrets: Sequence[Object]) -> Iterator[str]:
    for key in ("name", "server"):
        counts = Counter(decoded_data(secret).get(key, b"").decode(errors="replace") for secret in secrets)
        for value, count in counts.items():
            if value and count > 1:
                yield f"{count} cluster Secrets have the {key} {value}"


def _agent_problems(secret: Object) -> Iterator[str]:
    """An agent's cluster is reached through the principal, and nobody but the agent syncs to it."""
    agent = reading.text(secret, "metadata", "labels", names.AGENT_NAME)
    name = reading.text(secret, "metadata", "name")
    if not agent:
        return
    if reading.text(secret, "metadata", "annotations", names.SKIP_RECONCILE) != "true":
        yield f"Secret {name} lacks {names.SKIP_RECONCILE}: Argo CD here and at {agent} both sync to it"
    server = decoded_data(secret).get("server", b"").decode(errors="replace")
    if not re.search(rf"[?&]{names.AGENT_QUERY_PARAMETER}={re.escape(agent)}(&|$)", server):
        yield f"Secret {name}: the server {server or '(none)'} does not say {names.AGENT_QUERY_PARAMETER}={agent}"


_here = (KINDS, SETTINGS)

SECTION = DoctorSection(
    title="argo-cd",
    checks=(
        DoctorCheck(id=KINDS, title="Argo CD's kinds are served", look=_kinds, needs=(NAMESPACE,)),
        DoctorCheck(id=SETTINGS, title="Argo CD has its settings", look=_settings, needs=(NAMESPACE,)),
        DoctorCheck(
            id="argocd/version", title="rules judge as this Argo CD would", look=_version, needs=_here
        ),
        DoctorCheck(
            id="argocd/tracking-method",
            title="the tracking method is a safe one",
            look=_tracking,
            needs=_here,
        ),
        DoctorCheck(
            id="argocd/installation-id",
            title="no other Argo CD takes its objects for its own",
            look=_installation_id,
            needs=_here,
        ),
        DoctorCheck(
            id="argocd/impersonation",
            title="impersonation and projects agree",
            look=_impersonation,
            needs=_here,
        ),
        DoctorCheck(
            id="argocd/application-namespaces",
            title="the namespaces of Applications are known to all",
            look=_application_namespaces,
            needs=_here,
        ),
        DoctorCheck(
            id="argocd/cluster-secrets",
            title="cluster Secrets name each cluster once",
            look=_clusters,
            needs=_here,
        ),
    ),
)
