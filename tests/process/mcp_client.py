"""Lands a pull request as an agent does, by the official client of the Model Context Protocol.

`python mcp_client.py MODE REPOSITORY BRANCH TOKEN URL` over HTTP; `... TOKEN stdio COMMAND ARGUMENT...` by a process of
its own. It runs where the library is installed, and prints the last answer of the tool `wait`.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def land(mode: str, repository: str, branch: str, token: str, target: str, *command: str) -> None:
    """Find the pull request of the branch, queue it, and wait until it has left the queue."""
    async with AsyncExitStack() as stack:
        if target == "stdio":
            server = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ))
        else:
            http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=600)
            server = streamable_http_client(target, http_client=await stack.enter_async_context(http))
        client = await stack.enter_async_context(Client(server, mode=mode))
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["find", "queue", "wait", "why", "dequeue", "status"], tools
        found = list[dict[str, Any]]()
        while not found:
            # Until GitHub shows a new one, as the tool says.
            answer = await client.call_tool("find", {"repository": repository, "branch": branch})
            found = answer.structured_content["pulls"]
            await asyncio.sleep(0 if found else 1)
        (pull,) = found
        named = {"repository": repository, "number": pull["number"]}
        queued = await client.call_tool("queue", named | {"head_sha": pull["head_sha"]})
        assert not queued.is_error, queued
        state = {"state": "queued"}
        while state["state"] != "not_queued":
            state = (await client.call_tool("wait", named | {"seconds": 600})).structured_content
        refused = await client.call_tool("queue", named | {"number": 999999})
        assert refused.is_error
        print(json.dumps(state))


asyncio.run(land(*sys.argv[1:]))
