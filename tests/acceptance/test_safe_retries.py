"""Each reason after which a retry is safe, by its real cause: an agent's one command says so, and lands by a retry."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.cli.author.api_client import Retries
from bot.cli.console import ExitCode
from bot.cli.queue_files import copy
from github_emulator import Fault
from queue_engine.domain.reasons import REASONS, RETRY_REASONS, Outcome, Reason
from tests.acceptance.commenting import say
from tests.acceptance.test_author_commands import Author, Output
from tests.acceptance.test_author_commands import author as author
from tests.acceptance.test_check_outcomes import with_unit
from tests.acceptance.test_restored_backups import restore_later
from tests.acceptance.train_world import CANDIDATES, a_train_world
from tests.acceptance.world import CI_TIME, LABEL, LAG, World

pytestmark = pytest.mark.process

ONE, TRAINS = "off", "{candidates: push}"
End = Callable[[], Awaitable[object]]


def configure(world: World, text: str) -> None:
    """Add lines to the configuration."""
    files = world.repository.files("main")
    world.repository.push("main", {".github/imq.yml": files[".github/imq.yml"] + text}, "Configure", by="rhea")


async def full_queue(world: World, pull: Any) -> End:
    """The queue has room for two, a hotfix goes ahead, and a maintainer pauses the queue."""
    configure(world, "depth: 2\ntimeouts: {hold: 1h}\npriority: {labels: {hotfix: {priority: 1, hotfix: true}}}\n")
    front, hotfix = world.open("front"), world.open("hotfix")
    await world.pass_time(CI_TIME * 2)
    await say(world, front, "/pause", by="rhea")
    front.label(LABEL, by="mona")
    await world.settle()

    def jump() -> None:
        hotfix.label("hotfix", by="rhea")
        hotfix.label(LABEL, by="rhea")

    world.github.schedule.after(timedelta(seconds=20), jump, name="jump")

    async def end() -> None:
        await say(world, front, "/resume", by="rhea")
        await world.until(lambda: front.merged and hotfix.merged)

    return end


async def dead_runners(world: World, _: Any) -> End:
    """The runner dies, and that of the rerun, too."""
    unit = with_unit(world, branches=CANDIDATES)
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    unit.plan = ("timed_out", "timed_out")

    async def end() -> None:
        unit.plan = ()

    return end


async def unknown_mergeability(world: World, pull: Any) -> End:
    """GitHub computes nothing, and refuses the update without a reason."""
    timings, known = world.github.timings, world.github.timings.mergeable
    timings.mergeable = timedelta(days=30)
    route = f"/repos/acme/widgets/pulls/{pull.number}/update-branch"
    world.server.faults.add(Fault("fail", method="PUT", route=route, status=422, times=None))
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()

    async def end() -> None:
        timings.mergeable = known
        world.server.faults.clear()
        world.repository.push("main", {"more.py": "moved\n"}, "Move the base again", by="rhea")

    return end


async def update_that_never_comes(world: World, _: Any) -> End:
    """GitHub accepts the update, and makes none."""
    timings, usual = world.github.timings, world.github.timings.update_branch
    timings.update_branch = timedelta(days=30)
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()

    async def end() -> None:
        timings.update_branch = usual

    return end


async def pushes_to_the_base(world: World, _: Any) -> End:
    """Somebody pushes to the base branch again and again."""
    configure(world, "timeouts: {run: 30m}\n")
    await world.pass_time(CI_TIME * 2)
    names = [f"past-{at}.py" for at in range(25)]

    def push() -> None:
        world.repository.push("main", {names.pop(): "moved\n"}, "Move the base", by="rhea")

    for at in range(len(names)):
        world.github.schedule.after(CI_TIME / 2 * at, push, name="push")
    return lambda: world.pass_time(timedelta(hours=1))


async def github_down(world: World, _: Any) -> End:
    """GitHub answers nothing for more than an hour, while CI tests the pull request."""

    def fail() -> None:
        world.server.faults.add(Fault("fail", status=503, times=None))

    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    world.github.schedule.after(timedelta(seconds=20), fail, name="fails")
    world.github.schedule.after(timedelta(minutes=75), world.server.faults.clear, name="recovers")
    return lambda: world.pass_time(timedelta(minutes=30))


CAUSES: dict[tuple[Reason, str], Callable[[World, Any], Awaitable[End]]] = {
    (Reason.HOLD_TIMED_OUT, ONE): full_queue,
    (Reason.HOLD_TIMED_OUT, TRAINS): full_queue,
    (Reason.CHECKS_BROKE_DOWN, ONE): dead_runners,
    (Reason.CHECKS_BROKE_DOWN, TRAINS): dead_runners,
    (Reason.MERGEABLE_UNKNOWN, ONE): unknown_mergeability,
    (Reason.UPDATE_TIMED_OUT, ONE): update_that_never_comes,
    (Reason.BASE_KEEPS_MOVING, ONE): pushes_to_the_base,
    (Reason.GITHUB_TROUBLE, ONE): github_down,
}
"""Trains update no pull request, run on whatever the base is, and keep their members through an outage."""


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta, trains: str) -> AsyncIterator[World]:
    """A world in which CI tests branches of IMQ, too."""
    async with a_train_world(tmp_path, trains=trains, lag=lag) as made:
        yield made


async def land(author: Author, pull: Any, code: ExitCode) -> Any:
    """Run an agent's command while time passes; what it printed."""
    command = asyncio.create_task(author.imq("land", "--wait", "--json", code=code))
    await queued(author.world, pull, command)
    await author.world.until(command.done, within=timedelta(days=2))
    return answer_in(await command)


