"""The tools of the contract kit, written with the SDK for Python: the handler laws and `mcpbridge verify` call them.

docs/verify.md describes them exactly. Try it: mcpbridge verify -- python kit.py
"""

import asyncio
import itertools
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcpbridge import (
    App,
    Context,
    Image,
    InvalidAnswer,
    McpError,
    NoAnswer,
    NotFound,
    Refused,
    ToolError,
    Unsupported,
    v1,
)

print("noise before the start")  # It is log, and not a handshake.

app = App("bridgetest", version="1", title="Bridge Test", instructions="call anything")

ANYTHING = {"type": "object"}
ECHO = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "in": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "Count"}}},
    },
}


def tool(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a tool that accepts any arguments, and ignores unknown ones."""
    app.add_tool(fn, description=f"does {fn.__name__}", input_schema=ANYTHING)
    return fn


# In the order of their names: a list has one.


@tool
async def add(name: str, **_: Any) -> str:
    async def added(**_: Any) -> str:
        return name

    app.add_tool(added, name=name, description=f"does {name}", input_schema=ANYTHING)
    return "added"


@tool
async def ask(ctx: Context, **_: Any) -> str | v1.InputRequired:
    await ctx.progress(1)
    answers = ctx.request.input_responses
    if ctx.request_state:
        return f"{ctx.request_state.decode()} {answers['right'].elicit.content}"
    if "name" not in answers:
        return v1.InputRequired(input_requests=[form("name", "who are you?", "name")])
    name = answers["name"].elicit
    if name.action != "accept":
        return f"the user said {name.action}"
    return v1.InputRequired(
        input_requests=[form("right", "is that right?", "yes")], request_state=f"name={name.content}".encode()
    )


@tool
async def blob(size: int, **_: Any) -> Image:
    return Image((bytes(range(251)) * (size // 251 + 1))[:size], "application/octet-stream")


@tool
async def count(ctx: Context, **_: Any) -> str:
    await ctx.progress(0, 2, "begin")
    await ctx.log.debug("detail")
    await ctx.progress(1, 2)
    await ctx.progress(1, 2)
    await ctx.log.warning({"n": 9007199254740993}, "l")
    await ctx.progress(2, 2)
    return "counted"


@app.tool(description="does echo", input_schema=ECHO)
async def echo(ctx: Context, **_: Any) -> str:
    return str(ctx.request.arguments.decode())


@dataclass
class Waiting:
    """The calls of wait with one n."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


waits: defaultdict[int, Waiting] = defaultdict(Waiting)


@tool
async def ended(n: int, **_: Any) -> str:
    await waits[n].ended.wait()
    return "ended"


@tool
async def exact(**_: Any) -> str:
    raise McpError(-7, "no luck", {"n": [1]})


@tool
async def fail(**_: Any) -> str:
    raise ToolError("it does not work")


@tool
async def levels(ctx: Context, **_: Any) -> str:
    for level in v1.LogLevel.values()[1:]:
        name: Any = v1.LogLevel.Name(level).removeprefix("LOG_LEVEL_").lower()
        await ctx.log.log(name, name)
    return "logged"


@tool
async def many(ctx: Context, **_: Any) -> str | v1.InputRequired:
    answers = ctx.request.input_responses
    if not answers:
        question = v1.ContentBlock(text=v1.TextContent(text="2+2?"))
        message = v1.SamplingMessage(role="user", content=[question])
        model = v1.CreateMessageRequest(max_tokens=10, messages=[message])
        return v1.InputRequired(
            input_requests=[
                form("form", "q", "a"),
                v1.InputRequest(key="model", create_message=model),
                v1.InputRequest(key="roots", list_roots=v1.ListRootsRequest()),
            ]
        )
    content = answers["form"].elicit.content
    text = answers["model"].create_message.content[0].text.text
    return f"form={content} model={text} roots={len(answers['roots'].list_roots.roots)}"


@tool
async def meta(ctx: Context, **_: Any) -> v1.CallToolResult:
    text = v1.ContentBlock(text=v1.TextContent(text="meta"))
    return v1.CallToolResult(content=[text], meta=ctx.request.context.meta, extra=ctx.request.extra)


@tool
def noise(**_: Any) -> str:
    print("noise on stdout")
    print("a long line " * (100_000 // 12))
    print("noise on stderr", file=sys.stderr)
    return "quiet"


@tool
async def remove(name: str, **_: Any) -> str:
    app.remove_tool(name)
    return "removed"


@tool
async def sleep(ms: int, **_: Any) -> str:
    await asyncio.sleep(ms / 1000)
    return "slept"


@tool
async def started(n: int, **_: Any) -> str:
    await waits[n].started.wait()
    return "started"


@tool
async def steps(n: int, *, ctx: Context, **_: Any) -> str:
    for i in range(n):
        await ctx.progress(i)
    return f"{n} steps"


@tool
async def structured(ctx: Context, **_: Any) -> v1.CallToolResult:
    return v1.CallToolResult(structured_content=ctx.request.arguments)


serials = itertools.count(1)


@tool
async def survey(ctx: Context, **_: Any) -> str:
    serial = ctx.once("serial", lambda: next(serials))
    name, age = await asyncio.gather(ctx.elicit("What is your name?", str), ctx.elicit("How old are you?", int))
    right = await ctx.elicit(f"{name.data} is {age.data}, right?", bool)
    return f"{name.data} is {age.data}: {str(right.data).lower()}, {serial}"


@tool
async def tell(ctx: Context, **_: Any) -> str:
    try:
        answer = await ctx.elicit("Say something.", str)
    except Unsupported:
        return "unsupported"
    except NoAnswer:
        return "no answer"
    except Refused:
        return "refused"
    except InvalidAnswer:
        return "invalid"
    if answer.action == "accept":
        return f"accepted: {answer.data}"
    return "declined" if answer.action == "decline" else "cancelled"


@tool
async def unknown(ctx: Context, **_: Any) -> v1.CallToolResult | v1.InputRequired:
    answers = ctx.request.input_responses
    if "new" not in answers:
        raw = '{"method":"acme/ask","params":{"n":9007199254740993}}'
        return v1.InputRequired(input_requests=[v1.InputRequest(key="new", raw=raw)])
    text = v1.TextContent(text=answers["new"].raw, annotations=v1.Annotations(audience=["judge"]))
    return v1.CallToolResult(
        content=[v1.ContentBlock(raw='{"type":"acme","n":9007199254740993}'), v1.ContentBlock(text=text)]
    )


@tool
async def update(uri: str, **_: Any) -> str:
    app.notify_updated(uri)
    return "updated"


@tool
async def wait(n: int, **_: Any) -> str:
    waits[n].started.set()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        waits[n].ended.set()
    return "never"


@tool
async def who(ctx: Context, **_: Any) -> str:
    call = ctx.request.context
    can = ctx.client_capabilities
    forms = can.HasField("elicitation") and (can.elicitation.HasField("form") or not can.elicitation.HasField("url"))
    return (
        f"{ctx.protocol_version} {ctx.client_info.name} progress={str(call.progress_wanted).lower()}"
        f" log={v1.LogLevel.Name(call.log_level)} forms={str(forms).lower()}"
    )


def form(key: str, message: str, name: str) -> v1.InputRequest:
    schema = f'{{"type":"object","properties":{{"{name}":{{"type":"string"}}}},"required":["{name}"]}}'
    return v1.InputRequest(
        key=key, elicit=v1.ElicitRequest(form=v1.ElicitForm(message=message, requested_schema=schema))
    )


# Resources and prompts.


@app.resource("test://a", title="The A")
async def a() -> v1.ReadResourceResult:
    contents = v1.ResourceContents(uri="test://a", mime_type="text/plain", text="A")
    return v1.ReadResourceResult(contents=[contents], cache_scope="team")


@app.resource("test://{id}", name="t")
async def none(id: str) -> str:  # noqa: A002
    raise NotFound(f"there is no {id}")


@app.prompt
async def p(ctx: Context, x: str | None = None) -> str | v1.InputRequired:
    if x is None:
        answers = ctx.request.input_responses
        if "x" not in answers or answers["x"].elicit.action != "accept":
            return v1.InputRequired(input_requests=[form("x", "which x?", "x")])
        x = answers["x"].elicit.content
    return f"x is {x}"


@p.complete("x")
async def guess(typed: str) -> list[str]:
    return [typed + "!"]


if __name__ == "__main__":
    app.run()
