import pytest

from sidecars.proxies.terminal import channels


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"Width":120,"Height":40}', (120, 40)),
        (b'{"Width":0,"Height":24}', (0, 24)),
        (b'{"Width":80,"Height":0}', (80, 0)),
        (b'{"Width":0,"Height":0}', None),
        (b"{}", None),
        (b"invalid json", None),
        (b'{"Width":70000,"Height":24}', (0, 24)),
        (b'{"Width":"80","Height":true}', None),
        (b"[1]", None),
    ],
)
def test_a_size_is_read_as_argocd_agent_reads_it(text: bytes, expected: tuple[int, int] | None) -> None:
    assert channels.parse_size(text) == expected


def test_streams_have_the_channels_that_argocd_agent_gives_them() -> None:
    named = {"stdout": 1, "stderr": 2, "error": 3, "": 1, "x": 1}
    assert {name: channels.channel_of(name) for name in named} == named
    assert [channels.stream_type(channel) for channel in range(5)] == ["", "stdout", "stderr", "error", ""]
