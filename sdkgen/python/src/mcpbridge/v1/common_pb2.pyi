from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_LEVEL_UNSPECIFIED: _ClassVar[LogLevel]
    LOG_LEVEL_DEBUG: _ClassVar[LogLevel]
    LOG_LEVEL_INFO: _ClassVar[LogLevel]
    LOG_LEVEL_NOTICE: _ClassVar[LogLevel]
    LOG_LEVEL_WARNING: _ClassVar[LogLevel]
    LOG_LEVEL_ERROR: _ClassVar[LogLevel]
    LOG_LEVEL_CRITICAL: _ClassVar[LogLevel]
    LOG_LEVEL_ALERT: _ClassVar[LogLevel]
    LOG_LEVEL_EMERGENCY: _ClassVar[LogLevel]
LOG_LEVEL_UNSPECIFIED: LogLevel
LOG_LEVEL_DEBUG: LogLevel
LOG_LEVEL_INFO: LogLevel
LOG_LEVEL_NOTICE: LogLevel
LOG_LEVEL_WARNING: LogLevel
LOG_LEVEL_ERROR: LogLevel
LOG_LEVEL_CRITICAL: LogLevel
LOG_LEVEL_ALERT: LogLevel
LOG_LEVEL_EMERGENCY: LogLevel

class Icon(_message.Message):
    __slots__ = ("src", "mime_type", "sizes", "theme", "extra")
    SRC_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZES_FIELD_NUMBER: _ClassVar[int]
    THEME_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    src: str
    mime_type: str
    sizes: _containers.RepeatedScalarFieldContainer[str]
    theme: str
    extra: str
    def __init__(self, src: _Optional[str] = ..., mime_type: _Optional[str] = ..., sizes: _Optional[_Iterable[str]] = ..., theme: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class Implementation(_message.Message):
    __slots__ = ("name", "title", "version", "description", "website_url", "icons", "extra")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    WEBSITE_URL_FIELD_NUMBER: _ClassVar[int]
    ICONS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    name: str
    title: str
    version: str
    description: str
    website_url: str
    icons: _containers.RepeatedCompositeFieldContainer[Icon]
    extra: str
    def __init__(self, name: _Optional[str] = ..., title: _Optional[str] = ..., version: _Optional[str] = ..., description: _Optional[str] = ..., website_url: _Optional[str] = ..., icons: _Optional[_Iterable[_Union[Icon, _Mapping]]] = ..., extra: _Optional[str] = ...) -> None: ...

class Annotations(_message.Message):
    __slots__ = ("audience", "priority", "last_modified", "extra")
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LAST_MODIFIED_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    audience: _containers.RepeatedScalarFieldContainer[str]
    priority: float
    last_modified: str
    extra: str
    def __init__(self, audience: _Optional[_Iterable[str]] = ..., priority: _Optional[float] = ..., last_modified: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class TextContent(_message.Message):
    __slots__ = ("text", "annotations", "meta", "extra")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    text: str
    annotations: Annotations
    meta: str
    extra: str
    def __init__(self, text: _Optional[str] = ..., annotations: _Optional[_Union[Annotations, _Mapping]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ImageContent(_message.Message):
    __slots__ = ("data", "mime_type", "annotations", "meta", "extra")
    DATA_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    mime_type: str
    annotations: Annotations
    meta: str
    extra: str
    def __init__(self, data: _Optional[bytes] = ..., mime_type: _Optional[str] = ..., annotations: _Optional[_Union[Annotations, _Mapping]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class AudioContent(_message.Message):
    __slots__ = ("data", "mime_type", "annotations", "meta", "extra")
    DATA_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    mime_type: str
    annotations: Annotations
    meta: str
    extra: str
    def __init__(self, data: _Optional[bytes] = ..., mime_type: _Optional[str] = ..., annotations: _Optional[_Union[Annotations, _Mapping]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class EmbeddedResource(_message.Message):
    __slots__ = ("resource", "annotations", "meta", "extra")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    resource: ResourceContents
    annotations: Annotations
    meta: str
    extra: str
    def __init__(self, resource: _Optional[_Union[ResourceContents, _Mapping]] = ..., annotations: _Optional[_Union[Annotations, _Mapping]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ToolUseContent(_message.Message):
    __slots__ = ("id", "name", "input", "meta", "extra")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    input: str
    meta: str
    extra: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., input: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ToolResultContent(_message.Message):
    __slots__ = ("tool_use_id", "content", "structured_content", "is_error", "meta", "extra")
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    tool_use_id: str
    content: _containers.RepeatedCompositeFieldContainer[ContentBlock]
    structured_content: str
    is_error: bool
    meta: str
    extra: str
    def __init__(self, tool_use_id: _Optional[str] = ..., content: _Optional[_Iterable[_Union[ContentBlock, _Mapping]]] = ..., structured_content: _Optional[str] = ..., is_error: bool = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ContentBlock(_message.Message):
    __slots__ = ("text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result", "raw")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_LINK_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_FIELD_NUMBER: _ClassVar[int]
    TOOL_RESULT_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    text: TextContent
    image: ImageContent
    audio: AudioContent
    resource: EmbeddedResource
    resource_link: Resource
    tool_use: ToolUseContent
    tool_result: ToolResultContent
    raw: str
    def __init__(self, text: _Optional[_Union[TextContent, _Mapping]] = ..., image: _Optional[_Union[ImageContent, _Mapping]] = ..., audio: _Optional[_Union[AudioContent, _Mapping]] = ..., resource: _Optional[_Union[EmbeddedResource, _Mapping]] = ..., resource_link: _Optional[_Union[Resource, _Mapping]] = ..., tool_use: _Optional[_Union[ToolUseContent, _Mapping]] = ..., tool_result: _Optional[_Union[ToolResultContent, _Mapping]] = ..., raw: _Optional[str] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("progress", "total", "message", "meta", "extra")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    progress: float
    total: float
    message: str
    meta: str
    extra: str
    def __init__(self, progress: _Optional[float] = ..., total: _Optional[float] = ..., message: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class LogMessage(_message.Message):
    __slots__ = ("level", "logger", "data", "meta", "extra")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    level: LogLevel
    logger: str
    data: str
    meta: str
    extra: str
    def __init__(self, level: _Optional[_Union[LogLevel, str]] = ..., logger: _Optional[str] = ..., data: _Optional[str] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ResourceContents(_message.Message):
    __slots__ = ("uri", "mime_type", "text", "blob", "meta", "extra")
    URI_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    uri: str
    mime_type: str
    text: str
    blob: bytes
    meta: str
    extra: str
    def __init__(self, uri: _Optional[str] = ..., mime_type: _Optional[str] = ..., text: _Optional[str] = ..., blob: _Optional[bytes] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("uri", "name", "title", "description", "mime_type", "annotations", "size", "icons", "meta", "extra")
    URI_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ICONS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    annotations: Annotations
    size: int
    icons: _containers.RepeatedCompositeFieldContainer[Icon]
    meta: str
    extra: str
    def __init__(self, uri: _Optional[str] = ..., name: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., mime_type: _Optional[str] = ..., annotations: _Optional[_Union[Annotations, _Mapping]] = ..., size: _Optional[int] = ..., icons: _Optional[_Iterable[_Union[Icon, _Mapping]]] = ..., meta: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...
