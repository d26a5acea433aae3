"""`/try` tests a pull request without queueing it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.commands import handler
from queue_engine.commands.commands import CommandRequest
from queue_engine.core.concurrency.request_context import JOB_HOLDER
from queue_engine.domain.notice import Reply, ReplyKind
from queue_engine.executor.cleanup import try_branches
from tests.acceptance.commenting import say
from tests.acceptance.test_forks import from_fork
from tests.acceptance.test_queue_files import move
from tests.acceptance.test_trains_killed import Killer, open_pulls
from tests.acceptance.train_stage import CHECK, WORKFLOW
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.support.databases import MakeUrl

SOON = CI_TIME * 3
MODES = pytest.mark.parametrize("trains", ["off", "{candidates: push}"], ids=["one_by_one", "trains"])
CALLS = """prepare_writes create_branch merge_into open_draft close_pull_request delete_branch cancel_run permission
react pull_request branch_tip branch_rules check_reports branch_pushes workflow_files texts"""
"""What a test asks of GitHub."""
CHECK_RUNS = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta) -> AsyncIterator[World]:
    """A world whose CI tests branches of IMQ."""
    async with a_train_world(tmp_path, lag=lag) as made:
        yield made


def branches(world: World) -> list[str]:
    """The branches of IMQ's own that are there."""
    return [each for each in world.repository.record.git.branches() if each.startswith("imq")]


def results(world: World, pull: Any) -> list[str]:
    """The results that the history in the comment has, oldest first."""
    lines = [line.partition("UTC: ")[2] for line in world.comment(pull).splitlines() if "Tested by /try" in line]
    return [line.partition("`: ")[2] for line in lines]


async def tried(world: World, pull: Any, command: str = "/try", *, by: str = "mona") -> str:
    """What the comment says once the test has ended."""
    await say(world, pull, command, by=by)
    await world.pass_time(SOON)
    return world.comment(pull)


@pytest.mark.lagging
async def test_test_on_the_present_base_shows_what_the_head_alone_does_not(world: World) -> None:
    """P4, P6: one comment with the result; it queues nothing, and leaves no branch."""
    good, bad = await ready(world, "good", "bad", files=[{"good.txt": "1\n"}, {"bad.txt": "5\n"}])
    world.repository.push("main", {"limits.txt": "6\n"}, "Raise the limit", by="rhea")
    await world.pass_time(CI_TIME * 2)
    assert "passed. It queued nothing." in await tried(world, good)
    assert "failed: `ci/test`." in await tried(world, bad)
    assert (good.merged, bad.merged, good.labels, world.spoken(good)) == (False, False, [], 1)
    assert await world.entries() == ()
    assert branches(world) == []


@pytest.mark.lagging
@MODES
async def test_result_stays_in_the_history_when_the_reply_is_gone(tmp_path: Path, lag: timedelta, trains: str) -> None:
    """P6: each result stands once, in order; queueing, another reply and the landing replace the replies alone."""
    async with a_train_world(tmp_path, trains=trains, lag=lag) as world:
        (pull,) = await ready(world, "pull", files=[{"pull.txt": "11\n"}])
        await tried(world, pull)
        assert world.comment(pull).count("Tested by /try") == 1
        tested = [pull.head_sha]
        pull.push({"pull.txt": "1\n"}, by="mona")
        tested.append(pull.head_sha)
        await world.pass_time(CI_TIME * 2)
        await tried(world, pull)
        pull.label(LABEL, by="mona")
        await world.until(lambda: bool(pull.merged))
        await world.settle()
        text = world.comment(pull)
        assert "The test of" not in text
        lines = [line.partition("UTC: ")[2] for line in text.splitlines() if "Tested by /try" in line]
        assert results(world, pull) == ["its checks failed, `ci/test`", "its checks passed"]
        assert all(f": `{sha[:7]}` on `main@" in line for sha, line in zip(tested, lines, strict=True))


