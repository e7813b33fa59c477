"""MCP servers in Python: write functions, and the mcpbridge sidecar serves them.

from mcpbridge import App

app = App("weather", version="1.0")

@app.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

app.run()
"""

# Imported first, so that output of the imports below does not precede the handshake.
from mcpbridge import stdout as _stdout  # noqa: F401, I001

from pydantic import Field

from mcpbridge.app import App, Task
from mcpbridge.content import Audio, Embedded, Image, Link, Message, assistant, tool_result, user
from mcpbridge.context import Answer, Context, Log, Roots, Sample
from mcpbridge.errors import (
    DefinitionError,
    InvalidAnswer,
    McpError,
    NoAnswer,
    NotAccepted,
    NotFound,
    Refused,
    ToolError,
    Unsupported,
    VisitRequired,
)
from mcpbridge.frames import Frames as _Frames  # noqa: F401  # Reads the environment at import.
from mcpbridge.handlers import Prompt, Resource
from mcpbridge.schema import choice, choices_of

__all__ = [
    "Answer",
    "App",
    "Audio",
    "Context",
    "DefinitionError",
    "Embedded",
    "Field",
    "Image",
    "InvalidAnswer",
    "Link",
    "Log",
    "McpError",
    "Message",
    "NoAnswer",
    "NotAccepted",
    "NotFound",
    "Prompt",
    "Refused",
    "Resource",
    "Roots",
    "Sample",
    "Task",
    "ToolError",
    "Unsupported",
    "VisitRequired",
    "assistant",
    "choice",
    "choices_of",
    "tool_result",
    "user",
]
