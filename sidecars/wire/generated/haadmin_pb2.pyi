from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HAStatusResponse(_message.Message):
    __slots__ = ("state", "preferred_role", "peer_address", "peer_reachable", "peer_state", "connected_replicas", "last_event_timestamp", "last_sequence_num", "connected_agents")
    STATE_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_ROLE_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PEER_REACHABLE_FIELD_NUMBER: _ClassVar[int]
    PEER_STATE_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_NUM_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_AGENTS_FIELD_NUMBER: _ClassVar[int]
    state: str
    preferred_role: str
    peer_address: str
    peer_reachable: bool
    peer_state: str
    connected_replicas: int
    last_event_timestamp: int
    last_sequence_num: int
    connected_agents: int
    def __init__(self, state: _Optional[str] = ..., preferred_role: _Optional[str] = ..., peer_address: _Optional[str] = ..., peer_reachable: _Optional[bool] = ..., peer_state: _Optional[str] = ..., connected_replicas: _Optional[int] = ..., last_event_timestamp: _Optional[int] = ..., last_sequence_num: _Optional[int] = ..., connected_agents: _Optional[int] = ...) -> None: ...

class PromoteRequest(_message.Message):
    __slots__ = ("force",)
    FORCE_FIELD_NUMBER: _ClassVar[int]
    force: bool
    def __init__(self, force: _Optional[bool] = ...) -> None: ...

class PromoteResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    def __init__(self, state: _Optional[str] = ...) -> None: ...

class DemoteRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DemoteResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    def __init__(self, state: _Optional[str] = ...) -> None: ...
