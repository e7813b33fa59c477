"""A server on FastMCP 4 whose tools run as tasks of the extension of 2026-07-28."""

import asyncio
import os
from datetime import timedelta

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

server = FastMCP("tasks-fastmcp")
server.add_extension(TasksExtension())
task = TaskConfig(poll_interval=timedelta(milliseconds=100))


@server.tool(task=task)
async def work(text: str, ctx: Context) -> str:
    for step in range(3):
        await ctx.report_progress(step, 3, f"step {step}")
        await asyncio.sleep(0.05)
    return f"did {text}"


@server.tool(task=task)
async def ask(ctx: Context) -> mcp_types.InputRequiredResult | str:
    if answers := ctx.input_responses:
        return f"hi {answers['who'].content['name']}"
    question = mcp_types.ElicitRequest(
        params=mcp_types.ElicitRequestFormParams(
            message="Who are you?",
            requested_schema={"type": "object", "properties": {"name": {"type": "string"}}},
        )
    )
    return mcp_types.InputRequiredResult(input_requests={"who": question})


@server.tool(task=task)
async def fail() -> str:
    raise ToolError("no luck")


@server.tool(task=task)
async def linger() -> str:
    await asyncio.sleep(600)
    return "late"


if __name__ == "__main__":
    if port := os.environ.get("PORT"):
        server.run(transport="http", port=int(port), show_banner=False)
    else:
        server.run(show_banner=False)
