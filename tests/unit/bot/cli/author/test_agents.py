"""What coding agents need: the skill in a clone, a landing that continues, and calls that are sent again."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner

from bot.cli.author import land
from bot.cli.author.agents import _PARAGRAPH as PARAGRAPH
from bot.cli.author.agents import SKILL as SKILL_OF_PACKAGE
from bot.cli.author.agents import McpServer
from bot.cli.author.api_client import ApiAnswer, ApiClient, ConnectionFailed
from bot.cli.author.land import PendingLanding
from bot.cli.main import main
from bot.mcp.protocol import INTERNAL_ERROR
from tests.support.real_time import LIMIT

SKILL = Path("imq") / "SKILL.md"
SKILL_TEXT = SKILL_OF_PACKAGE.read_text()
QUOTED = re.compile(r"(?:`|^)(imq [^`#\n]+?)\s*(?:`|#|$)", re.MULTILINE)
"""A command line in a text."""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def install(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["skill", "install", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_skill_is_written_where_agents_of_the_clone_read_it(clone: Path) -> None:
    """To each folder of skills that exists, else to the one that several agents read, or where a person says."""
    install()
    assert [each.relative_to(clone) for each in clone.rglob("SKILL.md")] == [Path(".agents/skills") / SKILL]
    for folder in (".claude/skills", ".github/skills"):
        (clone / folder).mkdir(parents=True)
    assert install().count("Wrote ") == 3
    install("--folder", "docs/skills")
    assert "imq land" in (clone / "docs/skills" / SKILL).read_text()


def test_paragraph_in_agents_md_is_renewed_in_its_place(clone: Path) -> None:
    """What people wrote around it stays, however often it is written."""
    file = clone / "AGENTS.md"
    file.write_text("# Agents\n\nRun the tests.\n")
    install("--agents-md")
    first = file.read_text()
    assert first.startswith("# Agents\n\nRun the tests.\n\n<!-- imq: begin -->")
    file.write_text(f"{first}\nBe brief.\n".replace("never merge by hand", "an older text"))
    install("--agents-md")
    assert file.read_text() == f"{first}\nBe brief.\n"


@pytest.mark.parametrize("line", sorted({*QUOTED.findall(SKILL_TEXT), *QUOTED.findall(PARAGRAPH)}))
def test_each_command_that_agents_read_is_one(line: str) -> None:
    """The command line knows it, with all its options."""
    values = {"NUMBER": "7", "OPENED": "8", "URL": "https://imq.example.com"}
    words, command = [values.get(word, word) for word in line.split()[1:]], cast(click.Command, main)
    while isinstance(command, click.Group):
        found, words = command.commands[words[0]], words[1:]
        command = found
    with command.make_context(line, words):
        pass


def test_landing_has_one_key_until_its_outcome_was_printed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pull request, head and server: another of these is another landing."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(clone))
    named: tuple[str, str, dict[str, Any]] = ("https://imq.example", "acme/rocket#7", {"head_sha": "a" * 40})
    key = PendingLanding(*named).key()
    assert PendingLanding(*named).key() == key
    assert PendingLanding(*named[:2], {"head_sha": "b" * 40}).key() != key
    assert PendingLanding("https://other.example", *named[1:]).key() != key
    PendingLanding(*named).forget()
    assert PendingLanding(*named).key() != key


def test_landing_without_a_writable_folder_has_a_new_key(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may have no home: the command works, and cannot continue."""
    (clone / "imq").write_text("a file where the folder would be")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(clone))
    begun = land.PendingLanding("https://imq.example", "acme/rocket#7", {})
    assert begun.key() != begun.key()
    begun.forget()


class Server:
    """Answers no call, or those from an attempt on."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, answers_from: int = 99, status: int = 200, pause: str | None = None
    ) -> None:
        self.keys: list[str | None] = []
        self._status = status
        self._pause = pause
        self._from = answers_from
        monkeypatch.setattr(ApiClient, "call", self._call)
        monkeypatch.setattr(time, "sleep", lambda _: None)

    def _call(self, *_: Any, key: str | None = None, **_more: Any) -> ApiAnswer:
        self.keys.append(key)
        if len(self.keys) < self._from:
            raise ConnectionFailed("https://imq.example does not answer.")
        body = {"error": "it is closed"} if self._status >= 400 else {"number": 7}
        return ApiAnswer(self._status, body, {} if self._pause is None else {"retry-after": self._pause})


def test_call_that_changes_something_is_sent_again_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first attempt may have been carried out."""
    server = Server(monkeypatch, 3)
    assert ApiClient("https://imq.example").insist("POST", "/queue", {}).status == 200
    assert (len(server.keys), len(set(server.keys)), None in server.keys) == (3, 1, False)
    reading = Server(monkeypatch)
    with pytest.raises(ConnectionFailed):
        ApiClient("https://imq.example").insist("GET", "/queue")
    assert len(reading.keys) == 1


