"""Questions: rounds, answers, and the values that are kept between rounds."""

import asyncio
import enum
import json
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from mcpbridge import (
    App,
    Context,
    Image,
    InvalidAnswer,
    McpError,
    NoAnswer,
    Refused,
    ToolError,
    Unsupported,
    assistant,
    user,
    v1,
)
from mcpbridge.errors import RoundEnd
from mcpbridge.schema import form, line_of
from mcpbridge.testing import EVERYTHING, call


@dataclass
class Colour:
    colour: Literal["red", "green"]


class Confirm(BaseModel):
    sure: bool = Field(description="Really?")


async def nothing(event: v1.CallToolResponse) -> None: ...


def accept(content: str) -> v1.InputResponse:
    return v1.InputResponse(elicit=v1.ElicitResult(action="accept", content=content))


async def test_a_question_ends_the_round_and_its_answer_returns() -> None:
    app = App("test")
    rounds = []

    @app.tool
    async def paint(what: str, ctx: Context) -> str:
        rounds.append(what)
        try:
            answer = await ctx.elicit("Which colour?", Colour)
        except Exception:
            return "swallowed"
        return f"{what}: {answer.data.colour}"

    @app.tool
    def paint_sync(what: str, ctx: Context) -> str:
        rounds.append(what)
        try:
            answer = ctx.elicit("Which colour?", Colour)
        except Exception:
            return "swallowed"
        return f"{what}: {answer.data.colour}"

    for name in ("paint", "paint_sync"):
        rounds.clear()
        got = await call(app, name, {"what": "wall"}, answers=[{"colour": "red"}])
        assert (got.text, got.rounds, rounds) == ("wall: red", 2, ["wall", "wall"])
        (question,) = got.asked
        assert question.elicit.form.message == "Which colour?"
        assert json.loads(question.elicit.form.requested_schema) == {
            "type": "object",
            "properties": {"colour": {"type": "string", "enum": ["red", "green"]}},
            "required": ["colour"],
        }


async def test_many_rounds_and_once() -> None:
    app = App("test")
    charged = []

    @app.tool
    async def order(ctx: Context) -> str:
        size = (await ctx.elicit("Size?", int)).data

        async def charge() -> tuple[str, int]:
            charged.append(size)
            return "receipt", size

        receipt = await ctx.once("charge", charge)
        number = ctx.once("number", lambda: len(charged))
        name = (await ctx.elicit("Name?", str)).data
        again = (await ctx.elicit("Name?", str)).data
        return f"{size} {receipt} {number} {name} {again}"

    got = await call(app, "order", answers=[7, "Ada", "Bob"])
    assert got.text == "7 ['receipt', 7] 1 Ada Bob"
    assert charged == [7]
    assert got.rounds == 4


