from random import Random

import pytest

from sidecars.proxies.logs.lines import LineReader, LogPosition, SkippedLines

TIMES = ["2026-01-01T10:00:00.1Z", "2026-01-01T10:00:00.123456789Z", "2026-01-01T10:00:01Z"]


def log(count: int, random: Random) -> list[bytes]:
    """Several lines have one time, some are empty, some long, and one looks as if it had two times."""
    texts = [b"", b"x", b"a line", b"y" * 300, b"2026-01-01T10:00:00Z quoted", b"tab\there"]
    times = sorted(random.choice(range(100, 130)) for _ in range(count))
    return [
        b"2026-01-01T10:00:%02d.%03dZ %b\n" % (each // 10 % 60, each % 10, random.choice(texts))
        for each in times
    ]


def pieces(data: bytes, random: Random) -> list[bytes]:
    cut, begin = [], 0
    while begin < len(data):
        size = random.choice((1, 2, 7, 40, 500))
        cut.append(data[begin : begin + size])
        begin += size
    return cut


@pytest.mark.parametrize("seed", range(40))
def test_however_often_it_breaks_off_every_line_is_given_once(seed: int) -> None:
    random = Random(seed)
    lines = log(60, random)
    timestamps = seed % 2 == 0
    reader, given = LineReader(timestamps=timestamps), b""
    for _ in range(8):
        skipped = SkippedLines(reader.position)
        since = reader.position.since.encode()[:19]  # in seconds, as the API server compares
        there = [line for line in lines if line[: len(since)] >= since]
        data = b"".join(there)
        arrived = pieces(data, random)
        for piece in arrived[: random.randrange(len(arrived) + 1)]:
            given += reader.take(skipped.take(piece))
        reader.resume()
    skipped = SkippedLines(reader.position)
    given += reader.take(skipped.take(b"".join(lines))) + reader.rest()
    expected = b"".join(line if timestamps else line.partition(b" ")[2] for line in lines)
    assert given == expected


@pytest.mark.parametrize(
    "line", [b"no time at all\n", b"2026-01-01 10:00:00 no\n", b"\n", b"x" * 100 + b"\n"]
)
def test_a_line_without_a_timestamp_is_given_as_it_is(line: bytes) -> None:
    reader = LineReader(timestamps=False)
    assert reader.take(line) + reader.rest() == line
    assert reader.position == LogPosition("", 1)


def test_a_last_line_without_end_is_given() -> None:
    reader = LineReader(timestamps=False)
    assert reader.take(b"2026-01-01T10:00:00Z the e") + reader.take(b"nd") + reader.rest() == b"the end"
    short = LineReader(timestamps=True)
    assert short.take(b"2026") + short.rest() == b"2026"


def test_a_position_is_told_and_read() -> None:
    for timestamp in ("", *TIMES):
        position = LogPosition(timestamp, 3)
        assert LogPosition.parse(str(position)) == position
    for odd in ("", "x", "3", "3 yesterday", "9999999999 ", "-1 ", "3 2026-01-01T10:00:00Z\nx"):
        assert LogPosition.parse(odd) == LogPosition()
    assert LogPosition(TIMES[1], 1).since == "2026-01-01T10:00:00Z"