async def queued(world: World, pull: Any, command: asyncio.Task[Output]) -> None:
    """Wait until a command has queued the pull request."""
    for _ in range(3000):
        if command.done() or await world.entry(pull) is not None:
            break
        await asyncio.sleep(0.01)


def answer_in(output: Output) -> Any:
    """The JSON that a command printed."""
    return json.loads(output.stdout[output.stdout.index("{\n") :])


@pytest.mark.parametrize(
    ("reason", "trains", "lag"),
    [
        (why, mode, lag)
        for why, mode in CAUSES
        for lag in (timedelta(0), LAG)
        # At lag, the calls of so many changes would pass the limit of a minute, which the test's clock skips.
        if not (lag and why is Reason.BASE_KEEPS_MOVING)
    ],
)
async def test_reason_is_shown_with_its_retry_which_lands_the_same_head(
    author: Author, reason: Reason, trains: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5, P6: code 1, `retry_safe`, the call that queues it again, and a comment that says the same.

    The skill has the agent pull first, since IMQ may have updated the branch.
    """
    monkeypatch.setattr(Retries, "rest", lambda *_: time.sleep(0.05))
    world, pull = author.world, author.pull()
    await world.pass_time(CI_TIME * 2)
    end = await CAUSES[reason, trains](world, pull)
    author.clone.fetch("add")
    head = pull.head_sha
    left = await land(author, pull, ExitCode.FAILED)
    assert (left["reason"], left["outcome"], left["retry_safe"]) == (reason.value, "failed", True)
    call = left["next"]["call"]
    assert (call["method"], call["path"]) == ("POST", f"/api/v1/repositories/acme/widgets/pulls/{pull.number}/queue")
    await end()
    await world.settle()
    assert left["sentence"].split(".")[0] in world.comment(pull).replace("`", "")
    assert LABEL not in pull.labels
    author.clone.fetch("add")
    assert (await land(author, pull, ExitCode.DONE))["outcome"] == "landed"
    assert world.repository.is_ancestor(head, "main")
    assert world.spoken(pull) == 1


@pytest.mark.parametrize(("trains", "lag"), [(mode, lag) for mode in (ONE, TRAINS) for lag in (timedelta(0), LAG)])
async def test_landing_that_a_restored_database_does_not_know_is_queued_again(
    author: Author, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2, P5: the waiting command ends with `never_queued`, the comment says the same, and a retry lands the head."""
    monkeypatch.setattr(Retries, "rest", lambda *_: time.sleep(0.05))
    world, pull = author.world, author.pull()
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    copy(tmp_path / "imq.db", tmp_path / "backup.db")
    waits = asyncio.create_task(author.imq("land", "--wait", "--json", code=ExitCode.DEQUEUED))
    await queued(world, pull, waits)
    await world.pass_time(timedelta(seconds=30))
    world.environment["PORT"] = str(world.runner.addresses[0][1])
    pull.unlabel(LABEL, by="mona", webhook=False)
    await restore_later(world, tmp_path)
    left = answer_in(await waits)
    assert (left["reason"], left["outcome"], left["retry_safe"]) == ("never_queued", None, True)
    assert left["next"]["call"]["method"] == "POST"
    await world.until(lambda: "no longer queued" in world.comment(pull), within=timedelta(hours=1))
    author.clone.fetch("add")
    assert (await land(author, pull, ExitCode.DONE))["outcome"] == "landed"
    assert world.spoken(pull) == 1


@pytest.mark.parametrize(("trains", "lag"), [(mode, lag) for mode in (ONE, TRAINS) for lag in (timedelta(0), LAG)])
async def test_full_queue_is_waited_for(author: Author, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: IMQ refuses while the queue is full. The command asks again as IMQ says, for a quarter of an hour at most."""
    world, slept, asked = author.world, list[float](), asyncio.Event()
    author.pull()
    loop = asyncio.get_running_loop()

    def sleep(_: Retries, seconds: float | None = None) -> None:
        slept.append(seconds or 0.0)
        loop.call_soon_threadsafe(asked.set)
        time.sleep(0.01)

    monkeypatch.setattr(Retries, "rest", sleep)
    configure(world, "depth: 1\n")
    front = world.open("front")
    await world.pass_time(CI_TIME * 2)
    await say(world, front, "/pause", by="rhea")
    front.label(LABEL, by="mona")
    await world.settle()
    refused = json.loads((await author.imq("land", "--json", code=ExitCode.BUSY)).stdout)
    assert (refused["reason"], refused["outcome"], refused["retry_safe"]) == ("queue_full", "refused", True)
    assert slept == []
    waits = asyncio.create_task(author.imq("land", "--wait", "--json"))
    waits.add_done_callback(lambda _: asked.set())
    await asked.wait()
    await say(world, front, "/resume", by="rhea")
    await world.until(waits.done)
    printed = await waits
    assert answer_in(printed)["outcome"] == "landed"
    assert printed.stderr.count("queue full") == 1
    assert slept[0] == 30.0
    assert front.merged


def test_each_reason_has_its_cause() -> None:
    """One that is new needs one, too. `not_queued` is said in comments alone, after a database was lost."""
    failed = {each for each in RETRY_REASONS if REASONS[each].outcome is Outcome.FAILED}
    assert failed == {reason for reason, _ in CAUSES}
