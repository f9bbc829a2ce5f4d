"""Findings as PolicyReports of wgpolicyk8s.io, one or more for each namespace; they shrink as findings go away."""

from collections import Counter
from collections.abc import Iterable

from argocd.judging.case import Action, Profile
from argocd.rules.catalogue import CATALOGUE
from checks.findings import PlacedFinding
from checks.scan import ScannedObject
from checks.survey import Listing
from kube.errors import NotFoundError
from kube.live import LiveStore
from kube.store import Object, PatchKind, Resource
from tiphys.errors import SurroundingsError

GROUP, VERSION, KIND = "wgpolicyk8s.io", "v1alpha2", "PolicyReport"
NAME = "tiphys"
MANAGER = "tiphys-scan"
LABELS = {"app.kubernetes.io/managed-by": MANAGER}

LARGEST = 500
"""Results of one report: with messages of a kilobyte they fit an object of the API server."""

_RESULTS = {Action.DENY: "fail", Action.WARN: "warn", Action.AUDIT: "skip"}
_SEVERITIES = {Action.DENY: "high", Action.WARN: "medium", Action.AUDIT: "info"}
_PROFILES = {rule.id: rule.profile for rule in CATALOGUE}


async def find_kind(store: LiveStore) -> Resource:
    found = (await store.discover(group=GROUP, version=VERSION)).get(KIND)
    if found is None:
        raise SurroundingsError(
            f"this cluster has no {KIND} of {GROUP}/{VERSION}: install its definition, or leave --policy-report out"
        )
    return found


async def write(
    listing: Listing,
    resource: Resource,
    findings: Iterable[tuple[PlacedFinding, ScannedObject]],
    *,
    complete: bool,
) -> tuple[int, int]:
    """How many were written and how many deleted; none is deleted after a scan that did not see everything."""
    wanted = _reports(findings)
    for (namespace, name), report in wanted.items():
        await listing.store.patch(
            resource,
            report,
            name=name,
            namespace=namespace,
            kind=PatchKind.APPLY,
            field_manager=MANAGER,
            force=True,
        )
    deleted = 0
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    stale = [
        (report["metadata"]["namespace"], report["metadata"]["name"])
        async for page in listing.everywhere(resource, label_selector=selector)
        for report in page
    ]
    for namespace, name in stale if complete else ():
        if (namespace, name) not in wanted:
            try:
                await listing.store.delete(resource, name=name, namespace=namespace)
            except NotFoundError:
                continue
            deleted += 1
    return len(wanted), deleted


def _reports(findings: Iterable[tuple[PlacedFinding, ScannedObject]]) -> dict[tuple[str, str], Object]:
    by_namespace: dict[str, list[tuple[PlacedFinding, ScannedObject]]] = {}
    for found, subject in findings:
        by_namespace.setdefault(subject.namespace, []).append((found, subject))
    reports = {}
    for namespace, told in sorted(by_namespace.items()):
        for part, start in enumerate(range(0, len(told), LARGEST)):
            name = f"{NAME}-{part}" if part else NAME
            reports[namespace, name] = _report(namespace, name, told[start : start + LARGEST])
    return reports


def _report(namespace: str, name: str, told: list[tuple[PlacedFinding, ScannedObject]]) -> Object:
    counts = Counter(_RESULTS[found.action] for found, _ in told)
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace, "labels": LABELS},
        "summary": {result: counts[result] for result in ("pass", "fail", "warn", "error", "skip")},
        "results": [_result(found, subject) for found, subject in told],
    }


def _result(found: PlacedFinding, subject: ScannedObject) -> Object:
    where = f"{found.path}: " if found.path else ""
    resource = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
    }
    if subject.uid:
        resource["uid"] = subject.uid
    return {
        "source": NAME,
        "policy": found.rule.partition("/")[0],
        "rule": found.rule,
        "category": _PROFILES.get(found.rule, Profile.RECOMMENDED).value,
        "severity": _SEVERITIES[found.action],
        "result": _RESULTS[found.action],
        "message": f"{where}{found.message}",
        "resources": [resource],
    }
