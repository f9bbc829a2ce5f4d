"""Objects to explain: from files, or from a live cluster; both with what is around them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from argocd import reading
from argocd.explanations.explanation import UnexplainedError
from argocd.judging.case import Kind, Surroundings, kind_of
from argocd.judging.configuration import Configuration
from argocd.tracking.ids import split_qualified
from checks.configuration import read_configuration, with_argocd_namespace
from checks.files.search import Search
from checks.known_objects import KnownObjects, in_default_namespace, known_from
from checks.manifests import Object, Unreadable, read_file
from checks.reports import remark
from cli.options import combined, configuration_option, format_option
from cli.options.cluster import connected, optional_cluster_options
from tiphys.errors import CallError

object_source_options = combined(
    optional_cluster_options,
    click.option(
        "--file",
        "-f",
        "files",
        multiple=True,
        help="A file, a folder or - with the objects; may be repeated.  [default: a cluster]",
    ),
    configuration_option(),
    click.option("--argocd-namespace", help="Argo CD's namespace, instead of the configuration's."),
)
"""The options that `gather` reads."""

explained_object_options = combined(object_source_options, format_option())


@dataclass(frozen=True, slots=True)
class ExplainedObjects:
    """What was found. `wanted` is the object that was asked for in a cluster; files hold it in `objects`."""

    configuration: Configuration
    known: KnownObjects
    objects: list[Object]
    live: bool
    wanted: Object | None = None

    @property
    def surroundings(self) -> Surroundings:
        return self.known.surroundings(self.configuration)

    @property
    def where(self) -> str:
        return "in the cluster" if self.live else "in the files"

    def project(self, name: str) -> Object | None:
        if not self.live:  # files may hold a project of another cluster, in another namespace
            found = self._first(Kind.PROJECT, name=name)
            if found is not None:
                return found
        return self.known.directory.project(name) or None

    def application(self, text: str) -> Object:
        name, namespace = split_qualified(text, default_namespace=self.configuration.argocd.namespace)
        found = self.wanted or self._first(Kind.APPLICATION, name=name, namespace=namespace)
        if found is None:
            raise UnexplainedError(
                f"there is no Application {namespace}/{name} {self.where}: write NAMESPACE/NAME"
            )
        return found

    def _first(self, kind: Kind, **metadata: str) -> Object | None:
        for thing in self.objects:
            if kind_of(thing) is kind and all(
                reading.text(thing, "metadata", key) == value for key, value in metadata.items()
            ):
                return thing
        return None


Fetch = Callable[[Any, Configuration], Awaitable[Object | None]]


def configuration_of(given: Mapping[str, Any]) -> Configuration:
    configuration = read_configuration(given["config"]).configuration
    return with_argocd_namespace(configuration, given.get("argocd_namespace"))


def gather(
    given: dict[str, Any], *, fetch: Fetch | None = None, applications: bool = False
) -> ExplainedObjects:
    """`given` are the options above; `fetch` gets the one object that is asked for from a cluster."""
    configuration = configuration_of(given)
    if given["files"]:
        if given["kubeconfig"] or given["context"]:
            raise CallError("either -f or a cluster: --file goes with neither --kubeconfig nor --context")
        objects = read_objects(given["files"], configuration)
        return ExplainedObjects(configuration, known_from(objects, configuration), objects, live=False)
    return asyncio.run(_gather(given, configuration, fetch, applications=applications))


def read_objects(paths: tuple[str, ...], configuration: Configuration) -> list[Object]:
    found: list[Object] = []
    search = Search()
    for file in search.files(paths):
        for manifest in read_file(file):
            if isinstance(manifest, Unreadable):
                raise CallError(f"{manifest.place}: {manifest.message}")
            found.append(in_default_namespace(manifest.body, configuration))
    if search.nothing:
        raise CallError(f"{search.nothing[0]}: no file is there")
    return found


async def _gather(
    given: dict[str, Any], configuration: Configuration, fetch: Fetch | None, *, applications: bool
) -> ExplainedObjects:
    # Only here: the client costs more than all that files need.
    from checks.survey import survey  # noqa: PLC0415

    async with connected(kubeconfig=given["kubeconfig"], context=given["context"]) as store:
        known = await survey(store, configuration, applications=applications)
        wanted = await fetch(store, configuration) if fetch else None
    for note in known.notes:
        remark(note)
    return ExplainedObjects(configuration, known, [], live=True, wanted=wanted)


async def fetch_application(store: Any, text: str, configuration: Configuration) -> Object | None:
    from kube import queries  # noqa: PLC0415
    from kube.resources import APPLICATIONS  # noqa: PLC0415

    name, namespace = split_qualified(text, default_namespace=configuration.argocd.namespace)
    return await queries.find(store, APPLICATIONS, name=name, namespace=namespace)
