"""Makes print() safe: the bridge reads one line from our stdout, the handshake.

Everything else that is printed, by C libraries and child processes too, goes to stderr, which the bridge takes for log.
"""

import builtins
import io
import os
import sys
from typing import Any, NoReturn

MANAGED = os.environ.get("MCPBRIDGE_PLUGIN") == "mcpbridge.v1"


def _no_input(*_: Any) -> NoReturn:
    raise RuntimeError('nobody can answer input() here; ask the user with ctx.elicit("...", str)')


def _take() -> int | None:
    """Points fd 1 at stderr and returns what it was."""
    if not MANAGED:
        return None
    builtins.input = _no_input
    real = os.dup(1)
    sys.stdout.flush()
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # A pipe would hold the lines back until the process ends.
    return real


_real = _take()


def write_handshake(line: str) -> None:
    """Writes the handshake to the real stdout, in one piece, and closes it: nothing else is ever written there."""
    if _real is None:
        raise RuntimeError("there is no bridge to shake hands with")
    os.write(_real, line.encode() + b"\n")
    os.close(_real)
