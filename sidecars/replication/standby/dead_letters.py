"""Objects that a standby does not have as its primary has them, and why, without a word of what is in them."""

from dataclasses import dataclass, field

from kube.errors import without_values
from kube.resources import SECRETS
from sidecars.replication.kinds import BY_NAME, ObjectKey
from tiphys.errors import ObjectError

MESSAGE_LENGTH = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrittenObject:
    """A dead letter: why a standby does not have an object as its primary has it."""

    kind: str
    namespace: str
    name: str
    reason: str
    digest: bytes = field(default=b"", repr=False)
    """Of what the API server found invalid: the same once more would be, too."""


def is_secret(key: ObjectKey) -> bool:
    return BY_NAME[key.kind].resource == SECRETS


def reason_of(key: ObjectKey, error: Exception) -> str:
    """For logs and for `tiphys ha status`. Our own words quote nothing; an API server's may."""
    words = str(error) if isinstance(error, ObjectError) else without_values(error, whole=not is_secret(key))
    return (words or type(error).__name__)[:MESSAGE_LENGTH]
