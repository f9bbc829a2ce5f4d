"""`tiphys inject`: sidecars put into manifests, with nothing running."""

from collections.abc import Iterator, Mapping
from typing import Any

import click
import yaml

from argocd import reading
from checks.manifests import Manifest, Unreadable, read_file
from kube.errors import ApiError
from tiphys.errors import CallError
from webhook.injection.inject import Injection, InjectionReason
from webhook.injection.manifests import inject_manifest, templates_of
from webhook.injection.templates import CONFIG_MAP, Template

WELL, LEFT_ALONE, UNREADABLE = 0, 1, 2

FINE = frozenset({InjectionReason.INJECTED, InjectionReason.ALREADY_INJECTED, InjectionReason.NOT_ASKED})

EXPLANATIONS: Mapping[InjectionReason, str] = {
    InjectionReason.NO_TEMPLATE: "no template for this role: name a file that has one with --templates",
    InjectionReason.OTHER_ORDINAL: "only the first pod of a StatefulSet gets the sidecar, and a template makes all alike:"
    " leave it to the webhook, or set replicas to 1",
    InjectionReason.HOST_NETWORK: "the pod has the node's network, whose ports are not ours",
    InjectionReason.MIRROR_POD: "a static pod's mirror cannot be changed",
    InjectionReason.VOLUME_CLASH: "the pod has a volume of the same name",
    InjectionReason.PORT_CLASH: "a container of the pod has the same port",
}


@click.command()
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, help="A manifest, or - for standard input."
)
@click.option(
    "--templates",
    help=f"A file with the ConfigMap {CONFIG_MAP}; without it no role has a template.",
)
def command(*, files: tuple[str, ...], templates: str | None) -> None:
    """Print manifests with the sidecars that their pods ask for by annotation, as the webhook would.

    Everything else in the files is printed as it is, but for comments. Reasons go to standard error. Ends with
    0 if every pod that asks for a sidecar has it, 1 if one was left alone, 2 if something cannot be read.
    """
    known = _templates(templates) if templates else {}
    worst, bodies = WELL, []
    for file in files:
        for found in read_file(file):
            if isinstance(found, Unreadable):
                click.echo(f"{found.place}: {found.message}", err=True)
                worst = UNREADABLE
                continue
            try:
                outcome = inject_manifest(found.body, known)
            except ApiError:
                click.echo(f"{found.place()}: asks for a sidecar and has no spec to put it into", err=True)
                worst = UNREADABLE
                continue
            bodies.append(outcome.body)
            if outcome.injection is not None:
                _tell(found, outcome.injection)
                worst = max(worst, WELL if outcome.injection.reason in FINE else LEFT_ALONE)
    click.echo(yaml.safe_dump_all(bodies, sort_keys=False, allow_unicode=True), nl=False)
    raise click.exceptions.Exit(worst)


def _templates(path: str) -> dict[str, Template]:
    """The named ConfigMap, or the only one there is."""
    maps: list[Mapping[str, Any]] = []
    for found in read_file(path):
        if isinstance(found, Unreadable):
            raise CallError(f"{found.place}: {found.message}")
        if reading.text(found.body, "kind") == "ConfigMap":
            maps.append(found.body)
    named = [body for body in maps if reading.text(body, "metadata", "name") == CONFIG_MAP]
    chosen = named or maps
    if len(chosen) != 1:
        raise CallError(
            f"{path}: must hold one ConfigMap {CONFIG_MAP}; it holds {len(chosen)} that could be it"
        )
    return templates_of(chosen[0], origin=path)


def _tell(manifest: Manifest, injection: Injection) -> None:
    metadata = reading.mapping(manifest.body, "metadata")
    place = "/".join(filter(None, (reading.text(metadata, "namespace"), reading.text(metadata, "name"))))
    subject = f"{manifest.place()}: {reading.text(manifest.body, 'kind')} {place}"
    for line in (": ".join(_words(injection)), *injection.warnings):
        click.echo(f"{subject}: {line}", err=True)


def _words(injection: Injection) -> Iterator[str]:
    yield f"{injection.reason.value} {injection.role}".rstrip()
    if explanation := EXPLANATIONS.get(injection.reason):
        yield explanation
