"""Prompts: arguments, messages, completion."""

import asyncio
import enum
from typing import Annotated, Any, Literal

import grpc
import pytest

from mcpbridge import (
    App,
    Audio,
    Context,
    DefinitionError,
    Embedded,
    Field,
    Image,
    Link,
    McpError,
    NotFound,
    ToolError,
    assistant,
    user,
    v1,
)
from mcpbridge.handlers import StatusError
from mcpbridge.testing import EVERYTHING, complete, prompt


def message_of(text: str, role: str = "user") -> v1.PromptMessage:
    return v1.PromptMessage(role=role, content=v1.ContentBlock(text=v1.TextContent(text=text)))


PIXEL = v1.PromptMessage(role="user", content=v1.ContentBlock(image=v1.ImageContent(data=b"i", mime_type="image/png")))


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hello", [message_of("hello")]),
        (["a", "b"], [message_of("a"), message_of("b")]),
        (Image(b"i"), [PIXEL]),
        (["see", Image(b"i")], [message_of("see"), PIXEL]),
        ([user("a", Image(b"i")), assistant("b")], [message_of("a"), PIXEL, message_of("b", "assistant")]),
        (assistant("b"), [message_of("b", "assistant")]),
        ([message_of("raw"), "b"], [message_of("raw"), message_of("b")]),
        (v1.TextContent(text="t"), [message_of("t")]),
        ([], []),
    ],
)
async def test_messages_of_prompts(value: Any, messages: list[v1.PromptMessage]) -> None:
    app = App("test")

    @app.prompt
    def sync() -> Any:
        """Say it.

        Loudly.
        """
        return value

    @app.prompt(name="async", description="Given.")
    async def asynchronous() -> Any:
        return value

    got = (await prompt(app, "sync")).result
    assert got == v1.GetPromptResult(description="Say it.\n\nLoudly.", messages=messages)
    assert (await prompt(app, "async")).result == v1.GetPromptResult(description="Given.", messages=messages)


async def test_content_has_annotations_and_meta() -> None:
    app = App("test")
    annotations = v1.Annotations(priority=1)

    @app.prompt
    def everything() -> list[Any]:
        return [
            Image(b"i", annotations=annotations, meta={"a": 1}),
            Audio(b"a", meta={"a": 1}),
            Embedded("x:y", {"k": "v"}, annotations=annotations),
            Embedded("x:z", b"b", "image/png", meta={"a": 1}),
            Link("file:///a/b.txt", title="B", size=3, annotations=annotations),
        ]

    image, audio, json, blob, link = [m.content for m in (await prompt(app, "everything")).result.messages]
    assert (image.image.annotations, image.image.meta) == (annotations, '{"a":1}')
    assert audio.audio.meta == '{"a":1}'
    assert json.resource == v1.EmbeddedResource(
        resource=v1.ResourceContents(uri="x:y", mime_type="application/json", text='{"k":"v"}'), annotations=annotations
    )
    assert blob.resource == v1.EmbeddedResource(
        resource=v1.ResourceContents(uri="x:z", mime_type="image/png", blob=b"b"), meta='{"a":1}'
    )
    assert link.resource_link == v1.Resource(
        uri="file:///a/b.txt", name="b.txt", title="B", size=3, annotations=annotations
    )


async def test_arguments() -> None:
    app = App("test")

    @app.prompt(title="Greeting", icons=["https://x/i.png"], meta={"a": 1})
    def greet(
        name: str,
        times: Annotated[int, Field(title="How often", ge=1)],
        tone: Literal["warm", "dry"] = "warm",
        loud: bool = False,
    ) -> str:
        """Greet a person.

        Args:
            name: Who to greet.
        """
        return f"{name} {times + 1} {tone} {loud}"

    assert list(app.list_prompts(v1.ListPromptsRequest()).prompts) == [
        v1.Prompt(
            name="greet",
            title="Greeting",
            description="Greet a person.",
            arguments=[
                v1.PromptArgument(name="name", description="Who to greet.", required=True),
                v1.PromptArgument(name="times", title="How often", required=True),
                v1.PromptArgument(name="tone", required=False),
                v1.PromptArgument(name="loud", required=False),
            ],
            icons=[v1.Icon(src="https://x/i.png")],
            meta='{"a":1}',
        )
    ]
    assert (await prompt(app, "greet", {"name": "Ada", "times": "2"})).text == "Ada 3 warm False"
    assert (await prompt(app, "greet", {"name": "Ada", "times": "2", "loud": "true"})).text == "Ada 3 warm True"
    with pytest.raises(StatusError) as e:
        await prompt(app, "greet", {"times": "0", "tonne": "dry"})
    assert e.value.code == grpc.StatusCode.INVALID_ARGUMENT
    for line in (
        "- name: is required",
        "- times: Input should be greater",
        "- tonne: does not exist; did you mean tone?",
    ):
        assert line in str(e.value)
    assert greet("Ada", 1) == "Ada 2 warm False"


async def test_an_unknown_prompt_is_not_found() -> None:
    app = App("test")

    @app.prompt
    def greet() -> str:
        return ""

    @app.prompt
    def missing() -> str:
        raise NotFound("not here")

    for name, message in (("gret", "there is no prompt 'gret'; did you mean 'greet'"), ("missing", "not here")):
        with pytest.raises(StatusError, match=message) as e:
            await prompt(app, name)
        assert e.value.code == grpc.StatusCode.NOT_FOUND


async def test_errors() -> None:
    app = App("test")

    @app.prompt
    def fails() -> str:
        raise ToolError("no luck")

    @app.prompt
    def wrong() -> Any:
        return 3

    with pytest.raises(McpError, match="no luck"):
        await prompt(app, "fails")
    with pytest.raises(McpError, match="content cannot be int: use str, Image, Audio, Embedded, Link"):
        await prompt(app, "wrong")


