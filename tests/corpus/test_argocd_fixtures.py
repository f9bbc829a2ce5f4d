"""Argo CD's own examples, documentation and test data: nothing of them makes a check fail, and few are refused."""

from datetime import date
from pathlib import Path

import pytest

from argocd.judging.case import Action, Kind, kind_of
from argocd.judging.configuration import Configuration
from checks.check import judge_files
from checks.findings import CheckResult
from checks.manifests import Manifest, read_file
from tests.corpus.argocd_module import argocd_module

TODAY = date(2026, 9, 1)
_APPSET_DATA = "resource_customizations/argoproj.io/ApplicationSet/testdata"
_MATRIX = "applicationset/examples/matrix/matrix-and-union-in-matrix"
_DESIGN = "applicationset/examples/design-doc"
_LISTS = "applicationset/examples/matrix/list-and-list"
_MANUAL = "docs/operator-manual/applicationset.yaml"

RIGHTLY_DENIED = {
    (
        "cmd/argocd/commands/admin/testdata/rbac/argocd-rbac-cm.yaml",
        "rbac/default",
    ): "role:unknown is not defined",
    (
        "docs/operator-manual/applicationset.yaml",
        "applicationset/unrecognized-generator",
    ): "the fields of clusterDecisionResource are indented beside it",
    (
        "docs/operator-manual/applicationset.yaml",
        "applicationset/combination",
    ): "a matrix with a remark instead of parts",
    (
        "docs/operator-manual/argocd-repo-creds.yaml",
        "secret/undecodable",
    ): "numbers in stringData without quotes",
    (f"{_MATRIX}.yaml", "applicationset/combination"): "union became merge before it was released",
    (
        f"{_MATRIX}-fasttemplate.yaml",
        "applicationset/combination",
    ): "union became merge before it was released",
    (
        f"{_APPSET_DATA}/errorApplicationSetWithStatusMessage.yaml",
        "applicationset/combination",
    ): "about such an error",
    (
        f"{_APPSET_DATA}/progressiveSyncApplicationSet.yaml",
        "applicationset/combination",
    ): "a merge of one, for its status",
    (
        f"{_APPSET_DATA}/progressiveSyncApplicationSet.yaml",
        "applicationset/strategy-type",
    ): "steps without their type",
    (
        f"{_APPSET_DATA}/resourceNotUpdatedApplicationSet.yaml",
        "applicationset/combination",
    ): "about such an error",
    **{
        (f"{_DESIGN}/{name}.yaml", "field/required"): "older than the definitions: no project, no revision"
        for name in (
            "applicationset",
            "applicationset-fasttemplate",
            "git-directory-discovery",
            "git-directory-discovery-fasttemplate",
            "git-files-discovery",
            "git-files-discovery-fasttemplate",
            "git-files-literal",
            "git-files-literal-fasttemplate",
            "proposal/filters",
        )
    },
    **{
        (f"{_DESIGN}/{name}.yaml", "application/chart-version"): "a chart at HEAD"
        for name in ("applicationset", "applicationset-fasttemplate", "clusters")
    },
    (f"{_DESIGN}/clusters.yaml", "applicationset/go-template-off"): "goTemplate was forgotten",
    (f"{_DESIGN}/proposal/filters.yaml", "field/misplaced"): "filters were proposed and became selectors",
    (f"{_LISTS}.yaml", "applicationset/parameter-unknown"): "path was copied from an example with git",
    (
        f"{_LISTS}-fasttemplate.yaml",
        "applicationset/parameter-unknown",
    ): "path was copied from an example with git",
    (f"{_MATRIX}.yaml", "field/unknown"): "union became merge before it was released",
    (f"{_MATRIX}-fasttemplate.yaml", "field/unknown"): "union became merge before it was released",
    (
        "applicationset/examples/git-generator-directory/excludes/git-directories-exclude-example.yaml",
        "applicationset/path-mapping",
    ): "the path became a mapping when goTemplate came",
    (_MANUAL, "applicationset/template-syntax"): "old braces beside goTemplate",
    (_MANUAL, "field/unknown"): "useCredentials never was a field",
    (_MANUAL, "field/misplaced"): "blocks that are indented beside their generator",
    (_MANUAL, "field/required"): "a matrix with a remark instead of parts",
}
"""File and rule, and why the rule is right."""


def manifests_of(module: Path) -> list[str]:
    return sorted(
        str(path)
        for suffix in ("yaml", "yml", "json")
        for path in module.rglob(f"*.{suffix}")
        if path.is_file()
    )


@pytest.fixture(scope="module")
def judged() -> tuple[Path, CheckResult]:
    module = argocd_module()
    return module, judge_files(manifests_of(module), Configuration(), today=TODAY)


def test_no_rule_fails_on_an_object_of_argo_cds(judged: tuple[Path, CheckResult]) -> None:
    _, result = judged
    assert result.objects > 1000, "the module has its manifests"
    assert [found for found in result.findings if "this rule failed with" in found.message] == []


def test_only_what_is_wrong_is_refused(judged: tuple[Path, CheckResult]) -> None:
    module, result = judged
    denied = {
        (Path(found.place.file).relative_to(module).as_posix(), found.rule)
        for found in result.findings
        if found.action is Action.DENY
    }
    assert denied <= set(RIGHTLY_DENIED)


def test_what_its_manual_shows_is_known_by_its_kind() -> None:
    found = {
        kind_of(manifest.body)
        for file in manifests_of(argocd_module() / "docs" / "operator-manual")
        for manifest in read_file(file)
        if isinstance(manifest, Manifest)
    }
    assert found | {Kind.CLUSTER} == set(Kind), "cluster secrets stand in pages alone"
