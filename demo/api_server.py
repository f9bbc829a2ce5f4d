"""The API server's part of admission, for the embedded store: it asks whom the stored registrations name.

Rules, selectors, the caBundle and the failure policy are followed as an API server does; match conditions are
not evaluated: they keep away what the webhook would let pass anyway.
"""

import base64
import ssl
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp
import orjson

from kube.embedded import Admission, AdmissionRequest, Admitted, EmbeddedStore
from kube.errors import ApiError, ForbiddenError
from kube.patches import apply_json_patch
from kube.resources import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from kube.store import Object, Resource
from webhook.admission.review import API_VERSION, KIND

# The most that a registration may grant a webhook is 30 s; ours answers in milliseconds.
CALL_SECONDS = 10.0


class WebhookAdmission:
    """An `Admission` for `store`; `warned` is told who was warned of what, also by a refusal.

    `policies` are asked after those that change an object, and before those that only judge it.
    """

    def __init__(
        self, store: EmbeddedStore, *, policies: Admission, warned: Callable[[str, str], None]
    ) -> None:
        self._store = store
        self._policies = policies
        self._warned = warned

    async def __call__(self, request: AdmissionRequest) -> Admitted:
        if request.subresource or not request.namespace:
            return Admitted()
        labels = await self._namespace_labels(request.namespace)
        new, changed = request.new, False
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            if resource is VALIDATING_WEBHOOKS:
                await self._policies(replace(request, new=new))
            for entry in await self._entries(resource):
                if not _matches(entry, request, namespace_labels=labels, thing=new or request.old or {}):
                    continue
                response = await _call(entry, request, new)
                for warning in response.get("warnings", ()):
                    self._warned(request.user.user, warning)
                if not response["allowed"]:
                    message = response["status"]["message"]
                    raise ForbiddenError(f'admission webhook "{entry["name"]}" denied the request: {message}')
                if "patch" in response and new is not None:
                    patch = orjson.loads(base64.b64decode(response["patch"]))
                    new, changed = apply_json_patch(new, patch), True
        return Admitted(body=new if changed else None)

    async def _namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = await self._store.get(NAMESPACES, name=name)
        return {"kubernetes.io/metadata.name": name, **(namespace["metadata"].get("labels") or {})}

    async def _entries(self, resource: Resource) -> list[Object]:
        page = await self._store.list(resource)
        return [entry for configuration in page.items for entry in configuration["webhooks"]]


def _matches(
    entry: Object, request: AdmissionRequest, *, namespace_labels: Mapping[str, str], thing: Object
) -> bool:
    resource = request.resource
    ruled = any(
        resource.group in rule["apiGroups"]
        and resource.plural in rule["resources"]
        and request.operation.value in rule["operations"]
        for rule in entry["rules"]
    )
    labels = (thing.get("metadata") or {}).get("labels") or {}
    return (
        ruled
        and _selected(entry.get("namespaceSelector"), namespace_labels)
        and _selected(entry.get("objectSelector"), labels)
    )


def _selected(selector: Object | None, labels: Mapping[str, str]) -> bool:
    wanted = selector or {}
    return all(labels.get(key) == part for key, part in (wanted.get("matchLabels") or {}).items()) and all(
        _holds(one["operator"], labels.get(one["key"]), one.get("values") or ())
        for one in wanted.get("matchExpressions") or ()
    )


def _holds(operator: str, value: str | None, values: Sequence[str]) -> bool:
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    return (value is not None) is (operator == "Exists")


async def _call(entry: Object, request: AdmissionRequest, new: Object | None) -> Object:
    """The response; where nobody answers, what the failure policy says."""
    review = {"apiVersion": API_VERSION, "kind": KIND, "request": _request(request, new)}
    try:
        response: Object = orjson.loads(await _post(entry, orjson.dumps(review)))[
            "response"
        ]  # an error has none
    except (aiohttp.ClientError, OSError, LookupError, ValueError) as error:
        if entry["failurePolicy"] == "Ignore":
            return {"allowed": True}
        raise ApiError(f'failed calling webhook "{entry["name"]}": {error}') from error
    return response


async def _post(entry: Object, body: bytes) -> bytes:
    client = entry["clientConfig"]
    context = ssl.create_default_context(cadata=base64.b64decode(client["caBundle"]).decode())
    url = urlsplit(client["url"])
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_SECONDS)) as session,
        session.post(
            # By number: a machine without a resolver can show the demonstration too.
            f"https://127.0.0.1:{url.port}{url.path}?timeout={entry['timeoutSeconds']}s",
            data=body,
            headers={"Content-Type": "application/json"},
            ssl=context,
            server_hostname=url.hostname,
        ) as answer,
    ):
        return await answer.read()


def _request(request: AdmissionRequest, new: Object | None) -> Object:
    resource = request.resource
    named = {"group": resource.group, "version": resource.version}
    return {
        "uid": str(uuid.uuid4()),
        "kind": {**named, "kind": resource.kind},
        "resource": {**named, "resource": resource.plural},
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation.value,
        "userInfo": {"username": request.user.user, "groups": list(request.user.groups)},
        "object": new,
        "oldObject": request.old,
        "dryRun": request.dry_run,
    }
