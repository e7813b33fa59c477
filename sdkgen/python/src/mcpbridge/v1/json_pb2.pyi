from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor
JSON_FIELD_NUMBER: _ClassVar[int]
json: _descriptor.FieldDescriptor
JSON_MESSAGE_FIELD_NUMBER: _ClassVar[int]
json_message: _descriptor.FieldDescriptor

class JsonField(_message.Message):
    __slots__ = ("name", "raw", "nullable", "text", "required", "fallback", "single", "since", "until", "extra", "inline", "internal", "when")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    SINGLE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    raw: bool
    nullable: bool
    text: bool
    required: bool
    fallback: str
    single: bool
    since: str
    until: str
    extra: bool
    inline: bool
    internal: bool
    when: str
    def __init__(self, name: _Optional[str] = ..., raw: bool = ..., nullable: bool = ..., text: bool = ..., required: bool = ..., fallback: _Optional[str] = ..., single: bool = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., extra: bool = ..., inline: bool = ..., internal: bool = ..., when: _Optional[str] = ...) -> None: ...

class JsonMessage(_message.Message):
    __slots__ = ("tag", "content", "tag_default", "tag_since", "untagged", "result_type")
    TAG_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TAG_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    TAG_SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTAGGED_FIELD_NUMBER: _ClassVar[int]
    RESULT_TYPE_FIELD_NUMBER: _ClassVar[int]
    tag: str
    content: str
    tag_default: str
    tag_since: str
    untagged: bool
    result_type: str
    def __init__(self, tag: _Optional[str] = ..., content: _Optional[str] = ..., tag_default: _Optional[str] = ..., tag_since: _Optional[str] = ..., untagged: bool = ..., result_type: _Optional[str] = ...) -> None: ...
