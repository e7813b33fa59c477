"""A client on the official Python SDK 2.3 that calls tools as tasks: `mcp2.py VISITS`; see test/interop/README.md.

The SDK has no functions for tasks, but claims for the results of an extension. It rejects tasks of 2025-11-25.
"""

import asyncio
import json
import sys
from typing import Any, ClassVar, Literal

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension, ResultClaim
from pydantic import ConfigDict, Field

FINAL = ("completed", "failed", "cancelled")


class Created(types.Result):
    """A task as the result of tools/call (2026-07-28)."""

    task_id: str = Field(alias="taskId")
    result_type: Literal["task"] = Field(alias="resultType")


class Tasks(ClientExtension):
    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> tuple[ResultClaim[Any], ...]:
        return (ResultClaim(result_type="task", model=Created, resolve=self.resolve),)

    async def resolve(self, *_: Any) -> types.CallToolResult:
        raise NotImplementedError


class TaskRequest(types.Request[dict[str, Any], str]):
    name_param: ClassVar[str | None] = "taskId"


class AnyResult(types.Result):
    model_config = ConfigDict(extra="allow")


async def send(client: Client, method: str, **params: Any) -> dict[str, Any]:
    result = await client.session.send_request(TaskRequest(method=method, params=params), AnyResult)
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


async def call_tool(client: Client, call: dict[str, Any]) -> dict[str, Any]:
    created = await client.session.call_tool(call["tool"], call["arguments"], allow_claimed=True)
    task_id = created.task_id
    if call.get("cancel"):
        await send(client, "tasks/cancel", taskId=task_id)
    while True:
        task = await send(client, "tasks/get", taskId=task_id)
        if task["status"] in FINAL:
            return {"task": True, "status": task["status"], "result": task.get("result")}
        if task["status"] == "input_required":
            answers = {key: {"action": "accept", "content": call["answer"]} for key in task["inputRequests"]}
            await send(client, "tasks/update", taskId=task_id, inputResponses=answers)
        else:
            await asyncio.sleep(task["pollIntervalMs"] / 1000)


async def visit(url: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    async def elicit(*_: Any) -> types.ElicitResult:
        raise NotImplementedError

    async with Client(url, mode="2026-07-28", elicitation_callback=elicit, extensions=[Tasks()]) as client:
        await client.list_tools()
        outcomes = [await call_tool(client, call) for call in calls]
        unknown = 0
        try:
            await send(client, "tasks/get", taskId="00000000-no-such-task")
        except MCPError as e:
            unknown = e.error.code
        return {"outcomes": outcomes, "unknown": unknown}


async def main(visits: list[dict[str, Any]]) -> None:
    json.dump(await asyncio.gather(*(visit(p["url"], p["calls"]) for p in visits)), sys.stdout)


asyncio.run(main(json.loads(sys.argv[1])))
