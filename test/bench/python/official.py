"""The tool of python_echo.py, served by the official Python SDK over Streamable HTTP, the fastest way it has.

That is JSON answers, no structured content beside the text, and no log. Both eras are served at one address.
"""

import json
import socket
import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("bench", version="1", log_level="ERROR")


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Answer the arguments."""
    return json.dumps({"text": text}, ensure_ascii=False)


if __name__ == "__main__":
    # asyncio disables Nagle's algorithm only for sockets with the protocol TCP; otherwise each response takes 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    app = server.streamable_http_app(json_response=True)
    sys.stderr.write(f"serving http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listening])
