"""Calls tools, reads resources and gets prompts in a test, without a bridge and without gRPC.

result = await call(app, "greet", {"name": "Ada"}, answers=[{"colour": "red"}])
assert result.text == "Hello Ada, here is something red for you."

And with both: `start` runs a program behind the real bridge, with a real client.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mcpbridge import v1
from mcpbridge.app import App
from mcpbridge.bridge import Client, start
from mcpbridge.content import json_text, to_json
from mcpbridge.handlers import CONTRACT

__all__ = ["EVERYTHING", "Called", "Client", "call", "complete", "prompt", "read", "start"]

Result = TypeVar("Result", v1.CallToolResult, v1.ReadResourceResult, v1.GetPromptResult)

# A caller that supports all questions, and requests progress and all logs.
EVERYTHING = v1.CallContext(
    client_info=v1.Implementation(name="mcpbridge.testing", version="1"),
    client_capabilities=v1.ClientCapabilities(
        elicitation=v1.ElicitationCapability(form=v1.Capability(), url=v1.Capability()),
        sampling=v1.SamplingCapability(tools=v1.Capability()),
        roots=v1.RootsCapability(),
    ),
    log_level=v1.LOG_LEVEL_DEBUG,
    progress_wanted=True,
    verified=v1.VerifiedCaller(contract_version=CONTRACT, protocol_version="2026-07-28"),
)


@dataclass
class Called(Generic[Result]):
    """The outcome of a call."""

    result: Result
    progress: list[v1.Progress] = field(default_factory=list)
    logs: list[v1.LogMessage] = field(default_factory=list)
    asked: list[v1.InputRequest] = field(default_factory=list)
    rounds: int = 0
    task_started: bool = False
    """Reports whether the tool called `ctx.start_task` in the last round."""

    @property
    def text(self) -> str:
        """All the text of the result."""
        if isinstance(self.result, v1.CallToolResult):
            return "\n".join(block.text.text for block in self.result.content)
        if isinstance(self.result, v1.ReadResourceResult):
            return "\n".join(contents.text for contents in self.result.contents)
        return "\n".join(message.content.text.text for message in self.result.messages)

    @property
    def is_error(self) -> bool:
        return isinstance(self.result, v1.CallToolResult) and self.result.is_error

    @property
    def structured(self) -> Any:
        """A tool's structured content, or the JSON content of a resource."""
        if isinstance(self.result, v1.CallToolResult):
            return json.loads(self.result.structured_content) if self.result.structured_content else None
        return json.loads(self.text)


async def call(
    app: App,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    answers: Sequence[Any] = (),
    context: v1.CallContext = EVERYTHING,
) -> Called[v1.CallToolResult]:
    """Calls a tool, and answers its questions in their order, as the bridge does.

    An answer is the content of a form as an object or a simple value, "decline", "cancel", the text of a model, a list
    of the URIs of roots, or an InputResponse.
    """
    request = v1.CallToolRequest(context=context, name=name, arguments=to_json(arguments or {}))
    return await _rounds(app, name, app.call_tool, request, Called(v1.CallToolResult()), answers)


async def read(
    app: App, uri: str, *, answers: Sequence[Any] = (), context: v1.CallContext = EVERYTHING
) -> Called[v1.ReadResourceResult]:
    """Reads a resource. The answers are those of call."""
    request = v1.ReadResourceRequest(context=context, uri=uri)
    return await _rounds(app, uri, app.read_resource, request, Called(v1.ReadResourceResult()), answers)


async def prompt(
    app: App,
    name: str,
    arguments: Mapping[str, str] | None = None,
    *,
    answers: Sequence[Any] = (),
    context: v1.CallContext = EVERYTHING,
) -> Called[v1.GetPromptResult]:
    """Gets a prompt. The answers are those of call."""
    request = v1.GetPromptRequest(context=context, name=name, arguments=arguments)
    return await _rounds(app, name, app.get_prompt, request, Called(v1.GetPromptResult()), answers)


async def complete(
    app: App,
    name: str,
    argument: str,
    typed: str = "",
    *,
    others: Mapping[str, str] | None = None,
    context: v1.CallContext = EVERYTHING,
) -> list[str]:
    """Returns completions of an argument of a prompt, by its name, or of a resource template, by the template."""
    app.check()
    reference = v1.CompletionReference(prompt=v1.PromptReference(name=name))
    if ":" in name:
        reference = v1.CompletionReference(resource=v1.ResourceReference(uri=name))
    request = v1.CompleteRequest(
        context=context,
        reference=reference,
        argument=v1.CompletionArgument(name=argument, value=typed),
        argument_context=v1.CompletionContext(arguments=others),
    )
    return list((await app.complete(request)).completion.values)


async def _rounds(
    app: App,
    name: str,
    method: Callable[[Any, Any], Awaitable[Any]],
    request: Any,
    called: Called[Result],
    answers: Sequence[Any],
) -> Called[Result]:
    remaining = list(answers)
    app.check()

    async def write(event: Any) -> None:
        if event.HasField("progress"):
            called.progress.append(event.progress)
        elif event.WhichOneof("event") == "task_started":
            called.task_started = True
        else:
            called.logs.append(event.log)

    while True:
        called.rounds += 1
        called.task_started = False
        response = await method(type(request).FromString(request.SerializeToString()), write)
        if response.HasField("result"):
            called.result = response.result
            return called
        request.ClearField("input_responses")
        request.request_state = response.input_required.request_state
        for question in response.input_required.input_requests:
            called.asked.append(question)
            if not remaining:
                raise AssertionError(f"{name} asked, and the test has no answer: {question}")
            request.input_responses[question.key].CopyFrom(_response(remaining.pop(0), question))


def _response(answer: Any, question: v1.InputRequest) -> v1.InputResponse:
    if isinstance(answer, v1.InputResponse):
        return answer
    if question.HasField("create_message") or question.HasField("raw"):  # Only sampling is sent in MCP's format.
        block = v1.ContentBlock(text=v1.TextContent(text=answer))
        return v1.InputResponse(create_message=v1.CreateMessageResult(role="assistant", content=[block], model="test"))
    if question.HasField("list_roots"):
        return v1.InputResponse(list_roots=v1.ListRootsResult(roots=[v1.Root(uri=uri) for uri in answer]))
    if answer in ("decline", "cancel"):
        return v1.InputResponse(elicit=v1.ElicitResult(action=answer))
    content = json_text(answer if isinstance(answer, dict) else {"value": answer})
    return v1.InputResponse(elicit=v1.ElicitResult(action="accept", content=content))
