"""People take back what landed, and land it again, by the API, the pages and the command line: as by `/revert`."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest

from bot.cli.console import ExitCode
from bot.cli.queue_files import audit_lines
from github_emulator import Fault
from tests.acceptance.callers import Caller, caller
from tests.acceptance.commenting import answered, say
from tests.acceptance.page_readers import reader
from tests.acceptance.pull_request_calls import HOME
from tests.acceptance.test_author_commands import Author
from tests.acceptance.test_author_commands import author as author
from tests.acceptance.test_queue_pages import PULLS
from tests.acceptance.train_stage import a_train_world as a_train_stage
from tests.acceptance.world import CI_TIME, LABEL, LAG, REPOSITORY, World, a_world


async def landed(world: World, **more: Any) -> Any:
    """A pull request that has landed."""
    pull = world.open("add", **more)
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    return pull


def pull_of(world: World, number: int) -> Any:
    """The pull request of this number, on GitHub."""
    return world.repository.record.pulls[number]


async def until_merged(world: World, number: int) -> None:
    """Wait until GitHub has merged this one, and IMQ knows."""
    await world.until(lambda: pull_of(world, number).merged)
    await world.settle()


async def test_api_reverts_and_relands_for_those_who_may_by_a_command(
    world: World, session: aiohttp.ClientSession, mona: Caller
) -> None:
    """P2, P4: repeated calls open nothing more; the revert lands as a hotfix, and its change waits for a person."""
    tria = await caller(world, session, "tria")
    pull = await landed(world)
    path = f"{HOME}/pulls/{pull.number}"
    refused = await tria.ask("POST", f"{path}/revert")
    assert (refused.status, refused.body["reason"]) == (403, "label_without_right")
    assert (await mona.ask("POST", f"{path}/reland")).status == 409
    done = await mona.ask("POST", f"{path}/revert")
    revert = done.body["opened"]
    assert (done.status, done.body["queued"], done.body["reason"]) == (200, True, None)
    assert (await mona.ask("POST", f"{path}/revert")).body["opened"] == revert
    assert (await mona.ask("POST", f"{path}/reland")).status == 409, "the revert has not landed"
    await until_merged(world, revert)
    assert (await tria.ask("POST", f"{path}/reland")).status == 403
    again = await mona.ask("POST", f"{path}/reland")
    assert (again.status, again.body["queued"]) == (200, False)
    assert pull_of(world, again.body["opened"]).title == f"Reland: {pull.record.title}"
    waiting = world.open("waiting")
    assert (await mona.ask("POST", f"{HOME}/pulls/{waiting.number}/revert")).status == 409
    lines = [json.loads(line) async for line in audit_lines(world.bot.engine.store, None)]
    logged = [(each["number"], each["by"], each["data"]["revert"]) for each in lines if each["action"] == "reverted"]
    assert logged == [(pull.number, "mona", revert), (revert, "mona", again.body["opened"])]


@pytest.mark.parametrize("way", ["revert", "reland"])
async def test_calls_at_once_open_one_pull_request(world: World, mona: Caller, way: str) -> None:
    """P2: a double click, or two people, or two programs."""
    pull = await landed(world)
    path = f"{HOME}/pulls/{pull.number}"
    if way == "reland":
        await until_merged(world, (await mona.ask("POST", f"{path}/revert")).body["opened"])
    before = len(world.repository.record.pulls)
    calls = asyncio.gather(*(mona.ask("POST", f"{path}/{way}") for _ in range(3)))
    while not calls.done():
        await asyncio.sleep(0)
        if world.clock.sleeping[timedelta(seconds=1)]:
            await world.pass_time(timedelta(seconds=1))
    answers = {(each.status, each.body["opened"], each.body["queued"]) for each in await calls}
    assert len(world.repository.record.pulls) == before + 1
    assert answers == {(200, before + 1, way == "revert")}


@pytest.mark.parametrize("quotes", ["request", "landed"])
async def test_revert_and_reland_of_a_title_that_skips_ci_are_tested(
    tmp_path: Path, quotes: Literal["request", "landed"]
) -> None:
    """P1: no required check would report; whatever GitHub makes of the title, both have CI, and land, also at lag.

    P6: neither mentions anybody.
    """
    async with a_train_stage(tmp_path) as stage:
        world = stage.world
        text = 'merge: {method: squash, title: "{title} (#{number})", body: ""}\n'
        world.repository.push("main", {".github/imq.yml": text}, "Configure", by="rhea")
        world.github.behaviour.revert_quotes = quotes
        pull = stage.open()
        pull.edit_title("Add [skip ci] @tria", by="mona")
        await world.pass_time(CI_TIME * 2)
        pull.label(LABEL, by="mona")
        await world.until(lambda: bool(pull.merged))
        await world.settle()
        git = world.repository.record.git
        assert git.must(world.repository.sha("main")).message == f"Add [skip ci] @\u200btria (#{pull.number})", (
            "as its author wants"
        )
        world.server.lag.between(timedelta(0), 4 * timedelta(seconds=1), seed=4)
        before = len(world.repository.record.pulls)
        await say(world, pull, "/revert", by="mona")
        revert = pull_of(world, before + 1)
        assert (revert.title, await answered(world, pull)) == ('Revert "Add skip-ci @\u200btria"', ["reverted"])
        await until_merged(world, revert.number)
        await say(world, pull, "/reland", by="mona")
        await world.pass_time(CI_TIME * 2)
        world.repository.pull(before + 2).label(LABEL, by="mona")
        await until_merged(world, before + 2)
        assert git.must(world.repository.sha("main")).message == f"Reland: Add skip-ci @\u200btria (#{before + 2})"


async def test_revert_that_github_refuses_or_somebody_pushed_to_says_so(world: World, mona: Caller) -> None:
    """P4, P6: the words of GitHub are quoted; a push to the open revert is consented to by no one."""
    pull = await landed(world)
    path = f"{HOME}/pulls/{pull.number}/revert"
    world.repository.push("main", {"add.py": "changed\n"}, "Change it", by="rhea")
    conflict = await mona.ask("POST", path)
    assert (conflict.status, conflict.body["detail"]) == (422, "This pull request could not be reverted automatically.")
    world.repository.push("main", {"add.py": "add\n"}, "Change it back", by="rhea")
    done = await mona.ask("POST", path)
    other = pull_of(world, done.body["opened"])
    world.repository.push(other.head_branch, {"more.py": "1\n"}, "More", by="rhea")
    await world.settle()
    pushed = await mona.ask("POST", path)
    assert (pushed.body["opened"], pushed.body["queued"], pushed.body["reason"]) == (
        other.number,
        False,
        "head_changed",
    )


@pytest.mark.parametrize(("times", "code"), [(1, "reverted"), (2, "failed")])
async def test_words_of_github_that_explain_nothing_end_a_command_only_if_they_repeat(
    world: World, times: int, code: str
) -> None:
    """P5: no source quotes what GitHub answers about a conflict."""
    pull = await landed(world)
    refused = {"type": "UNPROCESSABLE", "path": ["revertPullRequest"], "message": "Odd"}
    odd = {"data": {"revertPullRequest": None}, "errors": [refused]}
    asks = Fault("fail", when=lambda call: "revertPullRequest" in str(call.body), status=200, body=odd, times=times)
    world.server.faults.add(asks)
    await say(world, pull, "/revert", by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert await answered(world, pull) == [code]
    assert ("Odd" in world.comment(pull)) is (times > 1)


async def test_pages_show_the_buttons_to_those_who_may_and_the_author_relands(world: World) -> None:
    """P4, P6: one path with the command; tria may not queue, but may land her own change again."""
    pull = await landed(world, by=None, fork_of="tria")
    address = f"{PULLS}/{pull.number}"
    async with reader(world, "mona") as mona, reader(world, "tria") as tria:
        buttons = [f"{address}/revert", f"{address}/reland"]
        assert [each for each in buttons if each in (await tria.get(address)).forms] == []
        assert [each for each in buttons if each in (await mona.get(address)).forms] == buttons[:1]
        assert (await tria.post(f"{address}/revert")).status == 409
        page = await mona.post(f"{address}/revert")
        assert "reverts it, and is queued as a hotfix." in page.text
        [revert] = [each.number for each in world.repository.record.pulls.values() if each.title.startswith("Revert")]
        assert f"Reverted by #{revert}" in page.text
        assert (await tria.post(f"{address}/reland")).status == 409
        await until_merged(world, revert)
        assert [each for each in buttons if each in (await mona.get(address)).forms] == buttons[1:]
        assert [each for each in buttons if each in (await tria.get(address)).forms] == buttons[1:]
        assert "has the same change. Queue it once it is ready." in (await tria.post(f"{address}/reland")).text
        assert f"Reland: {pull.record.title}" in [each.title for each in world.repository.record.pulls.values()]


async def test_author_without_the_right_relands_three_times_at_most(
    world: World, session: aiohttp.ClientSession, mona: Caller
) -> None:
    """P5: each opens a pull request, whose CI costs; a repetition opens none, and others may reland all the same."""
    pull = await landed(world, by=None, fork_of="tria")
    path = f"{HOME}/pulls/{pull.number}"
    await until_merged(world, (await mona.ask("POST", f"{path}/revert")).body["opened"])
    tria, opened = await caller(world, session, "tria"), list[int]()
    for _ in range(3):
        if opened:
            world.repository.pull(opened[-1]).close(by="rhea")
        for _ in range(2):
            opened.append((await tria.ask("POST", f"{path}/reland")).body["opened"])
    assert len(set(opened)) == 3
    world.repository.pull(opened[-1]).close(by="rhea")
    refused = await tria.ask("POST", f"{path}/reland")
    assert (refused.status, refused.body["reason"]) == (403, "label_without_right")
    pull.comment("/reland", by="tria")
    await world.settle()
    assert "`/reland` by `tria`" in world.comment(pull)
    assert "was not executed" in world.comment(pull)
    assert (await mona.ask("POST", f"{path}/reland")).body["opened"] not in opened


@pytest.mark.process
async def test_author_reverts_and_relands_by_the_command_line(author: Author) -> None:
    """The same calls, with exit codes that scripts tell apart."""
    world = author.world
    pull = await landed(world)
    number = str(pull.number)
    assert "No revert of" in (await author.imq("reland", number, code=ExitCode.REFUSED)).output
    done = await author.imq("revert", number)
    [revert] = [each.number for each in world.repository.record.pulls.values() if each.title.startswith("Revert")]
    assert done.output == f"{REPOSITORY}#{number}: #{revert} reverts it, and is queued as a hotfix.\n"
    again = json.loads((await author.imq("revert", number, "--json")).output)
    assert (again["opened"], again["queued"]) == (revert, True), "as the skill for agents says: nothing twice"
    waits = ("land", str(revert), "--head", "any")
    assert (await author.imq(*waits)).output.startswith("Already queued: ")
    await until_merged(world, revert)
    entry = json.loads((await author.imq(*waits, "--wait", "--json")).stdout)
    assert entry["outcome"] == "landed", "also if it landed before an agent waits for it"
    other = ("land", str(revert), "--head", "0" * 40, "--wait")
    assert "The pull request is merged." in (await author.imq(*other, code=ExitCode.REFUSED)).output
    again = json.loads((await author.imq("reland", number, "--json")).output)
    assert (again["queued"], pull_of(world, again["opened"]).title) == (False, f"Reland: {pull.record.title}")


async def test_revert_that_reads_do_not_show_yet_is_queued_by_the_second_try(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """P2: at lag the first answer asks the program to try again, and one revert is opened."""
    async with a_world(tmp_path, lag=LAG) as world:
        mona = await caller(world, session)
        pull = await landed(world)
        path = f"{HOME}/pulls/{pull.number}/revert"
        first = await mona.ask("POST", path, key="one")
        await world.pass_time(LAG * 2)
        done = await mona.ask("POST", path, key="one")
        assert (first.status, done.status, done.body["queued"]) == (503, 200, True)
        await until_merged(world, done.body["opened"])


async def test_revert_whose_answer_is_lost_while_lists_lag_is_opened_once(tmp_path: Path) -> None:
    """P2: the next try looks for it only once lists show it."""
    async with a_world(tmp_path, lag=timedelta(seconds=5)) as world:
        pull = await landed(world)
        lost = Fault("apply_then_fail", when=lambda call: "revertPullRequest" in str(call.body), status=502)
        world.server.faults.add(lost)
        await say(world, pull, "/revert", by="mona")
        await world.pass_time(CI_TIME + timedelta(minutes=1))
        assert lost.hits == 1
        assert [each.number for each in world.repository.record.pulls.values()] == [1, 2]
        assert await answered(world, pull) == ["reverted"]
