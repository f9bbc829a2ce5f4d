import pytest

from sidecars.proxies.terminal import channels


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"Width":70000,"Height":24}', (0, 24)),
        (b'{"Width":"80","Height":true}', None),
        (b'{"Width":-1,"Height":0}', None),
        (b"[1]", None),
    ],
)
def test_what_no_terminal_can_have_is_no_size(text: bytes, expected: tuple[int, int] | None) -> None:
    assert channels.parse_size(text) == expected


def test_what_a_container_says_has_a_name_and_nothing_else_has() -> None:
    assert [channels.stream_type(channel) for channel in range(5)] == ["", "stdout", "stderr", "error", ""]
