"""The mode of an agent is its principal's word: a label of its cluster Secret, else what its first login said."""

from collections.abc import Iterable, Mapping
from typing import Any

from argocd import names
from argocd.agents.vocabulary import Mode
from argocd.reading import mapping, text

Object = Mapping[str, Any]


def labelled_mode(secret: Object | None) -> Mode | None:
    """What an operator said, or what the agent that registered itself did."""
    return _mode(text(secret, "metadata", "labels", names.TIPHYS_MODE))


def kept_mode(config_map: Object | None, agent: str) -> Mode | None:
    """What its first login said, in the ConfigMap of modes."""
    return _mode(text(config_map, "data", agent))


def autonomous_agents(secrets: Iterable[Object], config_map: Object | None) -> frozenset[str]:
    """Those of all agents that have a cluster Secret."""
    found = {}
    for secret in secrets:
        if agent := text(secret, "metadata", "labels", names.AGENT_NAME):
            found[agent] = labelled_mode(secret) or kept_mode(config_map, agent)
    return frozenset(agent for agent, mode in found.items() if mode is Mode.AUTONOMOUS)


def other_mode_refused(agent: str, *, mode: Mode, told: Mode) -> str:
    return (
        f"agent {agent} logs in as {told.value}, but is {mode.value} here:"
        f" tiphys agents set-mode {agent} {told.value} changes that"
    )


def with_mode(secret: Object, mode: Mode) -> dict[str, Any]:
    metadata = mapping(secret, "metadata")
    labels = {**mapping(metadata, "labels"), names.TIPHYS_MODE: mode.value}
    return {**secret, "metadata": {**metadata, "labels": labels}}


def _mode(word: str) -> Mode | None:
    return Mode(word) if word in set(Mode) else None
