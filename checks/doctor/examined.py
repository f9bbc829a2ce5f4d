"""What is examined: a cluster, where in it Tiphys and Argo CD are, and what is asked for more than once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from argocd import names, reading
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import Settings, read_settings
from kube import queries
from kube.live import LiveStore
from kube.resources import CONFIG_MAPS, DEPLOYMENTS, LEASES, SERVICE_ACCOUNTS
from kube.store import Object
from webhook.admission.configuration_map import find_configuration, noting
from webhook.registration.table import Registration


class InstalledPart(StrEnum):
    """Called `tiphys-<part>` wherever it has a Deployment, an account and a Lease."""

    WEBHOOK = "webhook"
    PRINCIPAL = "principal"
    AGENT = "agent"

    @property
    def object_name(self) -> str:
        return f"tiphys-{self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    namespace: str = names.TIPHYS_NAMESPACE
    argocd_namespace: str = names.DEFAULT_NAMESPACE
    application_namespaces: tuple[str, ...] = ()
    principal_service: str
    principal_url: str | None = None
    server_address: str = ""
    """Where the agent finds its principal; empty: as its Deployment says."""
    server_port: int = 0
    ha_address: str = "127.0.0.1:8405"
    """The admin port of a principal of a pair, through a port-forward."""
    health_url: str = ""
    """Its /healthz; empty: through the API server."""


@dataclass(slots=True)
class Examined:
    """Nothing is remembered of the cluster: with --wait each look is a new one."""

    store: LiveStore
    options: DoctorOptions
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def registration(self) -> Registration:
        options = self.options
        return Registration(
            argocd_namespace=options.argocd_namespace,
            application_namespaces=options.application_namespaces,
            home=options.namespace,
        )

    def namespace_of(self, part: InstalledPart) -> str:
        options = self.options
        return options.namespace if part is InstalledPart.WEBHOOK else options.argocd_namespace

    async def has(self, part: InstalledPart) -> bool:
        """By any trace: a process outside of the cluster has no Deployment, one in Argo CD's pods no account."""
        name, namespace = part.object_name, self.namespace_of(part)
        for resource in (DEPLOYMENTS, LEASES, SERVICE_ACCOUNTS):
            if await queries.find(self.store, resource, name=name, namespace=namespace) is not None:
                return True
        return False

    async def deployment(self, part: InstalledPart) -> Object | None:
        return await queries.find(
            self.store, DEPLOYMENTS, name=part.object_name, namespace=self.namespace_of(part)
        )

    async def learn(self) -> None:
        """The webhook's Deployment may name more namespaces of Applications than this command was given."""
        told = flags(await self.deployment(InstalledPart.WEBHOOK), "--application-namespace")
        known = sorted({*self.options.application_namespaces, *told})
        self.options = replace(self.options, application_namespaces=tuple(known))

    async def configuration(self) -> tuple[Configuration, list[str]]:
        """Tiphys's own, and what is wrong with it."""
        problems: list[str] = []
        found = await find_configuration(self.store, home=self.options.namespace, broken=noting(problems))
        return found, problems

    async def config_map(self, name: str) -> Object | None:
        return await queries.find(self.store, CONFIG_MAPS, name=name, namespace=self.options.argocd_namespace)

    async def settings(self) -> Settings:
        """Argo CD's."""
        configuration, _ = await self.configuration()
        return read_settings(
            await self.config_map(names.ARGOCD_CM),
            configuration=configuration,
            command_parameters=await self.config_map(names.ARGOCD_CMD_PARAMS_CM),
        )


def container_words(deployment: Object | None) -> Iterator[str]:
    """The arguments of all containers."""
    for container in reading.sequence(deployment, "spec", "template", "spec", "containers"):
        yield from reading.texts(container, "args")


def is_paired(deployment: Object | None) -> bool:
    return not {"--ha-enabled", "--ha-enabled=true"}.isdisjoint(container_words(deployment))


def flags(deployment: Object | None, name: str) -> list[str]:
    """Whatever a Deployment gives a flag, written as `--name=value` or in two words."""
    words, found = list(container_words(deployment)), []
    for index, word in enumerate(words):
        if word.startswith(f"{name}="):
            found.append(word.partition("=")[2])
        elif word == name and index + 1 < len(words):
            found.append(words[index + 1])
    return found


def flag(deployment: Object | None, name: str) -> str:
    """The last counts."""
    return next(reversed(flags(deployment, name)), "")
