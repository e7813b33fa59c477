from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Capability(_message.Message):
    __slots__ = ("extra",)
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    extra: str
    def __init__(self, extra: _Optional[str] = ...) -> None: ...

class ClientCapabilities(_message.Message):
    __slots__ = ("elicitation", "sampling", "roots", "tasks", "extensions", "experimental", "extra")
    ELICITATION_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    ROOTS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENTAL_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    elicitation: ElicitationCapability
    sampling: SamplingCapability
    roots: RootsCapability
    tasks: str
    extensions: str
    experimental: str
    extra: str
    def __init__(self, elicitation: _Optional[_Union[ElicitationCapability, _Mapping]] = ..., sampling: _Optional[_Union[SamplingCapability, _Mapping]] = ..., roots: _Optional[_Union[RootsCapability, _Mapping]] = ..., tasks: _Optional[str] = ..., extensions: _Optional[str] = ..., experimental: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ElicitationCapability(_message.Message):
    __slots__ = ("form", "url", "extra")
    FORM_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    form: Capability
    url: Capability
    extra: str
    def __init__(self, form: _Optional[_Union[Capability, _Mapping]] = ..., url: _Optional[_Union[Capability, _Mapping]] = ..., extra: _Optional[str] = ...) -> None: ...

class SamplingCapability(_message.Message):
    __slots__ = ("context", "tools", "extra")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    context: Capability
    tools: Capability
    extra: str
    def __init__(self, context: _Optional[_Union[Capability, _Mapping]] = ..., tools: _Optional[_Union[Capability, _Mapping]] = ..., extra: _Optional[str] = ...) -> None: ...

class RootsCapability(_message.Message):
    __slots__ = ("list_changed", "extra")
    LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    list_changed: bool
    extra: str
    def __init__(self, list_changed: bool = ..., extra: _Optional[str] = ...) -> None: ...

class ServerCapabilities(_message.Message):
    __slots__ = ("tools", "resources", "prompts", "completions", "logging", "tasks", "extensions", "experimental", "extra")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    LOGGING_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENTAL_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    tools: ToolsCapability
    resources: ResourcesCapability
    prompts: PromptsCapability
    completions: Capability
    logging: Capability
    tasks: str
    extensions: str
    experimental: str
    extra: str
    def __init__(self, tools: _Optional[_Union[ToolsCapability, _Mapping]] = ..., resources: _Optional[_Union[ResourcesCapability, _Mapping]] = ..., prompts: _Optional[_Union[PromptsCapability, _Mapping]] = ..., completions: _Optional[_Union[Capability, _Mapping]] = ..., logging: _Optional[_Union[Capability, _Mapping]] = ..., tasks: _Optional[str] = ..., extensions: _Optional[str] = ..., experimental: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ToolsCapability(_message.Message):
    __slots__ = ("list_changed", "extra")
    LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    list_changed: bool
    extra: str
    def __init__(self, list_changed: bool = ..., extra: _Optional[str] = ...) -> None: ...

class ResourcesCapability(_message.Message):
    __slots__ = ("subscribe", "list_changed", "extra")
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    subscribe: bool
    list_changed: bool
    extra: str
    def __init__(self, subscribe: bool = ..., list_changed: bool = ..., extra: _Optional[str] = ...) -> None: ...

class PromptsCapability(_message.Message):
    __slots__ = ("list_changed", "extra")
    LIST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    list_changed: bool
    extra: str
    def __init__(self, list_changed: bool = ..., extra: _Optional[str] = ...) -> None: ...
