"""A server on FastMCP that supports both eras and asks during a call, as 2025-11-25 does."""

import os
from dataclasses import dataclass

from fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent

server = FastMCP("both-fastmcp")


@dataclass
class Name:
    name: str


@server.tool
def echo(text: str) -> str:
    return text


@server.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", response_type=Name)
    return f"hi {answer.data.name}!" if answer.action == "accept" else f"hi {answer.action}"


@server.tool
async def think(ctx: Context) -> str:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="What is love?"))
    answer = await ctx.session.create_message(messages=[question], max_tokens=10)
    return f"The model says: {answer.content.text}"


if __name__ == "__main__":
    if port := os.environ.get("PORT"):
        server.run(transport="http", port=int(port), show_banner=False)
    else:
        server.run(show_banner=False)
