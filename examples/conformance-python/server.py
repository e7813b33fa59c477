"""The backend for the official MCP conformance suite: its tools, prompts and resources, with its names.

It returns the same as examples/conformance-go. The bridge implements the rest of the suite's requirements: sessions,
headers, sealed state and capability checks.

Try it: mcpbridge run -- python3 server.py
"""

import asyncio
import base64
import io
import json
import wave
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from mcpbridge import Answer, App, Audio, Context, Embedded, Field, Image, McpError, Task, ToolError, user

app = App(
    "conformance-python",
    version="1",
    instructions="Answers the official MCP conformance suite.",
    cache_ttl=0,
    cache_scope="public",
)

STEP = 0.05  # The duration of a step of a slow tool, in seconds.

RED_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)


def silence() -> bytes:
    """Returns 10 ms of silence as WAV."""
    file = io.BytesIO()
    with wave.open(file, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(1)
        w.setframerate(8000)
        w.writeframes(bytes([128]) * 80)
    return file.getvalue()


def outcome(answer: Answer[Any]) -> str:
    """Returns the action of the user and the content of the form."""
    content = answer.data if answer.action == "accept" else {}
    return f"action={answer.action}, content={json.dumps(content, separators=(',', ':'))}"


# Tools, in the order in which they are listed. The suite calls the first one with no arguments to try headers.


@app.tool
async def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@app.tool
async def test_image_content() -> Image:
    """Returns an image."""
    return Image(RED_PIXEL)


@app.tool
async def test_audio_content() -> Audio:
    """Returns a sound."""
    return Audio(silence())


@app.tool
async def test_embedded_resource() -> Embedded:
    """Returns an embedded resource."""
    return Embedded("test://embedded-resource", "This is an embedded resource content.")


@app.tool
async def test_multiple_content_types() -> list[str | Image | Embedded]:
    """Returns text, an image and a resource."""
    resource = Embedded("test://mixed-content-resource", {"test": "data", "value": 123})
    return ["Multiple content types test:", Image(RED_PIXEL), resource]


@app.tool
async def test_error_handling() -> str:
    """Always fails."""
    raise ToolError("This tool intentionally returns an error for testing")


@app.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs three lines."""
    await ctx.log.info("Tool execution started", logger="conformance")
    await asyncio.sleep(STEP)
    await ctx.log.info("Tool processing data", logger="conformance")
    await asyncio.sleep(STEP)
    await ctx.log.info("Tool execution completed", logger="conformance")
    return "Tool with logging executed successfully"


@app.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress three times."""
    await ctx.progress(0, 100)
    await asyncio.sleep(STEP)
    await ctx.progress(50, 100)
    await asyncio.sleep(STEP)
    await ctx.progress(100, 100)
    return "Tool with progress executed successfully"


@app.tool
async def test_reconnection(ctx: Context) -> str:
    """Runs long enough for its stream to be closed and resumed."""
    await ctx.log.info("The stream may be closed now.", logger="conformance")
    await asyncio.sleep(10 * STEP)  # The bridge decides whether to close the stream.
    return "Reconnection test completed"


@app.tool
async def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str:
    """Takes an argument that is also sent as a header."""
    return json.dumps({"region": region})


# A schema with every kind of keyword that the bridge must leave unchanged.
FULL_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@app.tool(input_schema=FULL_SCHEMA)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Tool with JSON Schema 2020-12 features."""
    return json.dumps(arguments)


@app.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the model.

    Args:
        prompt: What to ask the model
    """
    return "LLM response: " + (await ctx.sample(prompt, max_tokens=100, key="model")).text


ADDRESS = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}


@app.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user for a name and an address.

    Args:
        message: What to ask the user
    """
    return f"User response: <{outcome(await ctx.elicit(message, ADDRESS, key='user'))}>"


class Defaults(BaseModel):
    name: str = Field("John Doe", description="User name")
    age: int = Field(30, description="User age")
    score: float = Field(95.5, description="User score")
    status: Literal["active", "inactive", "pending"] = Field("active", description="User status")
    verified: bool = Field(True, description="Verification status")


@app.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user with a form that has defaults."""
    answer = await ctx.elicit("Please fill in this form", Defaults, key="form")
    content = answer.data.model_dump_json() if answer else "{}"
    return f"Elicitation completed: action={answer.action}, content={content}"


