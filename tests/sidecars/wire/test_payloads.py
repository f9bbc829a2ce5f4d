"""The small structs: the JSON that Go writes, and what becomes of JSON that it would choke on."""

from typing import Any

import pytest

from sidecars.wire import payloads, proxy_payloads
from sidecars.wire.errors import MalformedError
from sidecars.wire.payloads import read, write

GOLDEN: list[tuple[Any, bytes]] = [
    (payloads.RequestSyncedResourceList(), b'{"checksum":null}'),
    (payloads.RequestSyncedResourceList(checksum=b"\x00\xff"), b'{"checksum":"AP8="}'),
    (
        payloads.SyncedResource(name="web", namespace="argocd", uid="u", kind="AppProject"),
        b'{"name":"web","namespace":"argocd","uid":"u","kind":"AppProject"}',
    ),
    (payloads.SyncedResource(name="web"), b'{"name":"web","uid":"","kind":""}'),
    (
        payloads.RequestUpdate(name="web", namespace="argocd", uid="u", kind="Repository", checksum=b"ab"),
        b'{"name":"web","namespace":"argocd","uid":"u","kind":"Repository","checksum":"YWI="}',
    ),
    (payloads.RequestUpdate(), b'{"name":"","uid":"","kind":"","checksum":null}'),
    (payloads.RequestResourceResync(), b"{}"),
    (
        proxy_payloads.ClusterCacheInfo(applications_count=1, apis_count=2, resources_count=3),
        b'{"applicationsCount":1,"apisCount":2,"resourcesCount":3}',
    ),
    (
        payloads.ErrorData(resource_name="web", resource_namespace="argocd", message="no"),
        b'{"resourceName":"web","resourceNamespace":"argocd","message":"no"}',
    ),
    (
        proxy_payloads.ResourceRequest(
            uuid="q", name="web", method="GET", body=b"{}", params={"a": "b"}, version="v1"
        ),
        b'{"uuid":"q","name":"web","method":"GET","body":"e30=","params":{"a":"b"},"group":"","version":"v1","resource":""}',
    ),
    (proxy_payloads.ResourceResponse(uuid="q", status=404), b'{"uuid":"q","status":404}'),
    (
        proxy_payloads.ContainerLogRequest(
            uuid="q", namespace="n", pod_name="p", tail_lines=10, insecure_skip_tls_verify_backend=True
        ),
        b'{"uuid":"q","namespace":"n","podName":"p","tailLines":10,"insecureSkipTLSVerifyBackend":true}',
    ),
    (
        proxy_payloads.ContainerTerminalRequest(uuid="q", command=["sh"], tty=True),
        b'{"uuid":"q","namespace":"","podName":"","containerName":"","command":["sh"],"tty":true,"stdin":false,"stdout":false,"stderr":false}',
    ),
    (
        proxy_payloads.RedisRequest(
            uuid="q", body=proxy_payloads.RedisRequestBody(get=proxy_payloads.RedisKey(key="k"))
        ),
        b'{"uuid":"q","connectionUuid":"","body":{"get":{"key":"k"}}}',
    ),
    (
        proxy_payloads.RedisRequest(
            uuid="q", body=proxy_payloads.RedisRequestBody(subscribe=proxy_payloads.RedisChannel(channel="c"))
        ),
        b'{"uuid":"q","connectionUuid":"","body":{"subscribe":{"channel":"c"}}}',
    ),
    (
        proxy_payloads.RedisRequest(
            uuid="q", body=proxy_payloads.RedisRequestBody(ping=proxy_payloads.RedisNothing())
        ),
        b'{"uuid":"q","connectionUuid":"","body":{"ping":{}}}',
    ),
    (
        proxy_payloads.RedisResponse(
            uuid="q",
            connection_uuid="c",
            body=proxy_payloads.RedisResponseBody(get=proxy_payloads.RedisValue(value=b"v", cache_hit=True)),
        ),
        b'{"uuid":"q","connectionUuid":"c","body":{"get":{"bytes":"dg==","cacheHit":true,"error":""}}}',
    ),
    (
        proxy_payloads.RedisResponse(
            body=proxy_payloads.RedisResponseBody(
                push_from_subscribe=proxy_payloads.RedisPush(channel_name="c")
            )
        ),
        b'{"uuid":"","connectionUuid":"","body":{"pushFromSubscribe":{"channelName":"c"}}}',
    ),
]


@pytest.mark.parametrize(("struct", "text"), GOLDEN, ids=lambda part: type(part).__name__)
def test_structs_are_written_as_go_writes_them(struct: Any, text: bytes) -> None:
    assert write(struct) == text


@pytest.mark.parametrize(("struct", "text"), GOLDEN, ids=lambda part: type(part).__name__)
def test_structs_come_back_as_they_were(struct: Any, text: bytes) -> None:
    assert read(type(struct), text) == struct


def test_unknown_keys_are_ignored_and_absent_ones_are_empty() -> None:
    assert read(payloads.RequestUpdate, b'{"name":"web","later":{"x":1}}') == payloads.RequestUpdate(
        name="web"
    )


@pytest.mark.parametrize("text", [b'{"checksum":null}', b'{"checksum":""}', b"{}"])
def test_no_checksum_has_three_spellings(text: bytes) -> None:
    assert not read(payloads.RequestSyncedResourceList, text).checksum


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (payloads.RequestUpdate, b'{"name":7}', "name must be a string"),
        (payloads.RequestUpdate, b'{"checksum":7}', "checksum must be base64 text"),
        (payloads.RequestUpdate, b'{"checksum":"!"}', "checksum is not base64"),
        (payloads.RequestUpdate, b'["name"]', "a JSON object is expected, not a list"),
        (payloads.RequestUpdate, b"", "not JSON"),
        (payloads.RequestUpdate, b'{"Name":"a"}', "'Name' must be spelled 'name'"),
        (payloads.RequestUpdate, '{"\u212aind":"x"}'.encode(), "must be spelled 'kind'"),
        (payloads.RequestUpdate, b'{"name":"a","name":"b"}', "'name' appears twice"),
        (payloads.RequestUpdate, b'{"name":"a","na\\u006de":"b"}', "'name' appears twice"),
        (proxy_payloads.ClusterCacheInfo, b'{"apisCount":"3"}', "apisCount must be an integer"),
        (proxy_payloads.ClusterCacheInfo, b'{"apisCount":3.0}', "apisCount must be an integer"),
        (proxy_payloads.ClusterCacheInfo, b'{"apisCount":true}', "apisCount must be an integer"),
        (
            proxy_payloads.ClusterCacheInfo,
            b'{"apisCount":9223372036854775808}',
            "apisCount must be an integer",
        ),
        (proxy_payloads.ContainerTerminalRequest, b'{"tty":"yes"}', "tty must be a boolean"),
        (proxy_payloads.ContainerTerminalRequest, b'{"command":"sh"}', "command must be a list of strings"),
        (proxy_payloads.ResourceRequest, b'{"params":{"a":1}}', "params must be an object of strings"),
        (proxy_payloads.RedisRequest, b'{"body":"x"}', "body must be an object"),
        (proxy_payloads.RedisRequest, b'{"body":{"get":{"key":1}}}', "body.get.key must be a string"),
        (proxy_payloads.RedisRequest, b'{"body":{"GET":{"key":"a"}}}', "'GET' must be spelled 'get'"),
    ],
)
def test_wrong_types_and_double_meanings_are_refused(kind: type, text: bytes, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read(kind, text)
    assert reason in str(caught.value)