@pytest.mark.parametrize(
    ("steps", "warnings"),
    [
        (["progress", "ask"], 1),
        (["log", "ask"], 1),
        (["ask", "progress", "ask"], 1),
        (["ask", "progress"], 0),
        (["once", "ask"], 0),
        (["progress", "log"], 0),
    ],
)
async def test_repeated_events_are_logged_once(
    steps: list[str], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("test")

    @app.tool
    def works(ctx: Context) -> str:
        for step in steps:
            if step == "ask":
                ctx.elicit("Sure?", bool).data  # noqa: B018
            elif step == "progress":
                ctx.progress(1)
            elif step == "log":
                ctx.log.info("begun")
            else:
                ctx.once("report", lambda: bool(ctx.progress(1)))
        return "done"

    for _ in range(2):
        assert (await call(app, "works", answers=[True] * steps.count("ask"))).text == "done"
    message = f'{line_of(works)}: tool "works" sends progress or log messages before an answered question'
    assert [r.getMessage().partition(",")[0] for r in caplog.records] == [message] * warnings


async def test_a_changed_question_is_asked_anew() -> None:
    app = App("test")
    price = iter([1, 2, 2])

    @app.tool
    async def buy(ctx: Context) -> str:
        return str((await ctx.elicit(f"Pay {next(price)}?", Confirm)).data.sure)

    got = await call(app, "buy", answers=[{"sure": True}, {"sure": False}])
    assert [q.elicit.form.message for q in got.asked] == ["Pay 1?", "Pay 2?"]
    assert got.text == "False"


async def test_a_key_keeps_a_question_the_same() -> None:
    app = App("test")
    time = iter(range(9))

    @app.tool
    async def now(ctx: Context) -> str:
        return (await ctx.elicit(f"It is {next(time)}. Why?", str, key="why")).data

    got = await call(app, "now", answers=["because"])
    assert (got.text, got.rounds) == ("because", 2)


async def ask_name(ctx: Context) -> str:
    return (await ctx.elicit("Name?", str)).data


@pytest.mark.parametrize("which", ["elicit", "elicit_url", "sample", "roots", "ask_name", "once"])
async def test_a_question_that_is_not_awaited_fails_with_its_line(which: str, caplog: pytest.LogCaptureFixture) -> None:
    app = App("test")

    @app.tool
    async def greet(ctx: Context) -> str:
        name: Any
        if which == "elicit":
            name = ctx.elicit("Name?", str)
        elif which == "elicit_url":
            name = ctx.elicit_url("Sign in", "https://a.example")
        elif which == "sample":
            name = ctx.sample("Name?")
        elif which == "roots":
            name = ctx.roots()
        elif which == "ask_name":
            name = ask_name(ctx)
        else:
            name = ctx.once("name", lambda: ask_name(ctx))
        return f"hi {name}"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns, too.
        got = await call(app, "greet", answers=["Ada", "Ada"])
    lines = {"elicit": 5, "elicit_url": 7, "sample": 9, "roots": 11, "ask_name": 13, "once": 15}
    at = f"test_ask.py:{greet.__code__.co_firstlineno + lines[which] - 1}"
    call_of = {"ask_name": "ask_name", "once": "once"}.get(which, f"ctx.{which}")
    assert got.is_error
    what = f"the question at {at}" if call_of.startswith("ctx.") else f"{call_of}(...) at {at}"
    assert got.text == f"{what} was not awaited; write: await {call_of}(...)"
    assert got.text in caplog.text


async def test_gather_asks_all_in_one_round() -> None:
    app = App("test")

    @app.tool
    async def both(ctx: Context) -> str:
        a, b = await asyncio.gather(ctx.elicit("A?", str), ctx.elicit("B?", str))
        return a.data + b.data

    got = await call(app, "both", answers=["a", "b"])
    assert (got.text, got.rounds) == ("ab", 2)


async def test_ask_all_asks_all_in_one_round() -> None:
    app = App("test")

    @app.tool
    def plain(ctx: Context) -> str:
        with ctx.ask_all():
            name = ctx.elicit("Name?", str, key="name")
            greeting = ctx.sample("Greet", key="greeting")
            roots = ctx.roots(key="roots")
        return f"{greeting.text} {name.data} {roots[0].uri}"

    @app.tool
    async def asynchronous(ctx: Context) -> str:
        with ctx.ask_all():
            name = await ctx.elicit("Name?", str, key="name")
            greeting, roots = ctx.sample("Greet", key="greeting"), ctx.roots(key="roots")
        return f"{greeting.text} {name.data} {roots[0].uri}"

    @app.tool
    def looks(ctx: Context) -> str:
        with ctx.ask_all():
            first = ctx.elicit("A?", str).data  # Reading the answer waits for it.
            second = ctx.elicit("B?", str)
        return first + second.data

    context = v1.CallContext(client_capabilities=EVERYTHING.client_capabilities)
    for tool in ("plain", "asynchronous"):
        asked = (await app.call_tool(v1.CallToolRequest(name=tool, context=context), nothing)).input_required
        assert sorted(q.key for q in asked.input_requests) == ["greeting", "name", "roots"]
        got = await call(app, tool, answers=["Ada", "Hi", ["file:///a"]])
        assert (got.text, got.rounds) == ("Hi Ada file:///a", 2)
    got = await call(app, "looks", answers=["a", "b"])
    assert (got.text, got.rounds) == ("ab", 3)


async def test_an_answer_that_a_round_does_not_read_is_kept() -> None:
    app = App("test")

    @app.tool
    async def two_chains(ctx: Context) -> str:
        async def chain(name: str) -> str:
            first = await ctx.elicit(f"{name}1?", str, key=f"{name}1")
            return first.data + (await ctx.elicit(f"{name}2?", str, key=f"{name}2")).data

        return "".join(await asyncio.gather(chain("a"), chain("b")))

    request = v1.CallToolRequest(name="two_chains", context=EVERYTHING)
    rounds = []
    while True:
        response = await app.call_tool(request, nothing)
        if response.HasField("result"):
            break
        asked = response.input_required
        rounds.append(sorted(q.key for q in asked.input_requests))
        request = v1.CallToolRequest(name="two_chains", context=EVERYTHING, request_state=asked.request_state)
        for key in rounds[-1]:
            request.input_responses[key].CopyFrom(accept(f'{{"value":"{key} "}}'))
    assert response.result.content[0].text.text == "a1 a2 b1 b2 "
    assert sorted(key for asked in rounds for key in asked) == ["a1", "a2", "b1", "b2"], "nothing is asked twice"


async def test_answers_without_a_question_are_not_kept() -> None:
    app = App("test")

    @app.tool
    async def asks(ctx: Context) -> str:
        return (await ctx.elicit("A?", str)).data + (await ctx.elicit("B?", str)).data

    first = (await app.call_tool(v1.CallToolRequest(name="asks", context=EVERYTHING), nothing)).input_required
    (key,) = (q.key for q in first.input_requests)
    answers = {key: accept('{"value":"a"}'), "other": accept(json.dumps("x" * 40_000))}
    request = v1.CallToolRequest(
        name="asks", context=EVERYTHING, request_state=first.request_state, input_responses=answers
    )
    second = (await app.call_tool(request, nothing)).input_required
    assert set(json.loads(second.request_state)["answers"]) == {key}
    assert second.request_state != first.request_state


async def test_every_option_of_sampling() -> None:
    app = App("test")
    app.add_tool(lambda: "", name="helper")
    other = v1.Tool(name="other")

    @app.tool
    async def asks(ctx: Context) -> list[str]:
        sample = await ctx.sample(
            [user("Look:", Image(b"i")), assistant("Nice."), v1.SamplingMessage(role="user")],
            max_tokens=7,
            system="S",
            temperature=0.5,
            stop=["."],
            model=["claude", "gpt"],
            tools=["helper", other],
            tool_choice="required",
            include_context="none",
            metadata={"a": 1},
            meta={"b": 2},
        )
        return [sample.text, sample.tool_calls[0].name, sample.message.stop_reason]

    wish = v1.ContentBlock(tool_use=v1.ToolUseContent(id="1", name="helper"))
    content = v1.ContentBlock(text=v1.TextContent(text="Hm."))
    answer = v1.CreateMessageResult(role="assistant", content=[content, wish], model="m", stop_reason="toolUse")
    got = await call(app, "asks", answers=[v1.InputResponse(create_message=answer)])
    assert got.structured == {"result": ["Hm.", "helper", "toolUse"]}
    text = [v1.ContentBlock(text=v1.TextContent(text=t)) for t in ("Look:", "Nice.")]
    image = v1.ContentBlock(image=v1.ImageContent(data=b"i", mime_type="image/png"))
    assert got.asked[0].create_message == v1.CreateMessageRequest(
        messages=[
            v1.SamplingMessage(role="user", content=[text[0], image]),
            v1.SamplingMessage(role="assistant", content=[text[1]]),
            v1.SamplingMessage(role="user"),
        ],
        model_preferences=v1.ModelPreferences(hints=[v1.ModelHint(name="claude"), v1.ModelHint(name="gpt")]),
        system_prompt="S",
        include_context="none",
        temperature=0.5,
        max_tokens=7,
        stop_sequences=["."],
        metadata='{"a":1}',
        tools=[app.tool_message("helper"), other],
        tool_choice=v1.ToolChoice(mode="required"),
        meta='{"b":2}',
    )
    no_tools = v1.CallContext(client_capabilities=v1.ClientCapabilities(sampling=v1.SamplingCapability()))
    assert "does not give its model tools" in (await call(app, "asks", context=no_tools)).text


async def test_an_end_of_the_round_that_is_caught_still_ends_it() -> None:
    app = App("test")

    @app.tool
    async def gathers(ctx: Context) -> str:
        async def ask() -> str:
            return (await ctx.elicit("A?", str)).data

        got = await asyncio.gather(ask(), return_exceptions=True)
        return str(got[0])

    assert (await call(app, "gathers", answers=["a"])).text == "a"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="has no TaskGroup")
