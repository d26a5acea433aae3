"""A run whose checks need a scarce runner waits for a free one, and others pass; in trains and one by one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings
from tests.acceptance.commenting import say
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.train_world import CANDIDATES
from tests.acceptance.world import CI_TIME, LABEL, LAG, World, a_world

ONE = "capacity: [{name: gpu, checks: gpu, runs: 1}]\n"
LAGS = pytest.mark.parametrize("lag", [timedelta(0), pytest.param(LAG, marks=pytest.mark.thorough)])


@asynccontextmanager
async def a_lab(directory: Path, trains: str, lag: timedelta) -> AsyncIterator[tuple[World, Any]]:
    """A world with one GPU, for the check `gpu`, which is required on both branches."""
    async with a_world(directory, ci=False, protect=False, lag=lag) as world:
        settings: dict[str, Any] = {"duration": CI_TIME, "branches": (*CANDIDATES, "release")}
        made = world.repository.add_ci("ci/test", settings=CISettings(judge=total_at_most_ten, **settings))
        gpu = world.repository.add_ci("gpu", settings=CISettings(**settings))
        world.repository.create_branch("release", "main")
        for branch in ("main", "release"):
            world.repository.protect(branch, required_checks=[("ci/test", made.app.id), ("gpu", gpu.app.id)])
            world.repository.push(branch, {".github/imq.yml": f"{trains}{ONE}"}, "Configure IMQ", by="rhea")
        await world.pass_time(CI_TIME * 2)
        yield world, gpu


async def opened(world: World, gpu: Any, name: str, base: str = "main", *, skipped: bool = False) -> Any:
    """A pull request whose own checks have passed; on its head `gpu` was `skipped`, or ran."""
    gpu.plan = ("skipped",) if skipped else ()
    pull = world.open(name, base=base)
    await world.pass_time(CI_TIME * 2)
    gpu.plan = ()
    return pull


@LAGS
@pytest.mark.parametrize("trains", ["", "trains: {candidates: push}\n"], ids=["one_by_one", "trains"])
async def test_run_waits_for_a_free_runner_while_others_pass(tmp_path: Path, trains: str, lag: timedelta) -> None:
    """The queue of another branch has the one GPU: its comment says so, and what needs none lands before it."""
    async with a_lab(tmp_path, trains, lag) as (world, gpu):
        first = await opened(world, gpu, "first", base="release")
        kernel = await opened(world, gpu, "kernel")
        text = await opened(world, gpu, "text", skipped=True)
        world.repository.push("release", {"moved.py": "1\n"}, "Move the base", by="rhea")
        world.repository.push("main", {"moved.py": "1\n"}, "Move the base", by="rhea")
        await world.pass_time(CI_TIME * 2)
        first.label(LABEL, by="mona")
        await world.until_status(first, "checking")
        for pull in (kernel, text):
            pull.label(LABEL, by="mona")
        await world.until_status(text, "checking")
        await world.settle()
        await world.pass_time(timedelta(seconds=5))
        assert "It waits for a free `gpu` runner, 1 of 1 busy." in world.comment(kernel)
        assert await world.status(kernel) == "pending"
        await world.until(lambda: first.merged and kernel.merged and text.merged)
        assert gpu.tested[kernel.head_sha] >= 1


@LAGS
@pytest.mark.parametrize(
    "trains", ["", "trains: {candidates: push, max_size: 1, runs: 2}\n"], ids=["one_by_one", "trains"]
)
async def test_next_free_runner_goes_to_whom_waits_longest_of_all_queues(
    tmp_path: Path, trains: str, lag: timedelta
) -> None:
    """P5: a queue that always has work keeps no runner from the queue of another branch."""
    async with a_lab(tmp_path, trains, lag) as (world, gpu):
        pulls = [await opened(world, gpu, name) for name in ("a", "b", "c")]
        other = await opened(world, gpu, "other", base="release")
        for branch in ("main", "release"):
            world.repository.push(branch, {"moved.py": "1\n"}, "Move the base", by="rhea")
        await world.pass_time(CI_TIME * 2)
        pulls[0].label(LABEL, by="mona")
        await world.until_status(pulls[0], "checking")
        other.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=2))
        for pull in pulls[1:]:
            pull.label(LABEL, by="mona")
        await world.until(lambda: other.merged)
        assert sum(pull.merged for pull in pulls) == 1
        await world.until(lambda: all(pull.merged for pull in pulls))


async def one_with_the_runner_and_one_without(
    world: World, gpu: Any, wait: timedelta, *, hangs: bool = False
) -> tuple[Any, Any]:
    """One whose checks have the runner, or hang on it, and one of another queue that has waited for it that long."""
    first, kernel = await opened(world, gpu, "first", base="release"), await opened(world, gpu, "kernel")
    for branch in ("main", "release"):
        world.repository.push(branch, {"moved.py": "1\n"}, "Move the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    gpu.finishes = not hangs
    first.label(LABEL, by="mona")
    await world.until_status(first, "checking")
    await world.pass_time(timedelta(seconds=5))
    gpu.finishes = True
    kernel.label(LABEL, by="mona")
    await world.pass_time(wait)
    assert await world.status(kernel) == "pending"
    return first, kernel


@LAGS
@pytest.mark.parametrize("way", ["killed", "more runners", "no capacity", "other check"])
@pytest.mark.parametrize("trains", ["", "trains: {candidates: push}\n"], ids=["one_by_one", "trains"])
async def test_run_that_waits_for_a_runner_begins_once_it_need_not_wait(
    tmp_path: Path, trains: str, way: str, lag: timedelta
) -> None:
    """P2, P5: after a kill, and within a minute of a configuration that has it wait no longer."""
    async with a_lab(tmp_path, trains, lag) as (world, gpu):
        first, kernel = await one_with_the_runner_and_one_without(world, gpu, timedelta(seconds=30))
        if way == "killed":
            await world.kill()
            await world.restart()
        else:
            given = {
                "more runners": ONE.replace("runs: 1", "runs: 2"),
                "no capacity": "",
                "other check": ONE.replace("checks: gpu", "checks: none"),
            }
            world.repository.push("main", {".github/imq.yml": f"{trains}{given[way]}"}, "Configure IMQ", by="rhea")
            await world.pass_time(timedelta(minutes=1))
            assert await world.status(kernel) == "checking"
        await world.until(lambda: bool(kernel.merged and first.merged), within=CI_TIME * 8)


@LAGS
@pytest.mark.parametrize("way", ["ended", "lost", "hangs"])
@pytest.mark.parametrize("trains", ["", "trains: {candidates: push}\n"], ids=["one_by_one", "trains"])
async def test_paused_queue_keeps_no_runner_from_another_one(
    tmp_path: Path, trains: str, way: str, lag: timedelta
) -> None:
    """P5: nothing judges its run meanwhile; the runner is free once its checks have reported, or their time is over."""
    async with a_lab(tmp_path, trains, lag) as (world, gpu):
        wait = timedelta(seconds=10)
        first, kernel = await one_with_the_runner_and_one_without(world, gpu, wait, hangs=way == "hangs")
        await say(world, first, "/pause", by="rhea")
        if way == "lost":
            address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
            await world.pass_time(CI_TIME * 2)
            world.app.webhook_url = address
            assert await world.status(kernel) == "pending"
        await world.until(lambda: bool(kernel.merged), within=CI_TIME * 4 if way == "ended" else timedelta(hours=3))
        await say(world, first, "/resume", by="rhea")
        hangs = way == "hangs"
        slowest = timedelta(hours=3) if hangs else CI_TIME * 8
        await world.until(lambda: LABEL not in first.labels if hangs else bool(first.merged), within=slowest)


@LAGS
@pytest.mark.parametrize("trains", ["", "trains: {candidates: push}\n"], ids=["one_by_one", "trains"])
async def test_runner_whose_webhooks_are_lost_is_free_again(tmp_path: Path, trains: str, lag: timedelta) -> None:
    """P2, P5: nothing says that the checks of the other queue have ended, and both land all the same."""
    async with a_lab(tmp_path, trains, lag) as (world, gpu):
        first, kernel = await one_with_the_runner_and_one_without(world, gpu, timedelta(seconds=5))
        address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
        await world.pass_time(CI_TIME * 2)
        world.app.webhook_url = address
        await world.until(lambda: bool(first.merged and kernel.merged), within=timedelta(minutes=40))


@LAGS
@pytest.mark.parametrize("holder", ["elsewhere", "here"])
@pytest.mark.parametrize("way", ["agent", "hotfix"])
@pytest.mark.parametrize("trains", ["", "trains: {candidates: push, runs: 1}\n"], ids=["one_by_one", "trains"])
async def test_run_ends_only_for_a_pull_request_that_then_has_its_runner(
    tmp_path: Path, trains: str, way: str, holder: str, lag: timedelta
) -> None:
    """P5, P7: a run that ends while the other waits for a busy runner would begin and end every 30 seconds."""
    urgent = "priority: {labels: {urgent: {hotfix: true, preempts: true}}}\nfair_share: {waiting: 1}\n"
    async with a_lab(tmp_path, trains + urgent, lag) as (world, gpu):
        by = "mona"
        if way == "agent":
            world.github.create_user(by := "agent[bot]", kind="Bot")
            world.repository.record.collaborators[by] = "write"
        first, kernel = await opened(world, gpu, "first", base="release"), await opened(world, gpu, "kernel")
        gpu.plan = ("skipped",) * 2 if holder == "elsewhere" else ()
        before, ends = world.open("before", by=by), world.open("ends", by=by)
        await world.pass_time(CI_TIME * 2)
        gpu.plan = ()
        for branch in ("main", "release"):
            world.repository.push(branch, {"moved.py": "1\n"}, "Move the base", by="rhea")
        await world.pass_time(CI_TIME * 2)
        if trains:
            before.close(by="mona")
        for pull in (ends,) if trains else (before, ends):
            pull.label(LABEL, by=by)
            await world.settle()
        await world.until_status(ends, "checking")
        if holder == "elsewhere":
            first.label(LABEL, by="mona")
            await world.until_status(first, "checking")
        await world.pass_time(timedelta(seconds=5))
        if way == "hotfix":
            kernel.label("urgent", by="mona")
        kernel.label(LABEL, by="mona")
        await world.until(lambda: bool(kernel.merged and ends.merged), within=CI_TIME * 8)
        async with world.bot.engine.store.reading() as tx:
            events = await tx.timeline.of_pull_request(world.repository.record.id, ends.number)
        ended = sum(each.event == "pending" for each in events)
        assert (ended, kernel.record.merged_at < ends.record.merged_at) == (
            (0, False) if holder == "elsewhere" else (1, True)
        )
