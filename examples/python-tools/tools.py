"""Five tools that show what mcpbridge can do. Run them with: mcpbridge run -- python3 tools.py"""

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from mcpbridge import App, Context, Field

app = App("python-tools", version="1.0", instructions="A handful of tools to try mcpbridge with.")


@app.tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@dataclass
class Favourite:
    colour: Literal["red", "green", "blue"]


@app.tool(read_only=True)
async def greet(name: str, ctx: Context) -> str:
    """Greet somebody in their favourite colour, after asking for it.

    Args:
        name: Who to greet.
    """
    answer = await ctx.elicit(f"Hello {name}! What is your favourite colour?", Favourite)
    if answer:
        return f"Hello {name}, here is something {answer.data.colour} for you."
    return f"Hello {name}. You keep your colour to yourself."


@app.tool(read_only=True)
async def countdown(steps: Annotated[int, Field(ge=1, le=100)] = 5, seconds: float = 0.2, *, ctx: Context) -> str:
    """Count down slowly, and say how far it is. It can be cancelled.

    Args:
        steps: Where to start.
        seconds: How long a step takes.
    """
    for done in range(steps):
        await ctx.progress(done, steps, f"{steps - done} ...")
        await asyncio.sleep(seconds)
    await ctx.progress(steps, steps)
    return "Lift-off!"


@app.tool(read_only=True)
def noisy(lines: int = 3, *, ctx: Context) -> str:
    """Print and log. What is printed goes to the bridge's log, what is logged to the client."""
    for i in range(lines):
        print(f"printed line {i}")
        print(f"an error line {i}", file=sys.stderr)
        ctx.log.info(f"logged line {i}")
    ctx.log.warning({"lines": lines}, logger="noisy")
    return "Nothing broke."


@dataclass
class Forecast:
    city: str
    degrees: float
    sky: Literal["clear", "cloudy"]


@app.tool(title="Weather forecast", read_only=True)
def forecast(city: str, units: Literal["metric", "imperial"] = "metric") -> Forecast:
    """Tomorrow's weather, made up.

    Args:
        city: The city's name.
        units: Celsius or Fahrenheit.
    """
    celsius = len(city) * 2.5
    degrees = celsius if units == "metric" else celsius * 9 / 5 + 32
    return Forecast(city, degrees, "clear" if len(city) % 2 else "cloudy")


if __name__ == "__main__":
    app.run()