async def test_a_task_group_ends_the_round() -> None:
    app = App("test")

    @app.tool
    async def groups(ctx: Context) -> str:
        async def ask(message: str) -> str:
            return (await ctx.elicit(message, str)).data

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(m)) for m in ("A?", "B?")]
        return "".join(t.result() for t in tasks)

    got = await call(app, "groups", answers=["a", "b"])
    assert sorted(got.text) == ["a", "b"]


async def test_reading_an_answer_that_was_not_awaited_ends_the_round() -> None:
    app = App("test")

    @app.tool
    async def forgets(ctx: Context) -> str:
        return "yes" if ctx.elicit("Sure?", bool) else "no"

    assert (await call(app, "forgets", answers=[True])).text == "yes"
    assert (await call(app, "forgets", answers=[False])).text == "no"


async def test_declined_and_cancelled() -> None:
    app = App("test")

    @app.tool
    async def looks(ctx: Context) -> str:
        answer = await ctx.elicit("Which colour?", Colour)
        return f"{answer.action} {bool(answer)}"

    @app.tool
    async def uses(ctx: Context) -> str:
        return (await ctx.elicit("Which colour?", Colour)).data.colour

    assert (await call(app, "looks", answers=["decline"])).text == "decline False"
    assert (await call(app, "looks", answers=["cancel"])).text == "cancel False"
    got = await call(app, "uses", answers=["decline"])
    assert (got.is_error, got.text) == (True, "the user declined: Which colour?")


