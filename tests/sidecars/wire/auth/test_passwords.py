"""Logins with a password: right, wrong, unknown, and too many at once."""

import asyncio

import bcrypt
import pytest

from sidecars.wire.auth import passwords
from sidecars.wire.auth.methods import CallCredentials, IdentityError, Refusal
from sidecars.wire.auth.passwords import Accounts, Login, PasswordMethod, TooManyLoginsError
from tiphys.errors import CallError

HASH = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()


def method() -> PasswordMethod:
    return PasswordMethod(Accounts.parse(f"agent-1:{HASH}\n"))


def evidence(name: str, password: str) -> CallCredentials:
    return CallCredentials(credentials={"clientid": name, "clientsecret": password})


@pytest.mark.parametrize("prefix", ["$2a", "$2b", "$2y"])
async def test_the_right_password_names_its_agent(prefix: str) -> None:
    accounts = Accounts.parse(f"agent-1:{prefix}{HASH[3:]}")
    assert await PasswordMethod(accounts).identify(evidence("agent-1", "right")) == "agent-1"


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("agent-1", "mistaken"),
        ("agent-1", ""),
        ("agent-1", "right" + "x" * 80),
        ("agent-1", "right\0"),
        ("agent-2", "right"),
        ("", ""),
    ],
)
async def test_anything_else_is_refused_in_the_same_words(name: str, password: str) -> None:
    with pytest.raises(IdentityError) as caught:
        await method().identify(evidence(name, password))
    assert caught.value.refusal is Refusal.BAD_PASSWORD
    assert not password or password not in str(caught.value)


def test_unknown_names_are_checked_against_a_decoy_of_the_same_cost() -> None:
    accounts = Accounts.parse(f"agent-1:{HASH}")
    assert accounts.decoy().startswith(b"$2b$04$")
    assert len(accounts.decoy()) == 60
    assert not bcrypt.checkpw(b"-", accounts.decoy())
    assert Accounts.parse("").decoy().startswith(b"$2b$10$")


def test_comments_are_skipped_and_bad_lines_are_reported_by_number() -> None:
    accounts = Accounts.parse(
        f"# comment\n// another\n\nagent-1:{HASH}\nAgent-2:{HASH}\nagent-3:plain\nagent-4:$2b$31${HASH[7:]}\nx"
    )
    assert set(accounts.hashes) == {"agent-1"}
    assert accounts.refused == (5, 6, 7, 8)


async def test_accounts_are_swapped_for_later_logins() -> None:
    checked = method()
    checked.swap(Accounts.parse(""))
    assert not checked.seal("agent-1")
    with pytest.raises(IdentityError):
        await checked.identify(evidence("agent-1", "right"))


async def test_more_logins_than_can_be_checked_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "PATIENCE_SECONDS", 0.01)
    checked = method()
    for _ in range(passwords.SIDE_BY_SIDE):
        await checked._turn.acquire()
    with pytest.raises(TooManyLoginsError):
        await checked.identify(evidence("agent-1", "right"))


async def test_a_caller_that_hangs_up_does_not_free_the_place_of_its_thread() -> None:
    checked = method()
    slow = asyncio.create_task(checked.identify(evidence("agent-1", "right")))
    await asyncio.sleep(0)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    async with asyncio.timeout(60):
        for _ in range(passwords.SIDE_BY_SIDE):
            await checked._turn.acquire()


def test_an_agent_reads_its_login_from_the_first_line() -> None:
    login = Login.parse("agent-1:pass:word\nrest")
    assert (login.name, login.password) == ("agent-1", "pass:word")
    assert "pass" not in repr(login)


@pytest.mark.parametrize("text", ["", "agent-1", "agent-1:", "Agent:x", ":x"])
def test_a_login_without_its_parts_is_refused(text: str) -> None:
    with pytest.raises(CallError, match="<name>:<password>"):
        Login.parse(text)
