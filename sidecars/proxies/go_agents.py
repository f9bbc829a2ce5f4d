"""What argocd-agent's own agents can be asked, and how the rest is answered without them.

They know no headers, no deadline and no duplicate, carry out every patch as a merge patch, delete the object where a
subresource is meant, and say nothing at all where their proxy is switched off.
"""

from typing import Any

import orjson

from argocd.agents.vocabulary import Target
from argocd.reading import sequence, text
from sidecars.proxies.api_paths import REFUSED_SUBRESOURCES, ApiPath
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.requests import NoAnswerError, Requests
from sidecars.wire import payloads
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event
from sidecars.wire.proxy_payloads import ResourceRequest, ResourceResponse

MERGE = "application/merge-patch+json"
VERSION = {
    "major": "1",
    "minor": "28",
    "gitVersion": "v1.28.5+argocd-agent",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""They cannot be asked for theirs: what argocd-agent's principal says."""

REMEMBERED = 4096
_OK, _NOT_FOUND = 200, 404


class GoAgents:
    def __init__(self, requests: Requests, *, seconds: float) -> None:
        self._requests = requests
        self._seconds = seconds
        self._heard: dict[str, bool] = {}
        """Whether an agent that was asked on its present stream has ever answered."""

    def came(self, agent: str) -> None:
        """Its stream began: it may have been started with other flags."""
        self._heard.pop(agent, None)

    async def ask(self, agent: str, path: ApiPath, asked: ResourceRequest) -> ResourceResponse:
        if path.document:
            return await self._document(agent, path.document, asked)
        _check(path, asked)
        return await self._asked(agent, asked)

    async def _document(self, agent: str, path: str, asked: ResourceRequest) -> ResourceResponse:
        if asked.method != "GET":
            raise RefusedRequestError(f"{path} can be read, no more", status=405)
        parts = path.strip("/").split("/")
        match parts:
            case ["version"]:
                return _json(VERSION)
            case ["api"]:
                return _json({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
            case ["apis"] | ["apis", _]:
                whole = await self._asked(agent, _discovery(asked))
                return whole if len(parts) == 1 or whole.status != _OK else _group(whole, parts[1])
            case ["api", version]:
                return await self._asked(agent, _discovery(asked, version=version))
            case ["apis", group, version]:
                return await self._asked(agent, _discovery(asked, group=group, version=version))
        raise RefusedRequestError(f"argocd-agent's agents do not tell {path}: use Tiphys there", status=501)

    async def _asked(self, agent: str, asked: ResourceRequest) -> ResourceResponse:
        if self._heard.get(agent) is False:
            raise RefusedRequestError(
                f"agent {agent} has not answered since it connected: is its --enable-resource-proxy off?",
                status=503,
            )
        event = Event(
            type=asked.method,
            target=Target.RESOURCE,
            resource_id=asked.uuid,
            event_id=asked.uuid,
            payload=payloads.write(_plain(asked)),
        )
        try:
            answer = await self._requests.ask(
                agent, event, seconds=self._seconds, mutates=asked.method != "GET"
            )
        except NoAnswerError:
            self._heard.setdefault(agent, False)
            raise
        else:
            self._heard[agent] = True
        finally:
            if len(self._heard) > REMEMBERED:
                del self._heard[next(iter(self._heard))]
        try:
            return payloads.read(ResourceResponse, answer.payload)
        except MalformedError as error:
            raise RefusedRequestError(f"the agent's answer cannot be read: {error}", status=502) from error


def _check(path: ApiPath, asked: ResourceRequest) -> None:
    told = asked.content_type.partition(";")[0].strip().lower()
    if path.subresource in REFUSED_SUBRESOURCES:
        raise RefusedRequestError(f"{path.subresource} is not served by the resource proxy")
    if asked.method == "PUT":
        raise RefusedRequestError("argocd-agent's agents know no PUT: use Tiphys there", status=501)
    if asked.method == "PATCH" and told != MERGE:
        raise RefusedRequestError(
            f"argocd-agent's agents carry out every patch as a merge patch, and this is {told[:64]}: not sent",
            status=415,
        )
    if asked.method == "DELETE" and path.subresource:
        raise RefusedRequestError(
            "argocd-agent's agents delete the object where a subresource is meant: not sent", status=501
        )
    if asked.method == "GET" and not path.name and path.resource != "events":
        raise RefusedRequestError("argocd-agent's agents list events alone: use Tiphys there", status=501)


def _plain(asked: ResourceRequest) -> ResourceRequest:
    """Without what they do not know; a deletion needs a body."""
    body = asked.body or (b"{}" if asked.method == "DELETE" else None)
    return ResourceRequest(
        uuid=asked.uuid,
        namespace=asked.namespace,
        name=asked.name,
        subresource=asked.subresource,
        method=asked.method,
        body=body,
        params=asked.params,
        group=asked.group,
        version=asked.version,
        resource=asked.resource,
    )


def _discovery(asked: ResourceRequest, *, group: str = "", version: str = "") -> ResourceRequest:
    return ResourceRequest(uuid=asked.uuid, method="GET", params=asked.params, group=group, version=version)


def _json(value: Any, *, status: int = _OK) -> ResourceResponse:
    return ResourceResponse(status=status, resource=orjson.dumps(value).decode())


def _group(whole: ResourceResponse, name: str) -> ResourceResponse:
    """One group of the list of all of them."""
    try:
        groups = sequence(orjson.loads(whole.resource), "groups")
    except orjson.JSONDecodeError as error:
        raise RefusedRequestError("the agent's list of groups cannot be read", status=502) from error
    for group in groups:
        if text(group, "name") == name:
            return _json({"kind": "APIGroup", "apiVersion": "v1", **group})
    raise RefusedRequestError(f"the cluster has no group {name}", status=_NOT_FOUND)