async def test_an_answer_that_does_not_fit_is_invalid() -> None:
    app = App("test")

    @app.tool
    async def paint(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Which colour?", Colour)).data.colour
        except InvalidAnswer as e:
            raise ToolError(f"invalid: {e}") from e

    got = await call(app, "paint", answers=[{"colour": "mauve"}])
    violation = "- colour: Input should be 'red' or 'green', got \"mauve\""
    assert got.text == f"invalid: the answer violates the schema of the form:\n{violation}"


async def test_an_answer_of_another_kind_is_none() -> None:
    app = App("test")

    @app.tool
    async def name(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).data

    wrong_kind = v1.InputResponse(list_roots=v1.ListRootsResult())
    got = await call(app, "name", answers=[wrong_kind, v1.InputResponse(), "Ada"])
    assert (got.text, got.rounds) == ("Ada", 4)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (v1.InputError(reason=v1.InputError.REASON_NO_ANSWER), NoAnswer),
        (v1.InputError(reason=v1.InputError.REASON_UNSUPPORTED), Unsupported),
        (v1.InputError(reason=v1.InputError.REASON_REFUSED, code=-1, message="no"), Refused),
    ],
)
async def test_failed_questions(error: v1.InputError, raised: type[ToolError]) -> None:
    app = App("test")

    @app.tool
    async def asks(ctx: Context) -> str:
        try:
            await ctx.elicit("A?", str)
        except raised:
            pass
        else:
            return "no error"
        return (await ctx.elicit("B?", str)).data  # The next round has the same error.

    got = await call(app, "asks", answers=[v1.InputResponse(error=error), "b"])
    assert (got.text, got.rounds) == ("b", 3)


CAN = v1.ClientCapabilities


@pytest.mark.parametrize(
    ("can", "what", "supported"),
    [
        (CAN(), "elicit", False),
        (CAN(elicitation=v1.ElicitationCapability()), "elicit", True),
        (CAN(elicitation=v1.ElicitationCapability(form=v1.Capability())), "elicit", True),
        (CAN(elicitation=v1.ElicitationCapability(url=v1.Capability())), "elicit", False),
        (CAN(elicitation=v1.ElicitationCapability()), "url", False),
        (CAN(elicitation=v1.ElicitationCapability(url=v1.Capability())), "url", True),
        (CAN(), "sample", False),
        (CAN(sampling=v1.SamplingCapability()), "sample", True),
        (CAN(), "roots", False),
        (CAN(roots=v1.RootsCapability()), "roots", True),
    ],
)
async def test_questions_require_the_capability(can: v1.ClientCapabilities, what: str, supported: bool) -> None:
    app = App("test")

    @app.tool
    async def asks(ctx: Context) -> None:
        ask: Any = {
            "elicit": lambda: ctx.elicit("A?", str),
            "url": lambda: ctx.elicit_url("A?", "https://x"),
            "sample": lambda: ctx.sample("A?"),
            "roots": ctx.roots,
        }[what]
        await ask()

    request = v1.CallToolRequest(name="asks", context=v1.CallContext(client_capabilities=can))
    got = await app.call_tool(request, nothing)
    assert got.HasField("input_required") == supported
    if not supported:
        assert got.result.is_error
        assert "This client" in got.result.content[0].text.text


