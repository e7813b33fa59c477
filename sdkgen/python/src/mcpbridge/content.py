"""What tools return, and how it becomes a result."""

import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic_core
from google.protobuf.message import Message

from mcpbridge import v1


@dataclass(frozen=True, slots=True)
class Image:
    """An image to return: `Image(png_bytes)`, or `Image.file("map.png")`."""

    data: bytes
    mime_type: str = "image/png"

    @classmethod
    def file(cls, path: str | Path) -> "Image":
        return cls(Path(path).read_bytes(), mimetypes.guess_type(path)[0] or "image/png")

    def block(self) -> v1.ContentBlock:
        return v1.ContentBlock(image=v1.ImageContent(data=self.data, mime_type=self.mime_type))


@dataclass(frozen=True, slots=True)
class Audio:
    """A piece of sound to return: `Audio(wav_bytes)`, or `Audio.file("bell.wav")`."""

    data: bytes
    mime_type: str = "audio/wav"

    @classmethod
    def file(cls, path: str | Path) -> "Audio":
        return cls(Path(path).read_bytes(), mimetypes.guess_type(path)[0] or "audio/wav")

    def block(self) -> v1.ContentBlock:
        return v1.ContentBlock(audio=v1.AudioContent(data=self.data, mime_type=self.mime_type))


# The kinds of content of the contract, by the field of a ContentBlock that holds them.
_FIELDS: dict[type[Message], str] = {
    v1.TextContent: "text",
    v1.ImageContent: "image",
    v1.AudioContent: "audio",
    v1.EmbeddedResource: "resource",
    v1.Resource: "resource_link",
}

CONTENT_TYPES: tuple[type, ...] = (Image, Audio, v1.ContentBlock, v1.CallToolResult, *_FIELDS)

# Turns a value into the JSON of its declared type, and says whether to wrap it as {"result": ...}.
Dump = tuple[Callable[[Any], bytes], bool]


def failure(message: str) -> v1.CallToolResponse:
    """A result that tells the model what went wrong."""
    response = v1.CallToolResponse()
    response.result.content.add().text.text = message
    response.result.is_error = True
    return response


def success(value: Any, dump: Dump | None) -> v1.CallToolResponse:
    """The result of a tool that returned value, whose return type has the given dump, if it is one with a schema."""
    response = v1.CallToolResponse()
    result = response.result
    if isinstance(value, v1.CallToolResult):
        result.CopyFrom(value)
    elif dump is not None:
        to_json, wrap = dump
        _structured(result, to_json(value), wrap)
    elif isinstance(value, str):
        result.content.add().text.text = value
    elif value is None:
        result.SetInParent()
    elif isinstance(value, CONTENT_TYPES):
        result.content.append(_block(value))
    elif isinstance(value, (list, tuple)) and any(isinstance(v, CONTENT_TYPES) for v in value):
        result.content.extend(map(_block, value))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("a tool cannot return bytes: return Image(data, mime_type), Audio(data, mime_type) or text")
    else:
        text = pydantic_core.to_json(value, inf_nan_mode="null")
        _structured(result, text, not text.startswith(b"{"))
    return response


def _structured(result: v1.CallToolResult, json: bytes, wrap: bool) -> None:
    """MCP's structured content is an object, and stands as text beside it for clients that do not know it."""
    result.content.add().text.text = json.decode()
    result.structured_content = b'{"result":' + json + b"}" if wrap else json


def _block(value: Any) -> v1.ContentBlock:
    if isinstance(value, str):
        return v1.ContentBlock(text=v1.TextContent(text=value))
    if isinstance(value, (Image, Audio)):
        return value.block()
    if isinstance(value, v1.ContentBlock):
        return value
    if (field := _FIELDS.get(type(value))) is not None:
        block = v1.ContentBlock()
        getattr(block, field).CopyFrom(value)
        return block
    raise TypeError(f"a list of content cannot hold {type(value).__name__}: use str, Image, Audio or contract messages")
