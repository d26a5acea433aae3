"""`imq mcp` and `imq skill`: what coding agents need to land pull requests in a clone."""

import asyncio
import json
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from bot.cli.author.api_client import WAIT_SECONDS, ApiClient, ConnectionFailed
from bot.cli.author.land import waiting_at_most
from bot.cli.author.session import AuthorCommand, open_session, server_option
from bot.cli.console import ExitCode, echo, stop
from bot.mcp.protocol import INTERNAL_ERROR, ProtocolError, answer, check_version, parse_message
from bot.mcp.tools import LONGEST_WAIT, QUIET_WAIT, ApiCall

_AT_ONCE = 16
"""Messages that are answered at the same time: more than the calls of one person that IMQ lets wait, so that these
delay no other."""
_CANCELLED = "notifications/cancelled"
"""The method by which a client cancels a request (specification of the protocol, "Cancellation")."""
_UNREACHABLE = 503


class McpServer:
    """Answers messages of one client, one a line, by calls of the API; none once its request is cancelled."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._printing = threading.Lock()
        self._cancelled: set[str | int] = set()
        self._left = threading.Event()

    def run(self, lines: Any) -> None:
        """Answer every line, until there are no more."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                for line in lines:
                    if line.strip() and not self._cancels(line):
                        pool.submit(self._answer, line)
            finally:
                self._left.set()

    def _cancels(self, line: str) -> bool:
        """Whether a message cancels a request: read at once, since all threads may wait."""
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            message = json.loads(line) if "cancelled" in line else {}
            if message["method"] == _CANCELLED:
                self._cancelled.add(message["params"]["requestId"])
                return True
        return False

    def _answer(self, line: str) -> None:
        answered = asyncio.run(self._respond(line))
        if answered is not None:
            with self._printing:
                echo(json.dumps(answered))

    async def _respond(self, line: str) -> dict[str, Any] | None:
        try:
            request = parse_message(line)
        except ProtocolError as error:
            return error.answer()
        if request is None or request.id in self._cancelled:
            return None
        clock, skipped = asyncio.get_running_loop().time, 0

        async def send(call: ApiCall) -> tuple[int, Any]:
            nonlocal skipped
            answered = await self._send(call)
            if self._left.is_set() or request.id in self._cancelled:
                # No time is left to wait.
                skipped = LONGEST_WAIT
            return answered

        try:
            check_version(request)
            answered = await answer(request, send, lambda: clock() + skipped)
            return None if request.id in self._cancelled else answered
        except ProtocolError as error:
            return error.answer(request.id)
        except Exception as error:  # Whatever the server answered: without an answer the agent would wait for ever.
            message = f"{self._client.url} answered, but not as IMQ does ({type(error).__name__}: {error})."
            return ProtocolError(INTERNAL_ERROR, message).answer(request.id)

    async def _send(self, call: ApiCall) -> tuple[int, Any]:
        """Make a call; one that changes something is sent again with its key if no answer comes."""
        path = waiting_at_most(call.path, QUIET_WAIT)
        try:
            answered = self._client.insist(call.method, path, call.body, seconds=WAIT_SECONDS)
        except ConnectionFailed as problem:
            return _UNREACHABLE, {"error": str(problem), "retry_safe": True}
        return answered.status, answered.body


@click.command(cls=AuthorCommand)
@server_option
def mcp(server: str | None) -> None:
    """Serve tools for a coding agent over standard input and output (Model Context Protocol).

    The agent acts with your login, or with IMQ_URL and IMQ_TOKEN. IMQ serves the same tools at /mcp.
    """
    session = open_session(server, as_json=True)
    McpServer(session.client).run(sys.stdin)


SKILL = Path(__file__).parent / "skill.md"
"""The skill as `make docs` writes it: skills/imq/SKILL.md of IMQ's repository."""

_FOLDERS = (".claude/skills", ".agents/skills", ".github/skills")
"""Where agents look for the skills of a repository."""
_BEGIN, _END = "<!-- imq: begin -->", "<!-- imq: end -->"
_PARAGRAPH = f"""{_BEGIN}
## Landing pull requests

Pull requests of this repository land through the merge queue IMQ; never merge by hand. After your last push run
`imq land --wait --json`. It ends with code 0 once the pull request landed. Otherwise the JSON on its output says in
`reason` why, in `whose_move` who has to act, and in `next` what to do. Run it again without a change only if
`retry_safe` is true. If it was stopped, run it again: it continues the same wait. Details are in the skill `imq`.
{_END}
"""


@click.group()
def skill() -> None:
    """Teach coding agents to land pull requests by IMQ."""


@skill.command()
@click.option("--folder", "folders", metavar="FOLDER", multiple=True, help="Where the skills of the clone are.")
@click.option("--agents-md", is_flag=True, help="Also write a paragraph into AGENTS.md.")
def install(folders: tuple[str, ...], agents_md: bool) -> None:
    """Write the skill into this folder, for agents that work here; commit what it wrote.

    Without --folder it is written to each folder of skills that exists, or else to .agents/skills.
    """
    chosen = folders or [each for each in _FOLDERS if Path(each).is_dir()] or [_FOLDERS[1]]
    try:
        for folder in chosen:
            written = Path(folder) / "imq" / "SKILL.md"
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(SKILL.read_text(encoding="utf-8"), encoding="utf-8")
            echo(f"Wrote {written}.")
        if agents_md:
            _write_paragraph(Path("AGENTS.md"))
    except (OSError, UnicodeDecodeError) as error:
        stop(ExitCode.USAGE, f"Nothing more was written: {error}.")


def _write_paragraph(path: Path) -> None:
    """Write the paragraph at the end of a file, or in place of an earlier one."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    earlier = re.compile(re.escape(_BEGIN) + r".*?" + re.escape(_END) + r"\n?", re.DOTALL)
    if earlier.search(text):
        text = earlier.sub(lambda _: _PARAGRAPH, text)
    else:
        text = f"{text.rstrip()}\n\n{_PARAGRAPH}".lstrip()
    path.write_text(text, encoding="utf-8")
    echo(f"Wrote a paragraph into {path}.")
