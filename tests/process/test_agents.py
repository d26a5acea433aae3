"""Coding agents against a real `imq run`: the official client of the protocol, and a command that is killed."""

import json
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from datetime import timedelta
from pathlib import Path

import pytest

from bot.cli.console import ExitCode
from tests.acceptance.template import ROOT
from tests.acceptance.world import REPOSITORY
from tests.process.test_author_commands import ended, line, logged_in

pytestmark = pytest.mark.process

PYTHON = ROOT / ".venv-hosting" / "bin" / "python"
AUTO, LEGACY = "auto", "legacy"
LABELS = "POST /repos/{owner}/{repo}/issues/{number}/labels"


async def test_agents_land_by_the_official_client(tmp_path: Path) -> None:
    """Over HTTP and over standard input and output, by the newest revision and by one with a handshake."""
    if not PYTHON.exists():
        pytest.skip("the client is missing: make hosting")
    async with logged_in(tmp_path) as (theatre, shell):
        token = json.loads((shell.home / ".config" / "imq" / "logins.json").read_text())["logins"][0]["token"]
        by_http = f"http://127.0.0.1:{theatre.port}/mcp"
        by_stdio = ("stdio", sys.executable, "-m", "bot", "mcp")
        environ = {"PATH": str(PYTHON.parent), "HOME": str(shell.home), "PYTHONPATH": str(ROOT)}
        for number, (mode, target) in enumerate(((AUTO, (by_http,)), (LEGACY, (by_http,)), (AUTO, by_stdio))):
            name = f"agent-{number}"
            pull = theatre.repository.open_pull_request(name, head=name, by="mona", files={f"{name}.py": name})
            script = (str(ROOT / "tests" / "process" / "mcp_client.py"), mode, REPOSITORY, name, token, *target)
            agent = await create_subprocess_exec(str(PYTHON), *script, env=environ, stdout=PIPE, stderr=PIPE)
            assert json.loads(await ended(agent, ExitCode.DONE))["outcome"] == "landed"
            assert pull.merged


@pytest.mark.parametrize("trains", ["", "trains: {candidates: pull_request}\n"], ids=["one_by_one", "trains"])
async def test_agents_land_where_reads_lag(tmp_path: Path, trains: str) -> None:
    """By the one command that they need, and by tools over standard input and output, where these can be had."""
    async with logged_in(tmp_path) as (theatre, shell):
        theatre.repository.push("main", {".github/imq.yml": trains, "a.txt": "1\n"}, "Configure IMQ", by="rhea")
        theatre.server.lag.set(timedelta(seconds=2))
        pull = theatre.repository.open_pull_request("Good", head="good", by="mona", files={"good.txt": "1\n"})
        shell.clone.fetch("good")
        printed = await shell.imq("land", "--wait", "--json")
        answer, _ = json.JSONDecoder().raw_decode(printed[printed.index("{") :])
        assert (answer["outcome"], answer["retry_safe"]) == ("landed", False)
        assert theatre.repository.is_ancestor(pull.head_sha, "main")
        if PYTHON.exists():
            token = json.loads((shell.home / ".config" / "imq" / "logins.json").read_text())["logins"][0]["token"]
            environ = {"PATH": str(PYTHON.parent), "HOME": str(shell.home), "PYTHONPATH": str(ROOT)}
            other = theatre.repository.open_pull_request("Tool", head="tool", by="mona", files={"tool.txt": "1\n"})
            client = (str(ROOT / "tests" / "process" / "mcp_client.py"), AUTO, REPOSITORY, "tool", token, "stdio")
            agent = await create_subprocess_exec(
                str(PYTHON), *client, sys.executable, "-m", "bot", "mcp", env=environ, stdout=PIPE, stderr=PIPE
            )
            assert json.loads(await ended(agent, ExitCode.DONE))["outcome"] == "landed"
            assert theatre.repository.is_ancestor(other.head_sha, "main")


async def test_command_that_was_killed_reports_that_the_branch_landed_meanwhile(tmp_path: Path) -> None:
    """P6: the branch has no open pull request then, and the command says that it landed; once, as its key is used."""
    async with logged_in(tmp_path) as (theatre, shell):
        pull = theatre.repository.open_pull_request("Good", head="good", by="mona", files={"good.txt": "1\n"})
        shell.clone.fetch("good")
        begun = await shell.start("land", "--wait")
        await line(begun, "ueued: ")
        begun.kill()
        await begun.wait()
        await theatre.until(lambda: pull.merged)
        reported = await shell.imq("land", "--wait", "--json")
        assert json.JSONDecoder().raw_decode(reported[reported.index("{") :])[0]["outcome"] == "landed"
        assert not any((shell.home / ".config" / "imq" / "landings").iterdir())
        assert "no open pull request" in await shell.imq("land", "--wait", "--json", code=ExitCode.USAGE)


async def test_command_that_was_killed_continues_and_reports_what_happened_meanwhile(tmp_path: Path) -> None:
    """P4: a failure that came meanwhile is reported, and the pull request is not queued again."""
    async with logged_in(tmp_path) as (theatre, shell):
        bad = theatre.repository.open_pull_request("Bad", head="bad", by="mona", files={"numbers.txt": "11\n"})
        shell.clone.fetch("bad")
        begun = await shell.start("land", "--wait", "--head", "any", str(bad.number))
        await line(begun, "ueued: ")
        begun.kill()
        await begun.wait()
        await theatre.until(lambda: any("Removed from the queue" in each.body for each in bad.comments))
        again = ("land", "--wait", "--json", "--head", "any", str(bad.number))
        reported = await shell.imq(*again, code=ExitCode.FAILED)
        answer, _ = json.JSONDecoder().raw_decode(reported[reported.index("{") :])
        assert (answer["outcome"], answer["retry_safe"]) == ("failed", False)
        assert sum(each.template == LABELS for each in theatre.server.requests) == 1
        assert not any((shell.home / ".config" / "imq" / "landings").iterdir())
