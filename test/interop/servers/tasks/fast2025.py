"""A server on FastMCP 2.14 whose tools run as tasks. Its tools with tasks cannot request input."""

import asyncio
import os

from fastmcp import FastMCP
from fastmcp.dependencies import Progress
from fastmcp.exceptions import ToolError
from fastmcp.server.tasks import TaskConfig

server = FastMCP("tasks-fastmcp-2")


@server.tool(task=TaskConfig(mode="required"))
async def work(text: str, progress: Progress = Progress()) -> str:
    await progress.set_total(3)
    for step in range(3):
        await progress.set_message(f"step {step}")
        await progress.increment()
        await asyncio.sleep(0.05)
    return f"did {text}"


@server.tool(task=True)
async def fail() -> str:
    raise ToolError("no luck")


@server.tool(task=TaskConfig(mode="required"))
async def linger() -> str:
    await asyncio.sleep(600)
    return "late"


if __name__ == "__main__":
    if port := os.environ.get("PORT"):
        server.run(transport="http", port=int(port), show_banner=False)
    else:
        server.run(show_banner=False)
