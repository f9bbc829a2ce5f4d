"""Watches of the live store when the server misbehaves."""

from contextlib import aclosing
from pathlib import Path

import pytest

from kube.errors import GoneError, NotFoundError, TooManyRequestsError, UnavailableError
from kube.live import LiveStore
from kube.resources import CONFIG_MAPS
from tests.kube.live.scripted_server import Answer, connected, event, serving, status, streamed

GONE = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'


async def _watch(store: LiveStore) -> list[str]:
    names = []
    async with aclosing(store.watch(CONFIG_MAPS, resource_version="5")) as events:
        async for each in events:
            names.append(f"{each.kind} {each.object['metadata']['name']}")
            assert each.object["kind"] == "ConfigMap"
    return names


async def test_a_watch_asks_for_bookmarks_and_an_end(tmp_path: Path) -> None:
    async with serving(streamed(event("ADDED", "a", 6))) as script, connected(script, tmp_path) as store:
        assert await _watch(store) == ["ADDED a"]
        query = script.requests[0].query
        assert query["watch"] == query["allowWatchBookmarks"] == "true"
        assert query["resourceVersion"] == "5"
        assert 300 <= int(query["timeoutSeconds"]) <= 600


async def test_events_may_come_in_any_pieces(tmp_path: Path) -> None:
    whole = b"".join(event("ADDED", name, 6) for name in "abc")
    pieces = [whole[index : index + 7] for index in range(0, len(whole), 7)]
    for chunks in (pieces, [whole], [whole[:100], whole[100:]]):
        async with serving(streamed(*chunks)) as script, connected(script, tmp_path) as store:
            assert await _watch(store) == ["ADDED a", "ADDED b", "ADDED c"]


async def test_half_an_event_is_none(tmp_path: Path) -> None:
    cut = event("ADDED", "b", 7)[:-20]
    async with serving(streamed(event("ADDED", "a", 6), cut)) as script, connected(script, tmp_path) as store:
        assert await _watch(store) == ["ADDED a"]


async def test_an_event_may_be_as_large_as_etcd_allows(tmp_path: Path) -> None:
    large = event("ADDED", "a", 6)[:-3] + b',"x":"' + b"y" * 3_000_000 + b'"}}\n'
    async with serving(streamed(large)) as script, connected(script, tmp_path) as store:
        assert await _watch(store) == ["ADDED a"]


@pytest.mark.parametrize("answer", [streamed(GONE), status(410, reason="Expired", message="too old")])
async def test_410_in_either_form_is_gone(tmp_path: Path, answer: Answer) -> None:
    async with serving(answer) as script, connected(script, tmp_path) as store:
        with pytest.raises(GoneError, match="too old"):
            await _watch(store)


async def test_a_refused_watch_raises_at_once(tmp_path: Path) -> None:
    answer = status(429, headers={"Retry-After": "3"})
    async with serving(answer) as script, connected(script, tmp_path) as store:
        with pytest.raises(TooManyRequestsError) as caught:
            await _watch(store)
        assert caught.value.retry_after == 3.0


async def test_a_connection_that_breaks_raises(tmp_path: Path) -> None:
    answer = streamed(event("ADDED", "a", 6), then="drop")
    async with serving(answer) as script, connected(script, tmp_path) as store:
        with pytest.raises(UnavailableError, match="broke the connection"):
            await _watch(store)


async def test_silence_ends_a_watch(tmp_path: Path) -> None:
    answer = streamed(event("ADDED", "a", 6), then="hang")
    async with serving(answer) as script, connected(script, tmp_path, watch_idle=0.1) as store:
        assert await _watch(store) == ["ADDED a"]


@pytest.mark.parametrize(
    "line", [b"no json\n", b"[]\n", b'{"type":"DANCED","object":{}}\n', b'{"type":"ADDED"}\n']
)
async def test_a_line_that_is_no_event_raises(tmp_path: Path, line: bytes) -> None:
    async with serving(streamed(line)) as script, connected(script, tmp_path) as store:
        with pytest.raises(UnavailableError, match="no event"):
            await _watch(store)


async def test_watches_do_not_use_up_the_places_of_requests(tmp_path: Path) -> None:
    async with (
        serving(streamed(event("ADDED", "a", 6), then="hang")) as script,
        connected(script, tmp_path, concurrency=1) as store,
        aclosing(store.watch(CONFIG_MAPS, resource_version="5")) as one,
        aclosing(store.watch(CONFIG_MAPS, resource_version="5")) as two,
    ):
        assert (await anext(one)) == (await anext(two))
        script.answers = [status(404)]
        with pytest.raises(NotFoundError):
            await store.get(CONFIG_MAPS, name="a", namespace="default")
