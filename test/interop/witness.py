"""The tools of examples/python-tools, and some that show what only a backend can observe.

linger reports on stderr that its call was canceled, which the example's countdown does not. learn and forget change the
tools, and offer returns content that old clients do not support.
"""

import asyncio
import importlib.util
import sys
from pathlib import Path

from mcpbridge import App, Audio, Context, v1

EXAMPLE = Path(__file__).parents[2] / "examples" / "python-tools" / "tools.py"


def example() -> App:
    spec = importlib.util.spec_from_file_location("tools", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["tools"] = module
    spec.loader.exec_module(module)
    return module.app


app = example()


@app.tool(read_only=True)
async def linger(ctx: Context) -> str:
    """Wait for the caller to give up."""
    try:
        await ctx.progress(0)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("linger: cancelled", file=sys.stderr, flush=True)
        raise
    return "It was not canceled."


@app.tool(read_only=True)
def offer() -> list[Audio | v1.Resource]:
    """Offer something to listen to, here and elsewhere."""
    return [Audio(b"RIFF"), v1.Resource(uri="https://example.com/song", name="song")]


@app.tool
async def learn() -> str:
    """Learn a trick."""
    app.add_tool(trick)
    return "It takes practice."


@app.tool
async def forget() -> str:
    """Forget the trick."""
    app.remove_tool("trick")
    return "What was it?"


async def trick() -> str:
    """Do what was learned."""
    return "Ta-da!"


if __name__ == "__main__":
    app.run()
