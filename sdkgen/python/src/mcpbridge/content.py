"""The content that tools, resources and prompts return, and its conversion to results."""

import inspect
import math
import mimetypes
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import pydantic_core
from google.protobuf.message import Message as ProtoMessage
from pydantic import BaseModel

from mcpbridge import v1

Meta = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Image:
    """An image to return: `Image(png_bytes)`, or `Image.file("map.png")`."""

    data: bytes
    mime_type: str = "image/png"
    annotations: v1.Annotations | None = None
    meta: Meta | None = None

    @classmethod
    def file(cls, path: str | Path) -> "Image":
        return cls(Path(path).read_bytes(), mimetypes.guess_type(path)[0] or "image/png")

    def block(self) -> v1.ContentBlock:
        image = v1.ImageContent(
            data=self.data, mime_type=self.mime_type, annotations=self.annotations, meta=meta_json(self.meta)
        )
        return v1.ContentBlock(image=image)


@dataclass(frozen=True, slots=True)
class Audio:
    """Audio to return: `Audio(wav_bytes)`, or `Audio.file("bell.wav")`."""

    data: bytes
    mime_type: str = "audio/wav"
    annotations: v1.Annotations | None = None
    meta: Meta | None = None

    @classmethod
    def file(cls, path: str | Path) -> "Audio":
        return cls(Path(path).read_bytes(), mimetypes.guess_type(path)[0] or "audio/wav")

    def block(self) -> v1.ContentBlock:
        audio = v1.AudioContent(
            data=self.data, mime_type=self.mime_type, annotations=self.annotations, meta=meta_json(self.meta)
        )
        return v1.ContentBlock(audio=audio)


@dataclass(frozen=True, slots=True)
class Embedded:
    """An embedded resource to return: `Embedded("file:///notes.txt", "the text")`, with text, bytes or JSON."""

    uri: str
    data: Any
    mime_type: str | None = None
    annotations: v1.Annotations | None = None
    meta: Meta | None = None

    def block(self) -> v1.ContentBlock:
        contents = resource_contents(self.data, self.uri, self.mime_type)
        resource = v1.EmbeddedResource(resource=contents, annotations=self.annotations, meta=meta_json(self.meta))
        return v1.ContentBlock(resource=resource)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a resource, which clients may read: `Link("file:///notes.txt")`."""

    uri: str
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: v1.Annotations | None = None
    meta: Meta | None = None

    def block(self) -> v1.ContentBlock:
        link = v1.Resource(
            uri=self.uri,
            name=self.name or self.uri.rstrip("/").rpartition("/")[2] or self.uri,
            title=self.title,
            description=self.description,
            mime_type=self.mime_type,
            size=self.size,
            annotations=self.annotations,
            meta=meta_json(self.meta),
        )
        return v1.ContentBlock(resource_link=link)


class Message:
    """One turn of a prompt, or of a conversation with a model: `user("What is this?", Image.file("map.png"))`."""

    __slots__ = ("blocks", "role")

    def __init__(self, role: str, *content: Any) -> None:
        self.role = role
        self.blocks = [_block(c) for c in content]

    def __repr__(self) -> str:
        return f"Message({self.role}, {self.blocks})"


def user(*content: Any) -> Message:
    """Returns a message of the user: str, Image, Audio, Embedded, Link or contract messages."""
    return Message("user", *content)


def assistant(*content: Any) -> Message:
    """Returns a message of the model: str, Image, Audio, Embedded, Link or contract messages."""
    return Message("assistant", *content)


# The kinds of content in the contract, by the field of ContentBlock.
_FIELDS: dict[type[ProtoMessage], str] = {
    v1.TextContent: "text",
    v1.ImageContent: "image",
    v1.AudioContent: "audio",
    v1.EmbeddedResource: "resource",
    v1.Resource: "resource_link",
    v1.ToolUseContent: "tool_use",
    v1.ToolResultContent: "tool_result",
}
_SDK_TYPES = (Image, Audio, Embedded, Link)
_BLOCKS: tuple[type, ...] = (*_SDK_TYPES, v1.ContentBlock, *_FIELDS)

# Return types that determine the result. The messages are for exact control.
CONTENT_TYPES: tuple[type, ...] = (*_BLOCKS, v1.CallToolResult, v1.InputRequired)

# Converts a value to the JSON of its declared type, and reports whether to wrap it as {"result": ...}.
Dump = tuple[Callable[[Any], bytes], bool]


def meta_json(meta: Meta | None) -> str:
    """Returns MCP `_meta` in the form of the contract."""
    return json_text(meta) if meta else ""


# JSON.


def to_json(value: Any, write: Callable[[Any], bytes] | None = None) -> bytes:
    """Returns the JSON of a value. The TypeError names the path of a value that JSON cannot represent."""
    try:
        text = write(value) if write else pydantic_core.to_json(value, inf_nan_mode="null")
    except Exception as e:
        raise TypeError(_find_invalid(value, _is_opaque) or str(e)) from None
    # Only non-finite numbers are written as null without being None.
    if b"null" in text and (at := _find_invalid(value, _is_not_finite)):
        raise TypeError(at)
    return text


def json_text(value: Any) -> str:
    """Returns the JSON of a value as text."""
    return to_json(value).decode()


def any_json(value: Any) -> str:
    """Returns the JSON of any value: null or a description for what JSON cannot represent."""
    return pydantic_core.to_json(value, inf_nan_mode="null", serialize_unknown=True).decode()


def _is_not_finite(value: Any) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"{name}, which JSON cannot represent"
    return None


def _is_opaque(value: Any) -> str | None:
    if inspect.iscoroutine(value):
        return f"a coroutine, which JSON cannot represent; write await {value.__name__}(...)"
    try:
        pydantic_core.to_json(value)
    except Exception:
        return f"{type(value).__name__}, which JSON cannot represent"
    return None


def _find_invalid(
    value: Any, check: Callable[[Any], str | None], at: tuple[str, ...] = (), ancestors: tuple[int, ...] = ()
) -> str | None:
    """Returns the first invalid place in a value, and the reason: `rows.0.price is NaN`."""
    parts = _parts(value)
    if id(value) in ancestors:
        what: str | None = "a value that contains itself, which JSON cannot represent"
    elif parts is None:
        what = check(value)
    else:
        found = (_find_invalid(part, check, (*at, str(name)), (*ancestors, id(value))) for name, part in parts)
        return next(filter(None, found), None)
    return f"{'.'.join(at) or 'the value'} is {what}" if what else None


def _parts(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """Returns the members of a value, or None if it has none."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return enumerate(value)
    if isinstance(value, BaseModel):
        included = [name for name, f in type(value).model_fields.items() if not f.exclude]
        return [(name, getattr(value, name)) for name in (*included, *(value.model_extra or ()))]
    if is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in fields(value)]
    return None


