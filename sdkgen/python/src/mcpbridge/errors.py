"""What a tool, a resource or a prompt raises to say how its call ends."""

import sys
import uuid
from types import TracebackType
from typing import Any


class DefinitionError(TypeError):
    """A tool, resource or prompt is written in a way that cannot work. The message names the line to change."""


_excepthook = sys.excepthook


def _show(kind: type[BaseException], e: BaseException, tb: TracebackType | None) -> None:
    """Of a DefinitionError that ends the program shows the message, which says all there is to know, and no frames."""
    if isinstance(e, DefinitionError):
        sys.stderr.write(f"{e}\n")
    else:
        _excepthook(kind, e, tb)


sys.excepthook = _show


class ToolError(Exception):
    """The tool failed, and the model reads why. Any other exception does the same, but its traceback is logged too.

    Resources and prompts have no such results: there the client reads it, as a JSON-RPC error.
    """


class NotFound(ToolError):
    """What a resource's URI or a prompt's arguments name does not exist."""


class McpError(Exception):
    """Answers the call with this JSON-RPC error, exactly. The model does not see it; the client does."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class VisitRequired(McpError):
    """The user has to visit a web page first: `raise VisitRequired("Sign in", url)`. Then the client calls again.

    App.notify_visited, with the same id, tells it that the user is done there. To ask and go on, there is ctx.elicit_url.
    """

    def __init__(self, message: str, url: str, id: str | None = None) -> None:  # noqa: A002
        self.id = id or uuid.uuid4().hex
        visit = {"mode": "url", "elicitationId": self.id, "url": url, "message": message}
        super().__init__(-32042, message, {"elicitations": [visit]})


class Unsupported(ToolError):
    """The client cannot be asked this. Uncaught, it tells the model to ask the user itself."""


class NotAccepted(ToolError):
    """The user declined or cancelled a question whose answer the tool went on to use."""


class NoAnswer(ToolError):
    """The client did not answer in time."""


class Refused(ToolError):
    """The client answered a question with an error."""


class InvalidAnswer(ToolError):
    """The client's answer is not of the form that was asked for."""


class RoundEnd(BaseException):
    """Unwinds a handler that asked something there is no answer to yet. It is called again when there is.

    A BaseException, so that a tool's `except Exception` does not take it for a failure.
    """
