"""What a worker knows of the cluster, kept by watches and never asked for while a review waits.

Each worker has its own: a review reads plain memory. What a rule does not need is dropped while decoding.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from argocd import names, reading
from argocd.agents.modes import autonomous_agents
from argocd.engine.directory import Directory, Shelf
from argocd.engine.sections import ConfigurationProblem
from argocd.engine.summaries import summarize, summarize_secret
from argocd.judging.case import Surroundings
from argocd.judging.configuration import Configuration, Role
from argocd.settings.argocd_cm import Settings, read_settings
from kube.cache import Cache, Health
from kube.projections import shared
from kube.resources import (
    APP_PROJECTS,
    APPLICATIONS,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from kube.store import Object, Resource, Store
from webhook.admission.configuration_map import configuration_in
from webhook.injection.templates import CONFIG_MAP as TEMPLATES_CONFIG_MAP
from webhook.injection.templates import Template, TemplateError, parse_template

SYNC_SECONDS = 30.0
"""How long the first review waits for the caches at most; rules on neighbours are silent until they stand."""

STALE_SECONDS = 180.0
"""Bookmarks come about every minute: three without one, and what we know may be wrong. Then we do not speak."""

LOOK_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look: Tiphys's own namespace, Argo CD's, and those that Applications may be in besides."""

    home: str = names.TIPHYS_NAMESPACE
    argocd_namespace: str = names.DEFAULT_NAMESPACE
    application_namespaces: tuple[str, ...] = ()
    secrets: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What decisions rest on; replaced as a whole when the configuration or settings change."""

    surroundings: Surroundings
    namespace: Callable[[str], Mapping[str, Any]] = lambda _: {}
    templates: Mapping[str, Template] = field(default_factory=dict)


class ClusterState:
    """Runs the caches and holds the newest `snapshot`. `troubles` are what a person should read."""

    def __init__(self, store: Store, scope: Scope, *, told: Callable[[str, str], None]) -> None:
        """`told(what, trouble)` hears when something became wrong (or, with an empty text, right again)."""
        self._store = store
        self._scope = scope
        self._told = told
        self.troubles: dict[str, str] = {}
        self.directory = Directory(argocd_namespace=scope.argocd_namespace)
        self._configuration = self._placed(Configuration())
        self._settings_map: Object | None = None
        self._parameters_map: Object | None = None
        self._modes_map: Object | None = None
        self._pair_map: Object | None = None
        self._agents: dict[str, Object] = {}
        """Cluster Secrets of agents, without their data."""
        self._templates: dict[str, Template] = {}
        self._namespaces: dict[str, Object] = {}
        self._running: list[asyncio.Task[None]] = []
        self._shelves: dict[Shelf, list[Cache[Any]]] = {}
        self.caches: dict[str, Cache[Any]] = {}
        self.snapshot = self._taken()

    @property
    def configuration(self) -> Configuration:
        return self._configuration

    @property
    def health(self) -> Mapping[str, Health]:
        return {name: cache.health for name, cache in self.caches.items()}

    # Running

    async def start(self) -> None:
        """Returns when everything stands, or after a bound: an API server that is away must not keep us away."""
        self._build()
        self._running = [asyncio.create_task(cache.run(), name=name) for name, cache in self.caches.items()]
        self._watching = asyncio.create_task(self._watch_over(), name="freshness of caches")
        standing = asyncio.create_task(self._stand(), name="first lists")
        await asyncio.wait(
            {standing, *self._running}, timeout=SYNC_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        standing.cancel()

    async def run_configuration(self) -> None:
        """Only what Tiphys is told, for the keeper's pages; ends by cancellation."""
        self._watch_one("configuration", self._scope.home, names.TIPHYS_CONFIG_MAP, self._configure)
        await self.caches["configuration"].run()

    async def failed(self) -> None:
        """A cache ends only by an error of our own code: then this process must not go on with old knowledge."""
        done, _ = await asyncio.wait({*self._running, self._watching}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def stop(self) -> None:
        tasks = [*self._running, self._watching]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._store.close()

    async def _stand(self) -> None:
        for cache in self.caches.values():
            await cache.synced()
        self._look()

    async def _watch_over(self) -> None:
        """Silence is no event, so this one thing goes by the clock."""
        while True:
            self._look()
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        for shelf, caches in self._shelves.items():
            fresh = all(cache.has_synced and cache.health.silence < STALE_SECONDS for cache in caches)
            self.directory.know(shelf, known=fresh)

    # Building

    def _build(self) -> None:
        scope, directory = self._scope, self.directory
        self._watch_one("configuration", scope.home, names.TIPHYS_CONFIG_MAP, self._configure)
        self._watch_one("templates", scope.home, TEMPLATES_CONFIG_MAP, self._take_templates)
        self._watch_one("argocd-cm", scope.argocd_namespace, names.ARGOCD_CM, self._take_settings)
        self._watch_one(
            "argocd-cmd-params-cm",
            scope.argocd_namespace,
            names.ARGOCD_CMD_PARAMS_CM,
            self._take_parameters,
        )
        self._watch_one("agent modes", scope.argocd_namespace, names.AGENT_MODES, self._take_modes)
        self._watch_one("pair", scope.argocd_namespace, names.HA_RECORD, self._take_pair)
        self._keep(
            Shelf.PROJECTS,
            APP_PROJECTS,
            directory.put_project,
            directory.drop_project,
            namespace=scope.argocd_namespace,
        )
        for namespace in (scope.argocd_namespace, *scope.application_namespaces):
            self._keep(
                Shelf.APPLICATIONS,
                APPLICATIONS,
                directory.put_application,
                directory.drop_application,
                namespace=namespace,
            )
        if scope.secrets:
            self._keep(
                Shelf.SECRETS,
                SECRETS,
                directory.put_secret,
                directory.drop_secret,
                namespace=scope.argocd_namespace,
                labels=names.SECRET_TYPE,
                projection=summarize_secret,
            )
            self._shelves[Shelf.SECRETS][0].subscribe(self._take_secret)
            # Those that generators name have no label: of all of them nothing but the name is kept.
            self._keep(
                Shelf.SECRET_NAMES,
                SECRETS,
                directory.put_secret_name,
                directory.drop_secret_name,
                namespace=scope.argocd_namespace,
                metadata_only=True,
                projection=_only_name,
            )
        self._keep(
            Shelf.CONFIG_MAP_NAMES,
            CONFIG_MAPS,
            directory.put_config_map_name,
            directory.drop_config_map_name,
            namespace=scope.argocd_namespace,
            metadata_only=True,
            projection=_only_name,
        )
        self._keep(
            Shelf.ACCOUNTS,
            SERVICE_ACCOUNTS,
            directory.put_account,
            directory.drop_account,
            projection=_only_name,
        )
        cache = Cache(
            self._store,
            NAMESPACES,
            projection=_only_metadata,
            label_selector=f"{names.TIPHYS_TRACKING}={names.ENABLED}",
        )
        cache.subscribe(self._take_namespace)
        self.caches["namespaces"] = cache

    def _watch_one(self, what: str, namespace: str, name: str, take: Callable[[Object | None], None]) -> None:
        cache = Cache(
            self._store,
            CONFIG_MAPS,
            projection=_settings_only,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
        )
        cache.subscribe(lambda _, new: take(new))
        self.caches[what] = cache

    def _keep(
        self,
        shelf: Shelf,
        resource: Resource,
        put: Callable[[Object], None],
        drop: Callable[[Object], None],
        *,
        namespace: str | None = None,
        labels: str = "",
        metadata_only: bool = False,
        projection: Callable[[Object], Any] = summarize,
    ) -> None:
        cache: Cache[Any] = Cache(
            self._store,
            resource,
            projection=shared(projection),
            namespace=namespace,
            label_selector=labels,
            metadata_only=metadata_only,
        )

        def follow(old: Any, new: Any) -> None:
            drop(old) if new is None else put(new)

        cache.subscribe(follow)
        self.caches[f"{shelf.value} in {namespace}" if namespace else shelf.value] = cache
        self._shelves.setdefault(shelf, []).append(cache)

    # Taking in

    def _configure(self, body: Object | None) -> None:
        configuration = configuration_in(body, broken=self._keep_last)
        if configuration is not None:
            self._trouble("configuration", "")
            self._configuration = self._placed(configuration)
            self._renew()

    def _keep_last(self, _: Configuration, problems: Sequence[ConfigurationProblem]) -> None:
        others = f" (and {len(problems) - 1} more)" if problems[1:] else ""
        self._trouble("configuration", f"{problems[0]}{others}; the last good configuration stays")

    def _placed(self, configuration: Configuration) -> Configuration:
        """The namespace that we were started for counts: it is the one that the API server asks us about."""
        argocd = replace(configuration.argocd, namespace=self._scope.argocd_namespace)
        return replace(configuration, argocd=argocd)

    def _take_settings(self, body: Object | None) -> None:
        self._settings_map = body
        self._renew()

    def _take_parameters(self, body: Object | None) -> None:
        self._parameters_map = body
        self._renew()

    def _take_modes(self, body: Object | None) -> None:
        self._modes_map = body
        self._renew()

    def _take_pair(self, body: Object | None) -> None:
        self._pair_map = body
        self._renew()

    def _take_secret(self, old: Object | None, new: Object | None) -> None:
        """An agent's cluster: its label says whether it is autonomous."""
        before, after = ([] if each is None else [each] for each in (old, new))
        for secret in before:
            self._agents.pop(reading.text(secret, "metadata", "name"), None)
        for secret in after:
            if reading.text(secret, "metadata", "labels", names.AGENT_NAME):
                self._agents[reading.text(secret, "metadata", "name")] = secret
        if autonomous_agents(before, self._modes_map) != autonomous_agents(after, self._modes_map):
            self._renew()

    def _take_templates(self, body: Object | None) -> None:
        """A bad template keeps the last good one of its role; a removed one is gone."""
        texts = reading.mapping(body, "data")
        templates, trouble = {}, ""
        for role, text in texts.items():
            origin = f"ConfigMap {self._scope.home}/{TEMPLATES_CONFIG_MAP}, key {role}"
            try:
                templates[role] = parse_template(role, text, origin=origin)
            except TemplateError as error:
                trouble = f"{error}; the last good template stays"
                if role in self._templates:
                    templates[role] = self._templates[role]
        self._templates = templates
        self._trouble("templates", trouble)
        self._renew()

    def _take_namespace(self, old: Object | None, new: Object | None) -> None:
        held = new if new is not None else old
        name = reading.text(held, "metadata", "name")
        if new is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = new

    def _trouble(self, what: str, trouble: str) -> None:
        if self.troubles.get(what, "") == trouble:
            return
        # Whole: the keeper's pages read it from other threads.
        self.troubles = {**self.troubles, what: trouble}
        self._told(what, trouble)

    def _renew(self) -> None:
        self.snapshot = self._taken()

    def _taken(self) -> Snapshot:
        return Snapshot(
            surroundings=Surroundings(
                settings=self._settings(), configuration=self._as_principals_say(), neighbours=self.directory
            ),
            namespace=lambda name: self._namespaces.get(name, {}),
            templates=self._templates,
        )

    def _as_principals_say(self) -> Configuration:
        """The principal's word on its agents, to which `agents.autonomous` only adds, and on its own role in a pair."""
        configuration = self._configuration
        if configuration.role is Role.WORKLOAD:
            return configuration  # its one agent's mode is configured
        known = autonomous_agents(self._agents.values(), self._modes_map)
        configuration = replace(configuration, agents=replace(configuration.agents, known_autonomous=known))
        if reading.text(self._pair_map, "data", "role") != Role.STANDBY:
            return configuration
        peer, epoch = (reading.text(self._pair_map, "data", key) for key in ("peerAddress", "peerEpoch"))
        return replace(configuration, role=Role.STANDBY, active_peer=f"{peer} (epoch {epoch})")

    def _settings(self) -> Settings:
        return read_settings(
            self._settings_map, configuration=self._configuration, command_parameters=self._parameters_map
        )


def _settings_only(body: Object) -> Object:
    annotations = reading.mapping(body, "metadata", "annotations")
    former = {key: annotations[key] for key in annotations if key == names.TIPHYS_FORMER_INSTALLATION_IDS}
    return {"metadata": {"annotations": former}, "data": body.get("data") or {}}


def _only_metadata(body: Object) -> Object:
    metadata = body["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata}
    return {"metadata": kept}


def _only_name(body: Object) -> Object:
    metadata = body["metadata"]
    return {"metadata": {"name": metadata["name"], "namespace": metadata["namespace"]}}
