"""The commands for authors in a clone, against a real bot: what they print, and how they end."""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bot.cli.console import ExitCode
from bot.cli.main import main
from github_emulator import PullRequestOptions
from queue_engine.domain.facts import Permission
from queue_engine.store.departures import CheckCount, day_of
from tests.acceptance.callers import Caller, caller
from tests.acceptance.choosing import configure
from tests.acceptance.world import CI_TIME, LABEL, REPOSITORY, World
from tests.support.clones import PersonsClone, clone_of

pytestmark = pytest.mark.process

_BOT = re.compile(r"^\[(?:debug|info|warning)\] .*\n", re.MULTILINE)
"""Lines of the bot, which is in the same process here."""


@dataclass(frozen=True)
class Output:
    """What a command printed: both streams, and each of them."""

    output: str
    stdout: str
    stderr: str


@dataclass
class Author:
    """Mona in her clone, logged in by a token in the environment."""

    world: World
    clone: PersonsClone
    environ: dict[str, str]

    async def imq(self, *arguments: str, code: ExitCode = ExitCode.DONE, **environ: str) -> Output:
        """Run a command, and compare its exit code."""
        runner = CliRunner(env={**self.environ, **environ})
        result = await asyncio.to_thread(runner.invoke, main, list(arguments), catch_exceptions=False)
        assert result.exit_code == code, result.output
        return Output(*(_BOT.sub("", text) for text in (result.output, result.stdout, result.stderr)))

    def pull(self, name: str = "add") -> Any:
        """Open a pull request, and check its branch out."""
        pull = self.world.open(name)
        self.clone.fetch(name)
        return pull


