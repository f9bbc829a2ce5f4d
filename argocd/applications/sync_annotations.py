"""What Argo CD reads from any object it syncs: waves, hooks, and options in comma lists.

It compares these texts exactly and says nothing about those it does not know.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from argocd import names, reading
from argocd.go import strconv

HOOKS = frozenset({"PreSync", "Sync", "PostSync", "SyncFail", "Skip", "PreDelete", "PostDelete"})
DELETE_POLICIES = frozenset({"HookSucceeded", "HookFailed", "BeforeHookCreation"})
COMPARE_OPTIONS = frozenset(
    {
        "IgnoreExtraneous",
        "ServerSideDiff=true",
        "ServerSideDiff=false",
        "IncludeMutationWebhook=true",
        "IncludeMutationWebhook=false",
    },
)


def _switches(*options: str) -> frozenset[str]:
    # The value that changes nothing is allowed too: it says what the writer wants, and Argo CD agrees.
    return frozenset(f"{option}={value}" for option in options for value in ("true", "false"))


RESOURCE_OPTIONS = _switches(
    "Prune",
    "Delete",
    "Validate",
    "SkipDryRunOnMissingResource",
    "PruneLast",
    "Replace",
    "Force",
    "ServerSideApply",
    "ClientSideApplyMigration",
) | {"Prune=confirm", "Delete=confirm"}
"""What the annotation of a synced object may hold."""

APPLICATION_OPTIONS = (
    RESOURCE_OPTIONS
    | _switches("CreateNamespace", "ApplyOutOfSyncOnly", "FailOnSharedResource", "RespectIgnoreDifferences")
    | {f"PrunePropagationPolicy={policy}" for policy in ("foreground", "background", "orphan")}
)
"""What spec.syncPolicy.syncOptions of an Application may hold."""


def annotations_of(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    return reading.mapping(thing, "metadata", "annotations")


_DEFINITION = "crd-install"


def items(text: str) -> Iterator[str]:
    """The entries of a comma list; Argo CD trims each and drops empty ones."""
    return filter(None, map(str.strip, text.split(",")))


def wave(annotations: Mapping[str, Any]) -> int:
    """The order in which Argo CD applies the object; what is no number counts as absent, silently."""
    for key in (names.SYNC_WAVE, names.HELM_HOOK_WEIGHT):
        found = strconv.integer(reading.text(annotations, key))
        if found is not None:
            return found
    return 0


def is_hook(annotations: Mapping[str, Any]) -> bool:
    """Helm 2's way to install definitions makes no hook of them."""
    return names.HOOK in annotations or annotations.get(names.HELM_HOOK, _DEFINITION) != _DEFINITION


def spelling(text: str, known: frozenset[str]) -> str:
    """The known text that differs in case and spaces alone, or nothing."""
    return _by_lower_case(known).get(text.replace(" ", "").lower(), "")


@cache
def _by_lower_case(known: frozenset[str]) -> dict[str, str]:
    return {text.lower(): text for text in sorted(known, reverse=True)}
