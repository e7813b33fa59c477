"""Calls tools in a test, without a bridge and without gRPC.

result = await call(app, "greet", {"name": "Ada"}, answers=[{"colour": "red"}])
assert result.text == "Hello Ada, here is something red for you."
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pydantic_core

from mcpbridge import v1
from mcpbridge.app import App

# A caller that can be asked everything and wants to see everything.
EVERYTHING = v1.CallContext(
    protocol_version="2026-07-28",
    client_info=v1.Implementation(name="mcpbridge.testing", version="1"),
    client_capabilities=v1.ClientCapabilities(
        elicitation=v1.ElicitationCapability(form=v1.Capability(), url=v1.Capability()),
        sampling=v1.SamplingCapability(),
        roots=v1.RootsCapability(),
    ),
    log_level=v1.LOG_LEVEL_DEBUG,
    progress_wanted=True,
)


@dataclass
class Called:
    """What a call came to."""

    result: v1.CallToolResult
    progress: list[v1.Progress] = field(default_factory=list)
    logs: list[v1.LogMessage] = field(default_factory=list)
    asked: list[v1.InputRequest] = field(default_factory=list)
    rounds: int = 0

    @property
    def text(self) -> str:
        return "\n".join(block.text.text for block in self.result.content)

    @property
    def is_error(self) -> bool:
        return self.result.is_error

    @property
    def structured(self) -> Any:
        return json.loads(self.result.structured_content) if self.result.structured_content else None


async def call(
    app: App,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    answers: Sequence[Any] = (),
    context: v1.CallContext = EVERYTHING,
) -> Called:
    """Calls a tool, and answers its questions in the order it asks them, as the bridge does.

    An answer is an object or a simple value that the user fills in, "decline", "cancel", or an InputResponse.
    """
    called = Called(v1.CallToolResult())
    left = list(answers)
    request = v1.CallToolRequest(context=context, name=name, arguments=pydantic_core.to_json(arguments or {}))

    async def write(event: v1.CallToolResponse) -> None:
        if event.HasField("progress"):
            called.progress.append(event.progress)
        else:
            called.logs.append(event.log)

    while True:
        called.rounds += 1
        response = await app.call_tool(v1.CallToolRequest.FromString(request.SerializeToString()), write)
        if response.HasField("result"):
            called.result = response.result
            return called
        request.ClearField("input_responses")
        request.state = response.input_required.state
        for key, question in response.input_required.requests.items():
            called.asked.append(question)
            if not left:
                raise AssertionError(f"{name} asked, and the test has no answer: {question}")
            request.input_responses[key].CopyFrom(_response(left.pop(0)))


def _response(answer: Any) -> v1.InputResponse:
    if isinstance(answer, v1.InputResponse):
        return answer
    action = {"decline": v1.ELICIT_ACTION_DECLINE, "cancel": v1.ELICIT_ACTION_CANCEL}.get(
        answer if isinstance(answer, str) else ""
    )
    if action is not None:
        return v1.InputResponse(elicit=v1.ElicitResult(action=action))
    content = pydantic_core.to_json(answer if isinstance(answer, dict) else {"value": answer})
    return v1.InputResponse(elicit=v1.ElicitResult(action=v1.ELICIT_ACTION_ACCEPT, content=content))
