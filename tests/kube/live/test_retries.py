"""What the live store does again, and what it does not."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kube.errors import (
    ApiError,
    BadRequestError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from kube.live import LiveStore
from kube.live.answers import LONGEST_WAIT_SECONDS
from kube.resources import CONFIG_MAPS
from kube.store import Object, PatchKind
from tests.kube.live.scripted_server import Answer, connected, dropped, found, serving, status, text
from tests.kube.objects import config_map

BODY: Object = config_map("a", namespace="default")
BUSY = status(503)
BUSY_BUT_POLITE = status(503, headers={"Retry-After": "0"})

Action = Callable[[LiveStore], Awaitable[object]]


async def _get(store: LiveStore) -> object:
    return await store.get(CONFIG_MAPS, name="a", namespace="default")


async def _create(store: LiveStore) -> object:
    return await store.create(CONFIG_MAPS, BODY)


async def _replace(store: LiveStore) -> object:
    return await store.replace(CONFIG_MAPS, BODY)


async def _json_patch(store: LiveStore) -> object:
    return await store.patch(CONFIG_MAPS, [], name="a", namespace="default", kind=PatchKind.JSON)


async def _merge_patch(store: LiveStore) -> object:
    return await store.patch(CONFIG_MAPS, {}, name="a", namespace="default", kind=PatchKind.MERGE)


async def _apply(store: LiveStore) -> object:
    return await store.patch(CONFIG_MAPS, {}, name="a", namespace="default", kind=PatchKind.APPLY)


async def _delete(store: LiveStore) -> None:
    await store.delete(CONFIG_MAPS, name="a", namespace="default")


async def _delete_uid(store: LiveStore) -> None:
    await store.delete(CONFIG_MAPS, name="a", namespace="default", uid="u")


REPEATABLE = [_get, _replace, _merge_patch, _apply, _delete_uid]
NOT_REPEATABLE = [_create, _json_patch, _delete]
TROUBLE: list[Answer] = [BUSY, dropped, status(500), status(504)]


@pytest.mark.parametrize("action", [*REPEATABLE, *NOT_REPEATABLE])
@pytest.mark.parametrize("answer", [status(429, headers={"Retry-After": "0"}), status(429), BUSY_BUT_POLITE])
async def test_a_request_that_was_turned_away_is_sent_again(
    tmp_path: Path, action: Action, answer: Answer
) -> None:
    async with serving(answer, answer, found()) as script, connected(script, tmp_path) as store:
        await action(store)
        assert len(script.requests) == 3


@pytest.mark.parametrize("action", REPEATABLE)
@pytest.mark.parametrize("trouble", TROUBLE)
async def test_what_can_be_repeated_is_repeated(tmp_path: Path, action: Action, trouble: Answer) -> None:
    async with serving(trouble, found()) as script, connected(script, tmp_path) as store:
        await action(store)
        assert len(script.requests) >= 2


@pytest.mark.parametrize("action", NOT_REPEATABLE)
@pytest.mark.parametrize("trouble", [BUSY, status(500), status(504)])
async def test_what_cannot_be_repeated_fails_with_an_unknown_outcome(
    tmp_path: Path, action: Action, trouble: Answer
) -> None:
    async with serving(trouble, found()) as script, connected(script, tmp_path) as store:
        with pytest.raises(UnavailableError) as caught:
            await action(store)
        assert caught.value.outcome_unknown
        assert len(script.requests) == 1


@pytest.mark.parametrize("action", NOT_REPEATABLE)
async def test_a_write_whose_connection_broke_is_not_sent_twice(tmp_path: Path, action: Action) -> None:
    async with serving(dropped, found()) as script, connected(script, tmp_path) as store:
        with pytest.raises(UnavailableError, match="broke the connection") as caught:
            await action(store)
        assert caught.value.outcome_unknown
        assert len(script.requests) == 1


async def test_a_repeated_deletion_that_finds_nothing_has_succeeded(tmp_path: Path) -> None:
    answers = (status(500), status(404, reason="NotFound"))
    async with serving(*answers) as script, connected(script, tmp_path) as store:
        await _delete_uid(store)
        assert script.bodies[1]["preconditions"] == {"uid": "u"}


async def test_a_repeated_replacement_that_finds_nothing_fails(tmp_path: Path) -> None:
    async with serving(status(500), status(404)) as script, connected(script, tmp_path) as store:
        with pytest.raises(NotFoundError):
            await _replace(store)


async def test_a_deletion_that_finds_nothing_at_first_fails(tmp_path: Path) -> None:
    async with serving(status(404)) as script, connected(script, tmp_path) as store:
        with pytest.raises(NotFoundError):
            await _delete_uid(store)


@pytest.mark.parametrize("code", [400, 403, 404, 409, 422])
async def test_a_refusal_is_final(tmp_path: Path, code: int) -> None:
    async with serving(status(code), found()) as script, connected(script, tmp_path) as store:
        with pytest.raises(ApiError) as caught:
            await _get(store)
        assert caught.value.code == code
        assert len(script.requests) == 1


async def test_attempts_are_bounded(tmp_path: Path) -> None:
    answer = status(429, headers={"Retry-After": "0"}, message="slow down")
    async with serving(answer) as script, connected(script, tmp_path) as store:
        with pytest.raises(TooManyRequestsError, match="slow down"):
            await _get(store)
        assert len(script.requests) == 5


async def test_the_server_says_how_long_to_wait(tmp_path: Path) -> None:
    answers = (status(429, headers={"Retry-After": "1"}), found())
    async with serving(*answers) as script, connected(script, tmp_path) as store:
        began = time.monotonic()
        await _get(store)
        assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize(
    ("told", "seconds"), [("45", 45.0), ("86400", LONGEST_WAIT_SECONDS), ("9" * 400, LONGEST_WAIT_SECONDS)]
)
async def test_a_wait_beyond_the_deadline_is_left_to_the_caller_and_bounded(
    told: str, seconds: float, tmp_path: Path
) -> None:
    answer = status(429, headers={"Retry-After": told})
    async with serving(answer) as script, connected(script, tmp_path) as store:
        with pytest.raises(TooManyRequestsError) as caught:
            await _create(store)
        assert caught.value.retry_after == seconds
        assert len(script.requests) == 1


async def test_whoever_gives_up_is_told_how_long_the_server_wanted_to_be_left_alone(tmp_path: Path) -> None:
    answer = status(503, headers={"Retry-After": "0"})
    last = status(503, headers={"Retry-After": "7"})
    answers = (*[answer] * 4, last)
    async with serving(*answers) as script, connected(script, tmp_path) as store:
        with pytest.raises(UnavailableError) as caught:
            await _create(store)
        assert caught.value.retry_after == 7.0
        assert len(script.requests) == 5


async def test_every_call_has_a_deadline(tmp_path: Path) -> None:
    async def never(_: object) -> None:
        await asyncio.Event().wait()

    async with serving(never) as script, connected(script, tmp_path, deadline=0.1) as store:  # type: ignore[arg-type]
        with pytest.raises(UnavailableError, match=r"no answer .* within 0\.1 s") as caught:
            await _create(store)
        assert caught.value.outcome_unknown
        with pytest.raises(UnavailableError) as caught:
            await _get(store)
        assert not caught.value.outcome_unknown


async def test_concurrency_is_bounded(tmp_path: Path) -> None:
    async def slow(_: object) -> object:
        await asyncio.sleep(0.01)
        return await found()(_)  # type: ignore[arg-type]

    async with serving(slow) as script, connected(script, tmp_path, concurrency=3) as store:  # type: ignore[arg-type]
        await asyncio.gather(*(_get(store) for _ in range(20)))
        assert script.busiest == 3


async def test_connections_are_used_again(tmp_path: Path) -> None:
    async with serving(found()) as script, connected(script, tmp_path) as store:
        for _ in range(5):
            await _get(store)
        assert len(script.ports) == 1


async def test_an_answer_that_is_no_json_is_told_shortly(tmp_path: Path) -> None:
    async with serving(text("<html>portal</html>")) as script, connected(script, tmp_path) as store:
        with pytest.raises(UnavailableError, match="did not answer with JSON"):
            await _get(store)
    page = text("<html>\n" + "forbidden " * 100, code=403)
    async with serving(page) as script, connected(script, tmp_path) as store:
        with pytest.raises(ForbiddenError) as caught:
            await _get(store)
        assert len(str(caught.value)) < 300
        assert "\n" not in str(caught.value)


async def test_warnings_reach_whoever_wants_them(tmp_path: Path) -> None:
    warnings: list[str] = []
    headers = [("Warning", '299 - "use of \\"a\\" is deprecated"'), ("Warning", '299 - "two"')]
    async with (
        serving(found(headers=headers)) as script,
        connected(script, tmp_path, on_warning=warnings.append) as store,
    ):
        await _get(store)
    assert warnings == ['use of "a" is deprecated', "two"]


async def test_a_reason_tells_a_conflict_from_an_existing_object(tmp_path: Path) -> None:
    answers = (status(409, reason="AlreadyExists"), status(409, reason="Conflict"), status(413))
    async with serving(*answers) as script, connected(script, tmp_path) as store:
        kinds = []
        for _ in answers:
            with pytest.raises(ApiError) as caught:
                await _create(store)
            kinds.append(type(caught.value).__name__)
    assert kinds == ["AlreadyExistsError", "ConflictError", BadRequestError.__name__]