@pytest.mark.lagging
async def test_test_on_the_queue_has_all_that_is_queued_before_it(world: World) -> None:
    """The queue's own runs take no account of it."""
    queued, other = await ready(world, "queued", "other", files=[{"queued.txt": "6\n"}, {"other.txt": "5\n"}])
    queue_all([queued])
    await world.pass_time(CI_TIME / 4)
    await say(world, other, "/try queue", by="mona")
    await world.until(lambda: queued.merged, within=CI_TIME * 2)
    await world.pass_time(SOON)
    assert f"+ #{queued.number}` failed" in world.comment(other)


@pytest.mark.lagging
@pytest.mark.parametrize("times", [1, 9])
@pytest.mark.parametrize("route", ["POST /repos/{owner}/{repo}/git/refs", "POST /repos/{owner}/{repo}/merges"])
async def test_words_of_github_that_explain_nothing_end_a_test_only_if_they_repeat(
    world: World, route: str, times: int
) -> None:
    """P5, P6: the reply quotes them then; no branch stays, also where reads do not show it yet."""
    [pull] = await ready(world, "good")
    world.server.faults.add(Fault("fail", route=route, status=422, body={"message": "Odd"}, times=times))
    text = await tried(world, pull)
    assert ("GitHub refused it: Odd" if times > 1 else "passed. It queued nothing.") in text
    assert branches(world) == []


ENDS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "push": ("somebody pushed to the pull request", lambda pull: pull.push({"more.py": "more\n"}, by="mona")),
    "close": ("the pull request was closed", lambda pull: pull.close(by="mona")),
    "merge": ("the pull request was merged", lambda pull: pull.merge(by="rhea")),
    "base": ("somebody changed the base branch", lambda pull: pull.edit_base("develop", by="mona")),
}
"""What people do to a pull request whose test runs, and what its comment says then."""


@pytest.mark.lagging
@MODES
@pytest.mark.parametrize("way", ENDS)
async def test_test_ends_with_what_it_tests(tmp_path: Path, lag: timedelta, trains: str, way: str) -> None:
    """A result for another head would mislead; branches go at once, also where GitHub shows no one's pushes."""
    async with a_train_world(tmp_path, trains=trains, lag=lag) as world:
        world.github.behaviour.activity = "none"
        world.repository.create_branch("develop", "main")
        (pull,) = await ready(world, "pull")
        await say(world, pull, "/try", by="mona")
        await world.pass_time(CI_TIME / 2)
        assert len(branches(world)) == 2
        why, act = ENDS[way]
        act(pull)
        await world.pass_time(timedelta(seconds=30))
        assert branches(world) == []
        await world.pass_time(SOON)
        assert results(world, pull) == [f"no result, `{why}`"]
        assert (pull.merged, await world.entries()) == (way == "merge", ())


@pytest.mark.lagging
@MODES
@pytest.mark.parametrize("way", ["draft", "base"])
async def test_test_goes_on_where_its_object_stays(tmp_path: Path, lag: timedelta, trains: str, way: str) -> None:
    """A draft may be tested, and the reply names the tip on which it passed."""
    async with a_train_world(tmp_path, trains=trains, lag=lag) as world:
        (pull,) = await ready(world, "pull")
        tip = world.repository.sha("main")
        await say(world, pull, "/try", by="mona")
        await world.pass_time(CI_TIME / 3)
        if way == "draft":
            pull.convert_to_draft(by="mona")
        else:
            world.repository.push("main", {"limits.txt": "6\n"}, "Move the base", by="rhea")
        await world.pass_time(SOON)
        assert f"on `main@{tip[:7]}` passed. It queued nothing." in world.comment(pull)
        assert (len(results(world, pull)), branches(world), await world.entries()) == (1, [], ())


@pytest.mark.lagging
@MODES
@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("moved", [False, True])
async def test_label_during_a_test_queues_by_the_rules_of_the_queue_alone(
    tmp_path: Path, lag: timedelta, trains: str, bad: bool, moved: bool
) -> None:
    """P1, P6: the test has one result, whatever comes first, and nothing lands by it."""
    async with a_train_world(tmp_path, trains=trains, lag=lag) as world:
        (pull,) = await ready(world, "pull", files=[{"pull.txt": "5\n"}])
        if moved or bad:
            world.repository.push("main", {"past.txt": "6\n" if bad else "1\n"}, "Move the base", by="rhea")
            await world.pass_time(CI_TIME * 2)
        await say(world, pull, "/try", by="mona")
        pull.label(LABEL, by="mona")
        await world.until(lambda: pull.merged or LABEL not in pull.labels)
        await world.pass_time(SOON)
        assert (pull.merged, branches(world), await world.entries()) == (not bad, [], ())
        assert (len(results(world, pull)), world.spoken(pull)) == (1, 1)
        assert "The result will stand here." not in world.comment(pull)


