"""The backend without an SDK, behind the real bridge: started by it, and dialled."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpbridge import McpError
from mcpbridge.testing import Client, start

HERE = Path(__file__).parent
BACKEND = [sys.executable, str(HERE / "backend.py")]
os.environ.setdefault("MCPBRIDGE_BIN", str(HERE.parents[1] / "bin" / "mcpbridge"))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generates the stubs as in the README."""
    folder = tmp_path_factory.mktemp("stubs")
    protos = HERE.parents[1] / "proto"
    files = sorted(str(p) for p in protos.glob("mcpbridge/v1/*.proto"))
    protoc = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{protos}",
        f"--python_out={folder}",
        f"--grpc_python_out={folder}",
    ]
    subprocess.run([*protoc, *files], check=True)
    # The SDK is installed where this runs. A package of the same name that comes first hides it.
    (folder / "mcpbridge" / "__init__.py").touch()
    return folder


async def check_client(client: Client) -> None:
    assert await client.call("add", {"a": 2, "b": 40}) == "42"
    result = await client.request("tools/call", {"name": "add", "arguments": {"a": 2}})
    assert result["isError"]  # The bridge validates arguments; the backend does not.
    with pytest.raises(McpError, match="there is no tool 'subtract'"):
        await client.call("subtract")


async def test_the_bridge_starts_it(stubs: Path) -> None:
    async with start(["env", f"PYTHONPATH={stubs}", *BACKEND]) as client:
        await check_client(client)
    assert '"status":"exit status 0"' in client.log


async def test_it_listens_by_itself(stubs: Path, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    environment = {**os.environ, "PYTHONPATH": str(stubs)}
    backend = await asyncio.create_subprocess_exec(*BACKEND, address, env=environment)
    try:
        async with start(address) as client:  # It may be started later: calls wait for it.
            await check_client(client)
        backend.terminate()
        assert await asyncio.wait_for(backend.wait(), 10) == 0
    finally:
        if backend.returncode is None:
            backend.kill()
            await backend.wait()


async def test_the_stubs_of_an_installed_sdk_will_do() -> None:
    async with start(BACKEND) as client:
        await check_client(client)


def test_it_is_short() -> None:
    assert len((HERE / "backend.py").read_text().splitlines()) <= 90
