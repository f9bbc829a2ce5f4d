"""What is shown, step by step. Each step says what is done, and then what the programs made of it."""

from typing import Any

import click

from argocd import names
from argocd.agents.vocabulary import Mode
from argocd.reading import value
from demo.clusters import (
    ARGOCD,
    AUTONOMOUS,
    CONTROL_PLANE,
    CONTROLLER,
    MANAGED,
    TEAM,
    TIPHYS,
    DemoClusters,
    application,
    arrived,
    config_map,
    project,
    show,
    tell,
    tell_stored,
)
from demo.embedded_webhook import DemoWebhook
from demo.pair_story import PairStory
from demo.sidecars import DemoFleet
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, NAMESPACES
from kube.store import Identity, Object, PatchKind

ADMIN = Identity("ada", ("system:masters", "system:authenticated"))
REPOSITORY = "https://git.example.org/web.git"
SHOP = "shop"
SYNC_SECONDS = 90.0  # Argo CD needs a few; three API servers and two of it may share two cores
TEMPLATE = """\
container:
  image: tiphys
  args: [agent, --agent-mode=managed, --server-address=principal.example.org]
"""


async def prepare(clusters: DemoClusters) -> None:
    """What an admin has set up before the story begins."""
    configuration = {names.TIPHYS_CONFIG_KEY: f"agents:\n  autonomous: [{AUTONOMOUS}]\n"}
    for thing in (
        config_map(names.TIPHYS_CONFIG_MAP, namespace=TIPHYS, data=configuration),
        config_map("tiphys-injection", namespace=TIPHYS, data={"agent": TEMPLATE}),
        config_map(names.ARGOCD_CM, namespace=ARGOCD, data={"installationID": "ours"}),
    ):
        await clusters.write(CONTROL_PLANE, thing, user=ADMIN)
    labels = {names.TIPHYS_TRACKING: names.ENABLED, "tiphys.dev/injection": names.ENABLED}
    patch: Object = {"metadata": {"labels": labels}}
    await clusters.stores[CONTROL_PLANE].patch(NAMESPACES, patch, name=TEAM, kind=PatchKind.MERGE)