@pytest.mark.lagging
@MODES
@pytest.mark.parametrize("way", ["label", "close", "push"])
async def test_test_on_the_queue_names_what_it_had_though_that_leaves(
    tmp_path: Path, lag: timedelta, trains: str, way: str
) -> None:
    """P4: its result is about the commit that it names; who leaves the queue meanwhile does not land by it."""
    async with a_train_world(tmp_path, trains=trains, lag=lag) as world:
        queued, pull = await ready(world, "queued", "pull", files=[{"queued.txt": "6\n"}, {"pull.txt": "5\n"}])
        await say(world, queued, "/pause", by="rhea")
        queue_all([queued])
        await world.pass_time(timedelta(seconds=20))
        await say(world, pull, "/try queue", by="rhea" if way == "label" else "mona")
        act = {
            "label": lambda: queued.unlabel(LABEL, by="mona"),
            "close": lambda: queued.close(by="mona"),
            "push": lambda: queued.push({"more.py": "more\n"}, by="mona"),
        }
        act[way]()
        await world.pass_time(SOON)
        assert f"+ #{queued.number}` failed: `ci/test`" in world.comment(pull)
        assert (len(results(world, pull)), branches(world), queued.merged) == (1, [], False)


@pytest.mark.lagging
@MODES
async def test_two_people_test_at_one_instant(tmp_path: Path, lag: timedelta, trains: str) -> None:
    """P6: one test of a pull request at a time; tests of two run beside each other, and each has its own result."""
    async with a_train_world(tmp_path, trains=trains, lag=lag) as world:
        good, bad = await ready(world, "good", "bad", files=[{"good.txt": "1\n"}, {"bad.txt": "11\n"}])
        for pull, by in ((good, "mona"), (bad, "rhea"), (good, "rhea")):
            pull.comment("/try", by=by)
        await world.pass_time(CI_TIME / 2)
        assert "a test of it is under way" in world.comment(good)
        await world.pass_time(SOON)
        assert "passed. It queued nothing." in world.comment(good)
        assert "failed: `ci/test`." in world.comment(bad)
        assert [len(results(world, pull)) for pull in (good, bad)] == [1, 1]
        assert branches(world) == []


@pytest.mark.lagging
@MODES
@pytest.mark.parametrize("webhook", [True, False])
async def test_test_ends_in_a_repository_that_is_renamed_meanwhile(
    tmp_path: Path, lag: timedelta, trains: str, webhook: bool
) -> None:
    """P2, P6: GitHub redirects reads alone, so its draft and its branches go by the new name."""
    async with a_train_world(tmp_path, trains=trains, lag=lag) as world:
        (pull,) = await ready(world, "pull")
        await say(world, pull, "/try", by="mona")
        await world.pass_time(CI_TIME / 3)
        world.repository.rename("gadgets", by="acme", webhook=webhook)
        await world.pass_time(SOON if webhook else timedelta(minutes=40))
        assert "passed. It queued nothing." in world.comment(pull)
        assert branches(world) == []


@pytest.mark.lagging
async def test_test_of_one_that_is_queued_meanwhile_ends_at_the_update_of_imq(tmp_path: Path, lag: timedelta) -> None:
    """P6: the comment announces the result until then, and blames no person."""
    async with a_train_world(tmp_path, trains="off", lag=lag) as world:
        (pull,) = await ready(world, "pull")
        world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
        await world.pass_time(CI_TIME * 2)
        await say(world, pull, "/pause", by="rhea")
        await say(world, pull, "/try", by="mona")
        pull.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=30))
        assert "The result will stand here." in world.comment(pull)
        await say(world, pull, "/resume", by="rhea")
        await world.pass_time(timedelta(seconds=10))
        assert branches(world) == []
        async with world.bot.engine.store.reading() as tx:
            answer = await tx.answers.find(world.repository.record.id, pull.number, comment_id=pull.comments[-2].id)
        assert answer is not None
        assert answer.replies[0].facts["detail"] == "IMQ updated the branch, since it is queued"
        await world.until(lambda: bool(pull.merged))


