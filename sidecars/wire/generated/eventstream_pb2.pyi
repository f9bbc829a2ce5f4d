from sidecars.wire.generated import cloudevents_pb2 as _cloudevents_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(_message.Message):
    __slots__ = ("event", "batch")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    event: _cloudevents_pb2.CloudEvent
    batch: _containers.RepeatedCompositeFieldContainer[_cloudevents_pb2.CloudEvent]
    def __init__(self, event: _Optional[_Union[_cloudevents_pb2.CloudEvent, _Mapping]] = ..., batch: _Optional[_Iterable[_Union[_cloudevents_pb2.CloudEvent, _Mapping]]] = ...) -> None: ...

class PushSummary(_message.Message):
    __slots__ = ("result", "received", "processed")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_FIELD_NUMBER: _ClassVar[int]
    result: str
    received: int
    processed: int
    def __init__(self, result: _Optional[str] = ..., received: _Optional[int] = ..., processed: _Optional[int] = ...) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PongReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