def titled(**titles: str) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in titles.items()]


OPTIONS = {"type": "string", "enum": ["option1", "option2", "option3"]}
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": OPTIONS,
        "titledSingle": {
            "type": "string",
            "oneOf": titled(value1="First Option", value2="Second Option", value3="Third Option"),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": OPTIONS},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": titled(value1="First Choice", value2="Second Choice", value3="Third Choice")},
        },
    },
    "required": [],
}


@app.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user with a form that has choices."""
    return f"Elicitation completed: {outcome(await ctx.elicit('Please fill in this form', ENUMS, key='form'))}"


@dataclass
class Name:
    name: str


@dataclass
class Color:
    color: str


@dataclass
class Confirm:
    ok: bool


@dataclass
class Deletion:
    confirm: bool


@app.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Asks the user for a name and greets."""
    answer = await ctx.elicit("What is your name?", Name, key="user_name")
    return f"Hello, {answer.data.name}!"


@app.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the model for a capital."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return f"The model says: {answer.text}"


@app.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the client's folders."""
    roots = await ctx.roots(key="client_roots")
    return "The client works in: " + ", ".join(root.uri for root in roots)


async def confirm(ctx: Context) -> str:
    """The bridge rejects changed request state, so the answer is always that of the user."""
    answer = await ctx.elicit("Please confirm", Confirm, key="confirm")
    return f"state-ok: action={answer.action}"


@app.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks for a confirmation, with request state."""
    return await confirm(ctx)


@app.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Asks for a confirmation, with unchanged request state."""
    return await confirm(ctx)


@app.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Makes three input requests at once."""
    name, greeting, roots = await asyncio.gather(
        ctx.elicit("What is your name?", Name, key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return f"{greeting.text} {name.data.name}, you work in {', '.join(root.uri for root in roots)}"


@app.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks the user twice, one after the other."""
    name = await ctx.elicit("Step 1: What is your name?", Name, key="step1")
    color = await ctx.elicit("Step 2: What is your favorite color?", Color, key="step2")
    return f"{name.data.name} likes {color.data.color}"


@app.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks only what the client can answer."""
    can = ctx.client_capabilities
    asked: list[Any] = []
    with ctx.ask_all():
        if can.HasField("elicitation"):
            asked.append(ctx.elicit("What is your name?", Name, key="user_name"))
        if can.HasField("sampling"):
            asked.append(ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question"))
        if can.HasField("roots"):
            asked.append(ctx.roots(key="client_roots"))
    return f"The client answered {len(asked)} questions."


@app.tool
async def test_missing_capability(ctx: Context) -> str:
    """Needs a client with sampling."""
    # Without this check, ctx.sample would raise Unsupported.
    if not ctx.client_capabilities.HasField("sampling"):
        raise McpError(-32021, "this tool needs a client with sampling", {"requiredCapabilities": {"sampling": {}}})
    return "The client can sample."


@app.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Asks for a confirmation."""
    answer = await ctx.elicit("Please fill in this form", Confirm, key="confirm")
    return f"Elicitation completed: action={answer.action}"


