"""Both ends of a connection are what `delivery` calls a stream."""

import inspect

import pytest

from sidecars.delivery.session import Stream
from sidecars.wire.client.dialer import AgentConnection
from sidecars.wire.streams import EventStream, StreamLostError
from tiphys.errors import SurroundingsError

ENDS: list[type[Stream]] = [EventStream, AgentConnection]  # which mypy checks call by call


@pytest.mark.parametrize("end", ENDS)
def test_an_end_sends_and_receives(end: type[Stream]) -> None:
    assert inspect.iscoroutinefunction(end.send)
    assert inspect.iscoroutinefunction(end.receive)


def test_a_lost_stream_is_our_surroundings_fault() -> None:
    assert issubclass(StreamLostError, SurroundingsError)
