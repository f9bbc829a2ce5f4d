"""The page's search: the two questions of `tiphys explain`, answered from what this principal knows."""

from collections.abc import Mapping
from dataclasses import replace

from argocd import names
from argocd.agents.vocabulary import Mode
from argocd.engine.directory import Directory, Shelf
from argocd.engine.summaries import summarize_secret
from argocd.explanations import account, project
from argocd.explanations.explanation import Explanation, UnexplainedError
from argocd.explanations.link import LinkExplanation, LinkStatus
from argocd.judging.case import Surroundings
from argocd.judging.configuration import Configuration
from argocd.reading import text
from argocd.settings.argocd_cm import read_settings
from argocd.tracking.ids import split_qualified
from kube import queries
from kube.errors import ForbiddenError
from kube.resources import CONFIG_MAPS, SECRETS
from kube.store import Object, Store
from sidecars.principal.fleet_page.rows import AgentPresence, facts
from sidecars.principal.principal import Principal

CLUSTERS = f"{names.SECRET_TYPE}={names.SECRET_TYPE_CLUSTER}"


class HubObjects:
    """`argocd.explanations.explanation.Known`, on the principal's caches."""

    where = "on this hub"

    def __init__(self, principal: Principal, *, argocd_cm: Object | None, clusters: list[Object]) -> None:
        self._hub_state = principal.hub_state
        usual = Configuration()
        self.configuration = replace(
            usual, argocd=replace(usual.argocd, namespace=self._hub_state.settings.namespace)
        )
        self._argocd_cm = argocd_cm
        self._clusters = clusters

    @property
    def surroundings(self) -> Surroundings:
        directory = Directory(argocd_namespace=self._hub_state.settings.namespace)
        for each in self._hub_state.projects.values():
            directory.put_project(each)
        directory.know(Shelf.PROJECTS)
        for secret in self._clusters:
            directory.put_secret(summarize_secret(secret))
        directory.know(Shelf.SECRETS)
        return Surroundings(
            settings=read_settings(self._argocd_cm, configuration=self.configuration),
            configuration=self.configuration,
            neighbours=directory,
        )

    def project(self, name: str) -> Mapping[str, object] | None:
        return self._hub_state.projects.get(name, namespace=self._hub_state.settings.namespace)

    def application(self, text: str) -> Mapping[str, object]:
        name, namespace = split_qualified(text, default_namespace=self._hub_state.settings.namespace)
        found = self._hub_state.applications.get(name, namespace=namespace)
        if found is None:
            raise UnexplainedError(
                f"there is no Application {namespace}/{name} {self.where}: write NAMESPACE/NAME"
            )
        return found


async def why_project(principal: Principal, name: str, *, agent: str) -> Explanation:
    known = HubObjects(principal, argocd_cm=None, clusters=[])
    link = _link(principal, agent)
    mode = link.mode or principal.hub_state.mode_of(agent) or Mode.MANAGED
    return project.explain(
        known, name, agent=agent, mode=mode, to=None, link=link, mappings=(principal.settings.mapped_by,)
    )


async def as_whom(store: Store, principal: Principal, application: str) -> Explanation:
    namespace = principal.settings.namespace
    try:
        argocd_cm = await queries.find(store, CONFIG_MAPS, name=names.ARGOCD_CM, namespace=namespace)
    except ForbiddenError:  # the answer says what it is taken for
        argocd_cm = None
    pages = queries.pages(store, SECRETS, namespace=namespace, label_selector=CLUSTERS)
    clusters = [secret async for page in pages for secret in page]
    return account.explain(HubObjects(principal, argocd_cm=argocd_cm, clusters=clusters), application)


def _link(principal: Principal, agent: str) -> LinkExplanation:
    namespace = principal.settings.namespace
    secrets = principal.hub_state.clusters.find("agent", agent)
    if not secrets:
        known = principal.hub_state.clusters.terms("agent")
        alike = next((str(each) for each in known if str(each).lower() == agent.lower()), "")
        return LinkExplanation(agent=agent, namespace=namespace, alike=alike)
    found = facts(principal, agent)
    status = None
    if found.state is not AgentPresence.NEVER_SEEN:
        status = LinkStatus(
            mode=found.mode,
            connected=found.state is AgentPresence.CONNECTED,
            queue=found.queue,
            lag_seconds=found.lag_seconds,
        )
    stuck = next((each for each in principal.record.stuck.of(agent) if each.kind == "Application"), None)
    return LinkExplanation(
        agent=agent,
        namespace=namespace,
        secret=text(secrets[0], "metadata", "name"),
        status=status,
        failed_application=stuck.place if stuck else "",
        last_error=stuck.words if stuck else "",
    )