async def test_person_without_the_right_or_with_two_tests_gets_none(world: World) -> None:
    """P4, P7: each reads why."""
    pulls = await ready(world, "one", "two", "three")
    before = commits_tested(world)
    assert "needs the role" in await tried(world, pulls[0], by="tria")
    for pull in pulls:
        pull.comment("/try", by="mona")
    await say(world, pulls[0], "/try", by="rhea")
    assert "which is the limit" in world.comment(pulls[2])
    assert "a test of it is under way" in world.comment(pulls[0])
    await world.pass_time(SOON)
    assert commits_tested(world) == before + 2
    assert "passed. It queued nothing." in world.comment(pulls[0])


@pytest.mark.parametrize("at", ["building", "built", "testing"])
async def test_killed_process_continues_the_test(world: World, at: str) -> None:
    """P2: each step may be repeated; the one comment has one result."""
    (pull,) = await ready(world, "pull")
    if at == "built":
        # The branches are there, and no record of them.
        for branch in try_branches("main", pull.number):
            world.repository.create_branch(branch, "main", by="imq[bot]")
    await say(world, pull, "/try", by="mona")
    if at == "testing":
        await world.pass_time(CI_TIME / 2)
    await world.kill()
    await world.restart()
    await world.pass_time(SOON)
    assert ("passed. It queued nothing." in world.comment(pull), world.spoken(pull)) == (True, 1)
    assert branches(world) == []


async def try_with_a_kill(world: World, at: int) -> bool:
    """Test a pull request with a kill at this step of the jobs; whether there was such a step."""
    (pull,) = await ready(world, f"pull-{at}")
    killer = Killer(world, at, CALLS.split(), holder=JOB_HOLDER)
    pull.comment("/try", by="mona")
    await world.until(lambda: killer.killed or bool(world.spoken(pull) and results(world, pull)))
    await world.kill()
    await world.restart()
    await world.pass_time(SOON)
    passed = "passed. It queued nothing." in world.comment(pull)
    assert (passed, len(results(world, pull)), world.spoken(pull)) == (True, 1, 1), killer.step
    assert (branches(world), open_pulls(world)[:-1], await world.entries()) == ([], [], ()), killer.step
    pull.close(by="mona")
    return killer.killed


@MODES
@pytest.mark.parametrize("on", ["push", "pull_request"])
async def test_process_killed_at_some_steps_of_a_test_continues_it(tmp_path: Path, trains: str, on: str) -> None:
    """P2, P6: where a draft starts CI, IMQ closes each."""
    async with a_killed_world(tmp_path, trains, on) as world:
        for at in range(5, 60, 9):
            await try_with_a_kill(world, at)


@pytest.mark.long
@MODES
@pytest.mark.parametrize("on", ["push", "pull_request"])
async def test_process_killed_at_every_step_of_a_test_continues_it(tmp_path: Path, trains: str, on: str) -> None:
    """P2, P6: before and after each request of its jobs, and after each commit."""
    async with a_killed_world(tmp_path, trains, on) as world:
        at = 1
        while await try_with_a_kill(world, at):
            at += 1
        assert at > 40


def a_killed_world(directory: Path, trains: str, on: str) -> AbstractAsyncContextManager[World]:
    """A world in which pushes, or pull requests alone, start CI on branches of IMQ."""
    ci = {"on": ("pull_request",), "branches": ("main",)} if on == "pull_request" else {}
    return a_train_world(directory, trains=trains.replace("push", on), ci=ci)


@pytest.mark.parametrize("place", [0, 1])
async def test_branch_that_a_person_made_stays(world: World, place: int) -> None:
    """IMQ deletes what it made itself, and nothing else."""
    (pull,) = await ready(world, "pull")
    theirs = try_branches("main", pull.number)[place]
    tip = world.repository.create_branch(theirs, "main", by="mona")
    assert f"the branch {theirs} exists, and nothing proves that IMQ made it" in await tried(world, pull)
    assert (branches(world), world.repository.sha(theirs)) == ([theirs], tip)


