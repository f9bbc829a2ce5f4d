from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Word(_message.Message):
    __slots__ = ("who", "reason", "force", "epoch")
    WHO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    who: str
    reason: str
    force: bool
    epoch: int
    def __init__(self, who: _Optional[str] = ..., reason: _Optional[str] = ..., force: _Optional[bool] = ..., epoch: _Optional[int] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    def __init__(self, json: _Optional[bytes] = ...) -> None: ...

class RoleRequest(_message.Message):
    __slots__ = ("word", "bootstrap")
    WORD_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_FIELD_NUMBER: _ClassVar[int]
    word: Word
    bootstrap: bool
    def __init__(self, word: _Optional[_Union[Word, _Mapping]] = ..., bootstrap: _Optional[bool] = ...) -> None: ...

class RoleReply(_message.Message):
    __slots__ = ("state", "epoch")
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    state: str
    epoch: int
    def __init__(self, state: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class AcceptDeletionsRequest(_message.Message):
    __slots__ = ("word", "kind")
    WORD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    word: Word
    kind: str
    def __init__(self, word: _Optional[_Union[Word, _Mapping]] = ..., kind: _Optional[str] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("word", "agent")
    WORD_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    word: Word
    agent: str
    def __init__(self, word: _Optional[_Union[Word, _Mapping]] = ..., agent: _Optional[str] = ...) -> None: ...

class SwitchoverRequest(_message.Message):
    __slots__ = ("word", "dry_run")
    WORD_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    word: Word
    dry_run: bool
    def __init__(self, word: _Optional[_Union[Word, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SwitchoverStep(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class CountReply(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...