class Story:
    def __init__(
        self, clusters: DemoClusters, *, webhook: DemoWebhook, fleet: DemoFleet, repository: str = ""
    ) -> None:
        """With a `repository` there is a real Argo CD that deploys from it."""
        self._clusters = clusters
        self._repository = repository
        self._webhook = webhook
        self._fleet = fleet
        self._step = 0

    async def tell(self) -> None:
        steps = [
            self._a_bad_project,
            self._a_misspelt_switch,
            self._a_good_project,
            self._a_project_from_the_edge,
            self._an_agent_away_and_back,
            self._a_copied_id,
            self._two_installations,
            self._a_sidecar,
            *PairStory(self._clusters, self._fleet, title=self._title, web=_web).steps,
        ]
        if self._repository:
            steps.append(self._an_application)
        for step in steps:
            await self._webhook.caught_up()
            await step()

    def _title(self, text: str) -> None:
        self._step += 1
        click.echo(f"\n{self._step}. {text}")

    async def _apply(
        self, thing: Object, *, cluster: str = CONTROL_PLANE, user: Identity | None = None
    ) -> Object | None:
        """Told as kubectl would."""
        chosen: dict[str, Any] = {"user": user} if user else {}
        stored, said = await self._clusters.write(cluster, thing, **chosen)
        tell(said)
        if stored is not None:
            tell_stored(thing, cluster)
        return stored

    async def _a_bad_project(self) -> None:
        self._title("A project with mistakes is refused, with all of them at once.")
        bad = project(
            "web",
            sourceRepos=["!*"],
            destinations=[{"server": "!*", "namespace": "web"}],
            roles=[{"name": "ci", "policies": ["p, proj:web:ci, applications, sync, other/*, allow"]}],
        )
        await self._apply(bad)

    async def _a_misspelt_switch(self) -> None:
        self._title("ignore-sync: True is not the true that argocd-agent looks for.")
        good = _web()
        await self._apply({**good, "metadata": {**good["metadata"], "labels": {names.IGNORE_SYNC: "True"}}})

    async def _a_good_project(self) -> None:
        self._title(
            f"A good one is stored; the principal sends it to the managed agent {MANAGED}, rewritten for it."
        )
        await self._apply(_web())
        copy = await arrived(self._clusters.stores[MANAGED], APP_PROJECTS, "web")
        click.echo(f"   What arrived on {MANAGED}:")
        show(_seen(copy))

    async def _a_project_from_the_edge(self) -> None:
        self._title(
            f"The autonomous agent {AUTONOMOUS} has its own project; the control plane gets it with a prefix."
        )
        own = project(
            "shop",
            sourceRepos=["*"],
            destinations=[{"server": "https://kubernetes.default.svc", "namespace": "shop"}],
        )
        await self._apply(own, cluster=AUTONOMOUS)
        name = f"{AUTONOMOUS}-shop"
        mirror = await arrived(self._clusters.stores[CONTROL_PLANE], APP_PROJECTS, name)
        click.echo("   What arrived on the control plane:")
        show(_seen(mirror))
        click.echo("   Somebody else may not change it there:")
        await self._webhook.caught_up()
        await self._apply(project(name, **{**mirror["spec"], "description": "mine now"}))

    async def _an_agent_away_and_back(self) -> None:
        self._title(f"{MANAGED} goes away; the project changes; {MANAGED} comes back and has the newest.")
        await self._fleet.stop_agent(MANAGED)
        for text in ("first", "second"):
            await self._apply(_web(description=text))
        await self._fleet.start_agent(MANAGED, mode=Mode.MANAGED)
        copy = await arrived(
            self._clusters.stores[MANAGED],
            APP_PROJECTS,
            "web",
            holds=lambda it: it["spec"].get("description") == "second",
        )
        click.echo(f"   {MANAGED} has again:")
        show({"description": copy["spec"]["description"]})

    async def _a_copied_id(self) -> None:
        self._title(
            "A tracking id that was copied by hand names another object: Argo CD ignores it, we say so."
        )
        copied = {names.TRACKING_ID: f"web:/ConfigMap:{TEAM}/other"}
        await self._apply(config_map("settings", namespace=TEAM, data={"colour": "blue"}, annotations=copied))

    async def _two_installations(self) -> None:
        self._title("Two Argo CD installations claim one object: the second is refused.")
        claimed = {names.TRACKING_ID: f"web:/ConfigMap:{TEAM}/shared", names.INSTALLATION_ID: "theirs"}
        await self._apply(
            config_map("shared", namespace=TEAM, data={"owner": "theirs"}, annotations=claimed),
            user=CONTROLLER,
        )
        ours = {**claimed, names.INSTALLATION_ID: "ours"}
        await self._apply(
            config_map("shared", namespace=TEAM, data={"owner": "ours"}, annotations=ours), user=CONTROLLER
        )

    async def _a_sidecar(self) -> None:
        self._title("A pod that asks for it gets its sidecar.")
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "controller",
                "namespace": TEAM,
                "annotations": {"tiphys.dev/inject": "agent"},
            },
            "spec": {"containers": [{"name": "application-controller", "image": "argocd"}]},
        }
        stored = await self._apply(pod)
        if stored is not None:
            spec = stored["spec"]
            show(
                {
                    key: [one["name"] for one in spec[key]]
                    for key in ("initContainers", "containers")
                    if key in spec
                }
            )

    async def _an_application(self) -> None:
        self._title(f"An Application of the control plane is really synced, by the Argo CD of {MANAGED}.")
        allowed = project(
            SHOP,
            sourceRepos=[self._repository],
            destinations=[{"name": MANAGED, "namespace": SHOP}],
            sourceNamespaces=[MANAGED],
            clusterResourceWhitelist=[{"group": "", "kind": "Namespace"}],
        )
        await self._apply(allowed)
        wanted = application(
            SHOP,
            namespace=MANAGED,
            project=SHOP,
            source={"repoURL": self._repository, "path": SHOP, "targetRevision": "main"},
            destination={"name": MANAGED, "namespace": SHOP},
            syncPolicy={"automated": {}, "syncOptions": ["CreateNamespace=true"]},
        )
        await self._apply(wanted)
        stores = self._clusters.stores
        deployed = await arrived(stores[MANAGED], CONFIG_MAPS, "prices", namespace=SHOP, seconds=SYNC_SECONDS)
        click.echo(f"   What is in Git is on {MANAGED}:")
        show({"configmap": "prices", "data": deployed["data"]})
        synced = await arrived(
            stores[CONTROL_PLANE],
            APPLICATIONS,
            SHOP,
            namespace=MANAGED,
            holds=lambda it: value(it, "status", "sync", "status") == "Synced",
            seconds=SYNC_SECONDS,
        )
        click.echo("   And the control plane knows:")
        show({"sync": synced["status"]["sync"]["status"]})


def _web(**more: Any) -> Object:
    return project(
        "web",
        sourceRepos=[REPOSITORY],
        destinations=[{"name": MANAGED, "namespace": "web"}],
        sourceNamespaces=[MANAGED],
        **more,
    )


def _seen(thing: Object) -> Object:
    """Without what differs from one demonstration to the next."""
    return {"name": thing["metadata"]["name"], "spec": thing["spec"]}
