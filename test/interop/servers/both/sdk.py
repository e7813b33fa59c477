"""A server on the official Python SDK 2.x that supports both eras and asks during a call, as 2025-11-25 does."""

import os

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("both-python")


class Name(BaseModel):
    name: str


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", schema=Name)
    return f"hi {answer.data.name}!" if answer.action == "accept" else f"hi {answer.action}"


@server.tool()
async def think(ctx: Context) -> str:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="What is love?"))
    answer = await ctx.session.create_message(messages=[question], max_tokens=10)
    return f"The model says: {answer.content.text}"


if __name__ == "__main__":
    if port := os.environ.get("PORT"):
        server.run(transport="streamable-http", port=int(port))
    else:
        server.run()
