"""The tools for agents: which calls of the API they make, and which messages the protocol refuses."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bot.mcp.protocol import INVALID_PARAMS, ProtocolError, answer, check_version, parse_message
from bot.mcp.tools import TOOLS, ApiCall

PULL = {"repository": "acme/rocket", "number": 7}
QUEUE = "/api/v1/repositories/acme/rocket/pulls/7/queue"


class Api:
    """Answers calls in order, and lets seconds pass with each."""

    def __init__(self, *answers: Any, seconds: float = 10) -> None:
        self.calls: list[ApiCall] = []
        self._answers, self._seconds = list(answers), seconds

    async def send(self, call: ApiCall) -> tuple[int, Any]:
        self.calls.append(call)
        found = self._answers.pop(0) if self._answers else {}
        return found if isinstance(found, tuple) else (200, found)

    def now(self) -> float:
        return self._seconds * len(self.calls)

    async def ask(self, method: str, params: Any = None) -> Any:
        """The result of a message of an earlier client."""
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {} if params is None else params})
        request = parse_message(text)
        assert request is not None
        check_version(request)
        return (await answer(request, self.send, self.now))["result"]

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    @property
    def paths(self) -> list[str]:
        return [each.path for each in self.calls]


async def test_tools_make_the_calls_of_the_api_that_they_name() -> None:
    """With all arguments that were given, and each part of the path quoted."""
    api, where = Api(), {"repository": "acme/rocket"}
    await api.call("find", **where, branch="mona:fix/typo")
    await api.call("queue", **PULL, head_sha="a" * 40, priority="high")
    await api.call("dequeue", **PULL)
    await api.call("why", **PULL)
    await api.call("status", **where)
    await api.call("status", **where, base_branch="release/1")
    prefix = "/api/v1/repositories/acme/rocket"
    assert api.calls == [
        ApiCall("GET", f"{prefix}/pulls?head=mona%3Afix%2Ftypo"),
        ApiCall("POST", QUEUE, {"head_sha": "a" * 40, "priority": "high"}),
        ApiCall("DELETE", QUEUE, {}),
        ApiCall("GET", QUEUE),
        ApiCall("GET", f"{prefix}/queues"),
        ApiCall("GET", f"{prefix}/branches/release%2F1/queue"),
    ]


def test_tools_that_change_something_say_so() -> None:
    """Clients ask a person before these."""
    described = {name: tool.described()["annotations"]["readOnlyHint"] for name, tool in TOOLS.items()}
    assert {name for name, reads in described.items() if not reads} == {"queue", "dequeue"}


def states(*names: str) -> Sequence[Any]:
    return [{"state": name, "version": version} for version, name in enumerate(names)]


async def test_wait_is_one_call_until_the_pull_request_left() -> None:
    """Changes in between do not answer it. Where a proxy limits a call, another waits for what is left of the time."""
    api = Api(*states("not_queued"))
    assert (await api.call("wait", **PULL, seconds=3600))["structuredContent"]["state"] == "not_queued"
    assert api.paths == [f"{QUEUE}?wait=3600&until=outcome"]
    api = Api(*states("pending", "checking", "not_queued"), seconds=60)
    assert (await api.call("wait", **PULL, seconds=600))["structuredContent"]["state"] == "not_queued"
    assert api.paths == [f"{QUEUE}?wait={left}&until=outcome" for left in (600, 540, 480)]


async def test_wait_ends_with_its_time_or_where_the_server_waited_in_vain() -> None:
    """An agent reads the state and calls again. A server that answers at once is not asked again at once."""
    api = Api(*states(*["pending"] * 9), seconds=50)
    assert (await api.call("wait", **PULL))["structuredContent"]["state"] == "pending"
    assert api.paths == [f"{QUEUE}?wait=50&until=outcome"]
    api = Api(*states(*["pending"] * 9), seconds=1)
    assert (await api.call("wait", **PULL, seconds=600))["structuredContent"]["state"] == "pending"
    assert api.paths == [f"{QUEUE}?wait=600&until=outcome"]
    api = Api(*states("checking", "not_ready", "not_ready"), seconds=60)
    assert (await api.call("wait", **PULL, seconds=600))["structuredContent"]["state"] == "not_ready"
    assert len(api.paths) == 2, "somebody has to act"
    api = Api((503, {"error": "IMQ ends"}))
    assert (await api.call("wait", **PULL))["isError"]


@pytest.mark.parametrize("repository", ["acme", "acme/rocket/../sled", "acme/rocket?x=1", "acme/a b", "acme/a/b"])
async def test_what_is_no_repository_reaches_no_other_path(repository: str) -> None:
    """Of what a model writes only names get into an address."""
    api = Api()
    assert (await api.call("why", repository=repository, number=1))["isError"]
    assert api.calls == []


async def test_handshake_offers_the_newest_earlier_revision_and_instructions() -> None:
    """A client of an unknown revision may still continue, and reads how to land."""
    begun = await Api().ask("initialize", {"protocolVersion": "2024-11-05"})
    assert begun["protocolVersion"] == "2025-11-25"
    assert "Call queue, then wait" in begun["instructions"]
    assert "Call queue, then wait" in (await Api().ask("server/discover"))["instructions"]
    assert await Api().ask("ping") == {}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", []),
        ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": 1}}),
        ("tools/call", {"name": "why", "arguments": [1]}),
        ("tools/call", {"name": "merge", "arguments": {}}),
    ],
)
async def test_params_that_do_not_fit_are_an_error_of_the_protocol(method: str, params: Any) -> None:
    """No failure of the server."""
    with pytest.raises(ProtocolError) as refused:
        await Api().ask(method, params)
    assert refused.value.code == INVALID_PARAMS
