"""Who asked for this machine by a name of its own."""

import pytest

from tiphys.loopback import host_name, is_loopback, names_loopback


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "LOCALHOST:1",
        "x.localhost",
        "127.0.0.2",
        "[::1]:8081",
        "[::1]",
        "[::ffff:127.0.0.1]:1",
    ],
)
def test_names_of_loopback_are_known(host: str) -> None:
    assert names_loopback(host)


@pytest.mark.parametrize(
    "host", ["evil.example.org", "localhost.evil.org:8081", "0.0.0.0", "192.0.2.7:8081", "[::]:8081", "x:y:z"]
)
def test_others_are_not(host: str) -> None:
    assert not names_loopback(host)


def test_an_address_is_none_of_a_name() -> None:
    assert not is_loopback("localhost")
    assert (host_name("A.example.org:443"), host_name("[::1]")) == ("a.example.org", "::1")
