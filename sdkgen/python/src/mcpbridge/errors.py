"""Exceptions that tools, resources and prompts raise to fail a call."""

import sys
import uuid
from types import TracebackType
from typing import Any


class DefinitionError(TypeError):
    """The definition of a tool, resource or prompt is invalid. The message names the line to change."""


_excepthook = sys.excepthook


def _show(kind: type[BaseException], e: BaseException, tb: TracebackType | None) -> None:
    """Prints only the message of a DefinitionError that ends the program, without a traceback."""
    if isinstance(e, DefinitionError):
        sys.stderr.write(f"{e}\n")
    else:
        _excepthook(kind, e, tb)


sys.excepthook = _show


class ToolError(Exception):
    """The tool failed; the model reads the message. Other exceptions do the same, but their tracebacks are logged too.

    Resources and prompts have no error results: the client receives a JSON-RPC error instead.
    """


class NotFound(ToolError):
    """The resource or the object that a prompt's arguments name does not exist."""


class McpError(Exception):
    """Fails the call with exactly this JSON-RPC error. The client receives it; the model does not."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class VisitRequired(McpError):
    """The user must visit a web page first: `raise VisitRequired("Sign in", url)`. The client then calls again.

    App.notify_visited, with the same id, notifies the client that the user has completed the page. To ask and continue
    the call, use ctx.elicit_url.
    """

    def __init__(self, message: str, url: str, id: str | None = None) -> None:  # noqa: A002
        self.id = id or uuid.uuid4().hex
        visit = {"mode": "url", "elicitationId": self.id, "url": url, "message": message}
        super().__init__(-32042, message, {"elicitations": [visit]})


class Unsupported(ToolError):
    """The client does not support the request. If uncaught, the model is asked to ask the user itself."""


class NotAccepted(ToolError):
    """The tool used the answer to a question that the user declined or canceled."""


class NoAnswer(ToolError):
    """The client did not answer in time."""


class Refused(ToolError):
    """The client answered a question with an error."""


class InvalidAnswer(ToolError):
    """The client's answer does not conform to the requested schema."""


class RoundEnd(BaseException):
    """Unwinds a handler that asked a question without an answer. It runs again once the answer has arrived.

    It is a BaseException, so that `except Exception` in a tool does not catch it.
    """
