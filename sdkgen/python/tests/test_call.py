"""Calls of tools: results, errors, progress, logs, cancellation."""

import asyncio
import enum
import json
import logging
import math
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import grpc
import pytest
from pydantic import BaseModel, Field

from mcpbridge import App, Audio, Context, Image, McpError, NotFound, Task, ToolError, content, v1
from mcpbridge.handlers import StatusError, status
from mcpbridge.testing import EVERYTHING, call, read


class Colour(str, enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


def text(s: str) -> v1.ContentBlock:
    return v1.ContentBlock(text=v1.TextContent(text=s))


IMAGE = v1.ContentBlock(image=v1.ImageContent(data=b"i", mime_type="image/png"))


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("hello", v1.CallToolResult(content=[text("hello")])),
        (None, v1.CallToolResult()),
        (3, v1.CallToolResult(content=[text("3")], structured_content=b'{"result":3}')),
        ({"a": [1]}, v1.CallToolResult(content=[text('{"a":[1]}')], structured_content=b'{"a":[1]}')),
        ([1, "a"], v1.CallToolResult(content=[text('[1,"a"]')], structured_content=b'{"result":[1,"a"]}')),
        (Point(1, 2), v1.CallToolResult(content=[text('{"x":1,"y":2}')], structured_content=b'{"x":1,"y":2}')),
        (Image(b"i"), v1.CallToolResult(content=[IMAGE])),
        (["see", Image(b"i")], v1.CallToolResult(content=[text("see"), IMAGE])),
        (
            Audio(b"a"),
            v1.CallToolResult(content=[v1.ContentBlock(audio=v1.AudioContent(data=b"a", mime_type="audio/wav"))]),
        ),
        (text("t"), v1.CallToolResult(content=[text("t")])),
        (v1.TextContent(text="t"), v1.CallToolResult(content=[text("t")])),
        (v1.CallToolResult(is_error=True), v1.CallToolResult(is_error=True)),
    ],
)
async def test_results(value: Any, result: v1.CallToolResult) -> None:
    app = App("test")

    @app.tool
    def sync() -> Any:
        return value

    @app.tool(name="async")
    async def asynchronous() -> Any:
        return value

    assert (await call(app, "sync")).result == result
    assert (await call(app, "async")).result == result


