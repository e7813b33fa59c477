"""A client on FastMCP 4 that calls tools as tasks: `fastmcp4.py VISITS`; see test/interop/README.md."""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp_tasks import call_tool_task
from fastmcp_tasks.client import _send_get
from mcp import MCPError


async def call_tool(client: Client, call: dict[str, Any]) -> dict[str, Any]:
    task = await call_tool_task(client, call["tool"], call["arguments"], raise_on_error=False)
    if call.get("cancel"):
        await task.cancel()
        return {"task": True, "status": (await task.wait()).status}
    await task.result()
    status = await task.status()
    return {"task": True, "status": status.status, "result": status.result}


async def visit(url: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}

    async def elicit(*_: Any) -> dict[str, Any]:
        return answer

    async with Client(url, elicitation_handler=elicit) as client:
        await client.list_tools()  # by which the bridge decides which calls become tasks
        outcomes = []
        for call in calls:
            answer = call.get("answer", {})
            outcomes.append(await call_tool(client, call))
        unknown = 0
        try:
            await _send_get(client.session, "00000000-no-such-task")
        except MCPError as e:
            unknown = e.error.code
        return {"outcomes": outcomes, "unknown": unknown}


async def main(visits: list[dict[str, Any]]) -> None:
    json.dump(await asyncio.gather(*(visit(p["url"], p["calls"]) for p in visits)), sys.stdout)


asyncio.run(main(json.loads(sys.argv[1])))
