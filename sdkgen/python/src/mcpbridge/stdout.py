"""Makes print() safe: stdout has one line for the bridge, the handshake.

All other output, also of C libraries and child processes, goes to stderr, which the bridge logs.
"""

import builtins
import io
import os
import sys
from typing import Any, NoReturn

MANAGED = os.environ.get("MCPBRIDGE_PLUGIN") == "mcpbridge.v1"


def _no_input(*_: Any) -> NoReturn:
    raise RuntimeError('input() is not available; ask the user with ctx.elicit("...", str)')


def _redirect() -> int | None:
    """Redirects fd 1 to stderr and returns the original."""
    if not MANAGED:
        return None
    builtins.input = _no_input
    original = os.dup(1)
    sys.stdout.flush()
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # A pipe is block-buffered by default.
    return original


_original = _redirect()


def write_handshake(line: str) -> None:
    """Writes the handshake to the original stdout in one write, and closes it."""
    if _original is None:
        raise RuntimeError("cannot write the handshake: the bridge did not launch this program")
    os.write(_original, line.encode() + b"\n")
    os.close(_original)