async def test_a_return_type_is_kept() -> None:
    app = App("test")

    @app.tool
    def right() -> Point:
        return Point(1, 2)

    @app.tool
    def wrong() -> Point:
        return "nowhere"  # type: ignore[return-value]

    @app.tool
    def optional() -> Point | None:
        return None

    assert (await call(app, "right")).structured == {"x": 1, "y": 2.0}
    assert (await call(app, "optional")).structured == {"result": None}
    got = await call(app, "wrong")
    assert got.is_error
    assert "what its return type does not allow" in got.text


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ToolError("no such city"), "no such city"),
        (NotFound("no such city"), "no such city"),
        (ValueError("bad value"), "bad value"),
        (KeyError("x"), "KeyError: 'x'"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (StopIteration("s"), "the function raised StopIteration"),
        (SystemExit(2), "SystemExit: 2"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
async def test_an_exception_is_an_error_for_the_model(error: BaseException, message: str) -> None:
    app = App("test")

    @app.tool
    def fails() -> None:
        raise error

    @app.tool
    async def fails_async() -> None:
        raise error

    got = await call(app, "fails")
    assert (got.is_error, got.text) == (True, message)
    if not isinstance(error, StopIteration):  # Python replaces its message.
        got = await call(app, "fails_async")
        assert (got.is_error, got.text) == (True, message)


async def test_a_traceback_is_logged_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    app = App("test")

    @app.tool
    def fails() -> None:
        raise ValueError("bad")

    @app.tool
    def intends() -> None:
        raise ToolError("on purpose")

    with caplog.at_level(logging.ERROR):
        await call(app, "fails")
        await call(app, "intends")
    (record,) = caplog.records
    line = fails.__code__.co_firstlineno + 2
    assert record.getMessage() == f'tool "fails" failed at test_call.py:{line}: ValueError: bad'
    assert record.exc_info


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (str, None, "the tool returned None, and its return type is str"),
        (str, 3, "the tool returned int, and its return type is str"),
        (str, {"a": 1}, "the tool returned dict, and its return type is str"),
        (str, b"x", "the tool returned bytes, and its return type is str"),
        (str | None, 3, "the tool returned int, and its return type is str | None"),
        (Annotated[str, "text"], 3, "the tool returned int, and its return type is str"),
        (None, 3, "the tool returned int, and its return type is None"),
        (Image, None, "the tool returned None, and its return type is Image"),
        (list[Image], None, "the tool returned None, and its return type is list | tuple"),
        (int, "x", "the tool returned what its return type does not allow:\nInput should be a valid integer"),
        (Any, object(), "the value is object, which JSON cannot represent"),
    ],
)
async def test_return_values_that_are_rejected(
    caplog: pytest.LogCaptureFixture, hint: Any, value: Any, message: str
) -> None:
    app = App("test")

    async def lies():  # type: ignore[no-untyped-def]
        return value

    lies.__annotations__["return"] = hint
    app.add_tool(lies)
    with caplog.at_level(logging.ERROR):
        got = await call(app, "lies")
    assert got.is_error
    assert got.text.startswith(message)
    (record,) = caplog.records
    assert record.getMessage().startswith(f'tool "lies" failed at test_call.py:{lies.__code__.co_firstlineno}: ')
    assert record.exc_info
    frames = traceback.extract_tb(record.exc_info[2])
    assert not [f for f in frames if Path(f.filename).parent == Path(content.__file__).parent], "none of ours"


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (str, ""),
        (str, Colour.RED),
        (str, v1.CallToolResult()),
        (str | None, None),
        (Image | str, "no picture"),
        (list[str | Image], ["see", Image(b"i")]),
        (tuple[str, Image], ("see", Image(b"i"))),
        (None, None),
    ],
)
async def test_return_values_that_are_accepted(hint: Any, value: Any) -> None:
    app = App("test")

    def keeps():  # type: ignore[no-untyped-def]
        return value

    keeps.__annotations__["return"] = hint
    app.add_tool(keeps)
    assert not (await call(app, "keeps")).is_error


async def test_bytes_are_refused() -> None:
    app = App("test")

    @app.tool
    def raw() -> Any:
        return b"x"

    assert "return Image(data, mime_type)" in (await call(app, "raw")).text


async def test_an_exact_error_is_raised() -> None:
    app = App("test")

    @app.tool
    def exact() -> None:
        raise McpError(-32042, "no", {"a": 1})

    with pytest.raises(McpError):
        await call(app, "exact")


async def test_an_unknown_tool_is_not_found() -> None:
    app = App("test")

    @app.tool
    def forecast() -> None: ...

    with pytest.raises(StatusError, match="there is no tool 'forcast'; did you mean 'forecast'") as e:
        await call(app, "forcast")
    assert e.value.code == grpc.StatusCode.NOT_FOUND


async def test_progress_and_logs_come_in_order_before_the_result() -> None:
    app = App("test")

    @app.tool
    async def works(ctx: Context) -> str:
        for i in range(3):
            await ctx.progress(i, 3, f"step {i}")
        ctx.log.info("not awaited")
        ctx.log.warning({"a": 1}, logger="part")
        return "done"

    @app.tool
    def works_sync(ctx: Context) -> str:
        for i in range(3):
            ctx.progress(i, 3, f"step {i}")
        ctx.log.info("not awaited")
        ctx.log.warning({"a": 1}, logger="part")
        return "done"

    for name in ("works", "works_sync"):
        got = await call(app, name)
        assert got.progress == [v1.Progress(progress=i, total=3, message=f"step {i}") for i in range(3)]
        assert got.logs == [
            v1.LogMessage(level=v1.LOG_LEVEL_INFO, data='"not awaited"'),
            v1.LogMessage(level=v1.LOG_LEVEL_WARNING, data='{"a":1}', logger="part"),
        ]
        assert got.text == "done"


