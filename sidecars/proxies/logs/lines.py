"""Where a log that is being read stands: the time of its last line, and how many lines have that time.

Lines come from the API server with timestamps, always. Who did not ask for them gets none.
"""

import re
from dataclasses import dataclass

POSITION = "tiphys-log-position"
"""Metadata by which a principal of ours says from where on it wants the log."""

# A timestamp has 35 characters at most; what is longer is none, and the line has no time.
_LONGEST_TIMESTAMP = 40
_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_POSITION = re.compile(r"(\d{1,9}) (\S{0,40})")


@dataclass(frozen=True, slots=True)
class LogPosition:
    """After so many `lines` of that time; with no time, after so many lines from the beginning."""

    timestamp: str = ""
    lines: int = 0

    def __str__(self) -> str:
        return f"{self.lines} {self.timestamp}"

    @classmethod
    def parse(cls, text: str) -> "LogPosition":
        """The beginning, where it is none."""
        found = _POSITION.fullmatch(text)
        if found is None or (found[2] and timestamp_of(found[2].encode() + b" ") != found[2]):
            return cls()
        return cls(found[2], int(found[1]))

    @property
    def since(self) -> str:
        """For the API server, which counts in seconds: not later than the position."""
        return re.sub(r"\.\d+", "", self.timestamp)


def timestamp_of(line: bytes) -> str:
    """Empty where the line has none."""
    found = _TIMESTAMP.match(line)
    return found[0].decode() if found and line[found.end() : found.end() + 1] in {b" ", b"\t"} else ""


def _moment(timestamp: str) -> tuple[str, str]:
    """Of two times of one zone, as kubelets write them, the later one is greater."""
    found = _TIMESTAMP.fullmatch(timestamp.encode())
    return (found[1].decode(), (found[2] or b"").decode().ljust(9, "0")) if found else ("", "")


class LineReader:
    """Takes a log as it comes, in any pieces, and gives it on: with or without its timestamps.

    After `resume` it is told the log again from `position` on, and gives on what it has not given yet: of a line that
    was cut off the rest.
    """

    def __init__(self, *, timestamps: bool, position: LogPosition | None = None) -> None:
        self.timestamps = timestamps
        self.position = position or LogPosition()
        self.lines = 0
        self._head = b""
        """The beginning of a line whose timestamp is not known to be complete."""
        self._time = ""
        self._inside = False
        self._given = 0
        """Bytes of the present line, its timestamp included."""
        self._skip = 0

    def resume(self) -> None:
        self._skip, self._given = max(self._skip, self._given), 0
        self._head, self._inside = b"", False

    def take(self, data: bytes) -> bytes:
        out = []
        begin = 0
        while begin < len(data):
            end = data.find(b"\n", begin) + 1
            piece = data[begin : end or len(data)]
            begin += len(piece)
            out.append(self._take_piece(piece))
        return b"".join(out)

    def _take_piece(self, piece: bytes) -> bytes:
        if not self._inside:
            piece, self._head = self._head + piece, b""
            whole = b" " in piece[:_LONGEST_TIMESTAMP] or piece.endswith(b"\n")
            if not whole and len(piece) < _LONGEST_TIMESTAMP:
                self._head = piece
                return b""
            self._inside, self._given = True, 0
            self._time = timestamp_of(piece)
        begin = self._given
        self._given += len(piece)
        if piece.endswith(b"\n"):
            self._end_line()
        hidden = len(self._time) + 1 if self._time and not self.timestamps else 0
        # Of what was given before, and of a timestamp that nobody wants, nothing.
        skip = max(self._skip, hidden) - begin
        if not self._inside:
            self._skip = 0
        return piece[max(0, skip) :]

    def _end_line(self) -> None:
        self.lines += 1
        same = self._time == self.position.timestamp
        self.position = LogPosition(self._time, self.position.lines + 1 if same else 1)
        self._inside, self._given = False, 0

    def rest(self) -> bytes:
        """At the end: what looked like the beginning of a timestamp."""
        rest, self._head = self._head, b""
        return rest[self._skip :]


class SkippedLines:
    """Drops the lines up to a position from a log that begins not later than it."""

    def __init__(self, position: LogPosition) -> None:
        self._after = _moment(position.timestamp)
        self._timed = bool(position.timestamp)
        self._left = position.lines
        self._held = b""
        self._through = not position.lines and not position.timestamp

    def take(self, data: bytes) -> bytes:
        if self._through:
            return data
        data, self._held = self._held + data, b""
        begin = 0
        while begin < len(data):
            end = data.find(b"\n", begin) + 1
            moment = _moment(timestamp_of(data[begin : begin + _LONGEST_TIMESTAMP]))
            if not end and len(data) - begin < _LONGEST_TIMESTAMP:
                break  # whether it is to be skipped is not known yet
            if self._is_new(moment):
                self._through = True
                return data[begin:]
            if not end:  # a long line to be skipped: only its end counts
                self._held = data[begin : begin + _LONGEST_TIMESTAMP]
                return b""
            if not self._timed or moment == self._after:
                self._left -= 1
            begin = end
        self._held = data[begin:]
        return b""

    def _is_new(self, moment: tuple[str, str]) -> bool:
        if not self._timed:
            return self._left <= 0
        return moment > self._after or (moment == self._after and self._left <= 0)
