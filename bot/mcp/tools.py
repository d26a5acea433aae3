"""The tools that agents get, each with the call of the API that it makes."""

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

API = "/api/v1"
LONGEST_WAIT = 3600
"""Seconds that one call of a tool may wait."""
QUIET_WAIT = 60
"""Seconds that one call of the API may wait where a proxy may be between: many end one that is silent for longer."""
_WAIT = 50
"""Clients of the protocol give up after a minute by default."""

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of the API. A call that is not GET changes something, and gets an Idempotency-Key of its own."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


Send = Callable[[ApiCall], Awaitable[tuple[int, Any]]]
"""Makes a call, and returns the status and the body of its answer."""


class MalformedCall(Exception):
    """The arguments of a tool call do not fit. The message says which, and what is expected."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `properties` are JSON Schemas of its arguments."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: Sequence[str]
    request: Callable[[Arguments], ApiCall]
    reads: bool = True
    waits: bool = False

    def described(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it."""
        hints = {"readOnlyHint": self.reads, "openWorldHint": True}
        if not self.reads:
            hints |= {"destructiveHint": False, "idempotentHint": True}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": dict(self.properties),
                "required": list(self.required),
                "additionalProperties": False,
            },
            "annotations": hints,
        }

    async def call(self, arguments: Arguments, send: Send, now: Callable[[], float]) -> tuple[int, Any]:
        """Make the call; `now` is the time in seconds. Raises MalformedCall."""
        check_arguments(self, arguments)
        if not self.waits:
            return await send(self.request(arguments))
        return await _until_outcome(self.request(arguments), arguments.get("seconds", _WAIT), send, now)


def check_arguments(tool: Tool, arguments: Arguments) -> None:
    """Compare arguments with the schemas of a tool. Raises MalformedCall."""
    unknown = sorted(set(arguments) - set(tool.properties))
    missing = [name for name in tool.required if name not in arguments]
    if unknown or missing:
        wrong = f"{tool.name} has no argument {unknown[0]}" if unknown else f"{tool.name} needs {missing[0]}"
        raise MalformedCall(f"{wrong}; its arguments are {', '.join(tool.properties)}.")
    for name, value in arguments.items():
        _check(name, value, tool.properties[name])