async def test_branch_to_which_a_person_pushed_stays(world: World) -> None:
    """While the test runs, too: its other branch goes."""
    (pull,) = await ready(world, "pull")
    await say(world, pull, "/try", by="mona")
    await world.pass_time(CI_TIME / 2)
    theirs, _ = try_branches("main", pull.number)
    world.repository.push(theirs, {"mine.py": "mine\n"}, "Mine", by="mona")
    await world.pass_time(SOON)
    assert branches(world) == [theirs]


async def test_test_names_the_queued_ones_that_conflict_with_each_other(world: World) -> None:
    """The tried pull request has no part in it."""
    first, second, pull = await ready(world, "first", "second", "pull")
    for each in (first, second):
        each.push({"same.py": f"{each.number}\n"}, by="mona")
    await world.pass_time(SOON)
    await say(world, first, "/pause", by="rhea")
    queue_all([first, second])
    reply = await tried(world, pull, "/try queue")
    assert f"ended without a result: `#{second.number}, which is queued, has a conflict with main@" in reply
    assert f"+ #{first.number}`" in reply
    assert branches(world) == []


async def test_test_continues_in_the_database_that_imports_it(world: World, make_sqlite_url: MakeUrl) -> None:
    """P2, P6: the result comes, and its branches go."""
    queued, pull = await ready(world, "queued", "pull")
    await say(world, queued, "/pause", by="rhea")
    queue_all([queued])
    await say(world, pull, "/try", by="mona")
    await world.pass_time(timedelta(seconds=20))
    assert branches(world)
    await move(world, make_sqlite_url())
    await world.pass_time(SOON)
    assert "passed" in world.comment(pull)
    assert branches(world) == []


async def test_test_without_a_result_ends(tmp_path: Path) -> None:
    """P5: CI that never ends holds no branch."""
    async with a_train_world(tmp_path, more="timeouts: {run: 30m}\n", ci={"finishes": False}) as world:
        (pull,) = await ready(world, "pull")
        await say(world, pull, "/try", by="mona")
        await world.pass_time(timedelta(minutes=45))
        assert "its checks did not end in time" in world.comment(pull)
        assert branches(world) == []


async def test_fork_and_conflict_get_no_test(world: World) -> None:
    """P4: CI on a branch of the repository has secrets that a fork's commits may not have."""
    (pull,) = await ready(world, "pull", files=[{"shared.txt": "1\n"}])
    world.repository.push("main", {"shared.txt": "2\n"}, "Conflict", by="rhea")
    foreign = await from_fork(world, edits=True)
    before = commits_tested(world)
    assert "commits of a fork get no branch of this repository" in await tried(world, foreign)
    assert "ended without a result: `it has a conflict with main@" in await tried(world, pull)
    assert (commits_tested(world), branches(world)) == (before, [])


@pytest.mark.lagging
async def test_result_comes_with_the_report_of_ci(world: World) -> None:
    """P7: few reads of the checks, however long CI takes."""
    (pull,) = await ready(world, "pull")
    before = world.requests(CHECK_RUNS)
    await say(world, pull, "/try", by="mona")
    await world.until(lambda: "passed. It queued nothing." in world.comment(pull), within=SOON)
    suites = world.repository.record.suites_by_sha.values()
    ends = [run.completed_at for of_commit in suites for suite in of_commit for run in suite.runs if run.completed_at]
    assert world.clock.now() - max(ends) <= timedelta(seconds=15)
    assert world.requests(CHECK_RUNS) - before <= 8


