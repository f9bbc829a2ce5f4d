"""What keeps a pair from having two principals that serve the same; a test switches one off to see that it is needed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSafeguards:
    """All on."""

    asks_peer: bool = True
    """Before it serves because its record says active."""
    waits_when_interrupted: bool = True
    """A promotion that was killed is nobody's until an operator speaks."""
    steps_down: bool = True
    """When its peer has served under a higher epoch."""
    checks_promotion: bool = True
    """What speaks against it is heard, unless it is forced."""
    stops_following: bool = True
    """Before an epoch is claimed."""
    compares_and_sets: bool = True
    """A record is written only over the one that was read."""
    proves_fence: bool = True
    """By a canary, before anything depends on it."""
    checks_token: bool = True
    """Of a switchover."""
