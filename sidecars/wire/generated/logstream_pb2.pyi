from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class LogStreamData(_message.Message):
    __slots__ = ("request_uuid", "data", "eof", "error")
    REQUEST_UUID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request_uuid: str
    data: bytes
    eof: bool
    error: str
    def __init__(self, request_uuid: _Optional[str] = ..., data: _Optional[bytes] = ..., eof: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...

class LogStreamResponse(_message.Message):
    __slots__ = ("request_uuid", "status", "error", "lines_received")
    REQUEST_UUID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LINES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    request_uuid: str
    status: int
    error: str
    lines_received: int
    def __init__(self, request_uuid: _Optional[str] = ..., status: _Optional[int] = ..., error: _Optional[str] = ..., lines_received: _Optional[int] = ...) -> None: ...
