"""A backend whose tools run as tasks: they report progress, ask, fail, and last until they are canceled."""

import asyncio

from mcpbridge import App, Context, ToolError

app = App("tasks")


@app.tool(task=True)
async def work(text: str, ctx: Context) -> str:
    for step in range(3):
        await ctx.progress(step, 3, f"step {step}")
        await asyncio.sleep(0.05)
    return f"did {text}"


@app.tool(task=True)
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"hi {answer.data['name']}" if answer else "hi"


@app.tool(task=True)
async def fail() -> str:
    raise ToolError("no luck")


@app.tool(task=True)
async def linger() -> str:
    await asyncio.sleep(600)
    return "late"


if __name__ == "__main__":
    app.run()
