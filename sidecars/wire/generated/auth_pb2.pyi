from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class AuthRequest(_message.Message):
    __slots__ = ("method", "credentials", "mode", "version", "agentNamespace")
    class CredentialsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    METHOD_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENTNAMESPACE_FIELD_NUMBER: _ClassVar[int]
    method: str
    credentials: _containers.ScalarMap[str, str]
    mode: str
    version: str
    agentNamespace: str
    def __init__(self, method: _Optional[str] = ..., credentials: _Optional[_Mapping[str, str]] = ..., mode: _Optional[str] = ..., version: _Optional[str] = ..., agentNamespace: _Optional[str] = ...) -> None: ...

class AuthResponse(_message.Message):
    __slots__ = ("accessToken", "refreshToken", "version", "principalNamespace")
    ACCESSTOKEN_FIELD_NUMBER: _ClassVar[int]
    REFRESHTOKEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PRINCIPALNAMESPACE_FIELD_NUMBER: _ClassVar[int]
    accessToken: str
    refreshToken: str
    version: str
    principalNamespace: str
    def __init__(self, accessToken: _Optional[str] = ..., refreshToken: _Optional[str] = ..., version: _Optional[str] = ..., principalNamespace: _Optional[str] = ...) -> None: ...

class RefreshTokenRequest(_message.Message):
    __slots__ = ("refreshToken",)
    REFRESHTOKEN_FIELD_NUMBER: _ClassVar[int]
    refreshToken: str
    def __init__(self, refreshToken: _Optional[str] = ...) -> None: ...