async def test_sampling_and_roots() -> None:
    app = App("test")

    @app.tool
    async def asks(ctx: Context) -> str:
        roots, sample = await asyncio.gather(ctx.roots(), ctx.sample("Hi", system="Be nice"))
        return f"{len(roots)} {roots[0].uri} {sample.text}"

    request = v1.CallToolRequest(name="asks", context=EVERYTHING)
    asked = (await app.call_tool(request, nothing)).input_required
    request.request_state = asked.request_state
    for question in asked.input_requests:
        if question.HasField("list_roots"):
            request.input_responses[question.key].list_roots.roots.add(uri="file:///a")
        else:
            assert question.create_message.messages[0].content[0].text.text == "Hi"
            request.input_responses[question.key].create_message.content.add().text.text = "Hello"
    assert (await app.call_tool(request, nothing)).result.content[0].text.text == "1 file:///a Hello"


async def test_the_state_is_bounded() -> None:
    app = App("test")

    @app.tool
    async def remembers(ctx: Context) -> None:
        ctx.once("orders", lambda: "x" * 40_000)
        await ctx.elicit("A?", str)

    got = await call(app, "remembers")
    assert got.is_error
    assert "more than the maximum of 32768; the largest part is ctx.once('orders')" in got.text


async def test_once_remembers_json_only() -> None:
    app = App("test")

    @app.tool
    def remembers(ctx: Context) -> None:
        ctx.once("o", object)

    assert "must return JSON" in (await call(app, "remembers")).text


async def test_an_unknown_state_is_rejected() -> None:
    app = App("test")

    @app.tool
    async def asks(ctx: Context) -> None:
        await ctx.elicit("A?", str)

    with pytest.raises(McpError) as e:
        await app.call_tool(v1.CallToolRequest(name="asks", context=EVERYTHING, request_state=b"?"), nothing)
    assert e.value.code == -32602


async def test_an_answer_without_a_question_is_ignored() -> None:
    app = App("test")

    @app.tool
    async def asks(ctx: Context) -> None:
        await ctx.elicit("A?", str)

    request = v1.CallToolRequest(name="asks", context=EVERYTHING, input_responses={"other": accept("{}")})
    assert (await app.call_tool(request, nothing)).HasField("input_required")


def test_the_end_of_a_round_is_no_exception() -> None:
    assert not issubclass(RoundEnd, Exception)


class Size(enum.Enum):
    S = "s"
    L = "l"


class Everything(BaseModel):
    text: str
    size: Size
    toppings: list[Literal["ham", "egg"]] = []
    note: str | None = None
    only: Literal["x"] = "x"


def test_forms_are_flat() -> None:
    assert json.loads(form(Everything).schema) == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "size": {"title": "Size", "type": "string", "enum": ["s", "l"]},
            "toppings": {"type": "array", "items": {"type": "string", "enum": ["ham", "egg"]}, "default": []},
            "note": {"type": "string"},
            "only": {"type": "string", "enum": ["x"], "default": "x"},
        },
        "required": ["text", "size"],
    }
    assert form(Everything).parse('{"text":"t","size":"l"}') == Everything(text="t", size=Size.L)
    assert json.loads(form(bool).schema)["properties"] == {"value": {"type": "boolean"}}
    assert form(None).parse("") == {}


class Nested(BaseModel):
    inner: Confirm


def test_forms_cannot_be_nested() -> None:
    with pytest.raises(TypeError, match='a form cannot ask for "inner" of Nested'):
        form(Nested)


async def test_sampling_takes_a_dict_of_mcp() -> None:
    """The format of other SDKs and of files."""
    app = App("test")
    text = {"type": "text", "text": "Hi", "annotations": {"audience": ["user"], "priority": 0.5}}
    use = {"type": "tool_use", "id": "1", "name": "look", "input": {"at": 9007199254740993}, "x-more": True}
    look = {
        "name": "look",
        "description": "Look.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
    params = {
        "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": [use]}],
        "tools": [look],
        "toolChoice": {"mode": "required"},
        "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 1},
        "maxTokens": 9,
    }

    @app.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.sample_raw(params)).text

    got = await call(app, "ask", answers=["Hello"])
    assert got.text == "Hello", got.text
    assert json.loads(got.asked[0].raw) == {"method": "sampling/createMessage", "params": params}
    assert got.asked[0].key.startswith("create_message-")
    no_tools = v1.CallContext(client_capabilities=v1.ClientCapabilities(sampling=v1.SamplingCapability()))
    assert "does not give its model tools" in (await call(app, "ask", context=no_tools)).text
