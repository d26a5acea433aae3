"""Tools for agents at `/mcp`: the API's handlers and rights, in messages of the Model Context Protocol."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.mcp.protocol import INVALID_PARAMS, LATEST, UNKNOWN_METHOD, UNSUPPORTED_VERSION
from bot.mcp.tools import QUIET_WAIT, TOOLS
from queue_engine.domain.facts import Permission
from tests.acceptance.browsing import HOME, SETTINGS
from tests.acceptance.callers import Caller, caller
from tests.acceptance.test_api_tokens import PAUSE
from tests.acceptance.test_hidden_repositories import HIDDEN, MISSING, hide
from tests.acceptance.train_world import a_train_world
from tests.acceptance.world import LAG, REPOSITORY, World, a_world
from tests.support.real_time import LIMIT

ACCEPTS = {"Accept": "application/json, text/event-stream"}
"""What clients of the protocol have to accept."""
META = {"io.modelcontextprotocol/protocolVersion": LATEST, "io.modelcontextprotocol/clientCapabilities": {}}


class Agent:
    """A client of the revision without sessions, or without `meta` of an earlier one."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def send(self, method: str, params: Any = None, *, meta: Any = META, **headers: str) -> tuple[int, Any]:
        """Send a request; `headers` replace those of the message, and an empty one is left out."""
        params = {**(params or {}), **({} if meta is None else {"_meta": meta})}
        own = {"MCP-Protocol-Version": LATEST, "Mcp-Method": method, "Mcp-Name": str(params.get("name", ""))}
        own = {} if meta is None else {name: value for name, value in own.items() if value}
        sent = {**own, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await self.post({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}, sent)

    async def post(self, message: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Send a message."""
        token = {} if self._caller.token is None else {"Authorization": f"Bearer {self._caller.token}"}
        url = f"http://127.0.0.1:{self._caller.world.runner.addresses[0][1]}/mcp"
        content = message if isinstance(message, bytes) else json.dumps(message).encode()
        sent = {name: value for name, value in {**ACCEPTS, **token, **(headers or {})}.items() if value}
        async with self._caller.session.post(url, data=content, headers=sent) as response:
            assert (response.status == 401) == ("WWW-Authenticate" in response.headers)
            if response.content_type == "text/event-stream":
                return response.status, only_message(await response.text())
            return response.status, await response.json() if response.content_length else None

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool about the repository; the result."""
        arguments = {"repository": REPOSITORY, **arguments}
        status, answered = await self.send("tools/call", {"name": tool, "arguments": arguments})
        assert status == 200, answered
        result = answered["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result


def only_message(stream: str) -> Any:
    """The message that a stream has beside its comments."""
    [event] = [line for line in stream.splitlines() if line.startswith("data: ")]
    return json.loads(event.removeprefix("data: "))


@pytest.fixture
def agent(mona: Caller) -> Agent:
    """An agent with mona's token."""
    return Agent(mona)


@pytest.mark.every_variant
@pytest.mark.thorough
@pytest.mark.parametrize("lag", [timedelta(0), LAG])
@pytest.mark.parametrize("trains", [False, True])
async def test_agent_finds_queues_and_waits_until_it_landed(
    tmp_path: Path, session: aiohttp.ClientSession, lag: timedelta, trains: bool
) -> None:
    """An agent needs three tools from a pushed branch to the outcome; what it reads are the API's answers."""
    async with a_train_world(tmp_path, lag=lag) if trains else a_world(tmp_path, lag=lag) as world:
        agent, pull = Agent(await caller(world, session)), world.open("add")
        await world.settle()
        found = (await agent.call("find", branch="add"))["structuredContent"]["pulls"][0]
        assert (found["number"], found["head_sha"]) == (pull.number, pull.head_sha)
        queued = await agent.call("queue", number=pull.number, head_sha=found["head_sha"])
        assert (queued["isError"], queued["structuredContent"]["position"]) == (False, 0)
        assert (await agent.call("queue", number=pull.number))["isError"] is False
        states = [await waited(world, agent, pull, seconds=60)]
        while states[-1]["state"] != "not_queued":
            states.append(await waited(world, agent, pull))
        assert states[-1]["outcome"] == "landed"
        assert world.repository.is_ancestor(pull.head_sha, "main")
        assert len(states) < 6
        other = world.open("other")
        await world.settle()
        assert (await agent.call("queue", number=other.number))["isError"] is False
        [queue] = (await agent.call("status"))["structuredContent"]["queues"]
        assert (queue["base_branch"], queue["depth"]) == ("main", 1)
        await agent.call("dequeue", number=other.number)
        why = (await agent.call("why", number=other.number))["structuredContent"]
        assert (why["state"], why["outcome"]) == ("not_queued", "cancelled")
        await world.until(lambda: bool(pull.merged))
        await world.settle()


async def waited(world: World, agent: Agent, pull: Any, **arguments: Any) -> Any:
    """The answer of the tool that waits, while time passes."""
    waiting = asyncio.create_task(agent.call("wait", number=pull.number, **arguments))
    await world.until(waiting.done)
    return (await waiting)["structuredContent"]


def hour_of_waiting(mona: Caller, number: int) -> tuple[str, Any, dict[str, str]]:
    """Address, message and headers of a call of the tool, by a client that reads streams."""
    params = {"name": "wait", "arguments": {"repository": REPOSITORY, "number": number, "seconds": 3600}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    headers = {"Authorization": f"Bearer {mona.token}", **ACCEPTS}
    return f"http://127.0.0.1:{mona.world.runner.addresses[0][1]}/mcp", message, headers


async def test_long_wait_is_an_event_of_a_stream(world: World, mona: Caller, agent: Agent) -> None:
    """For a client that reads streams: comments keep the connection open, so that the tool may wait for an hour."""
    pull = world.open("add")
    await agent.call("queue", number=pull.number)
    url, message, headers = hour_of_waiting(mona, pull.number)
    async with mona.session.post(url, json=message, headers=ACCEPTS) as refused:
        assert (refused.status, refused.content_type) == (401, "application/json")
    async with mona.session.post(url, json=message, headers=headers) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        reading = asyncio.ensure_future(response.text())
        await world.until(reading.done)
        answered = only_message(await reading)
    assert (answered["id"], answered["result"]["structuredContent"]["outcome"]) == (7, "landed")


async def test_long_wait_of_a_client_without_streams_takes_a_minute(world: World, mona: Caller, agent: Agent) -> None:
    """Its connection is silent for no longer than proxies allow: the state says that the agent calls again."""
    pull = world.open("add")
    await agent.call("queue", number=pull.number)
    maintainer = await caller(world, mona.session, "rhea")
    assert (await maintainer.ask("POST", PAUSE, body={"reason": "A release"})).status == 200
    url, message, headers = hour_of_waiting(mona, pull.number)
    begun = world.clock.now()
    asking = asyncio.ensure_future(
        mona.session.post(url, json=message, headers=headers | {"Accept": "application/json"})
    )
    await world.until(asking.done)
    async with await asking as response:
        answered = await response.json()
    assert answered["result"]["structuredContent"]["state"] == "pending"
    assert timedelta(seconds=QUIET_WAIT) <= world.clock.now() - begun < timedelta(seconds=10 * QUIET_WAIT)


async def test_long_wait_ends_with_the_process(world: World, mona: Caller, agent: Agent) -> None:
    """A release does not have to wait for it: the stream ends with the state of then, and the agent calls again."""
    pull = world.open("add")
    await agent.call("queue", number=pull.number)
    url, message, headers = hour_of_waiting(mona, pull.number)
    async with mona.session.post(url, json=message, headers=headers) as response, asyncio.timeout(LIMIT):
        while not world.bot.waits.waiting:  # noqa: ASYNC110 - a call of a client is no event here
            await asyncio.sleep(0)
        world.bot.engine.ending.set()
        answered = only_message(await response.text())
    assert (answered["id"], answered["result"]["structuredContent"]["state"]) == (7, "pending")
    assert world.bot.waits.waiting == set()


async def test_agent_shows_and_dequeues(world: World, agent: Agent) -> None:
    """The other tools: why, status with and without a base branch, dequeue."""
    pull = world.open("add")
    await agent.call("queue", number=pull.number)
    assert (await agent.call("why", number=pull.number))["structuredContent"]["state"] == "pending"
    assert [each["base_branch"] for each in (await agent.call("status"))["structuredContent"]["queues"]] == ["main"]
    listed = (await agent.call("status", base_branch="main"))["structuredContent"]["entries"]
    assert [each["number"] for each in listed] == [pull.number]
    assert (await agent.call("dequeue", number=pull.number))["isError"] is False
    assert await world.entries() == ()


async def test_refusal_is_a_result_that_the_model_reads(world: World, agent: Agent) -> None:
    """A refused pull request, and arguments that do not fit, are no errors of the protocol."""
    pull = world.open("add")
    pull.close(by="mona")
    await world.settle()
    refused = await agent.call("queue", number=pull.number)
    assert (refused["isError"], refused["structuredContent"]["reason"]) == (True, "closed")
    assert refused["structuredContent"]["next"]["sentence"]
    for arguments in (
        {},
        {"number": "1"},
        {"number": True},
        {"number": 1, "head": "x"},
        {"number": 1, "head_sha": "x"},
    ):
        wrong = await agent.call("queue", **arguments)
        assert wrong["isError"] is True
        assert "number" in wrong["structuredContent"]["error"] or "head_sha" in wrong["structuredContent"]["error"]


async def test_rights_are_those_of_the_token(world: World, session: aiohttp.ClientSession) -> None:
    """P4: without a token, with a reading one, or as somebody who may not queue, an agent queues nothing."""
    pull = world.open("add")
    status, answered = await Agent(Caller(world, session, None)).send("tools/call", {"name": "queue", "arguments": {}})
    assert (status, answered["error"]["message"].partition(":")[0]) == (401, "Unauthorized")
    assert (await Agent(Caller(world, session, None)).send("tools/list"))[0] == 200
    for login, grant in (("mona", {"access": Permission.READ}), ("tria", {})):
        refused = await Agent(await caller(world, session, login, **grant)).call("queue", number=pull.number)
        assert refused["isError"] is True
    assert await world.entries() == ()


@pytest.mark.thorough
async def test_no_tool_distinguishes_a_hidden_repository_from_a_missing_one(
    world: World, session: aiohttp.ClientSession
) -> None:
    """An agent of somebody without the right reads the same of both, whatever tool it calls."""
    pull = await hide(world)
    stranger = Agent(await caller(world, session, "stranger"))
    named = {"find": {"branch": "change"}, "status": {"base_branch": "operation-dusk"}}
    for tool in TOOLS:
        arguments = named.get(tool, {"number": pull.number})
        hidden, missing = [await stranger.call(tool, **arguments, repository=name) for name in (HIDDEN, MISSING)]
        assert hidden == missing, tool
        assert hidden["isError"] is True


async def test_revision_without_sessions_names_itself_in_each_message(world: World, agent: Agent) -> None:
    """What revision 2026-07-28 demands: discovery, kinds of results, headers that agree, errors and their statuses."""
    _, discovered = await agent.send("server/discover")
    result = discovered["result"]
    assert (result["supportedVersions"][0], result["resultType"], result["capabilities"]) == (
        LATEST,
        "complete",
        {"tools": {}},
    )
    _, listed = await agent.send("tools/list")
    assert [tool["name"] for tool in listed["result"]["tools"]] == list(TOOLS)
    status, unknown = await agent.send("resources/list")
    assert (status, unknown["error"]["code"], unknown["id"]) == (404, UNKNOWN_METHOD, 7)
    later = META | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    status, other = await agent.send("tools/list", meta=later, MCP_Protocol_Version="2099-01-01")
    assert (status, other["error"]["code"]) == (400, UNSUPPORTED_VERSION)
    assert other["error"]["data"] == {"supported": result["supportedVersions"], "requested": "2099-01-01"}
    for headers in ({"Mcp_Method": "tools/call"}, {"Mcp_Method": ""}, {"MCP_Protocol_Version": "2025-11-25"}):
        assert (await agent.send("tools/list", **headers))[0] == 400
    assert (await agent.send("tools/call", {"name": "why", "arguments": {}}, Mcp_Name="queue"))[0] == 400
    lacking = {"io.modelcontextprotocol/protocolVersion": LATEST}
    assert (await agent.send("tools/list", meta=lacking))[1]["error"]["code"] == INVALID_PARAMS
    assert (await agent.send("tools/list", meta=None, MCP_Protocol_Version=LATEST))[0] == 400


async def test_earlier_revisions_begin_by_a_handshake(world: World, agent: Agent) -> None:
    """Clients of 2025 initialize first, and get answers without the fields of the later revision."""
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
    status, begun = await agent.send("initialize", asked, meta=None)
    assert (status, begun["result"]["protocolVersion"]) == (200, "2025-06-18")
    assert await agent.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, None)
    _, listed = await agent.send("tools/list", meta=None)
    assert set(listed["result"]) == {"tools"}
    status, unknown = await agent.send("resources/list", meta=None)
    assert (status, unknown["error"]["code"]) == (200, UNKNOWN_METHOD)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"1", b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', b"[" * 9000]
)
async def test_what_is_no_request_is_refused(world: World, agent: Agent, content: bytes) -> None:
    """Bad input gets an error of JSON-RPC, never a failure of the server."""
    status, answered = await agent.post(content)
    assert (status, answered["id"], answered["error"]["code"] in (-32700, -32600)) == (400, None, True)


async def test_pages_of_other_sites_are_refused(world: World, agent: Agent) -> None:
    """A page that somebody visits can have the browser send requests, but from its own origin."""
    assert (await agent.send("tools/list", Origin="https://elsewhere.example"))[0] == 403
    port = world.runner.addresses[0][1]
    assert (await agent.send("tools/list", Origin=f"http://127.0.0.1:{port}"))[0] == 200
    assert (await agent.send("tools/list", Origin=HOME))[0] == 403


async def test_pages_of_the_public_address_may_call_behind_a_proxy(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """A proxy may pass on another host than the one that browsers see."""
    async with a_world(tmp_path, settings=SETTINGS) as world:
        agent = Agent(Caller(world, session, None))
        assert (await agent.send("tools/list", Origin=HOME))[0] == 200
        assert (await agent.send("tools/list", Origin="https://elsewhere.example"))[0] == 403
