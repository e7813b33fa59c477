"""A client on the official Python SDK 1.30 that calls tools as tasks: `mcp1.py VISITS`; see test/interop/README.md."""

import asyncio
import json
import sys
import warnings
from typing import Any

from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamable_http_client

warnings.filterwarnings("ignore", category=DeprecationWarning)


async def call_tool(session: ClientSession, call: dict[str, Any]) -> dict[str, Any]:
    tasks = session.experimental
    task_id = (await tasks.call_tool_as_task(call["tool"], call["arguments"])).task.taskId
    listed = any(task.taskId == task_id for task in (await tasks.list_tasks()).tasks)
    if call.get("cancel"):
        await tasks.cancel_task(task_id)
    async for task in tasks.poll_task(task_id):
        if task.status == "input_required":
            await tasks.get_task_result(task_id, types.CallToolResult)  # it sends the input requests
    outcome = {"task": True, "listed": listed, "status": task.status}
    if task.status != "cancelled":
        result = await tasks.get_task_result(task_id, types.CallToolResult)
        outcome["result"] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return outcome


async def visit(url: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}

    async def elicit(*_: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=answer)

    async with (
        streamable_http_client(url) as (read, write, _),
        ClientSession(read, write, elicitation_callback=elicit) as session,
    ):
        await session.initialize()
        await session.list_tools()  # by which the bridge decides which calls become tasks
        outcomes = []
        for call in calls:
            answer = call.get("answer", {})
            outcomes.append(await call_tool(session, call))
        unknown = 0
        try:
            await session.experimental.get_task("00000000-no-such-task")
        except McpError as e:
            unknown = e.error.code
        return {"outcomes": outcomes, "unknown": unknown}


async def main(visits: list[dict[str, Any]]) -> None:
    json.dump(await asyncio.gather(*(visit(p["url"], p["calls"]) for p in visits)), sys.stdout)


asyncio.run(main(json.loads(sys.argv[1])))
