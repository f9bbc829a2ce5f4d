from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class TerminalStreamData(_message.Message):
    __slots__ = ("request_uuid", "data", "stream_type", "resize", "rows", "cols", "eof", "error")
    REQUEST_UUID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    STREAM_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLS_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request_uuid: str
    data: bytes
    stream_type: str
    resize: bool
    rows: int
    cols: int
    eof: bool
    error: str
    def __init__(self, request_uuid: _Optional[str] = ..., data: _Optional[bytes] = ..., stream_type: _Optional[str] = ..., resize: _Optional[bool] = ..., rows: _Optional[int] = ..., cols: _Optional[int] = ..., eof: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...