# Tools.


def failure(message: str) -> v1.CallToolResponse:
    """Returns an error result for the model."""
    response = v1.CallToolResponse()
    response.result.content.add().text.text = message
    response.result.is_error = True
    return response


def success(value: Any, dump: Dump | None, returns: tuple[type, ...] = ()) -> v1.CallToolResponse:
    """Returns the result of a tool that returned value.

    `dump` serializes the return type if it has a schema. Otherwise value must be of one of the classes in `returns`,
    if any.
    """
    response = v1.CallToolResponse()
    result = response.result
    if isinstance(value, v1.CallToolResult):
        result.CopyFrom(value)
    elif dump is not None:
        write, wrap = dump
        _structured(result, write(value), wrap)
    elif returns and not isinstance(value, (*returns, v1.InputRequired)):
        expected = " | ".join("None" if c is type(None) else c.__name__ for c in dict.fromkeys(returns))
        got = "None" if value is None else type(value).__name__
        raise TypeError(f"the tool returned {got}, and its return type is {expected}")
    elif isinstance(value, str):
        result.content.add().text.text = value
    elif value is None:
        result.SetInParent()
    elif isinstance(value, v1.InputRequired):
        response.input_required.CopyFrom(value)
    elif isinstance(value, _BLOCKS):
        result.content.append(_block(value))
    elif isinstance(value, (list, tuple)) and any(isinstance(v, _BLOCKS) for v in value):
        result.content.extend(map(_block, value))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("a tool cannot return bytes: return Image(data, mime_type), Audio(data, mime_type) or text")
    else:
        text = to_json(value)
        _structured(result, text, not text.startswith(b"{"))
    return response


def _structured(result: v1.CallToolResult, json: bytes, wrap: bool) -> None:
    """Sets structured content, which is an object in MCP, and its text for clients that do not support it."""
    result.content.add().text.text = json.decode()
    result.structured_content = b'{"result":' + json + b"}" if wrap else json


