"""Suites about projects: validation, permissions, globs, schedules, durations, repository URLs."""

from collections.abc import Iterable, Mapping
from typing import Any

from argocd import globs, reading
from argocd.applications import project_impact
from argocd.applications.destinations import IN_CLUSTER
from argocd.globs import Verdict
from argocd.go import cron, durations, time_zones
from argocd.judging.neighbours import KnownCluster
from argocd.projects import pattern_lists, permissions, roles, validation
from argocd.projects.pattern_lists import ListMode
from argocd.projects.validation import Code, ValidationProblem
from argocd.settings import casbin, git_urls
from tests.argocd import sync_window

HEAD = (3, 6)
"""The cases are those of the unreleased version."""
POLICY_SYNTAX = "project/policy-syntax"


def _verdict(verdict: Verdict, key: str) -> dict[str, Any]:
    if verdict is Verdict.PANIC:
        return {"panic": True}
    return {key: verdict is Verdict.YES}


def _said(message: str, code: str = Code.INVALID_ARGUMENT) -> dict[str, Any]:
    if not message:
        return {"valid": True, "errorFull": None}
    answer = {"valid": False, "error": message, "errorFull": message}
    return {**answer, "code": str(code), "grpcCode": str(code)} if code else answer


def _first(problems: Iterable[ValidationProblem]) -> dict[str, Any]:
    first = next(iter(problems), None)
    return _said(first.message, first.code) if first else _said("")


def _validate(project: Mapping[str, Any]) -> dict[str, Any]:
    """ValidateProject alone; the API server reads the policies as CSV afterwards."""
    problems = validation.validate(project, version=HEAD)
    if any(sync_window.panics(window.get("schedule", "")) for window in _windows(project)):
        return {"panic": True, **_first(problems)}
    return _first(problem for problem in problems if problem.rule != POLICY_SYNTAX)


