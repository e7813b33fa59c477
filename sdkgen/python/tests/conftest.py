"""Tests with the real bridge take the one that `make build` has built, unless somebody says which."""

import os
from pathlib import Path

os.environ.setdefault("MCPBRIDGE_BIN", str(Path(__file__).parents[3] / "bin" / "mcpbridge"))