async def test_a_prompt_can_ask() -> None:
    app = App("test")

    @app.prompt
    async def review(ctx: Context) -> str:
        return f"Review {(await ctx.elicit('Which file?', str)).data}."

    @app.prompt
    def review_sync(ctx: Context) -> str:
        return f"Review {ctx.elicit('Which file?', str).data}."

    for name in ("review", "review_sync"):
        got = await prompt(app, name, answers=["a.py"])
        assert (got.text, got.rounds) == ("Review a.py.", 2)


async def test_a_question_takes_precedence_over_the_result(caplog: pytest.LogCaptureFixture) -> None:
    app = App("test")

    @app.prompt
    async def swallows(ctx: Context) -> str:
        async def ask() -> str:
            return (await ctx.elicit("Which file?", str)).data

        (got,) = await asyncio.gather(ask(), return_exceptions=True)
        return str(got.upper())  # type: ignore[union-attr]

    assert (await prompt(app, "swallows", answers=["a.py"])).text == "A.PY"
    assert not caplog.records


async def test_logs_before_an_error_are_sent() -> None:
    app = App("test")

    @app.prompt
    async def fails(ctx: Context) -> str:
        ctx.log.info("so far")
        raise McpError(-1, "no further")

    sent: list[v1.GetPromptResponse] = []

    async def write(event: v1.GetPromptResponse) -> None:
        sent.append(event)

    with pytest.raises(McpError):
        await app.get_prompt(v1.GetPromptRequest(context=EVERYTHING, name="fails"), write)
    assert [e.log.data for e in sent] == ['"so far"']


def test_definitions_that_cannot_work() -> None:
    app = App("test")

    def greet(names: list[str]) -> str:
        return ""

    app.add_prompt(greet)
    message = 'prompt "greet": parameter "names" has a type that text cannot represent'
    with pytest.raises(DefinitionError, match=message):
        app.check()

    @app.prompt
    def fine(name: str) -> str:
        return ""

    app.add_prompt(fine)
    with pytest.raises(DefinitionError, match='prompt "fine" is already defined'):
        app.check()
    fine.complete("nam")(lambda value: [])
    with pytest.raises(DefinitionError, match='prompt "fine": there is no argument "nam" to complete'):
        app.check()
    fine.complete("name")(lambda: [])
    with pytest.raises(DefinitionError, match=r'completion "fine\.name": it has no parameter for what is typed'):
        app.check()


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


async def test_completion() -> None:
    app = App("test")

    @app.prompt
    def paint(what: str, colour: Colour, finish: Literal["matt", "gloss"] | None = None, by: str = "") -> str:
        return ""

    @paint.complete("what")
    async def things(value: str, ctx: Context, by: str = "nobody") -> list[str]:
        with pytest.raises(ToolError, match="This client cannot"):
            await ctx.elicit("Nothing can be asked here", str)
        await ctx.progress(1)
        return [f"{value}1", by, ctx.protocol_version]

    @paint.complete("by")
    def people(value: str) -> Any:
        return (f"{value}{i}" for i in range(250))

    assert await complete(app, "paint", "what", "wall") == ["wall1", "nobody", "2026-07-28"]
    assert await complete(app, "paint", "what", "wall", others={"by": "Ada", "colour": "red"}) == [
        "wall1",
        "Ada",
        "2026-07-28",
    ]
    assert await complete(app, "paint", "colour") == ["red", "green"]
    assert await complete(app, "paint", "colour", "G") == ["green"]
    assert await complete(app, "paint", "finish", "m") == ["matt"]
    assert await complete(app, "paint", "nothing") == []
    ref = v1.CompletionReference(prompt=v1.PromptReference(name="paint"))
    request = v1.CompleteRequest(reference=ref, argument=v1.CompletionArgument(name="by", value="p"))
    got = (await app.complete(request)).completion
    assert (len(got.values), got.values[99], got.total, got.has_more) == (100, "p99", 250, True)
    with pytest.raises(StatusError, match="there is no prompt 'pant'; did you mean 'paint'"):
        await complete(app, "pant", "what")
    for reference in (v1.CompletionReference(raw='{"type":"ref/acme"}'), v1.CompletionReference()):
        with pytest.raises(StatusError, match="neither a prompt nor a resource template") as e:
            await app.complete(v1.CompleteRequest(reference=reference))
        assert e.value.code == grpc.StatusCode.INVALID_ARGUMENT


async def test_exact_completions_and_errors(caplog: pytest.LogCaptureFixture) -> None:
    app = App("test")

    @app.prompt
    def p(a: str, b: str) -> str:
        return ""

    @p.complete("a")
    def exact(value: str) -> v1.Completion:
        return v1.Completion(values=["x"], total=9)

    @p.complete("b")
    def fails(value: str) -> list[str]:
        errors: dict[str, BaseException] = {
            "v": ValueError("bad"),
            "e": SystemExit("bad"),
            "k": KeyboardInterrupt("bad"),
            "t": ToolError("bad"),
            "m": McpError(-1, "bad"),
        }
        raise errors[value]

    ref = v1.CompletionReference(prompt=v1.PromptReference(name="p"))
    got = await app.complete(v1.CompleteRequest(reference=ref, argument=v1.CompletionArgument(name="a")))
    assert got.completion == v1.Completion(values=["x"], total=9)
    for kind in "vektm":
        with pytest.raises(McpError, match="bad") as e:
            await complete(app, "p", "b", kind)
        assert e.value.code == (-1 if kind == "m" else -32603)
    assert 'completion "p.b" failed at test_prompts.py' in caplog.text