@app.tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs a line."""
    await ctx.log.info("Only clients that set a log level receive this line.", logger="conformance")
    return "Logged."


async def test_transient_tool() -> str:
    """Added and removed by a tool."""
    return "I am here."


async def test_transient_prompt() -> str:
    """Added and removed by a tool."""
    return "I am here."


class Transient:
    """Whether the transient tool and prompt exist."""

    tool = prompt = False
    changes = 0


WATCHED = "test://watched-resource"


def changed() -> None:
    Transient.changes += 1
    app.notify_updated(WATCHED)


@app.tool
async def test_trigger_tool_change() -> str:
    """Changes the list of tools."""
    Transient.tool = not Transient.tool
    if Transient.tool:
        app.add_tool(test_transient_tool)
    else:
        app.remove_tool("test_transient_tool")
    changed()
    return "The list of tools has changed."


@app.tool
async def test_trigger_prompt_change() -> str:
    """Changes the list of prompts."""
    Transient.prompt = not Transient.prompt
    if Transient.prompt:
        app.add_prompt(test_transient_prompt)
    else:
        app.remove_prompt("test_transient_prompt")
    changed()
    return "The list of prompts has changed."


# Tools with tasks.


@app.tool
async def greet(name: str) -> str:
    """Greets, never as a task."""
    return f"Hello, {name}!"


@app.tool(task=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Takes some seconds."""
    await asyncio.sleep(seconds)
    return f"{label or 'The computation'} took {seconds:g} seconds."


@app.tool(task=Task(required=True))
async def failing_job() -> str:
    """Fails after a second."""
    await asyncio.sleep(20 * STEP)
    raise ToolError("This job intentionally fails")


@app.tool(task=True)
async def protocol_error_job() -> str:
    """Ends with a JSON-RPC error."""
    raise McpError(-32603, "This job intentionally ends with a JSON-RPC error")


@app.tool(task=True)
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Asks the user before it pretends to delete a file."""
    answer = await ctx.elicit(f"Delete {filename}?", Deletion, key="confirm")
    return f"{filename} was {'deleted' if answer and answer.data.confirm else 'kept'}."


@app.tool(task=True)
async def multi_input(ctx: Context) -> str:
    """Asks the user for a name and a confirmation, at once."""
    name, deletion = await asyncio.gather(
        ctx.elicit("What is your name?", Name, key="name"),
        ctx.elicit("Delete it?", Deletion, key="confirm"),
    )
    return f"The user answered {name.action} and {deletion.action}."


@app.tool(task=Task(required=True, starts_later=True))
async def test_tool_with_task(ctx: Context) -> str:
    """Asks the user for a name, then greets as a task."""
    answer = await ctx.elicit("What is your name?", Name, key="user_name")
    await ctx.start_task()
    await asyncio.sleep(STEP)
    return f"Hello, {answer.data.name}!"


# Prompts.


@app.prompt
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@app.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First test argument
        arg2: Second test argument
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@test_prompt_with_arguments.complete("arg1")
async def complete_arg1(value: str) -> list[str]:
    return [v for v in ("paris", "park", "party", "test-value-1", "test-value-2") if v.startswith(value)]


@test_prompt_with_arguments.complete("arg2")
async def complete_arg2(value: str) -> list[str]:
    return [v for v in ("test-value-a", "test-value-b") if v.startswith(value)]


@app.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Embedded | str]:  # noqa: N803
    """A prompt that holds a resource.

    Args:
        resourceUri: URI of the resource to embed
    """
    resource = Embedded(resourceUri, "Embedded resource content for testing.")
    return [resource, "Please process the embedded resource above."]


@app.prompt
async def test_prompt_with_image() -> list[Any]:
    """A prompt that holds an image."""
    return [user(Image(RED_PIXEL), "Please analyze the image above.")]


@dataclass
class UserContext:
    context: str


@app.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks the user for its context."""
    answer = await ctx.elicit("What context should the prompt use?", UserContext, key="user_context")
    return f"Use this context: {answer.data.context}"


# Resources.


@app.resource("test://static-text", name="static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text that stays the same."""
    return "This is the content of the static text resource."


@app.resource("test://static-binary", name="static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """An image that stays the same."""
    return RED_PIXEL


@app.resource(WATCHED, name="watched-resource", mime_type="text/plain")
async def watched() -> str:
    """How often the lists have changed."""
    return f"The lists have changed {Transient.changes} times."


@app.resource("test://template/{id}/data", name="template", mime_type="application/json")
async def template(id: str) -> dict[str, Any]:  # noqa: A002
    """Data by id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@template.complete("id")
async def complete_id(value: str) -> list[str]:
    return [v for v in ("123", "456") if v.startswith(value)]


if __name__ == "__main__":
    app.run()