def _block(value: Any) -> v1.ContentBlock:
    if isinstance(value, str):
        return v1.ContentBlock(text=v1.TextContent(text=value))
    if isinstance(value, _SDK_TYPES):
        return value.block()
    if isinstance(value, v1.ContentBlock):
        return value
    if (field := _FIELDS.get(type(value))) is not None:
        block = v1.ContentBlock()
        getattr(block, field).CopyFrom(value)
        return block
    raise TypeError(
        f"content cannot be {type(value).__name__}: use str, Image, Audio, Embedded, Link or messages of the contract"
    )


# Resources.


def resource_result(value: Any, uri: str, mime_type: str | None) -> v1.ReadResourceResponse:
    """Returns the contents of a resource that returned value."""
    if isinstance(value, v1.InputRequired):
        return v1.ReadResourceResponse(input_required=value)
    if isinstance(value, v1.ReadResourceResult):
        return v1.ReadResourceResponse(result=value)
    several = isinstance(value, (list, tuple)) and any(isinstance(v, v1.ResourceContents) for v in value)
    parts = value if several else [value]
    response = v1.ReadResourceResponse()
    response.result.contents.extend(resource_contents(part, uri, mime_type) for part in parts)
    return response


def resource_contents(value: Any, uri: str, mime_type: str | None) -> v1.ResourceContents:
    """Returns the contents for text or bytes, or for any other value its JSON."""
    contents = v1.ResourceContents()
    if isinstance(value, v1.ResourceContents):
        contents.CopyFrom(value)
    elif isinstance(value, str):
        contents.text = value
        mime_type = mime_type or "text/plain"
    elif isinstance(value, (bytes, bytearray, memoryview)):
        contents.blob = bytes(value)
        mime_type = mime_type or "application/octet-stream"
    elif isinstance(value, (Image, Audio)):
        contents.blob = value.data
        mime_type = mime_type or value.mime_type
    elif value is None:
        raise TypeError("a resource cannot return None: raise NotFound if there is no such resource")
    elif isinstance(value, ProtoMessage):
        raise TypeError(f"a resource cannot return {type(value).__name__}")
    else:
        contents.text = json_text(value)
        mime_type = mime_type or "application/json"
    contents.uri = contents.uri or uri
    if mime_type and not contents.HasField("mime_type"):
        contents.mime_type = mime_type
    return contents


# Prompts.


def prompt_result(value: Any, description: str | None) -> v1.GetPromptResponse:
    """Returns the messages of a prompt that returned value."""
    if isinstance(value, v1.InputRequired):
        return v1.GetPromptResponse(input_required=value)
    if isinstance(value, v1.GetPromptResult):
        return v1.GetPromptResponse(result=value)
    turns = value if isinstance(value, (list, tuple)) else [value]
    messages = [message for turn in turns for message in _prompt_messages(turn)]
    return v1.GetPromptResponse(result=v1.GetPromptResult(description=description, messages=messages))


def _prompt_messages(turn: Any) -> list[v1.PromptMessage]:
    """Splits a turn into messages of one block each, as the contract requires."""
    if isinstance(turn, v1.PromptMessage):
        return [turn]
    message = turn if isinstance(turn, Message) else user(turn)
    return [v1.PromptMessage(role=message.role, content=block) for block in message.blocks]


# Sampling.


Turn = Message | v1.SamplingMessage


def conversation(prompt: str | Turn | Sequence[Turn]) -> list[v1.SamplingMessage]:
    """Converts a prompt to messages for sampling."""
    if isinstance(prompt, (str, Message, v1.SamplingMessage)):
        prompt = [user(prompt) if isinstance(prompt, str) else prompt]
    return [
        v1.SamplingMessage(role=turn.role, content=turn.blocks) if isinstance(turn, Message) else turn
        for turn in prompt
    ]


def tool_result(call: v1.ToolUseContent, value: Any, *, is_error: bool = False) -> v1.ToolResultContent:
    """Returns the result of a tool call of the model, for the next turn: `user(tool_result(call, value))`."""
    result = success(value, None).result
    return v1.ToolResultContent(
        tool_use_id=call.id,
        content=result.content,
        structured_content=result.structured_content.decode(),
        is_error=is_error,
    )
