from sidecars.wire.generated import cloudevents_pb2 as _cloudevents_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReplicatedEvent(_message.Message):
    __slots__ = ("event", "agent_name", "direction", "sequence_num", "processed_at_unix")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUM_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_AT_UNIX_FIELD_NUMBER: _ClassVar[int]
    event: _cloudevents_pb2.CloudEvent
    agent_name: str
    direction: str
    sequence_num: int
    processed_at_unix: int
    def __init__(self, event: _Optional[_Union[_cloudevents_pb2.CloudEvent, _Mapping]] = ..., agent_name: _Optional[str] = ..., direction: _Optional[str] = ..., sequence_num: _Optional[int] = ..., processed_at_unix: _Optional[int] = ...) -> None: ...

class ReplicationSnapshot(_message.Message):
    __slots__ = ("agents", "last_sequence_num", "principal_resources")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_NUM_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentState]
    last_sequence_num: int
    principal_resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentState, _Mapping]]] = ..., last_sequence_num: _Optional[int] = ..., principal_resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class AgentState(_message.Message):
    __slots__ = ("name", "mode", "connected", "resources")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: str
    connected: bool
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[str] = ..., connected: _Optional[bool] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("name", "namespace", "kind", "uid", "spec_checksum", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    SPEC_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    namespace: str
    kind: str
    uid: str
    spec_checksum: bytes
    data: bytes
    def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., kind: _Optional[str] = ..., uid: _Optional[str] = ..., spec_checksum: _Optional[bytes] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReplicationAck(_message.Message):
    __slots__ = ("acked_sequence_num", "taken_bytes", "word", "payload", "held")
    ACKED_SEQUENCE_NUM_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    acked_sequence_num: int
    taken_bytes: int
    word: str
    payload: bytes
    held: str
    def __init__(self, acked_sequence_num: _Optional[int] = ..., taken_bytes: _Optional[int] = ..., word: _Optional[str] = ..., payload: _Optional[bytes] = ..., held: _Optional[str] = ...) -> None: ...

class ReplicationStatus(_message.Message):
    __slots__ = ("current_sequence_num", "pending_events", "last_event_unix", "connected_replicas", "report")
    CURRENT_SEQUENCE_NUM_FIELD_NUMBER: _ClassVar[int]
    PENDING_EVENTS_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_UNIX_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    current_sequence_num: int
    pending_events: int
    last_event_unix: int
    connected_replicas: int
    report: bytes
    def __init__(self, current_sequence_num: _Optional[int] = ..., pending_events: _Optional[int] = ..., last_event_unix: _Optional[int] = ..., connected_replicas: _Optional[int] = ..., report: _Optional[bytes] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ("since_sequence_num",)
    SINCE_SEQUENCE_NUM_FIELD_NUMBER: _ClassVar[int]
    since_sequence_num: int
    def __init__(self, since_sequence_num: _Optional[int] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConfirmMissingResourcesRequest(_message.Message):
    __slots__ = ("agent_name", "snapshot_sequence_num", "resources")
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_SEQUENCE_NUM_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    agent_name: str
    snapshot_sequence_num: int
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, agent_name: _Optional[str] = ..., snapshot_sequence_num: _Optional[int] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class ConfirmMissingResourcesResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ConfirmMissingResourceResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ConfirmMissingResourceResult, _Mapping]]] = ...) -> None: ...

class ConfirmMissingResourceResult(_message.Message):
    __slots__ = ("resource", "status", "reason")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    resource: Resource
    status: str
    reason: str
    def __init__(self, resource: _Optional[_Union[Resource, _Mapping]] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
