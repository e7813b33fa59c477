from mcpbridge.v1 import capability_pb2 as _capability_pb2
from mcpbridge.v1 import common_pb2 as _common_pb2
from mcpbridge.v1 import input_pb2 as _input_pb2
from mcpbridge.v1 import task_pb2 as _task_pb2
from mcpbridge.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CallContext(_message.Message):
    __slots__ = ("protocol_version", "client_info", "client_capabilities", "log_level", "progress_wanted", "meta", "verified")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_INFO_FIELD_NUMBER: _ClassVar[int]
    CLIENT_CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    LOG_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_WANTED_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    protocol_version: str
    client_info: _common_pb2.Implementation
    client_capabilities: _capability_pb2.ClientCapabilities
    log_level: _common_pb2.LogLevel
    progress_wanted: bool
    meta: str
    verified: VerifiedCaller
    def __init__(self, protocol_version: _Optional[str] = ..., client_info: _Optional[_Union[_common_pb2.Implementation, _Mapping]] = ..., client_capabilities: _Optional[_Union[_capability_pb2.ClientCapabilities, _Mapping]] = ..., log_level: _Optional[_Union[_common_pb2.LogLevel, str]] = ..., progress_wanted: bool = ..., meta: _Optional[str] = ..., verified: _Optional[_Union[VerifiedCaller, _Mapping]] = ...) -> None: ...

class VerifiedCaller(_message.Message):
    __slots__ = ("contract_version", "protocol_version", "principal", "headers")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONTRACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    contract_version: int
    protocol_version: str
    principal: Principal
    headers: _containers.ScalarMap[str, str]
    def __init__(self, contract_version: _Optional[int] = ..., protocol_version: _Optional[str] = ..., principal: _Optional[_Union[Principal, _Mapping]] = ..., headers: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Principal(_message.Message):
    __slots__ = ("subject", "issuer", "scopes", "claims")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    subject: str
    issuer: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    claims: str
    def __init__(self, subject: _Optional[str] = ..., issuer: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., claims: _Optional[str] = ...) -> None: ...

class DiscoverRequest(_message.Message):
    __slots__ = ("context", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., extra: _Optional[str] = ...) -> None: ...

class DiscoverResponse(_message.Message):
    __slots__ = ("server_info", "capabilities", "instructions", "supported_versions", "ttl_ms", "cache_scope", "meta", "limits", "contract_version", "extra")
    SERVER_INFO_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    server_info: _common_pb2.Implementation
    capabilities: _capability_pb2.ServerCapabilities
    instructions: str
    supported_versions: _containers.RepeatedScalarFieldContainer[str]
    ttl_ms: int
    cache_scope: str
    meta: str
    limits: BackendLimits
    contract_version: int
    extra: str
    def __init__(self, server_info: _Optional[_Union[_common_pb2.Implementation, _Mapping]] = ..., capabilities: _Optional[_Union[_capability_pb2.ServerCapabilities, _Mapping]] = ..., instructions: _Optional[str] = ..., supported_versions: _Optional[_Iterable[str]] = ..., ttl_ms: _Optional[int] = ..., cache_scope: _Optional[str] = ..., meta: _Optional[str] = ..., limits: _Optional[_Union[BackendLimits, _Mapping]] = ..., contract_version: _Optional[int] = ..., extra: _Optional[str] = ...) -> None: ...

class BackendLimits(_message.Message):
    __slots__ = ("max_concurrent_calls",)
    MAX_CONCURRENT_CALLS_FIELD_NUMBER: _ClassVar[int]
    max_concurrent_calls: int
    def __init__(self, max_concurrent_calls: _Optional[int] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ("context", "cursor", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    cursor: str
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., cursor: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools", "next_cursor", "ttl_ms", "cache_scope", "meta", "extra")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[_tool_pb2.Tool]
    next_cursor: str
    ttl_ms: int
    cache_scope: str
    meta: str
    extra: str
    def __init__(self, tools: _Optional[_Iterable[_Union[_tool_pb2.Tool, _Mapping]]] = ..., next_cursor: _Optional[str] = ..., ttl_ms: _Optional[int] = ..., cache_scope: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class CallToolRequest(_message.Message):
    __slots__ = ("context", "name", "arguments", "input_responses", "request_state", "task", "extra")
    class InputResponsesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _input_pb2.InputResponse
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_input_pb2.InputResponse, _Mapping]] = ...) -> None: ...
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    INPUT_RESPONSES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_STATE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    name: str
    arguments: bytes
    input_responses: _containers.MessageMap[str, _input_pb2.InputResponse]
    request_state: bytes
    task: _task_pb2.TaskMetadata
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., name: _Optional[str] = ..., arguments: _Optional[bytes] = ..., input_responses: _Optional[_Mapping[str, _input_pb2.InputResponse]] = ..., request_state: _Optional[bytes] = ..., task: _Optional[_Union[_task_pb2.TaskMetadata, _Mapping]] = ..., extra: _Optional[str] = ...) -> None: ...