@pytest.mark.parametrize(
    ("first", "pause", "lagging", "sent", "status"),
    [
        (503, "2", 3, 4, 200),
        (503, "2", 99, 6, 503),
        (503, "60", 1, 1, 503),
        (503, "soon", 1, 1, 503),
        (503, None, 1, 1, 503),
        (409, "2", 20, 21, 200),
        (409, "2", 99, 31, 409),
        (409, None, 1, 1, 409),
    ],
)
def test_call_that_imq_cannot_answer_yet_is_sent_again_with_its_key(
    monkeypatch: pytest.MonkeyPatch, first: int, pause: str | None, lagging: int, sent: int, status: int
) -> None:
    """GitHub's reads lag for seconds after a push, and a process that died holds a key for its lease; both pass."""
    keys, slept = list[str | None](), list[float]()

    def call(*_: Any, key: str | None = None, **_more: Any) -> ApiAnswer:
        keys.append(key)
        headers = {} if pause is None else {"retry-after": pause}
        return ApiAnswer(first, {}, headers) if len(keys) <= lagging else ApiAnswer(200, {})

    monkeypatch.setattr(ApiClient, "call", call)
    monkeypatch.setattr(time, "sleep", slept.append)
    assert ApiClient("https://imq.example").insist("GET", "/queue").status == status
    assert (len(keys), len(set(keys)), slept) == (sent, 1, [2.0] * (sent - 1))


@pytest.mark.parametrize(("status", "pause", "calls"), [(409, None, 2), (409, "60", 1), (200, None, 1)])
def test_refused_landing_begins_again_with_a_new_key_and_a_stopped_one_with_its_own(
    clone: Path, monkeypatch: pytest.MonkeyPatch, status: int, pause: str | None, calls: int
) -> None:
    """The stored refusal would answer again for a pull request that may be queued by now; a call under way is none."""
    server = Server(monkeypatch, 0, status, pause)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(clone))
    environ = {"IMQ_TOKEN": "imq_secret", "IMQ_URL": "https://imq.example"}
    for _ in range(2):
        CliRunner(env=environ).invoke(main, ["land", "7", "-R", "acme/rocket", "--head", "any", "--wait"])
    assert (len(server.keys), len(set(server.keys))) == (2, calls)


@pytest.mark.parametrize(("tool", "attempts"), [("queue", 3), ("why", 1)])
def test_agent_reads_that_the_server_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tool: str, attempts: int
) -> None:
    """As the result of its call, with the way out, and never as a traceback in the protocol."""
    server = Server(monkeypatch)
    params = {"name": tool, "arguments": {"repository": "acme/rocket", "number": 7}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    McpServer(ApiClient("https://imq.example")).run([json.dumps(call), "", json.dumps(note)])
    (answered,) = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    body = {"error": "https://imq.example does not answer.", "retry_safe": True}
    assert (answered["result"]["isError"], answered["result"]["structuredContent"]) == (True, body)
    assert (len(server.keys), len(set(server.keys))) == (attempts, 1)


def test_agent_gets_an_answer_where_the_server_is_no_imq(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent waits for the answer to each of its messages, and a foreign server may send anything."""
    monkeypatch.setattr(ApiClient, "insist", lambda *_, **__: ApiAnswer(200, ["no object"]))
    params = {"name": "wait", "arguments": {"repository": "acme/rocket", "number": 7}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    McpServer(ApiClient("https://other.example")).run([json.dumps(call)])
    answered = json.loads(capsys.readouterr().out)
    assert (answered["id"], answered["error"]["code"]) == (1, INTERNAL_ERROR)
    assert "https://other.example answered, but not as IMQ does" in answered["error"]["message"]


class WaitingServer:
    """A server at which nothing leaves the queue: each call is one minute, after which the test does something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: Callable[[int], object]) -> None:
        self.paths: list[str] = []
        self._after = after
        monkeypatch.setattr(ApiClient, "insist", self._call)
        monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: 60.0 * len(self.paths))

    def _call(self, method: str, path: str, *_: Any, **_more: Any) -> ApiAnswer:
        self.paths.append(path)
        self._after(len(self.paths))
        return ApiAnswer(200, {"state": "checking"})


def wait_call(seconds: int) -> str:
    params = {"name": "wait", "arguments": {"repository": "acme/rocket", "number": 7, "seconds": seconds}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def cancelled(**params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


def test_tool_that_waits_ends_once_its_request_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would hold a thread for an hour, and a slot of the person. A cancelled request gets no answer."""
    called, read, ended = threading.Event(), threading.Event(), threading.Event()

    def after(calls: int) -> None:
        called.set()
        assert read.wait(LIMIT)

    server, agent = WaitingServer(monkeypatch, after), McpServer(ApiClient("https://imq.example"))
    respond = agent._answer

    def answer(line: str) -> None:
        respond(line)
        ended.set()

    def lines() -> Iterator[str]:
        yield wait_call(3600)
        assert called.wait(LIMIT)
        yield from (cancelled(), cancelled(requestId=[1]), cancelled(requestId=1))
        read.set()
        assert ended.wait(LIMIT)

    monkeypatch.setattr(agent, "_answer", answer)
    agent.run(lines())
    assert server.paths == ["/api/v1/repositories/acme/rocket/pulls/7/queue?wait=60&until=outcome"]
    assert capsys.readouterr().out == ""


def test_tool_that_waits_ends_once_the_client_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`imq mcp` ends within a minute of its input, and not after the hour."""
    agent = McpServer(ApiClient("https://imq.example"))
    server = WaitingServer(monkeypatch, lambda _: agent._left.wait(LIMIT))
    agent.run([wait_call(3600)])
    assert len(server.paths) == 1
    assert json.loads(capsys.readouterr().out)["result"]["structuredContent"] == {"state": "checking"}