@pytest.mark.parametrize(
    ("level", "count"), [(v1.LOG_LEVEL_UNSPECIFIED, 0), (v1.LOG_LEVEL_ERROR, 1), (v1.LOG_LEVEL_DEBUG, 3)]
)
async def test_only_the_requested_log_level_is_sent(level: v1.LogLevel, count: int) -> None:
    app = App("test")

    @app.tool
    async def works(ctx: Context) -> None:
        await ctx.progress(1)
        ctx.log.debug("d")
        await ctx.log.info("i")
        ctx.log.error("e")

    got = await call(app, "works", context=v1.CallContext(log_level=level))
    assert (len(got.logs), got.progress) == (count, [])


async def test_a_tool_starts_its_task() -> None:
    app = App("test")

    @app.tool(task=Task(starts_later=True))
    async def later(ctx: Context) -> str:
        name = await ctx.elicit("Name?", str)
        await ctx.start_task()
        return name.data

    @app.tool(task=Task(starts_later=True))
    def later_sync(ctx: Context, start: bool = True) -> str:
        name = ctx.elicit("Name?", str)
        if start:
            ctx.start_task()
        return name.data

    @app.resource("a:b")
    async def resource(ctx: Context) -> str:
        await ctx.start_task()
        return ""

    for name in ("later", "later_sync"):
        got = await call(app, name, answers=["Ada"])
        assert (got.text, got.rounds, got.task_started) == ("Ada", 2, True)
    assert not (await call(app, "later_sync", {"start": False}, answers=["Ada"])).task_started
    with pytest.raises(McpError, match="only a tool can start a task"):
        await read(app, "a:b")


async def test_nothing_comes_after_the_result() -> None:
    app = App("test")
    contexts: list[Context] = []

    @app.tool
    async def keeps(ctx: Context) -> None:
        contexts.append(ctx)

    got = await call(app, "keeps")
    await contexts[0].progress(1)
    await asyncio.to_thread(contexts[0].progress, 2)
    assert got.progress == []


async def test_the_caller_is_in_the_context() -> None:
    app = App("test")
    context = v1.CallContext(
        client_info=v1.Implementation(name="c", version="2"),
        verified=v1.VerifiedCaller(
            protocol_version="2025-06-18", principal=v1.Principal(subject="ada"), headers={"x-a": "b"}
        ),
        meta='{"k":1}',
    )

    @app.tool
    def who(ctx: Context) -> dict[str, Any]:
        assert ctx.principal
        return {
            "v": ctx.protocol_version,
            "c": ctx.client_info.name,
            "p": ctx.principal.subject,
            "h": ctx.headers,
            "m": ctx.meta,
        }

    got = await call(app, "who", context=context)
    assert got.structured == {"v": "2025-06-18", "c": "c", "p": "ada", "h": {"x-a": "b"}, "m": {"k": 1}}


async def test_text_that_is_not_ascii_stays_the_same() -> None:
    unicode = 'Zoë: "東京\u2028" 😀'
    meta = {unicode: [unicode]}
    app = App("test")

    @app.tool(description=unicode, meta=meta)
    async def f(
        ctx: Context,
        text: Literal['Zoë: "東京\u2028" 😀'] = unicode,  # type: ignore[assignment]
    ) -> dict[str, Any]:
        await ctx.log.info({unicode: text})
        answer = await ctx.elicit(unicode, {"type": "object", "properties": {unicode: {"type": "string"}}})
        return {"answer": answer.data, "meta": ctx.meta, "text": text}

    @app.tool
    async def fails() -> None:
        raise McpError(-1, unicode, meta)

    context = v1.CallContext()
    context.CopyFrom(EVERYTHING)
    context.meta = json.dumps(meta)
    got = await call(app, "f", {"text": unicode}, answers=[{unicode: unicode}], context=context)
    assert got.structured == {"answer": {unicode: unicode}, "meta": meta, "text": unicode}
    assert json.loads(got.text) == got.structured
    assert json.loads(got.logs[0].data) == {unicode: unicode}
    assert json.loads(got.asked[0].elicit.form.requested_schema)["properties"] == {unicode: {"type": "string"}}
    listed = app.list_tools(v1.ListToolsRequest()).tools[0]
    assert (listed.description, json.loads(listed.meta)) == (unicode, meta)
    assert json.loads(listed.input_schema)["properties"]["text"]["default"] == unicode
    with pytest.raises(McpError) as failed:
        await call(app, "fails")
    error = v1.JsonRpcError()
    assert status(failed.value).details[0].Unpack(error)
    assert (error.message, json.loads(error.data)) == (unicode, meta)


