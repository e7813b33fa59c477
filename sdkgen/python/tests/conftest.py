"""Tests with the real bridge use the one that `make build` built, unless MCPBRIDGE_BIN is set."""

import os
from pathlib import Path

os.environ.setdefault("MCPBRIDGE_BIN", str(Path(__file__).parents[3] / "bin" / "mcpbridge"))