def _check(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    expected = schema.get("description", "")
    if schema["type"] == "integer":
        whole = isinstance(value, int) and not isinstance(value, bool)
        fits = whole and schema["minimum"] <= value <= schema["maximum"]
    else:
        fits = isinstance(value, str) and re.fullmatch(schema["pattern"], value) is not None
    if not fits:
        raise MalformedCall(f"{name} does not fit: {expected}")


async def _until_outcome(call: ApiCall, seconds: int, send: Send, now: Callable[[], float]) -> tuple[int, Any]:
    """Wait until the pull request has left its queue, or the time is over."""
    ends, left = now() + seconds, seconds
    while True:
        asked = now()
        status, body = await send(ApiCall("GET", f"{call.path}?{urlencode({'wait': left, 'until': 'outcome'})}"))
        left = math.ceil(ends - now())
        # A call that was answered sooner without an outcome met a server that ends, or too many other calls.
        if status != 200 or body["state"] in {"not_queued", "not_ready"} or left < 1 or now() - asked < QUIET_WAIT - 1:
            return status, body


def _repository_path(arguments: Arguments) -> str:
    return f"{API}/repositories/{arguments['repository']}"


def _queue_path(arguments: Arguments) -> str:
    return f"{_repository_path(arguments)}/pulls/{arguments['number']}/queue"


def _find(arguments: Arguments) -> ApiCall:
    return ApiCall("GET", f"{_repository_path(arguments)}/pulls?{urlencode({'head': arguments['branch']})}")


def _queue(arguments: Arguments) -> ApiCall:
    body = {name: arguments[name] for name in ("head_sha", "priority") if name in arguments}
    return ApiCall("POST", _queue_path(arguments), body)


def _why(arguments: Arguments) -> ApiCall:
    return ApiCall("GET", _queue_path(arguments))


def _dequeue(arguments: Arguments) -> ApiCall:
    return ApiCall("DELETE", _queue_path(arguments), {})


def _status(arguments: Arguments) -> ApiCall:
    if "base_branch" not in arguments:
        return ApiCall("GET", f"{_repository_path(arguments)}/queues")
    return ApiCall("GET", f"{_repository_path(arguments)}/branches/{quote(arguments['base_branch'], safe='')}/queue")


_REPOSITORY: Mapping[str, Any] = {
    "type": "string",
    "pattern": r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}",
    "description": "The repository, as OWNER/NAME.",
}
_NUMBER: Mapping[str, Any] = {
    "type": "integer",
    "minimum": 1,
    "maximum": 999_999_999,
    "description": "The number of the pull request.",
}
_BRANCH = r"[^\x00-\x20\x7f~^:?*\[\\]{1,255}"
_PULL: dict[str, Mapping[str, Any]] = {"repository": _REPOSITORY, "number": _NUMBER}

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "find",
            "Find pull requests",
            "Finds the open pull requests of a head branch, with their numbers and head commits. GitHub shows a new "
            "one after some seconds: call again.",
            {
                "repository": _REPOSITORY,
                "branch": {
                    "type": "string",
                    "pattern": rf"(?:[A-Za-z0-9_-]{{1,100}}:)?{_BRANCH}",
                    "description": "The head branch; of a fork, OWNER:BRANCH.",
                },
            },
            ("repository", "branch"),
            _find,
        ),
        Tool(
            "queue",
            "Queue a pull request",
            "Queues a pull request, so that IMQ updates, tests and merges it. Give head_sha, the commit that you "
            "pushed: IMQ then lands that commit or nothing. If it is queued already, nothing changes. Then call wait.",
            _PULL
            | {
                "head_sha": {
                    "type": "string",
                    "pattern": "[0-9a-f]{40}|[0-9a-f]{64}",
                    "description": "The full SHA of the head that may land.",
                },
                "priority": {
                    "type": "string",
                    "pattern": "high|normal|low",
                    "description": "high, normal or low; needs the role maintain.",
                },
            },
            ("repository", "number"),
            _queue,
            reads=False,
        ),
        Tool(
            "wait",
            "Wait for the outcome",
            "Waits until the pull request landed or left the queue, for as many seconds as you give. While state is "
            "not not_queued, call it again; if it is not_ready, do first what next says. Then outcome says what "
            "happened: landed, failed, cancelled or refused; reason says why, whose_move who has to act, and next what "
            "to do. Queue it again without a change only if retry_safe is true.",
            _PULL
            | {
                "seconds": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": LONGEST_WAIT,
                    "description": f"How long to wait, from 1 to {LONGEST_WAIT} s; {_WAIT} if left out, since many "
                    "clients end a call after a minute. If yours lets a call take longer, wait longer in one call: "
                    f"{QUIET_WAIT} s at most over HTTP if it reads no event streams.",
                }
            },
            ("repository", "number"),
            _why,
            waits=True,
        ),
        Tool(
            "why",
            "Show what it waits for",
            "Shows the state of a pull request now: position, what it waits for, who has to act, and the last outcome.",
            _PULL,
            ("repository", "number"),
            _why,
        ),
        Tool(
            "dequeue",
            "Dequeue a pull request",
            "Dequeues a pull request. One whose merge has started may still land: call wait to find out.",
            _PULL,
            ("repository", "number"),
            _dequeue,
            reads=False,
        ),
        Tool(
            "status",
            "Show queues",
            "Shows the queues of a repository; with base_branch the entries of one queue, and what blocks it.",
            {
                "repository": _REPOSITORY,
                "base_branch": {
                    "type": "string",
                    "pattern": _BRANCH,
                    "description": "The base branch whose queue is meant.",
                },
            },
            ("repository",),
            _status,
        ),
    )
}
