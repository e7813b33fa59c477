from mcpbridge.v1 import error_pb2 as _error_pb2
from mcpbridge.v1 import input_pb2 as _input_pb2
from mcpbridge.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Task(_message.Message):
    __slots__ = ("task_id", "status", "status_message", "created_at", "last_updated_at", "ttl_ms", "poll_interval_ms", "input_requests", "result", "error", "meta", "extra")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STATUS_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    POLL_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    status: str
    status_message: str
    created_at: str
    last_updated_at: str
    ttl_ms: int
    poll_interval_ms: int
    input_requests: _containers.RepeatedCompositeFieldContainer[_input_pb2.InputRequest]
    result: _tool_pb2.CallToolResult
    error: _error_pb2.JsonRpcError
    meta: str
    extra: str
    def __init__(self, task_id: _Optional[str] = ..., status: _Optional[str] = ..., status_message: _Optional[str] = ..., created_at: _Optional[str] = ..., last_updated_at: _Optional[str] = ..., ttl_ms: _Optional[int] = ..., poll_interval_ms: _Optional[int] = ..., input_requests: _Optional[_Iterable[_Union[_input_pb2.InputRequest, _Mapping]]] = ..., result: _Optional[_Union[_tool_pb2.CallToolResult, _Mapping]] = ..., error: _Optional[_Union[_error_pb2.JsonRpcError, _Mapping]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class TaskMetadata(_message.Message):
    __slots__ = ("ttl_ms", "extra")
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    ttl_ms: int
    extra: str
    def __init__(self, ttl_ms: _Optional[int] = ..., extra: _Optional[str] = ...) -> None: ...

class TaskStarted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateTaskResult(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: Task
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ...) -> None: ...