@pytest.fixture
def author(world: World, mona: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Author:
    origin = f"{world.server.url}/{REPOSITORY}.git"
    clone = clone_of(world.github, REPOSITORY, tmp_path / "clone", origin=origin)
    monkeypatch.chdir(clone.folder)
    url = f"http://127.0.0.1:{world.runner.addresses[0][1]}"
    monkeypatch.setenv("HOME", str(clone.folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return Author(world, clone, {"IMQ_URL": url, "IMQ_TOKEN": str(mona.token), "XDG_CONFIG_HOME": str(tmp_path)})


async def test_author_lands_the_branch_that_is_checked_out(author: Author) -> None:
    """No number, no label and no browser: the same queue, with the head that the author has."""
    pull = author.pull()
    await author.world.settle()
    result = await author.imq("land")
    assert result.output == (
        f"Queued: {REPOSITORY}#{pull.number} is at position 1 in the queue for main, head {pull.head_sha[:7]}.\n"
    )
    again = await author.imq("land")
    assert again.output.startswith(f"Already queued: {REPOSITORY}#{pull.number} ")
    await author.world.until(lambda: pull.merged)
    entry = json.loads((await author.imq("why", str(pull.number), "--json")).output)
    assert (entry["state"], entry["outcome"]) == ("not_queued", "landed")


async def test_why_and_status_are_read_by_people(author: Author) -> None:
    """Golden: what an author sees of two queued pull requests."""
    first, second = author.world.open("first"), author.pull("second")
    for pull in (first, second):
        pull.label(LABEL, by="mona")
        await author.world.settle()
    assert (await author.imq("why")).output.splitlines() == [
        f"{REPOSITORY}#{second.number} pending at position 2 for main: "
        "Other pull requests are ahead of it in the queue for main.",
        "  Queued for main by mona at 2026-01-05 09:00 UTC, now at position 2 of 2.",
        f"  Ahead of it: #{first.number}.",
        "  Who has to act: IMQ. Next: Wait: IMQ tests it when it is first.",
    ]
    assert (await author.imq("status")).output.splitlines() == [
        f"{REPOSITORY} main: 2 queued",
        f"  1  #{first.number}  checking  first   mona  waits for ci/test",
        f"  2  #{second.number}  pending   second  mona",
    ]
    one = await author.imq("status", "--branch", "main", "--json")
    assert [each["number"] for each in json.loads(one.output)["entries"]] == [first.number, second.number]


async def test_status_outside_of_a_clone_lists_every_queue_one_may_see(
    author: Author, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call, and hidden repositories are not in it."""
    author.pull().label(LABEL, by="mona")
    author.world.github.create_repository("acme/hidden", files={"a": "a\n"})
    await author.world.settle()
    monkeypatch.chdir(tmp_path)
    assert (await author.imq("status")).output == f"{REPOSITORY} main  1 queued\n"
    assert "is in no git clone" in (await author.imq("why", code=ExitCode.USAGE)).output
    await author.imq("status", "--branch", "main", code=ExitCode.USAGE)


async def test_commits_that_were_not_pushed_are_not_queued_around(author: Author) -> None:
    """The author chooses: push, name a head, or take GitHub's."""
    pull = author.pull()
    local = author.clone.commit()
    result = await author.imq("land", code=ExitCode.USAGE)
    assert f"is at {local[:7]}, but {REPOSITORY}#{pull.number} is at {pull.head_sha[:7]} on GitHub" in result.output
    assert await author.world.entries() == ()
    refused = await author.imq("land", "--head", "HEAD", code=ExitCode.REFUSED)
    assert "another head" in refused.output
    await author.imq("land", "--head", "any")
    assert (await author.world.entries())[0].queued_head == pull.head_sha


async def test_number_of_another_branch_needs_no_checkout(author: Author) -> None:
    """A reviewer lands somebody else's pull request from any branch."""
    pull = author.world.open("theirs")
    author.clone.git("checkout", "--quiet", "main")
    await author.imq("land", str(pull.number))
    assert (await author.world.entries())[0].number == pull.number


async def test_branch_without_a_pull_request_is_explained(author: Author) -> None:
    """Also a detached head, and a folder whose remotes are elsewhere."""
    author.clone.git("checkout", "--quiet", "-b", "new")
    result = await author.imq("land", code=ExitCode.USAGE)
    assert f"{REPOSITORY} has no open pull request of the branch new" in result.output
    author.clone.git("checkout", "--quiet", "--detach")
    assert "No branch is checked out" in (await author.imq("land", code=ExitCode.USAGE)).output
    author.clone.git("remote", "set-url", "origin", "/srv/widgets.git")
    author.clone.git("remote", "remove", "storage")
    assert "No remote of this clone" in (await author.imq("why", code=ExitCode.USAGE)).output


async def test_folder_as_the_only_remote_names_its_repository(author: Author) -> None:
    """As in a clone of the demo's repository; a folder of an unknown name is not taken for one."""
    pull = author.pull()
    author.clone.git("remote", "remove", "origin")
    await author.imq("land")
    assert f"#{pull.number}" in (await author.imq("status")).output
    author.clone.git("remote", "set-url", "storage", "/srv/mirrors/widgets.git")
    assert "that IMQ knows: mirrors/widgets" in (await author.imq("status", code=ExitCode.USAGE)).output


async def test_remotes_are_read_as_git_reads_them(author: Author) -> None:
    """`insteadOf` is followed, and pull requests of a fork are looked for where they are."""
    pull = author.pull()
    author.clone.git("config", f"url.{author.world.server.url}/.insteadOf", "gh:")
    author.clone.git("remote", "set-url", "origin", f"gh:{REPOSITORY}")
    await author.imq("why")
    author.clone.git("remote", "set-url", "origin", f"{author.world.server.url}/fan/widgets.git")
    author.clone.git("remote", "add", "upstream", f"git@127.0.0.1:{REPOSITORY}.git")
    assert "no open pull request of the branch add" in (await author.imq("why", code=ExitCode.USAGE)).output
    author.clone.git("config", "branch.add.pushRemote", "upstream")
    assert f"#{pull.number}" in (await author.imq("why")).output


async def test_pull_request_that_is_not_ready_is_not_reported_as_queued(author: Author) -> None:
    """A draft keeps its label, and the queue has room: so the command does not call it full."""
    draft = author.world.open("idea", options=PullRequestOptions(draft=True))
    result = await author.imq("land", str(draft.number))
    assert result.stdout == (
        f"Not queued yet: {REPOSITORY}#{draft.number} joins the queue for main as soon as it is ready, "
        f"head {draft.head_sha[:7]}.\n"
    )


async def test_refusals_have_their_exit_codes(author: Author, world: World, session: Any) -> None:
    """A pull request that IMQ refuses, a repository that is hidden, a token that is over, and none."""
    await configure(world, "when_not_ready: refuse\n")
    draft = author.world.open("idea", options=PullRequestOptions(draft=True))
    result = await author.imq("land", str(draft.number), "--json", code=ExitCode.REFUSED)
    assert json.loads(result.stdout)["reason"]
    assert "draft" in result.stderr
    hidden = ("-R", "acme/hidden", "why", "1")
    await author.imq(hidden[2], hidden[3], *hidden[:2], code=ExitCode.NOT_ALLOWED)
    wrong = await author.imq("status", code=ExitCode.NOT_ALLOWED, IMQ_TOKEN="imq_wrong")
    assert "imq login http" in wrong.output
    none = await author.imq("status", code=ExitCode.NOT_ALLOWED, IMQ_TOKEN="")
    assert "You are not logged in" in none.output
    lonely = await author.imq("status", code=ExitCode.USAGE, IMQ_URL="")
    assert "IMQ_TOKEN is set without IMQ_URL" in lonely.output
    reader = await caller(world, session, "mona", name="reader", access=Permission.READ)
    await author.imq("land", str(draft.number), code=ExitCode.NOT_ALLOWED, IMQ_TOKEN=str(reader.token))
    away = await author.imq("why", "1", code=ExitCode.UNREACHABLE, IMQ_URL="http://127.0.0.1:1")
    assert "does not answer: connection refused" in away.output


async def test_failing_check_is_shown_with_its_link_and_jobs(author: Author) -> None:
    """The author of an ejected pull request opens the right log at once."""
    pull = author.world.open("bad", files={"numbers.txt": "11\n"})
    author.clone.fetch("bad")
    await author.imq("land")
    await author.world.pass_time(CI_TIME * 8)
    assert await author.world.entries() == ()
    output = (await author.imq("why", str(pull.number))).output
    assert output.startswith(f"{REPOSITORY}#{pull.number} failed: ")
    assert "  failing: ci" in output
    assert ". Next: " in output


async def test_markup_of_a_terminal_in_a_title_is_escaped(author: Author) -> None:
    """A stranger's title controls no terminal."""
    pull = author.world.repository.open_pull_request("\x1b[31mRed\x1b[0m", head="red", by="mona", files={"r": "r\n"})
    pull.label(LABEL, by="mona")
    await author.world.settle()
    output = (await author.imq("status")).output
    assert "\x1b" not in output
    assert "\\u001b[31mRed" in output


async def test_author_reads_flakes_and_the_text_of_an_issue(author: Author) -> None:
    """The figures of a flaky check, and an issue that is ready to file."""
    world, pull = author.world, author.pull()
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    async with world.bot.engine.store.transaction() as tx:
        [queue] = await tx.queues.all()
        day = day_of(world.clock.now())
        counted = [CheckCount("ci/test", 40, 4)]
        await tx.statistics.count_checks(queue.repository.id, queue.base_branch, day, counted, pulls=3)
    shown = await author.imq("flaky")
    assert re.search(r"main +ci/test +fails 6\.\d% of 4\d runs +delayed 3, 0 before", shown.stdout)
    issue = await author.imq("flaky", "ci/test")
    assert issue.stdout.startswith("Flaky check: `ci")
    assert "Failures: 4 in 4" in issue.stdout
    queues = json.loads((await author.imq("flaky", "--json")).stdout)["queues"]
    assert [each["flaky_checks"][0]["failures"] for each in queues] == [4]
    assert (await author.imq("flaky", "gone")).stdout == "No check gone was flaky in the last 30 days.\n"
    await author.imq("flaky", "gone", "--branch", "main", code=ExitCode.NOT_ALLOWED)
