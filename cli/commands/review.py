"""`tiphys review`: AdmissionReviews in, answers out, with nothing running."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import click
import orjson

from argocd import reading
from argocd.judging.configuration import Configuration
from checks.configuration import read_configuration
from checks.known_objects import known_from
from checks.manifests import Object
from cli.options import configuration_option
from cli.options.explained_objects import read_objects
from webhook.admission.cluster_state import Snapshot
from webhook.admission.decisions import Decisions
from webhook.admission.offline import FixedState, Part, rehearse
from webhook.admission.review import BODY_LIMIT, Review, ReviewError, decode, encode

ALLOWED, DENIED, UNREADABLE = 0, 1, 2


@click.command()
@click.option(
    "--endpoint",
    type=click.Choice([part.value for part in Part]),
    help="Only this one of the two.  [default: mutate, then validate the result]",
)
@click.option(
    "--objects",
    type=click.Path(path_type=Path),
    help="A folder or file with what is in the cluster; without it rules on other objects are silent.",
)
@configuration_option()
def command(*, endpoint: str | None, objects: Path | None, config: Path | None) -> None:
    """Answer AdmissionReviews from standard input (one, or one a line) as the API server would.

    The response carries the patch if the object is allowed. Ends with 0 if all are allowed, 1 if one is
    denied, 2 if one cannot be read. Access is not asked for: impersonation.check-writer needs a cluster.
    """
    configuration = read_configuration(config).configuration
    decisions = _decisions(configuration, read_objects((str(objects),), configuration) if objects else [])
    part = Part(endpoint) if endpoint else None
    worst = ALLOWED
    for number, body in enumerate(_bodies(sys.stdin.buffer), start=1):
        try:
            review = decode(body)
        except ReviewError as error:
            click.echo(f"tiphys: review {number}: {error}", err=True)
            worst = UNREADABLE
            continue
        answer = rehearse(decisions, _located(review), part=part)
        patches = part is not Part.VALIDATE
        click.echo(encode(review.uid, answer, patches=patches).decode())
        worst = max(worst, ALLOWED if answer.allowed else DENIED)
    raise click.exceptions.Exit(worst)


def _decisions(configuration: Configuration, objects: list[Object]) -> Decisions:
    namespaces = {
        reading.text(thing, "metadata", "name"): thing
        for thing in objects
        if reading.text(thing, "kind") == "Namespace"
    }
    snapshot = Snapshot(
        surroundings=known_from(objects, configuration).surroundings(configuration),
        namespace=lambda name: namespaces.get(name, {}),
    )
    return Decisions(FixedState(snapshot))


def _located(review: Review) -> Review:
    """The API server has filled in the namespace before it asks; a review written by hand may lack it."""
    if review.object is None or not review.namespace:
        return review
    metadata = reading.mapping(review.object, "metadata")
    if "namespace" in metadata:
        return review
    return replace(review, object={**review.object, "metadata": {**metadata, "namespace": review.namespace}})


def _bodies(source: BinaryIO) -> Iterator[bytes]:
    """One a line as they come, where the first line is a whole document; else all of it is one review."""
    first = _line(source)
    while first and not first.strip():
        first = _line(source)
    if not _is_whole(first):
        yield first + source.read(BODY_LIMIT + 1 - min(len(first), BODY_LIMIT))
        return
    while first:
        if first.strip():
            yield first
        first = _line(source)


def _line(source: BinaryIO) -> bytes:
    return source.readline(BODY_LIMIT + 2)


def _is_whole(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True
