"""Adds mcpbridge to a wheel of one platform, if MCPBRIDGE_BINARY is its path and MCPBRIDGE_PLATFORM the platform's tag.

Any other wheel is pure: it has the SDK only.
"""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        binary = os.environ.get("MCPBRIDGE_BINARY")
        if not binary:
            return
        program = "mcpbridge.exe" if binary.endswith(".exe") else "mcpbridge"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['MCPBRIDGE_PLATFORM']}"
        build_data["shared_scripts"][binary] = program
