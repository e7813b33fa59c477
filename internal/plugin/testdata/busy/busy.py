"""Tools that keep the process from answering, each in its own way."""

import ctypes
import os
import sys

from mcpbridge import App

app = App("busy", version="1")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@app.tool
async def blocked(fifo: str) -> str:
    """Blocks the event loop until something is written to a FIFO."""
    say("blocked begins")
    with open(fifo) as f:
        f.read()
    return "blocked"


@app.tool
def held(fifo: str) -> str:
    """Holds the GIL until then, as a catastrophic regular expression does."""
    say("held begins")
    libc = ctypes.PyDLL(None)
    libc.read(libc.open(fifo.encode(), os.O_RDONLY), ctypes.create_string_buffer(1), 1)
    return "held"


@app.tool
async def echo(text: str) -> str:
    """Answers."""
    return text


app.run()