async def test_test_where_nothing_starts_ci_says_so(tmp_path: Path) -> None:
    """Its workflow runs on pushes to `main` alone: a test that waits for CI would never end."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        file = f"on: {{push: {{branches: [main]}}}}\njobs: {{{CHECK}: {{runs-on: x, steps: [{{run: make}}]}}}}\n"
        world.repository.push("main", {WORKFLOW: file}, "CI", by="rhea")
        actions = world.github.actions.app(world.repository.record)
        world.repository.protect("main", required_checks=[(CHECK, actions.id)], by="rhea")
        pull = world.open("pull")
        await world.pass_time(CI_TIME)
        assert "ended without a result: `nothing is proved to start CI on a branch of IMQ" in await tried(world, pull)
        assert branches(world) == []


async def test_test_needs_no_trains(tmp_path: Path) -> None:
    """A queue that tests one after the other has the same command."""
    async with a_train_world(tmp_path, trains="off") as world:
        (pull,) = await ready(world, "pull")
        assert "passed. It queued nothing." in await tried(world, pull)
        assert LABEL not in pull.labels


async def test_test_on_the_queue_has_no_commit_of_a_fork(world: World) -> None:
    """CI on a branch of the repository has its secrets: the fork's head is queued, and goes onto no such branch."""
    (own,) = await ready(world, "own")
    stranger = world.open("idea", by=None, fork_of="fan", files={"stolen.py": "print(secrets)\n"})
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    queue_all([stranger])
    await world.pass_time(CI_TIME / 4)
    assert [each.number for each in await world.entries()] == [stranger.number]
    await say(world, own, "/try queue", by="mona")
    await world.pass_time(CI_TIME / 4)
    tests = [each for each in branches(world) if "/try-" in each]
    assert tests
    assert all("stolen.py" not in world.repository.files(each) for each in tests)
    assert f"#{stranger.number}" not in world.comment(own)


async def test_later_command_of_the_comment_keeps_the_result(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: a test that ends before the next command has its reply keeps its result."""
    (pull,) = await ready(world, "pull")
    store, key, queue = world.bot.engine.store, (world.repository.record.id, pull.number), handler.queue

    async def queue_later(context: handler.CommandContext, request: CommandRequest) -> Reply:
        assert context.comment is not None
        async with store.transaction() as tx:
            answer = await tx.answers.find(*key)
            assert answer is not None
            facts = answer.replies[0].facts | {"detail": "it has a conflict"}
            ended = answer.replies[0].model_copy(update={"code": ReplyKind.TRY_ENDED, "facts": facts})
            await tx.answers.put(*key, context.comment, answer.model_copy(update={"replies": (ended,)}))
        return await queue(context, request)

    monkeypatch.setattr(handler, "queue", queue_later)
    await say(world, pull, "/try\n/queue", by="mona")
    async with store.reading() as tx:
        answer = await tx.answers.find(*key)
    assert answer is not None
    assert [each.code for each in answer.replies] == [ReplyKind.TRY_ENDED, ReplyKind.QUEUED]


@pytest.mark.parametrize("hours", [2, 80])
async def test_repository_in_shadow_mode_keeps_a_test_only_until_it_leaves_it(world: World, hours: int) -> None:
    """P2: IMQ writes nothing meanwhile; then it deletes the branches, also when it has forgotten the reply."""
    (pull,) = await ready(world, "pull")
    await say(world, pull, "/try", by="mona")
    await world.pass_time(CI_TIME / 2)
    files = world.repository.files("main")[".github/imq.yml"]
    world.repository.push("main", {".github/imq.yml": f"mode: shadow\n{files}"}, "Watch", by="rhea")
    await world.pass_time(timedelta(hours=hours))
    assert len(branches(world)) == 2
    world.repository.push("main", {".github/imq.yml": files}, "Queue", by="rhea")
    await world.pass_time(timedelta(hours=2))
    assert branches(world) == []


async def test_test_that_lacks_a_permission_at_its_end_leaves_no_branch(world: World) -> None:
    """P5, P6: the comment has the result at once, and the branches go once IMQ may delete them."""
    (pull,) = await ready(world, "pull")
    await say(world, pull, "/try", by="mona")
    await world.pass_time(CI_TIME / 2)
    world.grant("contents", "read")
    await world.pass_time(SOON)
    assert "passed. It queued nothing." in world.comment(pull)
    assert len(branches(world)) == 2
    await say(world, pull, "/try", by="mona")
    await world.pass_time(timedelta(minutes=2))
    assert "under way" not in world.comment(pull)
    assert "needs contents=write" in world.comment(pull), "the true reason"
    world.grant("contents", "write")
    await world.pass_time(timedelta(hours=2))
    assert branches(world) == []
