"""What a standby says of objects that it could not write: never what is in them."""

from typing import Any

import pytest
import structlog

from argocd import names
from argocd.agents.replication import DELETING
from kube.embedded import Call, Phase
from kube.errors import InvalidError, UnavailableError
from kube.resources import SECRETS
from sidecars.replication.kinds import APPLICATION, REPOSITORY, ObjectKey
from sidecars.replication.standby.adoption import CopyAdoption
from sidecars.replication.standby.dead_letters import reason_of
from tests.sidecars.replication.hubs import ARGOCD, Hub, Pair, create, embedded, until
from tiphys.errors import ObjectError

PASSWORD = "hunter2"
QUOTING = f'Secret "repo" is invalid: data[password]: Invalid value: "{PASSWORD}": too short'
CAUSES = [
    {"reason": "FieldValueInvalid", "message": f'Invalid value: "{PASSWORD}"', "field": "data[password]"}
]
SECRET = ObjectKey(REPOSITORY.name, ARGOCD, "repo")
OTHER = ObjectKey(APPLICATION.name, "agent-a", "web")


@pytest.mark.parametrize(
    ("key", "error", "reason"),
    [
        (
            SECRET,
            InvalidError(QUOTING, status={"details": {"causes": CAUSES}}),
            "InvalidError: data[password] (FieldValueInvalid)",
        ),
        (SECRET, InvalidError(QUOTING), "InvalidError"),
        (SECRET, KeyError(PASSWORD), "KeyError"),
        (SECRET, ObjectError("another object has its name"), "another object has its name"),
        (
            OTHER,
            InvalidError(QUOTING, status={"details": {"causes": CAUSES}}),
            "InvalidError: data[password] (FieldValueInvalid)",
        ),
        (OTHER, UnavailableError("no answer\nfrom there"), "no answer from there"),
    ],
    ids=["a Secret's field", "a Secret", "a mistake of ours", "our own words", "another's field", "another"],
)
def test_a_reason_names_fields_and_quotes_no_value(key: ObjectKey, error: Exception, reason: str) -> None:
    assert reason_of(key, error) == reason


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidError(QUOTING), "dead letter"),
        (UnavailableError(QUOTING), "a write is tried again"),
        (RuntimeError(QUOTING), "dead letter"),
    ],
    ids=["for good", "passing", "a mistake of ours"],
)
async def test_neither_logs_nor_figures_have_what_an_api_server_says_of_a_secret(
    error: Exception, said: str
) -> None:
    one, two = embedded(), embedded()

    async def refuse(call: Call) -> None:
        if call.name == "repo" and call.verb == "create" and call.phase is Phase.BEFORE:
            raise error

    two.hooks.faults = refuse
    secret: dict[str, Any] = {
        "metadata": {"name": "repo", "labels": {names.SECRET_TYPE: names.SECRET_TYPE_REPOSITORY}},
        "stringData": {"url": "https://git.example.org/a.git", "password": PASSWORD},
    }
    with structlog.testing.capture_logs() as lines:
        async with Pair(Hub(one), Hub(two)).running() as pair:
            await until(lambda: "in sync" in pair.passive.told)
            await create(one, SECRETS, secret)
            await until(lambda: said in {line["event"] for line in lines})
            progress = pair.follower.progress()
    assert PASSWORD not in repr(lines)
    assert all(line.get("exc_info") is None for line in lines)
    assert PASSWORD not in repr(progress)


async def test_a_promotion_does_not_say_either_what_an_api_server_says_of_a_secret() -> None:
    store = embedded()

    async def refuse(call: Call) -> None:
        if call.name == "repo" and call.verb in {"delete", "replace"} and call.phase is Phase.BEFORE:
            raise InvalidError(QUOTING)

    marked = {
        "name": "repo",
        "labels": {names.SECRET_TYPE: names.SECRET_TYPE_REPOSITORY},
        "annotations": {DELETING: "2026-11-18T08:00:00Z"},
    }
    await create(store, SECRETS, {"metadata": marked, "stringData": {"password": PASSWORD}})
    store.hooks.faults = refuse
    with structlog.testing.capture_logs() as lines:
        async with Hub(store).running() as hub:
            adoption = CopyAdoption(store, hub.objects, timing=hub.timing)
            await adoption.begin()
            await adoption.stop()
    (line,) = [line for line in lines if line["event"] == "what the primary had begun is begun later"]
    assert line["name"] == "repo"
    assert PASSWORD not in repr(lines)