async def start(app: App, name: str) -> "asyncio.Task[v1.CallToolResponse]":
    async def write(event: v1.CallToolResponse) -> None: ...

    request = v1.CallToolRequest(name=name, context=EVERYTHING)
    return asyncio.create_task(app.call_tool(request, write))


async def test_an_async_tool_is_cancelled() -> None:
    app = App("test")
    started, ended = asyncio.Event(), asyncio.Event()

    @app.tool
    async def waits() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = await start(app, "waits")
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 cannot distinguish the cancellation of the call")
async def test_a_cancellation_inside_a_tool_is_a_failure() -> None:
    app = App("test")

    @app.tool
    async def inside() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    got = await call(app, "inside")
    assert (got.is_error, got.text) == (True, "CancelledError")


@pytest.mark.parametrize("how", ["check", "progress", "cancelled"])
async def test_a_sync_tool_is_cancelled(how: str) -> None:
    app = App("test")
    started, ended = threading.Event(), threading.Event()

    @app.tool
    def waits(ctx: Context) -> None:
        started.set()
        try:
            while True:
                time.sleep(0.001)
                if how == "check":
                    ctx.check()
                elif how == "progress":
                    ctx.progress(1)
                elif ctx.cancelled:
                    return
        except Exception:  # Does not stop it.
            pass
        finally:
            ended.set()

    task = await start(app, "waits")
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 5)


def test_context_parameters_of_callables() -> None:
    app = App("test")

    class Adder:
        async def __call__(self, a: int, ctx: Context) -> int:
            return a

    app.add_tool(Adder(), name="adder")
    assert asyncio.run(call(app, "adder", {"a": 2})).structured == {"result": 2}
    assert json.loads(app.list_tools(v1.ListToolsRequest()).tools[0].input_schema)["required"] == ["a"]


class Person:
    """A value without a form in JSON."""


class Row(BaseModel):
    price: float
    owner: Any = None
    secret: float = Field(default=math.nan, exclude=True)


@dataclass
class Table:
    rows: list[Row]
    note: str | None = None


async def later() -> None: ...


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Table([Row(price=1), Row(price=math.nan)]), "rows.1.price is NaN"),
        (Table([Row(price=1, owner={"pay": -math.inf})]), "rows.0.owner.pay is -Infinity"),
        (Table([Row(price=1, owner=[None, Person()])]), "rows.0.owner.1 is Person"),
        (Table([Row(price=1, owner=Person)]), "rows.0.owner is type"),
        (Table([Row(price=1, owner=LOOP)]), "rows.0.owner.0 is a value that contains itself"),
    ],
)
async def test_values_without_json_are_rejected_with_their_place(
    typed: bool, value: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("test")

    async def table() -> Any:
        return value

    if typed:
        table.__annotations__["return"] = Table
    app.add_tool(table)
    with caplog.at_level(logging.ERROR):
        got = await call(app, "table")
    assert (got.is_error, got.text) == (True, f"{message}, which JSON cannot represent")
    assert f'tool "table" failed at test_call.py:{table.__code__.co_firstlineno}: TypeError' in caplog.text
    assert message in caplog.text


async def test_none_and_absent_members_are_accepted() -> None:
    app = App("test")

    @app.tool
    def table() -> Table:
        return Table([Row(price=1)], "NaN")

    assert (await call(app, "table")).structured == {"rows": [{"price": 1, "owner": None}], "note": "NaN"}


async def test_a_resource_rejects_values_without_json() -> None:
    app = App("test")

    @app.resource("test://it")
    def it() -> Any:
        return {"a": [math.inf]}

    with pytest.raises(McpError, match=r"a\.0 is Infinity, which JSON cannot represent"):
        await read(app, "test://it")


async def test_a_coroutine_in_a_result_is_one_that_was_not_awaited() -> None:
    app = App("test")

    @app.tool
    async def forgets() -> Any:
        return {"a": later()}

    assert (await call(app, "forgets")).text == "a is a coroutine, which JSON cannot represent; write await later(...)"
