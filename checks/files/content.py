"""What a file, a pipe or standard input holds, if it can be a manifest; nothing here waits for ever."""

import os
import select
import stat
import sys
from functools import lru_cache
from pathlib import Path
from typing import TextIO

FILE_LIMIT = 16 * 1024 * 1024
"""Ten times what an API server stores; larger files are no manifests that somebody wrote."""

PIPE_SECONDS = 60.0
"""Without a byte from a pipe: `kustomize build` of a remote base may think for half of it."""

STDIN = "-"
STDIN_NAME = "<stdin>"

_PIECE = 1024 * 1024


class UnreadableError(Exception):
    """A file that cannot be judged: one line, with the line where it is known. `data` is what was read of it."""

    def __init__(self, message: str, *, line: int = 1, data: bytes | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.data = data


def size_of(path: str) -> int:
    """Bytes to be read; FILE_LIMIT where only reading tells, as of a pipe, and none where there is no file."""
    try:
        if path == STDIN:
            return len(_all_of(sys.stdin))
        found = Path(path).stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else FILE_LIMIT


def can_be_read_once(path: str) -> bool:
    """Standard input and pipes: another process, or a second look, would find nothing there."""
    try:
        return path == STDIN or not stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return False


def read_bytes(path: str) -> bytes:
    """At most FILE_LIMIT and one more byte. Raises UnreadableError."""
    try:
        if path == STDIN:
            return _all_of(sys.stdin)
        if can_be_read_once(path):
            return _all_of_pipe(path)
        with Path(path).open("rb") as file:
            return file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error


def decoded(data: bytes) -> str:
    """As text, if it can be a manifest. Raises UnreadableError."""
    if len(data) > FILE_LIMIT:
        raise UnreadableError(f"larger than {FILE_LIMIT // 1024 // 1024} MiB: split it", data=data)
    if b"\0" in data:
        raise UnreadableError("a binary file, not a manifest", data=data)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError("not UTF-8", line=line, data=data) from error


def read_text(path: str) -> str:
    """Raises UnreadableError."""
    return decoded(read_bytes(path))


@lru_cache(maxsize=1)
def _all_of(stream: TextIO) -> bytes:
    """Of standard input, kept because it may be measured first, and read twice."""
    return stream.buffer.read(FILE_LIMIT + 1)


@lru_cache(maxsize=4)
def _all_of_pipe(path: str) -> bytes:
    """Kept, because what was read from a pipe is gone from it."""
    if Path(path).is_dir():
        raise UnreadableError("this folder cannot be listed")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else it waits for somebody to write
    try:
        pieces: list[bytes] = []
        left = FILE_LIMIT + 1
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        while left > 0:
            if not waiting.poll(PIPE_SECONDS * 1000):
                raise UnreadableError(f"nothing was written to this pipe for {PIPE_SECONDS:g} s")
            try:
                piece = os.read(descriptor, min(left, _PIECE))
            except BlockingIOError:
                continue  # somebody else was faster
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
