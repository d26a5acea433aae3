"""The guide docs/first-ten-minutes.md, carried out as a person does: a terminal, a browser, the emulator as GitHub."""

import asyncio
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.settings import env_file
from github_emulator import CheckRunFields, CISettings
from tests.acceptance.template import ROOT
from tests.support.browsing import log_in, visiting
from tests.support.documents import read
from tests.support.real_time import LIMIT
from tests.support.relay_server import RelayServer
from tests.support.setup_process import World, world

pytestmark = pytest.mark.process

GUIDE, _, _ = read("docs/first-ten-minutes.md").partition("## The same without GitHub")
HOME, CHANNEL = "http://127.0.0.1:8080", "https://smee.io/CHANNEL"
_WRITES = {
    "POST /repos/{owner}/{repo}/issues/{number}/comments",
    "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}",
}
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(asyncio.Protocol):
    """The screen of one command, which is a terminal of its own."""

    process: asyncio.subprocess.Process

    def __init__(self) -> None:
        self._shown = b""
        self._closed = False
        self._changed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._shown += data
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """No process has the terminal any more, for which Linux answers EIO."""
        self._closed = True
        self._changed.set()

    @property
    def lines(self) -> list[str]:
        """What it shows, without colours."""
        return _ESCAPES.sub("", self._shown.decode(errors="replace")).splitlines()

    async def until(self, words: str) -> str:
        """Return the first line that has these words in order. Raises AssertionError if the command ends without it."""
        wanted = re.compile(".*".join(map(re.escape, words.split())))
        while (found := next(filter(wanted.search, self.lines), None)) is None:
            assert not self._closed, f"no {words!r} in {self.lines}"
            await self._next()
        return found

    async def ended(self) -> int:
        """Wait for the end of the command, and return its exit code."""
        while not self._closed:
            await self._next()
        return await self.process.wait()

    async def _next(self) -> None:
        self._changed.clear()
        async with asyncio.timeout(LIMIT):
            await self._changed.wait()


@asynccontextmanager
async def typed(command: str, folder: Path, environment: Mapping[str, str]) -> AsyncIterator[Terminal]:
    """Type a command into a terminal; it is killed if it still runs at the end of the block."""
    keyboard, screen = pty.openpty()
    transport, terminal = await asyncio.get_running_loop().connect_read_pipe(
        Terminal, os.fdopen(keyboard, "rb", buffering=0)
    )
    terminal.process = process = await asyncio.create_subprocess_shell(
        f"exec {command}", cwd=folder, env=environment, stdin=screen, stdout=screen, stderr=screen
    )
    os.close(screen)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        transport.close()


