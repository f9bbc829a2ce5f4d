"""What an agent lets its principal see and do of its cluster, by its own Applications, projects and argocd-cm."""

from argocd import names
from argocd.agents.vocabulary import Target
from argocd.judging.configuration import Configuration
from argocd.reading import text
from argocd.settings.argocd_cm import Settings, read_settings
from kube.cache import Cache
from kube.live.raw import RawApi
from kube.projections import whole
from kube.resources import CONFIG_MAPS
from kube.store import Object, Store
from sidecars.agent.agent import Agent
from sidecars.mirroring.kinds import APPLICATION, PROJECT
from sidecars.proxies.agent_resources import DisabledResources, ResourceHandler
from sidecars.proxies.discovery import Discovery
from sidecars.proxies.logs.agent_logs import LOG, LogHandler
from sidecars.proxies.own_applications import OwnApplications
from sidecars.proxies.ownership import Ownership
from sidecars.proxies.pods.access import Pods
from sidecars.proxies.pods.agent_calls import AgentCalls
from sidecars.proxies.pods.data_handler import DataHandler, DisabledData
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.terminal.agent_terminals import TERMINALS, TerminalHandler, TerminalLimits


class LiveObjects:
    """`run` until cancelled: follows argocd-cm. `api` is None where this cluster's API cannot be asked as it is."""

    def __init__(self, store: Store, api: RawApi | None, *, agent: Agent, calls: AgentCalls) -> None:
        self._settings = Settings()
        self._cache: Cache[Object] | None = None
        settings = agent.settings
        self._logs: DataHandler = DisabledData(LOG, calls, message="this agent shows no logs: --enable-logs")
        self._terminals: DataHandler = DisabledData(
            TERMINALS, calls, message="this agent opens no terminals: --enable-exec"
        )
        if api is None or not (settings.resource_proxy or settings.logs or settings.terminals):
            agent.dispatcher.serve(Target.RESOURCE, DisabledResources())
            agent.dispatcher.serve(Target.CONTAINER_LOG, self._logs)
            agent.dispatcher.serve(Target.TERMINAL, self._terminals)
            return
        self._cache = Cache(
            store,
            CONFIG_MAPS,
            projection=whole,
            namespace=settings.namespace,
            field_selector=f"metadata.name={names.ARGOCD_CM}",
        )
        self._cache.subscribe(self._read)
        clock = agent.timing.monotonic
        state = agent.agent_state
        self.applications = OwnApplications(
            namespace=settings.namespace,
            find=lambda namespace, name: (
                state.get(APPLICATION, name=name, namespace=namespace) if settings.allows(namespace) else None
            ),
            every=lambda: (
                each
                for each in state.all(APPLICATION)
                if settings.allows(text(each, "metadata", "namespace"))
            ),
            project=lambda name: state.get(PROJECT, name=name, namespace=settings.namespace),
            settings=self._known_settings,
            allowed_namespaces=settings.resource_proxy_namespaces,
        )
        discovery = Discovery(api, clock=clock)
        self.ownership = Ownership(
            api,
            discovery=discovery,
            applications=self.applications,
            namespace=settings.namespace,
            clock=clock,
        )
        if settings.resource_proxy:
            handler = ResourceHandler(
                api, discovery=discovery, ownership=self.ownership, applications=self.applications
            )
            agent.dispatcher.serve(Target.RESOURCE, handler, place=handler.place)
        else:
            agent.dispatcher.serve(Target.RESOURCE, DisabledResources())
        pods = Pods(api, ownership=self.ownership, applications=self.applications)
        if settings.logs:
            self._logs = LogHandler(pods, calls)
        agent.dispatcher.serve(Target.CONTAINER_LOG, self._logs)
        if settings.terminals:
            limits = TerminalLimits(total=settings.terminal_seconds, idle=settings.terminal_idle_seconds)
            self._terminals = TerminalHandler(pods, calls, limits=limits)
        agent.dispatcher.serve(Target.TERMINAL, self._terminals)

    async def run(self) -> None:
        try:
            if self._cache is not None:
                await self._cache.run()
        finally:
            await self._logs.close()
            await self._terminals.close()

    def _known_settings(self) -> Settings:
        """Raises RefusedRequestError: without argocd-cm another installation's objects would look like ours."""
        if self._cache is not None and not self._cache.has_synced:
            error = self._cache.health.error
            raise RefusedRequestError(
                f"this agent has not read {names.ARGOCD_CM} yet, which says how objects are tracked"
                f"{': ' + error[:300] if error else ''}",
                status=503,
            )
        return self._settings

    def _read(self, _old: Object | None, new: Object | None) -> None:
        self._settings = read_settings(new, configuration=Configuration())
