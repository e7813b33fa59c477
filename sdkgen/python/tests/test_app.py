"""The description of an App, exact control, definitions that are added and removed, and logging."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import grpc
import pytest

from mcpbridge import App, Context, DefinitionError, Field, McpError, Task, VisitRequired, v1
from mcpbridge.handlers import StatusError
from mcpbridge.testing import EVERYTHING, call, prompt, read


def nothing() -> str:
    return ""


def of_kind(kind: Literal["a", "b"]) -> str:
    return kind


def test_server_info() -> None:
    app = App(
        "test",
        version="2",
        title="T",
        description="D",
        website="https://x",
        icons=["https://x/i.png", v1.Icon(src="https://x/j.svg", sizes=["any"])],
        instructions="Use it.",
        cache_ttl=60,
        cache_scope="private",
        max_calls=4,
        meta={"a": 1},
    )
    assert app.discover() == v1.DiscoverResponse(
        contract_version=2,
        server_info=v1.Implementation(
            name="test",
            version="2",
            title="T",
            description="D",
            website_url="https://x",
            icons=[v1.Icon(src="https://x/i.png"), v1.Icon(src="https://x/j.svg", sizes=["any"])],
        ),
        capabilities=v1.ServerCapabilities(logging=v1.Capability()),
        instructions="Use it.",
        ttl_ms=60_000,
        cache_scope="private",
        meta='{"a":1}',
        limits=v1.BackendLimits(max_concurrent_calls=4),
    )
    assert App("test").discover() == v1.DiscoverResponse(
        contract_version=2,
        server_info=v1.Implementation(name="test", version="0.0.0"),
        capabilities=v1.ServerCapabilities(logging=v1.Capability()),
    )


TOOLS = v1.ServerCapabilities(tools=v1.ToolsCapability(list_changed=True))
RESOURCES = v1.ServerCapabilities(resources=v1.ResourcesCapability(list_changed=True, subscribe=True))
PROMPTS = v1.ServerCapabilities(prompts=v1.PromptsCapability(list_changed=True))
TASKS = v1.ServerCapabilities(extensions='{"io.modelcontextprotocol/tasks":{}}')
COMPLETIONS = v1.ServerCapabilities(completions=v1.Capability())


def test_capabilities_follow_the_definitions() -> None:
    def capabilities_of(*has: Any) -> v1.ServerCapabilities:
        app = App("test")
        for add in has:
            add(app)
        return app.discover().capabilities

    def expected(*parts: v1.ServerCapabilities) -> v1.ServerCapabilities:
        all_of = v1.ServerCapabilities(logging=v1.Capability())
        for part in parts:
            all_of.MergeFrom(part)
        return all_of

    def completed(app: App) -> None:
        @app.prompt
        def greet(name: str) -> str:
            return name

        @greet.complete("name")
        def names(value: str) -> list[str]:
            return []

    assert capabilities_of(lambda app: app.add_tool(nothing)) == expected(TOOLS)
    assert capabilities_of(lambda app: app.add_tool(of_kind)) == expected(TOOLS)
    assert capabilities_of(lambda app: app.add_resource("a:b", nothing)) == expected(RESOURCES)
    assert capabilities_of(lambda app: app.add_resource("a:{kind}", of_kind)) == expected(RESOURCES, COMPLETIONS)
    assert capabilities_of(lambda app: app.add_prompt(nothing)) == expected(PROMPTS)
    assert capabilities_of(lambda app: app.add_prompt(of_kind)) == expected(PROMPTS, COMPLETIONS)
    assert capabilities_of(lambda app: app.add_tool(nothing, task=True)) == expected(TOOLS, TASKS)
    assert capabilities_of(completed) == expected(PROMPTS, COMPLETIONS)
    assert capabilities_of(lambda app: app.add_prompt(nothing), lambda app: app.add_tool(nothing)) == expected(
        TOOLS, PROMPTS
    )


async def test_a_user_interface_is_declared_and_has_its_type() -> None:
    """Extension ui, 2026-01-26: tool metadata, resources."""
    app = App("test")
    app.add_tool(nothing, ui="ui://test/page")
    app.add_tool(of_kind, ui="ui://test/page", meta={"a": 1, "ui": {"visibility": ["app"]}}, task=True)
    app.add_resource("ui://test/page", nothing)
    app.add_resource("ui://test/{kind}", of_kind, mime_type="text/html")
    metas = [json.loads(app.tool_message(name).meta) for name in ("nothing", "of_kind")]
    page = {"resourceUri": "ui://test/page"}
    assert metas == [{"ui": page}, {"a": 1, "ui": {"visibility": ["app"], **page}}]
    declared = '{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}}'
    assert app.discover().capabilities.extensions == declared
    [listed] = app.list_resources(v1.ListResourcesRequest()).resources
    [read_page] = (await read(app, "ui://test/page")).result.contents
    assert listed.mime_type == read_page.mime_type == "text/html;profile=mcp-app"
    assert (await read(app, "ui://test/a")).result.contents[0].mime_type == "text/html"

    plain = App("test")
    plain.add_tool(nothing, meta={"ui": None})
    assert plain.discover().capabilities.extensions == ""
    plain.add_tool(of_kind, ui="https://example.com")
    with pytest.raises(DefinitionError, match=r'tool "of_kind": ui=.*: the URI of a user interface starts with ui://'):
        plain.check()


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (False, None),
        (True, v1.ToolExecution(task_support="optional")),
        (Task(), v1.ToolExecution(task_support="optional")),
        (Task(required=True), v1.ToolExecution(task_support="required")),
        (
            Task(retry=True, starts_later=True),
            v1.ToolExecution(task_support="optional", retry=True, starts_later=True),
        ),
    ],
)
def test_a_tool_defines_its_tasks(task: bool | Task, expected: v1.ToolExecution | None) -> None:
    app = App("test")
    app.add_tool(nothing, task=task)
    message = app.tool_message("nothing")
    assert (message.execution if message.HasField("execution") else None) == expected


def test_undeclared_methods_are_unimplemented() -> None:
    lists: dict[Any, Callable[[App], Any]] = {
        "tools": lambda app: app.list_tools(v1.ListToolsRequest()).tools,
        "resources": lambda app: app.list_resources(v1.ListResourcesRequest()).resources,
        "prompts": lambda app: app.list_prompts(v1.ListPromptsRequest()).prompts,
    }
    for which, listed in lists.items():
        with pytest.raises(StatusError, match=f"test has no {which}") as e:
            listed(App("test"))
        assert e.value.code == grpc.StatusCode.UNIMPLEMENTED
        app = App("test", declares=[which])
        assert list(listed(app)) == []
        assert app.discover().capabilities.HasField(which)


def test_unknown_cursors_are_rejected() -> None:
    app = App("test")
    app.add_tool(nothing)
    with pytest.raises(StatusError) as e:
        app.list_tools(v1.ListToolsRequest(cursor=""))
    assert e.value.code == grpc.StatusCode.INVALID_ARGUMENT


# Exact control.


async def test_an_explicit_schema_is_sent_unchanged() -> None:
    app = App("test")
    schema = {
        "type": "object",
        "$defs": {"a": {"$anchor": "x"}},
        "allOf": [{"required": ["a"]}],
        "properties": {"a": {}},
    }

    @app.tool(input_schema=schema, output_schema={"type": "object", "x": 1})
    def anything(**arguments: Any) -> dict[str, Any]:
        return arguments

    @app.tool(input_schema=schema)
    def some(a: int, ctx: Context, **others: Any) -> str:
        return f"{a + 1} {others} {ctx.protocol_version}"

    listed = app.list_tools(v1.ListToolsRequest()).tools
    assert json.loads(listed[0].input_schema) == schema
    assert list(json.loads(listed[0].input_schema)) == list(schema)
    assert json.loads(listed[0].output_schema) == {"type": "object", "x": 1}
    assert (await call(app, "anything", {"a": 1, "b": [2]})).structured == {"a": 1, "b": [2]}
    assert (await call(app, "some", {"a": 1, "b": 2})).text == "2 {'b': 2} 2026-07-28"
    app.add_tool(lambda **arguments: "", name="unnamed")
    with pytest.raises(DefinitionError, match="cannot be passed by name"):
        app.check()


async def test_other_keywords_of_a_schema_are_kept() -> None:
    app = App("test")

    @app.tool
    def tool(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str:
        return region

    schema = json.loads(app.list_tools(v1.ListToolsRequest()).tools[0].input_schema)
    assert schema["properties"]["region"] == {"default": "", "type": "string", "x-mcp-header": "Region"}


async def test_a_function_may_return_input_requests() -> None:
    app = App("test")
    question = v1.InputRequest(key="name", elicit=v1.ElicitRequest(form=v1.ElicitForm(message="Name?")))

    def ask(ctx: Context) -> str | v1.InputRequired:
        assert isinstance(ctx.request, (v1.CallToolRequest, v1.ReadResourceRequest, v1.GetPromptRequest))
        if ctx.request_state is None:
            return v1.InputRequired(input_requests=[question], request_state=b"round 1")
        return f"{ctx.request_state.decode()}: {ctx.request.input_responses['name'].elicit.content}"

    app.add_tool(ask)
    app.add_resource("test://ask", ask)
    app.add_prompt(ask)
    for got in (
        await call(app, "ask", answers=[{"n": 1}]),
        await read(app, "test://ask", answers=[{"n": 1}]),
        await prompt(app, "ask", answers=[{"n": 1}]),
    ):
        assert (got.text, got.rounds) == ('round 1: {"n":1}', 2)
    assert not app.list_tools(v1.ListToolsRequest()).tools[0].HasField("title")


async def test_results_are_exact() -> None:
    app = App("test")
    filled = v1.GetPromptResult(description="D", meta='{"a":1}')
    app.add_prompt(lambda: filled, name="exact")
    assert (await prompt(app, "exact")).result == filled
    result = v1.CallToolResult(structured_content=b"3.0", meta='{"a":1}')

    @app.tool
    def exact() -> v1.CallToolResult:
        return result

    assert not app.list_tools(v1.ListToolsRequest()).tools[0].output_schema
    assert (await call(app, "exact")).result == result


# Lists that change.


async def events_of(app: App, requested: v1.SubscriptionFilter, do: Any) -> list[v1.ListenResponse]:
    with app._changes.listen(requested) as listener:
        await asyncio.to_thread(do)  # From any thread.
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.01, listener.close)
        await asyncio.sleep(0)
        if not listener._pending:
            return [event async for event in listener.events()]
        events = []
        async for event in listener.events():
            events.append(event)
            if not listener._pending:
                break
    return events


async def test_subscribers_are_notified_of_changes() -> None:
    app = App("test")

    def change() -> None:
        app.add_tool(nothing)
        app.add_resource("test://x", nothing)
        app.add_prompt(nothing)
        app.notify_updated("test://x")
        app.notify_updated("test://y")

    tools = v1.ListenResponse(tools_list_changed=v1.ListChanged())
    resources = v1.ListenResponse(resources_list_changed=v1.ListChanged())
    prompts = v1.ListenResponse(prompts_list_changed=v1.ListChanged())
    updated = v1.ListenResponse(resource_updated=v1.ResourceUpdated(uri="test://x"))

    def again() -> None:
        app.remove_tool("nothing")
        app.remove_resource("test://x")
        app.remove_prompt("nothing")
        change()

    every = v1.SubscriptionFilter(
        tools_list_changed=True,
        prompts_list_changed=True,
        resources_list_changed=True,
        resource_subscriptions=["test://x"],
    )
    assert await events_of(app, every, change) == [tools, resources, prompts, updated]
    assert await events_of(app, v1.SubscriptionFilter(prompts_list_changed=True), again) == [prompts]
    assert await events_of(app, v1.SubscriptionFilter(resource_subscriptions=["test://x"]), again) == [updated]
    assert await events_of(app, v1.SubscriptionFilter(), again) == []
    assert not app._changes._listeners


async def test_repeated_changes_are_coalesced() -> None:
    app = App("test", declares=["tools"])

    def change() -> None:
        for _ in range(10_000):
            app.notify_updated("test://x")
            app.add_tool(nothing)
            app.remove_tool("nothing")

    requested = v1.SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["test://x"])
    events = await events_of(app, requested, change)
    assert [e.WhichOneof("event") for e in events] == ["resource_updated", "tools_list_changed"]


async def test_completed_url_elicitations_are_notified() -> None:
    app = App("test")

    @app.tool
    def secret() -> None:
        raise VisitRequired("Sign in", "https://x", id="7")

    with pytest.raises(McpError) as e:
        await call(app, "secret")
    assert (e.value.code, e.value.message) == (-32042, "Sign in")
    assert e.value.data == {
        "elicitations": [{"mode": "url", "elicitationId": "7", "url": "https://x", "message": "Sign in"}]
    }
    assert VisitRequired("a", "b").id != VisitRequired("a", "b").id
    requested = v1.SubscriptionFilter(elicitations_completed=True)
    assert app.supported_changes(requested) == requested
    events = await events_of(app, requested, lambda: app.notify_visited("7"))
    assert events == [v1.ListenResponse(elicitation_completed=v1.ElicitationCompleted(elicitation_id="7"))]
    assert await events_of(app, v1.SubscriptionFilter(), lambda: app.notify_visited("7")) == []


def test_changes_require_the_capability() -> None:
    every = v1.SubscriptionFilter(
        tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True, resource_subscriptions=["a:b"]
    )
    app = App("test")
    assert app.supported_changes(every) == v1.SubscriptionFilter()
    app.add_tool(nothing)
    assert app.supported_changes(every) == v1.SubscriptionFilter(tools_list_changed=True)
    app.add_resource("a:b", nothing)
    app.add_prompt(nothing)
    assert app.supported_changes(every) == every
    assert app.supported_changes(v1.SubscriptionFilter()) == v1.SubscriptionFilter()


async def test_tools_are_added_and_removed() -> None:
    app = App("test")

    @app.tool
    def learn(ctx: Context) -> None:
        app.add_tool(nothing)
        ctx.notify_updated("test://x")

    await call(app, "learn")
    assert [t.name for t in app.list_tools(v1.ListToolsRequest()).tools] == ["learn", "nothing"]
    app.remove_tool("nothing")
    assert [t.name for t in app.list_tools(v1.ListToolsRequest()).tools] == ["learn"]
    with pytest.raises(StatusError, match="there is no tool 'nothing'"):
        await call(app, "nothing")
    with pytest.raises(KeyError):
        app.remove_tool("nothing")


# Logging.


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("test_app.part")
    logger.setLevel(1)
    logger.propagate = False
    yield logger
    logger.handlers.clear()


async def test_logging_goes_to_the_caller(logger: logging.Logger) -> None:
    app = App("test")
    app.forward_logging("test_app.part")
    app.forward_logging(logger)  # It is already forwarded: no effect.
    assert len(logger.handlers) >= 2, "what is logged still goes to stderr"

    @app.tool
    async def works() -> str:
        logger.info("step %d", 1)
        logger.warning("careful")
        logger.log(5, "fine")
        return "done"

    @app.tool
    def works_sync(ctx: Context) -> str:
        logger.info("step %d", 1)
        ctx.log.info("between")
        logger.critical("careful")
        thread = threading.Thread(target=logger.info, args=("of no call",))
        thread.start()
        thread.join()
        return "done"

    def lines(logs: list[v1.LogMessage]) -> list[tuple[int, str, str]]:
        return [(line.level, line.logger, json.loads(line.data)) for line in logs]

    name = "test_app.part"
    assert lines((await call(app, "works")).logs) == [
        (v1.LOG_LEVEL_INFO, name, "step 1"),
        (v1.LOG_LEVEL_WARNING, name, "careful"),
        (v1.LOG_LEVEL_DEBUG, name, "fine"),
    ]
    assert lines((await call(app, "works_sync")).logs) == [
        (v1.LOG_LEVEL_INFO, name, "step 1"),
        (v1.LOG_LEVEL_INFO, "", "between"),
        (v1.LOG_LEVEL_CRITICAL, name, "careful"),
    ]
    warnings = v1.CallContext(log_level=v1.LOG_LEVEL_WARNING)
    assert lines((await call(app, "works", context=warnings)).logs) == [(v1.LOG_LEVEL_WARNING, name, "careful")]
    logger.info("No call is in flight.")


async def test_concurrent_calls_log_without_waiting_for_each_other(logger: logging.Logger) -> None:
    app = App("test")
    app.forward_logging(logger)

    @app.tool
    async def here() -> None:
        for i in range(500):
            logger.info(i)
            await asyncio.sleep(0)

    @app.tool
    def there() -> None:
        for i in range(500):
            logger.info(i)

    async def one(name: str) -> int:
        return len((await call(app, name, context=EVERYTHING)).logs)

    # As under gRPC, each call runs in an asyncio task with its own context.
    tasks = [asyncio.create_task(one(name)) for name in ("here", "there") * 8]
    assert await asyncio.wait_for(asyncio.gather(*tasks), 20) == [500] * 16


async def test_an_exact_error_has_data() -> None:
    app = App("test")

    @app.tool
    def needs(ctx: Context) -> str:
        if not ctx.client_capabilities.HasField("sampling"):
            raise McpError(-32021, "needs sampling", {"requiredCapabilities": {"sampling": {}}})
        return "ok"

    assert (await call(app, "needs")).text == "ok"
    with pytest.raises(McpError) as e:
        await call(app, "needs", context=v1.CallContext())
    assert e.value.data == {"requiredCapabilities": {"sampling": {}}}