def commands() -> list[list[tuple[str, str]]]:
    """Return each block of commands of the guide on GitHub, a command with the comment beside it."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.M | re.S)
    lines = [[line.partition("  #") for line in block.splitlines()] for block in blocks]
    return [[(command.strip(), comment.strip()) for command, _, comment in block] for block in lines]


def texts() -> list[list[str]]:
    """Return each block of text in the guide, as its lines."""
    return [block.splitlines() for block in re.findall(r"^```text\n(.*?)^```$", GUIDE, re.M | re.S)]


def headline(comment: str) -> str:
    """Return the first line of a comment without markup, numbers and commits."""
    first = next(line for line in comment.splitlines() if line.strip("> ").startswith("**"))
    return without_figures(first.strip("> *"))


def without_figures(line: str) -> str:
    """Return a line with one sign for each number and commit."""
    return re.sub(r"\b[0-9a-f]{40}\b|\d+", "…", line)


async def written(place: World, *expected: str) -> None:
    """Wait until IMQ has written a comment, or edited one, so that it begins with one of these lines."""
    headlines: set[str] = set()
    async with asyncio.timeout(LIMIT):
        while not headlines.intersection(expected):
            await asyncio.sleep(0.05)  # no-sleep-ok: a real process writes the comment
            writes = (call for call in place.server.requests if call.template in _WRITES and call.status)
            headlines = {headline(call.body["body"]) for call in writes}


@asynccontextmanager
async def surroundings(folder: Path) -> AsyncIterator[tuple[World, RelayServer, dict[str, str]]]:
    """GitHub, the relay, and the environment of a person whose browser is no program of this machine.

    `xdg-open`, which opens a page in the browser, writes its address to the file `opened`.
    """
    programs, relay = folder / "programs", RelayServer()
    programs.mkdir()
    (programs / "xdg-open").write_text(f'#!/bin/sh\necho "$1" > {folder / "opened"}\n')
    (programs / "xdg-open").chmod(0o755)
    await relay.start()
    try:
        async with world(folder, "") as place:
            shell = {
                "HOME": str(folder),
                "PATH": f"{programs}:{os.environ['PATH']}",
                "PYTHONPATH": f"{ROOT}:{os.environ['PYTHONPATH']}",
                "TERM": "xterm",
            }
            settings = {"IMQ_GITHUB_API_URL": place.server.url, "PORT": str(place.port), "IMQ_BIND": "127.0.0.1"}
            yield place, relay, shell | settings
    finally:
        await relay.stop()


@pytest.mark.thorough
async def test_guide_leads_from_nothing_to_a_page_on_which_a_pull_request_lands(tmp_path: Path, browser: str) -> None:
    """Each command runs as the guide has it, and each output that the guide promises appears."""
    ((make, _), (version, _)), ((setup, _),), ((run, _),), ((ready, answer), (doctor, verdict)) = commands()
    log, (request,) = texts()
    tested, landed = map(headline, re.findall(r"^> \*\*.*\*\*$", GUIDE, re.M))
    (before,) = re.findall(r'may also be "(.*?)"', GUIDE.replace("\n", " "))
    work = tmp_path / "imq"
    work.mkdir()
    # The environment of the tests is what `make` sets up; `make packages` holds how.
    assert make == "make"
    (work / ".venv").symlink_to(sys.prefix)
    async with surroundings(tmp_path) as (place, relay, environment), visiting(browser) as visit:
        page, home = visit.page, place.url
        repository = place.github.repository("maintainer/widgets")
        ci = repository.add_ci("test", settings=CISettings(app="ci", finishes=False))
        repository.protect("main", required_checks=[("test", ci.app.id)], strict=True)

        async def output(command: str) -> str:
            async with typed(command.replace(HOME, home), work, environment) as terminal:
                code = await terminal.ended()
                assert code == 0, terminal.lines
            return "\n".join(terminal.lines)

        assert "version" in await output(version)

        async with typed(setup.replace(CHANNEL, relay.url), work, environment) as terminal:
            address = (await terminal.until("Open this page in your browser:")).split()[-1]
            await page.goto(address)
            for _ in range(2):
                await page.get_by_role("button", name="Continue").click()
            await page.get_by_role("button", name="Continue to GitHub").click()
            await page.get_by_role("button", name="Create GitHub App").click()
            await page.get_by_role("link", name="Install the App").click()
            await page.get_by_role("button", name="Install").click()
            assert await terminal.ended() == 0, terminal.lines
        assert (tmp_path / "opened").read_text().strip() == address
        stored = env_file.read(work / ".env")
        assert {"IMQ_SECRET_KEY", "IMQ_PUBLIC_URL"} < stored.keys()
        assert f"Open <{HOME}> and log in" in GUIDE
        assert stored["IMQ_PUBLIC_URL"] == home

        async with typed(run, work, environment) as imq:
            for line in log:
                await imq.until(line.replace("8080", str(place.port)))
            assert await output(ready) == answer
            assert await output(doctor) == verdict

            pull = repository.open_pull_request("Add a widget", head="widget", files={"widget.txt": "One\n"})
            pull.comment(request, by="maintainer")
            await written(place, tested, without_figures(before))

            await log_in(page, home, "maintainer")
            await page.goto(home)
            await page.get_by_role("link", name="maintainer/widgets").first.click()
            await page.locator("#live-status").get_by_text("Live").wait_for()
            await page.locator("main").get_by_role("link", name=f"#{pull.number}").first.wait_for()
            (check,) = (each for each in pull.check_runs if each.app is ci.app)
            place.github.checks.update_run(check, CheckRunFields(conclusion="success"))
            await written(place, landed)
            await page.get_by_role("heading", name="Landed · 1 today").wait_for()
            assert not [line for line in imq.lines if "[warn" in line or "[err" in line]
            assert [line for line in visit.faults() if "favicon" not in line] == []
            imq.process.send_signal(signal.SIGINT)
            assert await imq.ended() == 0, imq.lines
