"""A program behind the real bridge, called by a client."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpbridge import McpError
from mcpbridge.testing import Client, start

TOOLS = """
import threading
from mcpbridge import App, Context, McpError, Task
app = App("test")

@app.tool
async def add(a: int, b: int, ctx: Context) -> int:
    print("it adds")
    await ctx.progress(1, 2)
    return a + b

@app.tool
async def ask(ctx: Context) -> str:
    return (await ctx.elicit("Who?", str)).action

@app.tool
def fails() -> str:
    raise McpError(-31042, "exactly", {"a": 1})

go = threading.Event()

@app.tool(task=True)
def report(ctx: Context) -> str:
    ctx.progress(1, 12, "reading")
    name = ctx.elicit("Name?", str)
    go.wait(10)
    return f"of {name.data}"

@app.tool(task=Task(required=True, starts_later=True))
async def later(ctx: Context) -> str:
    name = await ctx.elicit("Name?", str)
    await ctx.start_task()
    await ctx.elicit("Go?", bool)
    return f"for {name.data}"

@app.tool
def finish() -> None:
    go.set()

@app.tool
def more() -> None:
    app.add_tool(lambda: None, name="new")

app.run()
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    (tmp_path / "tools.py").write_text(TOOLS)
    return [sys.executable, str(tmp_path / "tools.py")]


async def test_a_client_starts_when_the_backend_has_started(program: list[str], tmp_path: Path) -> None:
    """The bridge answers initialize after 2 s, whether the backend has started or not."""
    started = tmp_path / "started"
    async with start(["sh", "-c", 'sleep 3; touch "$0"; exec "$@"', str(started), *program]) as client:
        assert started.exists()
        assert await client.call("add", {"a": 1, "b": 2}) == "3"
    with pytest.raises(ConnectionError, match=r"(?s)its output:.*exit status 3"):
        async with start(["sh", "-c", "sleep 3; exit 3"]):
            pass


async def test_a_client_of_a_program(program: list[str]) -> None:
    asked: list[Any] = []

    def answer(method: str, params: Any) -> Any:
        asked.append((method, params["message"]))
        return {"action": "decline"}

    async with start(program, answer=answer) as client:
        assert await client.call("add", {"a": 1, "b": 2}) == "3"
        assert (await client.notification("notifications/progress"))["params"]["progress"] == 1
        assert await client.call("ask") == "decline"
        assert asked == [("elicitation/create", "Who?")]
        with pytest.raises(McpError) as e:
            await client.call("fails")
        assert (e.value.code, e.value.message, e.value.data) == (-31042, "exactly", {"a": 1})
        await client.call("more")
        assert await client.notification("notifications/tools/list_changed")
        assert "new" in [tool["name"] for tool in (await client.request("tools/list"))["tools"]]
    assert "it adds" in client.log


async def test_a_client_without_input_capabilities(program: list[str]) -> None:
    async with start(program, capabilities={}) as client:
        assert "Ask the user yourself: 'Who?'" in await client.call("ask")


async def test_a_failed_start_has_its_reason(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("raise SystemExit('no luck')")
    with pytest.raises((McpError, ConnectionError), match="no luck"):
        async with start([sys.executable, "tools.py"], cwd=tmp_path):
            pass
    with pytest.raises(FileNotFoundError, match="MCPBRIDGE_BIN"):
        async with start(["true"], bridge="/nowhere/mcpbridge"):
            pass


def accept(method: str, params: Any) -> Any:
    return {"action": "accept", "content": {"value": "Ada" if params["message"] == "Name?" else True}}


async def until(client: Client, task_id: str, **members: str) -> None:
    """Requests the task until it has these members."""

    async def request() -> None:
        while not members.items() <= (await client.request("tasks/get", {"taskId": task_id})).items():
            pass

    await asyncio.wait_for(request(), 30)


async def test_a_task_is_kept_by_the_bridge(program: list[str]) -> None:
    async with start(program, answer=accept) as client:
        task = (await client.request("tools/call", {"name": "report", "arguments": {}, "task": {}}))["task"]
        await until(client, task["taskId"], status="input_required")
        result = asyncio.create_task(client.request("tasks/result", {"taskId": task["taskId"]}))
        await until(client, task["taskId"], status="working", statusMessage="reading")
        await client.call("finish")
        assert (await result)["content"] == [{"type": "text", "text": "of Ada"}]
        tools = {t["name"]: t.get("execution") for t in (await client.request("tools/list"))["tools"]}
        assert tools["report"] == {"taskSupport": "optional"}
        assert tools["add"] is None


async def test_a_tool_starts_its_task(program: list[str]) -> None:
    async with start(program, answer=accept) as client:
        with pytest.raises(McpError, match="as a task only"):
            await client.call("later")
        created = await client.request("tools/call", {"name": "later", "arguments": {}, "task": {}})
        result = await client.request("tasks/result", {"taskId": created["task"]["taskId"]})
        assert result["content"] == [{"type": "text", "text": "for Ada"}]