class CallToolResponse(_message.Message):
    __slots__ = ("progress", "log", "result", "input_required", "task_started", "task")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    TASK_STARTED_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    progress: _common_pb2.Progress
    log: _common_pb2.LogMessage
    result: _tool_pb2.CallToolResult
    input_required: _input_pb2.InputRequired
    task_started: _task_pb2.TaskStarted
    task: _task_pb2.CreateTaskResult
    def __init__(self, progress: _Optional[_Union[_common_pb2.Progress, _Mapping]] = ..., log: _Optional[_Union[_common_pb2.LogMessage, _Mapping]] = ..., result: _Optional[_Union[_tool_pb2.CallToolResult, _Mapping]] = ..., input_required: _Optional[_Union[_input_pb2.InputRequired, _Mapping]] = ..., task_started: _Optional[_Union[_task_pb2.TaskStarted, _Mapping]] = ..., task: _Optional[_Union[_task_pb2.CreateTaskResult, _Mapping]] = ...) -> None: ...

class ListResourcesRequest(_message.Message):
    __slots__ = ("context", "cursor", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    cursor: str
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., cursor: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListResourcesResponse(_message.Message):
    __slots__ = ("resources", "next_cursor", "ttl_ms", "cache_scope", "meta", "extra")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[_common_pb2.Resource]
    next_cursor: str
    ttl_ms: int
    cache_scope: str
    meta: str
    extra: str
    def __init__(self, resources: _Optional[_Iterable[_Union[_common_pb2.Resource, _Mapping]]] = ..., next_cursor: _Optional[str] = ..., ttl_ms: _Optional[int] = ..., cache_scope: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListResourceTemplatesRequest(_message.Message):
    __slots__ = ("context", "cursor", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    cursor: str
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., cursor: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListResourceTemplatesResponse(_message.Message):
    __slots__ = ("resource_templates", "next_cursor", "ttl_ms", "cache_scope", "meta", "extra")
    RESOURCE_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    resource_templates: _containers.RepeatedCompositeFieldContainer[ResourceTemplate]
    next_cursor: str
    ttl_ms: int
    cache_scope: str
    meta: str
    extra: str
    def __init__(self, resource_templates: _Optional[_Iterable[_Union[ResourceTemplate, _Mapping]]] = ..., next_cursor: _Optional[str] = ..., ttl_ms: _Optional[int] = ..., cache_scope: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ResourceTemplate(_message.Message):
    __slots__ = ("uri_template", "name", "title", "description", "mime_type", "annotations", "icons", "meta", "extra")
    URI_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    ICONS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    uri_template: str
    name: str
    title: str
    description: str
    mime_type: str
    annotations: _common_pb2.Annotations
    icons: _containers.RepeatedCompositeFieldContainer[_common_pb2.Icon]
    meta: str
    extra: str
    def __init__(self, uri_template: _Optional[str] = ..., name: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., mime_type: _Optional[str] = ..., annotations: _Optional[_Union[_common_pb2.Annotations, _Mapping]] = ..., icons: _Optional[_Iterable[_Union[_common_pb2.Icon, _Mapping]]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ReadResourceRequest(_message.Message):
    __slots__ = ("context", "uri", "input_responses", "request_state", "extra")
    class InputResponsesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _input_pb2.InputResponse
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_input_pb2.InputResponse, _Mapping]] = ...) -> None: ...
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    INPUT_RESPONSES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_STATE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    uri: str
    input_responses: _containers.MessageMap[str, _input_pb2.InputResponse]
    request_state: bytes
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., uri: _Optional[str] = ..., input_responses: _Optional[_Mapping[str, _input_pb2.InputResponse]] = ..., request_state: _Optional[bytes] = ..., extra: _Optional[str] = ...) -> None: ...

class ReadResourceResult(_message.Message):
    __slots__ = ("contents", "ttl_ms", "cache_scope", "meta", "extra")
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedCompositeFieldContainer[_common_pb2.ResourceContents]
    ttl_ms: int
    cache_scope: str
    meta: str
    extra: str
    def __init__(self, contents: _Optional[_Iterable[_Union[_common_pb2.ResourceContents, _Mapping]]] = ..., ttl_ms: _Optional[int] = ..., cache_scope: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ReadResourceResponse(_message.Message):
    __slots__ = ("progress", "log", "result", "input_required")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    progress: _common_pb2.Progress
    log: _common_pb2.LogMessage
    result: ReadResourceResult
    input_required: _input_pb2.InputRequired
    def __init__(self, progress: _Optional[_Union[_common_pb2.Progress, _Mapping]] = ..., log: _Optional[_Union[_common_pb2.LogMessage, _Mapping]] = ..., result: _Optional[_Union[ReadResourceResult, _Mapping]] = ..., input_required: _Optional[_Union[_input_pb2.InputRequired, _Mapping]] = ...) -> None: ...

class ListPromptsRequest(_message.Message):
    __slots__ = ("context", "cursor", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    cursor: str
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., cursor: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListPromptsResponse(_message.Message):
    __slots__ = ("prompts", "next_cursor", "ttl_ms", "cache_scope", "meta", "extra")
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SCOPE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    prompts: _containers.RepeatedCompositeFieldContainer[Prompt]
    next_cursor: str
    ttl_ms: int
    cache_scope: str
    meta: str
    extra: str
    def __init__(self, prompts: _Optional[_Iterable[_Union[Prompt, _Mapping]]] = ..., next_cursor: _Optional[str] = ..., ttl_ms: _Optional[int] = ..., cache_scope: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ("name", "title", "description", "arguments", "icons", "meta", "extra")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    ICONS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    title: str
    description: str
    arguments: _containers.RepeatedCompositeFieldContainer[PromptArgument]
    icons: _containers.RepeatedCompositeFieldContainer[_common_pb2.Icon]
    meta: str
    extra: str
    def __init__(self, name: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., arguments: _Optional[_Iterable[_Union[PromptArgument, _Mapping]]] = ..., icons: _Optional[_Iterable[_Union[_common_pb2.Icon, _Mapping]]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class PromptArgument(_message.Message):
    __slots__ = ("name", "title", "description", "required", "extra")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    title: str
    description: str
    required: bool
    extra: str
    def __init__(self, name: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., required: bool = ..., extra: _Optional[str] = ...) -> None: ...

class GetPromptRequest(_message.Message):
    __slots__ = ("context", "name", "arguments", "input_responses", "request_state", "extra")
    class ArgumentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class InputResponsesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _input_pb2.InputResponse
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_input_pb2.InputResponse, _Mapping]] = ...) -> None: ...
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    INPUT_RESPONSES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_STATE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    name: str
    arguments: _containers.ScalarMap[str, str]
    input_responses: _containers.MessageMap[str, _input_pb2.InputResponse]
    request_state: bytes
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., name: _Optional[str] = ..., arguments: _Optional[_Mapping[str, str]] = ..., input_responses: _Optional[_Mapping[str, _input_pb2.InputResponse]] = ..., request_state: _Optional[bytes] = ..., extra: _Optional[str] = ...) -> None: ...

class GetPromptResult(_message.Message):
    __slots__ = ("description", "messages", "meta", "extra")
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    description: str
    messages: _containers.RepeatedCompositeFieldContainer[PromptMessage]
    meta: str
    extra: str
    def __init__(self, description: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[PromptMessage, _Mapping]]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class PromptMessage(_message.Message):
    __slots__ = ("role", "content", "extra")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: _common_pb2.ContentBlock
    extra: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[_Union[_common_pb2.ContentBlock, _Mapping]] = ..., extra: _Optional[str] = ...) -> None: ...

class GetPromptResponse(_message.Message):
    __slots__ = ("progress", "log", "result", "input_required")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    progress: _common_pb2.Progress
    log: _common_pb2.LogMessage
    result: GetPromptResult
    input_required: _input_pb2.InputRequired
    def __init__(self, progress: _Optional[_Union[_common_pb2.Progress, _Mapping]] = ..., log: _Optional[_Union[_common_pb2.LogMessage, _Mapping]] = ..., result: _Optional[_Union[GetPromptResult, _Mapping]] = ..., input_required: _Optional[_Union[_input_pb2.InputRequired, _Mapping]] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("context", "reference", "argument", "argument_context", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    reference: CompletionReference
    argument: CompletionArgument
    argument_context: CompletionContext
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., reference: _Optional[_Union[CompletionReference, _Mapping]] = ..., argument: _Optional[_Union[CompletionArgument, _Mapping]] = ..., argument_context: _Optional[_Union[CompletionContext, _Mapping]] = ..., extra: _Optional[str] = ...) -> None: ...

class CompletionReference(_message.Message):
    __slots__ = ("prompt", "resource", "raw")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    prompt: PromptReference
    resource: ResourceReference
    raw: str
    def __init__(self, prompt: _Optional[_Union[PromptReference, _Mapping]] = ..., resource: _Optional[_Union[ResourceReference, _Mapping]] = ..., raw: _Optional[str] = ...) -> None: ...

class PromptReference(_message.Message):
    __slots__ = ("name", "title", "extra")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    title: str
    extra: str
    def __init__(self, name: _Optional[str] = ..., title: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ResourceReference(_message.Message):
    __slots__ = ("uri", "extra")
    URI_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    uri: str
    extra: str
    def __init__(self, uri: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class CompletionArgument(_message.Message):
    __slots__ = ("name", "value", "extra")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    extra: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class CompletionContext(_message.Message):
    __slots__ = ("arguments", "extra")
    class ArgumentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    arguments: _containers.ScalarMap[str, str]
    extra: str
    def __init__(self, arguments: _Optional[_Mapping[str, str]] = ..., extra: _Optional[str] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("completion", "meta", "extra")
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    completion: Completion
    meta: str
    extra: str
    def __init__(self, completion: _Optional[_Union[Completion, _Mapping]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ("values", "total", "has_more", "extra")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    total: int
    has_more: bool
    extra: str
    def __init__(self, values: _Optional[_Iterable[str]] = ..., total: _Optional[int] = ..., has_more: bool = ..., extra: _Optional[str] = ...) -> None: ...

class ListenRequest(_message.Message):
    __slots__ = ("context", "notifications", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    notifications: SubscriptionFilter
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., notifications: _Optional[_Union[SubscriptionFilter, _Mapping]] = ..., extra: _Optional[str] = ...) -> None: ...

class SubscriptionFilter(_message.Message):
    __slots__ = ("tools_list_changed", "prompts_list_changed", "resources_list_changed", "resource_subscriptions", "elicitations_completed", "task_ids", "extra")
    TOOLS_LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    ELICITATIONS_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    tools_list_changed: bool
    prompts_list_changed: bool
    resources_list_changed: bool
    resource_subscriptions: _containers.RepeatedScalarFieldContainer[str]
    elicitations_completed: bool
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    extra: str
    def __init__(self, tools_list_changed: bool = ..., prompts_list_changed: bool = ..., resources_list_changed: bool = ..., resource_subscriptions: _Optional[_Iterable[str]] = ..., elicitations_completed: bool = ..., task_ids: _Optional[_Iterable[str]] = ..., extra: _Optional[str] = ...) -> None: ...

class ListenResponse(_message.Message):
    __slots__ = ("acknowledged", "tools_list_changed", "prompts_list_changed", "resources_list_changed", "resource_updated", "result", "elicitation_completed", "task_changed")
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    TOOLS_LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_UPDATED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ELICITATION_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    TASK_CHANGED_FIELD_NUMBER: _ClassVar[int]
    acknowledged: SubscriptionsAcknowledged
    tools_list_changed: ListChanged
    prompts_list_changed: ListChanged
    resources_list_changed: ListChanged
    resource_updated: ResourceUpdated
    result: ListenResult
    elicitation_completed: ElicitationCompleted
    task_changed: _task_pb2.Task
    def __init__(self, acknowledged: _Optional[_Union[SubscriptionsAcknowledged, _Mapping]] = ..., tools_list_changed: _Optional[_Union[ListChanged, _Mapping]] = ..., prompts_list_changed: _Optional[_Union[ListChanged, _Mapping]] = ..., resources_list_changed: _Optional[_Union[ListChanged, _Mapping]] = ..., resource_updated: _Optional[_Union[ResourceUpdated, _Mapping]] = ..., result: _Optional[_Union[ListenResult, _Mapping]] = ..., elicitation_completed: _Optional[_Union[ElicitationCompleted, _Mapping]] = ..., task_changed: _Optional[_Union[_task_pb2.Task, _Mapping]] = ...) -> None: ...

class ElicitationCompleted(_message.Message):
    __slots__ = ("elicitation_id", "meta", "extra")
    ELICITATION_ID_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    elicitation_id: str
    meta: str
    extra: str
    def __init__(self, elicitation_id: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListenResult(_message.Message):
    __slots__ = ("meta", "extra")
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    meta: str
    extra: str
    def __init__(self, meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class SubscriptionsAcknowledged(_message.Message):
    __slots__ = ("notifications", "meta", "extra")
    NOTIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    notifications: SubscriptionFilter
    meta: str
    extra: str
    def __init__(self, notifications: _Optional[_Union[SubscriptionFilter, _Mapping]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListChanged(_message.Message):
    __slots__ = ("meta", "extra")
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    meta: str
    extra: str
    def __init__(self, meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ResourceUpdated(_message.Message):
    __slots__ = ("uri", "meta", "extra")
    URI_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    uri: str
    meta: str
    extra: str
    def __init__(self, uri: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class GetTaskRequest(_message.Message):
    __slots__ = ("context", "task_id", "extra", "wait_ms")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    task_id: str
    extra: str
    wait_ms: int
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., task_id: _Optional[str] = ..., extra: _Optional[str] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class GetTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("context", "cursor", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    cursor: str
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., cursor: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "next_cursor", "meta", "extra")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.Task]
    next_cursor: str
    meta: str
    extra: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.Task, _Mapping]]] = ..., next_cursor: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class UpdateTaskRequest(_message.Message):
    __slots__ = ("context", "task_id", "input_responses", "extra")
    class InputResponsesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _input_pb2.InputResponse
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_input_pb2.InputResponse, _Mapping]] = ...) -> None: ...
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_RESPONSES_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    task_id: str
    input_responses: _containers.MessageMap[str, _input_pb2.InputResponse]
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., task_id: _Optional[str] = ..., input_responses: _Optional[_Mapping[str, _input_pb2.InputResponse]] = ..., extra: _Optional[str] = ...) -> None: ...

class UpdateTaskResponse(_message.Message):
    __slots__ = ("meta", "extra")
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    meta: str
    extra: str
    def __init__(self, meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class CancelTaskRequest(_message.Message):
    __slots__ = ("context", "task_id", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: CallContext
    task_id: str
    extra: str
    def __init__(self, context: _Optional[_Union[CallContext, _Mapping]] = ..., task_id: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class CancelTaskResponse(_message.Message):
    __slots__ = ("meta", "extra")
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    meta: str
    extra: str
    def __init__(self, meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...
