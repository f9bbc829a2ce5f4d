"""Whether a pod may be looked into: it belongs to an Application of this agent, as whose account it is touched."""

from argocd.reading import text
from kube.live.raw import RawApi
from kube.store import Object
from sidecars.proxies.api_paths import ApiPath
from sidecars.proxies.own_applications import OwnApplications
from sidecars.proxies.ownership import MAX_OBJECT_BYTES, LookupLimit, Ownership, decoded_object
from sidecars.proxies.refusals import RefusedRequestError

_OK = 200


class PodAnswerError(RefusedRequestError):
    """The API server's own word, with its body."""

    def __init__(self, message: str, *, status: int, body: bytes) -> None:
        super().__init__(message, status=status)
        self.body = body


class Pods:
    def __init__(self, api: RawApi, *, ownership: Ownership, applications: OwnApplications) -> None:
        self.api = api
        self._ownership = ownership
        self._applications = applications

    async def check(self, *, namespace: str, name: str, account: str) -> ApiPath:
        """Its path; raises RefusedRequestError."""
        path = ApiPath(version="v1", namespace=namespace, resource="pods", name=name)
        if not self._applications.serves(namespace):
            raise RefusedRequestError(
                f"namespace {namespace[:253]} is not shown: --resource-proxy-namespaces"
            )
        answer = await self.api.request("GET", str(path), max_bytes=MAX_OBJECT_BYTES)
        if answer.status != _OK:
            raise PodAnswerError(
                f"the API server refuses {path.what}", status=answer.status, body=answer.body
            )
        owner = await self._owner(answer.body)
        if owner is None:
            raise RefusedRequestError(
                f"{path.what}: no tracking mark and no owner of it leads to an Application of this agent"
            )
        if account and account != self._applications.account(owner):
            application = text(owner, "metadata", "name")
            raise RefusedRequestError(
                f"{path.what}: the project of Application {application} names another account than"
                f" {account[:200]} here, or none: see spec.destinationServiceAccounts"
            )
        return path

    async def _owner(self, body: bytes) -> Object | None:
        pod = decoded_object(body)
        return None if pod is None else await self._ownership.application_of(pod, LookupLimit())
