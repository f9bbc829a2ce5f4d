"""An API server in this process, as far as the rest of the house can tell.

What it does not do: schemas (no defaults but those of Secrets and Namespaces, no pruning, no validation below
metadata), conversion between versions, permissions, strategic merge patches, garbage collection by owner
references (a foreground or orphan deletion waits for its finalizer, as on an API server without controllers),
graceful deletion of pods. Server-side apply takes lists as one value (see `managed_fields`). The namespace
controller's work is done at once.
"""

from kube.embedded.hooks import (
    Admission,
    AdmissionOperation,
    AdmissionRequest,
    Admitted,
    Call,
    Faults,
    Hooks,
    Phase,
)
from kube.embedded.store import ADMIN, EmbeddedStore

__all__ = [
    "ADMIN",
    "Admission",
    "AdmissionOperation",
    "AdmissionRequest",
    "Admitted",
    "Call",
    "EmbeddedStore",
    "Faults",
    "Hooks",
    "Phase",
]
