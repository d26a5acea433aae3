"""The commands for authors as processes, against a real `imq run` that is killed meanwhile."""

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import pytest

from bot.cli.console import ExitCode
from tests.acceptance.template import Forked, Template
from tests.acceptance.world import REPOSITORY
from tests.process.processes import Theatre, a_theatre
from tests.process.test_kill import REFUSE
from tests.support.clones import PersonsClone, clone_of
from tests.support.device_page import type_code
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process


@dataclass
class Shell:
    """A person's shell in a clone."""

    clone: PersonsClone
    home: Path
    template: Template
    environ: dict[str, str] = field(default_factory=dict)

    async def start(self, *arguments: str) -> Forked:
        """Start a command."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.environ}
        return await self.template.fork_piped(arguments, environ, self.clone.folder)

    async def imq(self, *arguments: str, code: ExitCode = ExitCode.DONE) -> str:
        """Run a command to its end, compare its exit code, and return what it printed."""
        return await ended(await self.start(*arguments), code)


async def ended(process: Process | Forked, code: ExitCode) -> str:
    """What a command printed until its end."""
    async with asyncio.timeout(LIMIT):
        out, err = await process.communicate()
    assert process.returncode == code, (out.decode(), err.decode())
    return out.decode() + err.decode()


async def line(process: Forked, pattern: str) -> re.Match[str]:
    """The next line with this pattern."""
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT):
        while content := await process.stdout.readline():
            if found := re.search(pattern, content.decode()):
                return found
    raise AssertionError(f"no line has {pattern}")


async def log_in(theatre: Theatre, shell: Shell) -> None:
    """Log in as mona: start the command, and type its code on GitHub's page."""
    theatre.server.authorization.visitor = "mona"
    process = await shell.start("login", f"http://127.0.0.1:{theatre.port}")
    code = await line(process, r"Open (\S+) and type this code: (\S+)")
    async with aiohttp.ClientSession() as session:
        await type_code(session, code[1], code[2])
    printed = await ended(process, ExitCode.DONE)
    assert f"Logged in to http://127.0.0.1:{theatre.port} as mona" in printed


@asynccontextmanager
async def logged_in(tmp_path: Path) -> AsyncIterator[tuple[Theatre, Shell]]:
    """A running bot, and the shell of an author who has logged in."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        theatre.repository.push("main", REFUSE, "Refuse red heads", by="rhea")
        for app in theatre.github.state.apps.values():
            app.device_flow = True
        theatre.github.device_codes.interval = 1
        await theatre.start()
        origin = f"{theatre.server.url}/{REPOSITORY}.git"
        clone = clone_of(theatre.github, REPOSITORY, tmp_path / "clone", origin=origin)
        shell = Shell(clone, tmp_path / "home", theatre.template)
        await log_in(theatre, shell)
        yield theatre, shell


async def test_author_logs_in_and_lands_through_a_restart_of_the_server(tmp_path: Path) -> None:
    """From the login to the merge without a browser on IMQ; no output has a token."""
    async with logged_in(tmp_path) as (theatre, shell):
        stored = shell.home / ".config" / "imq" / "logins.json"
        (login,) = json.loads(stored.read_text())["logins"]
        assert (login["login"], stored.stat().st_mode & 0o777) == ("mona", 0o600)

        pull = theatre.repository.open_pull_request("Add", head="add", by="mona", files={"add.py": "add\n"})
        shell.clone.fetch("add")
        landing = await shell.start("land", "--wait")
        await line(landing, "Queued: ")
        theatre.kill("while the author waits")
        await theatre.until(lambda: bool(pull.merged))
        printed = await ended(landing, ExitCode.DONE)
        assert f"{REPOSITORY}#{pull.number} landed: " in printed

        shell.clone.fetch("main")
        exported = await replace(shell, environ=theatre.environment).imq("landings", "export")
        (tmp_path / "bundle.jsonl").write_text(exported)
        offline = ("--bundle", str(tmp_path / "bundle.jsonl"), "--server", f"http://127.0.0.1:{theatre.port}")
        verified = await shell.imq("verify", "main~1..main", *offline)
        assert verified == "1 landing of acme/widgets: 1 proved.\n"

        bad = theatre.repository.open_pull_request("Bad", head="bad", by="mona", files={"numbers.txt": "11\n"})
        shell.clone.fetch("bad")
        ejected = await shell.imq("land", "--wait", code=ExitCode.FAILED)
        assert f"{REPOSITORY}#{bad.number} failed: " in ejected
        assert "failing: " in ejected

        assert login["token"] not in printed + ejected + await shell.imq("status") + theatre.log.read_text()
        assert "Logged out" in await shell.imq("logout")
        assert "You are not logged in" in await shell.imq("status", code=ExitCode.NOT_ALLOWED)
        shell.environ = {"IMQ_URL": login["url"], "IMQ_TOKEN": login["token"]}
        assert "unknown, expired or revoked" in await shell.imq("status", code=ExitCode.NOT_ALLOWED)


@pytest.mark.thorough
async def test_author_lands_several_pull_requests_by_one_command(tmp_path: Path) -> None:
    """They are queued in the order given, each has a line, and the first that does not land decides the exit code."""
    async with logged_in(tmp_path) as (theatre, shell):
        pulls = [
            theatre.repository.open_pull_request(f"Add {name}", head=name, by="mona", files={name: name})
            for name in ("one", "two")
        ]
        bad = theatre.repository.open_pull_request("Bad", head="bad", by="mona", files={"numbers.txt": "11\n"})
        numbers = [str(each.number) for each in (pulls[1], bad, pulls[0])]
        printed = await shell.imq("land", *numbers, "9999", "--wait", code=ExitCode.FAILED)
        for each in pulls:
            assert each.merged
            assert f"{REPOSITORY}#{each.number} landed: " in printed
        assert f"{REPOSITORY}#{bad.number} failed: " in printed
        assert f"{REPOSITORY}#9999 not queued: " in printed
        refused = await shell.imq("land", *numbers, "--json", code=ExitCode.REFUSED)
        answered, _ = json.JSONDecoder().raw_decode(refused)
        assert [each["number"] for each in answered["results"]] == [int(each) for each in numbers]


@pytest.mark.thorough
async def test_author_who_stops_waiting_leaves_the_pull_request_queued(tmp_path: Path) -> None:
    """Ctrl-C says so, and has the exit code that shells use for it."""
    async with logged_in(tmp_path) as (theatre, shell):
        theatre.repository.protect("main", required_checks=["never"], by="rhea")
        pull = theatre.repository.open_pull_request("Add", head="add", by="mona", files={"add.py": "add\n"})
        shell.clone.fetch("add")
        landing = await shell.start("land", "--wait")
        await line(landing, " checking ")
        landing.send_signal(signal.SIGINT)
        assert f"#{pull.number} stays queued" in await ended(landing, ExitCode.INTERRUPTED)
        assert "checking" in await shell.imq("why")
        assert "stays queued" in await shell.imq("land", "--wait", "--timeout", "1s", code=ExitCode.TIMED_OUT)
