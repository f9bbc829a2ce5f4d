"""What a principal of a pair is told about it."""

from dataclasses import dataclass
from enum import StrEnum

from tiphys.errors import CallError

ADMIN_PORT = 8405


class PreferredRole(StrEnum):
    """For a first start only: afterwards the record decides."""

    PRIMARY = "primary"
    REPLICA = "replica"


class RestartPolicy(StrEnum):
    """Of a principal whose record says active and whose peer does not answer."""

    WAIT = "wait"
    ACTIVE = "active"
    """As argocd-agent: two actives where the peer was promoted and cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaSettings:
    preferred_role: PreferredRole = PreferredRole.PRIMARY
    peer_address: str = ""
    peer_health_url: str = ""
    """Of a principal of argocd-agent's, which tells its state nowhere else."""
    allowed_clients: frozenset[str] = frozenset()
    restart_policy: RestartPolicy = RestartPolicy.WAIT
    admin_port: int | None = ADMIN_PORT
    """0: one that the system chooses; None: nobody is listened to."""
    admin_auth: str = ""
    allow_bare_force: bool = False

    def check(self) -> None:
        if self.preferred_role is PreferredRole.REPLICA and not self.peer_address:
            raise CallError("--ha-peer-address: peer address is required for replica")
        if not self.allowed_clients:
            raise CallError(
                "--ha-allowed-replication-clients: name the peer's identity: an empty list would let every"
                " certificate of the fleet read all there is"
            )
