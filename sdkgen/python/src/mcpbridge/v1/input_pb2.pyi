from mcpbridge.v1 import common_pb2 as _common_pb2
from mcpbridge.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InputRequired(_message.Message):
    __slots__ = ("input_requests", "request_state", "meta", "extra")
    INPUT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_STATE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    input_requests: _containers.RepeatedCompositeFieldContainer[InputRequest]
    request_state: bytes
    meta: str
    extra: str
    def __init__(self, input_requests: _Optional[_Iterable[_Union[InputRequest, _Mapping]]] = ..., request_state: _Optional[bytes] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class InputRequest(_message.Message):
    __slots__ = ("key", "elicit", "create_message", "list_roots", "raw")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ELICIT_FIELD_NUMBER: _ClassVar[int]
    CREATE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LIST_ROOTS_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    key: str
    elicit: ElicitRequest
    create_message: CreateMessageRequest
    list_roots: ListRootsRequest
    raw: str
    def __init__(self, key: _Optional[str] = ..., elicit: _Optional[_Union[ElicitRequest, _Mapping]] = ..., create_message: _Optional[_Union[CreateMessageRequest, _Mapping]] = ..., list_roots: _Optional[_Union[ListRootsRequest, _Mapping]] = ..., raw: _Optional[str] = ...) -> None: ...

class InputResponse(_message.Message):
    __slots__ = ("elicit", "create_message", "list_roots", "error", "raw")
    ELICIT_FIELD_NUMBER: _ClassVar[int]
    CREATE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LIST_ROOTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    elicit: ElicitResult
    create_message: CreateMessageResult
    list_roots: ListRootsResult
    error: InputError
    raw: str
    def __init__(self, elicit: _Optional[_Union[ElicitResult, _Mapping]] = ..., create_message: _Optional[_Union[CreateMessageResult, _Mapping]] = ..., list_roots: _Optional[_Union[ListRootsResult, _Mapping]] = ..., error: _Optional[_Union[InputError, _Mapping]] = ..., raw: _Optional[str] = ...) -> None: ...

class InputError(_message.Message):
    __slots__ = ("reason", "code", "message", "data")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[InputError.Reason]
        REASON_UNSUPPORTED: _ClassVar[InputError.Reason]
        REASON_NO_ANSWER: _ClassVar[InputError.Reason]
        REASON_REFUSED: _ClassVar[InputError.Reason]
    REASON_UNSPECIFIED: InputError.Reason
    REASON_UNSUPPORTED: InputError.Reason
    REASON_NO_ANSWER: InputError.Reason
    REASON_REFUSED: InputError.Reason
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    reason: InputError.Reason
    code: int
    message: str
    data: str
    def __init__(self, reason: _Optional[_Union[InputError.Reason, str]] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., data: _Optional[str] = ...) -> None: ...

class ElicitRequest(_message.Message):
    __slots__ = ("form", "url", "raw")
    FORM_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    form: ElicitForm
    url: ElicitUrl
    raw: str
    def __init__(self, form: _Optional[_Union[ElicitForm, _Mapping]] = ..., url: _Optional[_Union[ElicitUrl, _Mapping]] = ..., raw: _Optional[str] = ...) -> None: ...

class ElicitForm(_message.Message):
    __slots__ = ("message", "requested_schema", "meta", "extra")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    message: str
    requested_schema: str
    meta: str
    extra: str
    def __init__(self, message: _Optional[str] = ..., requested_schema: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ElicitUrl(_message.Message):
    __slots__ = ("message", "url", "elicitation_id", "meta", "extra")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    ELICITATION_ID_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    message: str
    url: str
    elicitation_id: str
    meta: str
    extra: str
    def __init__(self, message: _Optional[str] = ..., url: _Optional[str] = ..., elicitation_id: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ElicitResult(_message.Message):
    __slots__ = ("action", "content", "meta", "extra")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    action: str
    content: str
    meta: str
    extra: str
    def __init__(self, action: _Optional[str] = ..., content: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListRootsRequest(_message.Message):
    __slots__ = ("meta", "extra")
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    meta: str
    extra: str
    def __init__(self, meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListRootsResult(_message.Message):
    __slots__ = ("roots", "meta", "extra")
    ROOTS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    roots: _containers.RepeatedCompositeFieldContainer[Root]
    meta: str
    extra: str
    def __init__(self, roots: _Optional[_Iterable[_Union[Root, _Mapping]]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class Root(_message.Message):
    __slots__ = ("uri", "name", "meta", "extra")
    URI_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    uri: str
    name: str
    meta: str
    extra: str
    def __init__(self, uri: _Optional[str] = ..., name: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class CreateMessageRequest(_message.Message):
    __slots__ = ("messages", "model_preferences", "system_prompt", "include_context", "temperature", "max_tokens", "stop_sequences", "metadata", "tools", "tool_choice", "meta", "extra")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MODEL_PREFERENCES_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_PROMPT_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STOP_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[SamplingMessage]
    model_preferences: ModelPreferences
    system_prompt: str
    include_context: str
    temperature: float
    max_tokens: int
    stop_sequences: _containers.RepeatedScalarFieldContainer[str]
    metadata: str
    tools: _containers.RepeatedCompositeFieldContainer[_tool_pb2.Tool]
    tool_choice: ToolChoice
    meta: str
    extra: str
    def __init__(self, messages: _Optional[_Iterable[_Union[SamplingMessage, _Mapping]]] = ..., model_preferences: _Optional[_Union[ModelPreferences, _Mapping]] = ..., system_prompt: _Optional[str] = ..., include_context: _Optional[str] = ..., temperature: _Optional[float] = ..., max_tokens: _Optional[int] = ..., stop_sequences: _Optional[_Iterable[str]] = ..., metadata: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[_tool_pb2.Tool, _Mapping]]] = ..., tool_choice: _Optional[_Union[ToolChoice, _Mapping]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class SamplingMessage(_message.Message):
    __slots__ = ("role", "content", "meta", "extra")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: _containers.RepeatedCompositeFieldContainer[_common_pb2.ContentBlock]
    meta: str
    extra: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[_Iterable[_Union[_common_pb2.ContentBlock, _Mapping]]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ModelPreferences(_message.Message):
    __slots__ = ("hints", "cost_priority", "speed_priority", "intelligence_priority", "extra")
    HINTS_FIELD_NUMBER: _ClassVar[int]
    COST_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPEED_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    INTELLIGENCE_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    hints: _containers.RepeatedCompositeFieldContainer[ModelHint]
    cost_priority: float
    speed_priority: float
    intelligence_priority: float
    extra: str
    def __init__(self, hints: _Optional[_Iterable[_Union[ModelHint, _Mapping]]] = ..., cost_priority: _Optional[float] = ..., speed_priority: _Optional[float] = ..., intelligence_priority: _Optional[float] = ..., extra: _Optional[str] = ...) -> None: ...

class ModelHint(_message.Message):
    __slots__ = ("name", "extra")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    extra: str
    def __init__(self, name: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ToolChoice(_message.Message):
    __slots__ = ("mode", "extra")
    MODE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    mode: str
    extra: str
    def __init__(self, mode: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class CreateMessageResult(_message.Message):
    __slots__ = ("role", "content", "model", "stop_reason", "meta", "extra")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: _containers.RepeatedCompositeFieldContainer[_common_pb2.ContentBlock]
    model: str
    stop_reason: str
    meta: str
    extra: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[_Iterable[_Union[_common_pb2.ContentBlock, _Mapping]]] = ..., model: _Optional[str] = ..., stop_reason: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...