def _windows(project: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [window for window in project["spec"].get("syncWindows") or () if window]


def _create(project: Mapping[str, Any]) -> dict[str, Any]:
    return _first(validation.validate(project, version=HEAD))


def _role_name(given: Mapping[str, Any]) -> dict[str, Any]:
    return _said(roles.role_name_problem(given["text"]))


def _group_name(given: Mapping[str, Any]) -> dict[str, Any]:
    return _said(roles.group_problem(given["text"]))


def _policy(given: Mapping[str, Any]) -> dict[str, Any]:
    problems = roles.policy_problems(given["proj"], given["role"], given["text"], version=HEAD)
    return _said(next((message for rule, message in problems if rule != POLICY_SYNTAX), ""))


def _window(window: Mapping[str, Any]) -> dict[str, Any]:
    if sync_window.panics(window.get("schedule", "")):
        return {"panic": True}
    problems = sync_window.problems(window)
    zone = window.get("timeZone") or "UTC"
    return {
        **_said(problems[0] if problems else "", Code.NONE),
        "timeZone": "UTC" if time_zones.problem(zone) else zone,
    }


def _same_window(pair: Any) -> dict[str, Any]:
    one, other = pair
    return {"same": sync_window.are_same(one, other, version=HEAD)}


def _schedule(given: Mapping[str, Any]) -> dict[str, Any]:
    read = cron.read(given["text"])
    if isinstance(read, cron.SchedulePanicError):
        return {"panic": True}
    return _said(str(read) if isinstance(read, cron.ScheduleError) else "", Code.NONE)


def _duration(given: Mapping[str, Any]) -> dict[str, Any]:
    problem = durations.problem(given["text"])
    value = 0 if problem else durations.parse(given["text"])
    return {**_said(problem, Code.NONE), "value": durations.write(value)}


def _glob(given: Mapping[str, Any]) -> dict[str, Any]:
    separators = given.get("seps", "")
    if error := globs.compiled(given["pattern"], separators).error:
        # Match answers no, MatchWithError with the error: a suite asks for one of them.
        return {"compileError": error, "match": False}
    return _verdict(globs.match(given["pattern"], given["text"], separators), "match")


def _glob_in_list(given: Mapping[str, Any]) -> dict[str, Any]:
    return _verdict(
        pattern_lists.in_list(given["list"], given["text"], mode=ListMode(given["mode"])), "match"
    )


def _project_glob(given: Mapping[str, Any]) -> dict[str, Any]:
    match = pattern_lists.match if given["neg"] else globs.match
    return _verdict(match(given["pattern"], given["text"]), "match")


def _same_url(pair: Any) -> dict[str, Any]:
    return {"same": git_urls.same(*pair), "normalized": git_urls.normalize(pair[0])}


def _source(given: Mapping[str, Any]) -> dict[str, Any]:
    project = given.get("project") or {"spec": {"sourceRepos": given["sourceRepos"]}}
    url = given["text"] if "text" in given else given["repoURL"]
    return _verdict(permissions.source_permitted(project, url), "permitted")


def _clusters(listed: Any) -> list[KnownCluster]:
    return [KnownCluster(server=one.get("server", ""), name=one.get("name", "")) for one in listed or ()]


def _destination(given: Mapping[str, Any]) -> dict[str, Any]:
    project = given.get("project") or {"spec": given}
    cluster = given.get("cluster") or given["app"]
    verdict = permissions.destination_permitted(
        project,
        server=cluster.get("server", ""),
        name=cluster.get("name", ""),
        namespace=given.get("namespace", cluster.get("namespace", "")),
        project_clusters=_clusters(given.get("clusters", given.get("projectClusters"))),
    )
    return {"valid": True, **_verdict(verdict, "permitted")}


def _kind(given: Mapping[str, Any]) -> dict[str, Any]:
    asked = {key: given[key] for key in ("group", "kind", "name", "namespaced")}
    return {"permitted": permissions.kind_permitted(given, **asked)}


def _application_namespace(given: Mapping[str, Any]) -> dict[str, Any]:
    verdict = permissions.application_namespace_permitted(
        {"spec": given}, namespace=given["appNamespace"], control_plane=given["controllerNamespace"]
    )
    return _verdict(verdict, "permitted")


def _sync(given: Mapping[str, Any]) -> dict[str, Any]:
    problem = _sync_problem(given, given["resource"], known=given["apiResource"])
    return {"allowed": not problem, "error": problem}


def _sync_problem(
    project: Mapping[str, Any], resource: Mapping[str, Any], *, known: Mapping[str, Any] | None
) -> str:
    group, kind, namespace = resource["group"], resource["kind"], resource["namespace"]
    if known is None:
        return f"failed to get API resource info for {group}/{kind}: unable to verify permissions"
    namespaced, name = known["namespaced"], reading.text(project, "metadata", "name")
    if not permissions.kind_permitted(
        project, group=group, kind=kind, name=resource["name"], namespaced=namespaced
    ):
        return f"resource {group}:{kind} is not permitted in project {name}"
    verdict = permissions.destination_permitted(
        project, server=IN_CLUSTER.server, name=IN_CLUSTER.name, namespace=namespace, project_clusters=()
    )
    refused = namespaced and verdict is Verdict.NO
    return f"namespace {namespace} is not permitted in project '{name}'" if refused else ""


def _update(given: Mapping[str, Any]) -> dict[str, Any]:
    clusters = {cluster.server: cluster for cluster in _clusters(given["clusters"])}
    by_name = {cluster.name: cluster for cluster in clusters.values()}

    def resolve(destination: Mapping[str, Any]) -> KnownCluster | None:
        return clusters.get(destination.get("server", "")) or by_name.get(destination.get("name", ""))

    impact = project_impact.impact_of(
        old={"spec": given["oldSpec"]},
        new={"spec": given["newSpec"]},
        applications=[{"metadata": {"name": "app", "namespace": "argocd"}, "spec": given["application"]}],
        resolve=resolve,
        control_plane="argocd",
    )
    return {"allowed": not impact.message, "error": impact.message}


def _delete(given: Mapping[str, Any]) -> dict[str, Any]:
    problem = project_impact.deletion_problem(given["project"], applications=given["referencingApps"])
    return {"allowed": not problem, "error": problem}


ANSWERS = {
    **dict.fromkeys(
        (
            "vp_sources",
            "vp_destinations",
            "vp_role_names",
            "vp_groups",
            "vp_syncwindow_list",
            "vp_policies_invalid",
            "vp_policies_valid",
            "vp_destination_service_accounts",
        ),
        _validate,
    ),
    **dict.fromkeys(
        ("derived_dsa", "derived_dest_src", "derived_syncwindow_project", "project_valid"),
        lambda given: _validate(given["project"]),
    ),
    "vp_server_project": _create,
    "syncwindow_validate": _window,
    "syncwindow_invalid_schedules": _window,
    "derived_syncwindow": lambda given: _window(given["window"]),
    "syncwindow_identity": _same_window,
    "policy_object": lambda given: {"valid": roles.is_object(given["proj"], given["text"])},
    "policy_rule": _policy,
    "derived_policies": _policy,
    "policy_action": lambda given: {"valid": roles.is_action(given["text"], version=HEAD)},
    "derived_actions": lambda given: {"valid": roles.is_action(given["text"], version=HEAD)},
    "derived_policy_string": lambda given: _said(casbin.line_problem(given["text"]), Code.NONE),
    "group_name": _group_name,
    "derived_group_names": _group_name,
    "derived_role_names": _role_name,
    "derived_cron": _schedule,
    "derived_duration": _duration,
    "derived_tz": lambda given: _said(time_zones.problem(given["text"]), Code.NONE),
    "derived_glob": _glob,
    "glob_match": _glob,
    "glob_match_list": _glob_in_list,
    "glob_project": _project_glob,
    "derived_project_globmatch": _project_glob,
    "git_same_url": _same_url,
    "derived_normalize_url": lambda given: {"value": git_urls.normalize(given["text"])},
    "source_permitted": _source,
    "source_permitted_negated": _source,
    "derived_source": _source,
    "derived_source_unparseable": _source,
    "destination_permitted": _destination,
    "destination_permitted_negated": _destination,
    "destination_permitted_project_scoped": _destination,
    "derived_destination": _destination,
    "group_kind_permitted": _kind,
    "app_namespace_permitted": _application_namespace,
    "sync_permissions": _sync,
    "project_update_impact": _update,
    "project_delete": _delete,
}
