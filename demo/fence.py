"""The API server's part of the fence, for the embedded store: what manifests/components/high-availability/fence.yaml says.

On a real API server these are admission policies. Here the two that keep others from writing on a standby are written
out; the principal's own limits are not.
"""

from argocd import names
from kube import queries
from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore
from kube.errors import ForbiddenError
from kube.resources import APP_PROJECTS, CONFIG_MAPS, SECRETS
from kube.store import Object

ARGOCD = names.DEFAULT_NAMESPACE
REPLICATED = frozenset({names.HA_CANARY, names.ARGOCD_GPG_KEYS_CM, names.TLS_BLOCKLIST, names.AGENT_MODES})
WRITERS = frozenset(
    {f"{names.SERVICE_ACCOUNT_PREFIX}{ARGOCD}:tiphys-principal"}
    | {names.GARBAGE_COLLECTOR, names.NAMESPACE_CONTROLLER, names.CONTROLLER_MANAGER}
)


class FenceAdmission:
    """An `Admission` for `store`; without a record everything that is replicated is refused."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    async def __call__(self, request: AdmissionRequest) -> Admitted:
        if _is_replicated(request):
            record = await queries.find(self._store, CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
            problem = _problem(request, None if record is None else record["data"])
            if problem:
                resource, policy = request.resource, names.HA_FENCE
                if resource == SECRETS:
                    policy += "-secrets"
                group = f".{resource.group}" if resource.group else ""
                raise ForbiddenError(
                    f'{resource.plural}{group} "{request.name}" is forbidden: ValidatingAdmissionPolicy'
                    f" '{policy}' with binding '{policy}' denied request: {problem}"
                )
        return Admitted()


def _is_replicated(request: AdmissionRequest) -> bool:
    resource = request.resource
    if request.subresource or resource.group == APP_PROJECTS.group:
        return not request.subresource
    if request.namespace != ARGOCD:
        return False
    if resource == SECRETS:
        return any(names.SECRET_TYPE in _labels(thing) for thing in (request.new, request.old))
    return resource == CONFIG_MAPS and request.name in REPLICATED


def _labels(thing: Object | None) -> Object:
    return ((thing or {}).get("metadata") or {}).get("labels") or {}


def _problem(request: AdmissionRequest, record: Object | None) -> str:
    """Empty where it may be written."""
    if record is None:
        return "no params found for policy binding with `Deny` parameterNotFoundAction"
    if request.resource == CONFIG_MAPS and request.name == names.HA_CANARY:
        told = (request.new or {}).get("data") or {}
        known = all(told.get(key) == record[key] for key in ("epoch", "role"))
        return "" if known else "a canary that does not name this epoch and this role"
    may_write = request.user.user in WRITERS or names.HA_BREAK_GLASS in request.user.groups
    if record["role"] != "standby" or may_write:
        return ""
    return (
        f"this cluster is a standby; make the change where {record['peerAddress']} is active"
        f" (epoch {record['peerEpoch']}), in an emergency as a member of the group {names.HA_BREAK_GLASS}"
    )
