"""`update_label` keeps open pull requests up to date outside the queue, for people who may queue."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.handlers import label_updates
from tests.acceptance.world import CI_TIME, LABEL, LAG, World, a_world

UPDATE = "keep-updated"
UPDATES = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"
MINUTE = timedelta(minutes=1)


async def configured(world: World, text: str = f"update_label: {UPDATE}\n") -> None:
    """Let IMQ read this configuration."""
    world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
    await world.pass_time(MINUTE * 12)


async def pushed(world: World, branch: str = "main") -> None:
    """Let somebody push to the base branch, and IMQ do what that asks of it."""
    world.repository.push(branch, {"notes.md": f"{world.clock.now()}\n"}, "Note", by="rhea")
    await world.pass_time(MINUTE * 3)


def contains_base(world: World, pull: Any) -> bool:
    """Whether the head contains the tip of its base branch."""
    return bool(world.repository.is_ancestor(world.repository.sha(pull.record.base_branch), pull.head_sha))


async def test_labeled_pull_request_is_updated_when_it_gets_the_label_and_after_each_push(world: World) -> None:
    """Others do not change, and IMQ writes no comment: they are not queued."""
    pull, other = world.open("first"), world.open("second")
    await configured(world)
    pull.label(UPDATE, by="mona")
    await world.pass_time(MINUTE)
    assert contains_base(world, pull)
    assert not contains_base(world, other)
    await pushed(world)
    assert contains_base(world, pull)
    assert not contains_base(world, other)
    assert world.requests(UPDATES) == 2
    assert not pull.comments
    pull.unlabel(UPDATE, by="mona")
    await pushed(world)
    assert not contains_base(world, pull)
    async with world.bot.engine.store.reading() as tx:
        queue = await tx.queues.find(world.repository.record.id, "main")
    assert queue is not None
    assert not queue.label_updates, "a later push costs no request"


async def test_only_the_latest_of_the_branch_that_was_pushed_are_updated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: each update starts CI, so that a push updates a few, and none for another base branch."""
    monkeypatch.setattr(label_updates, "MOST", 1)
    world.repository.create_branch("release", "main")
    old, new, other = world.open("old"), world.open("new"), world.open("other", base="release")
    await configured(world)
    for pull in (old, other, new):
        pull.label(UPDATE, by="mona")
    before = world.requests(UPDATES)
    world.repository.push("release", {"notes.md": "1\n"}, "Note", by="rhea")
    await pushed(world)
    assert [contains_base(world, each) for each in (old, new, other)] == [False, True, False]
    assert world.requests(UPDATES) == before + 1


async def test_queued_pull_request_is_updated_by_its_queue_alone(world: World) -> None:
    """P4: the head that was queued waits for its checks; a second update would start them again."""
    pull = world.open("first")
    await configured(world)
    pull.label(UPDATE, by="mona")
    await world.pass_time(CI_TIME + MINUTE)
    pull.label(LABEL, by="mona")
    await pushed(world)
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    assert world.requests(UPDATES) == 2


@pytest.mark.parametrize("case", ["no right", "a protected head", "another base", "no label configured"])
async def test_pull_request_is_not_updated(world: World, case: str) -> None:
    """IMQ pushes only for people who could push, into no protected branch, and only where the base's file asks."""
    world.repository.create_branch("release", "main")
    head = "first"
    pull = world.open(head, base="release") if case == "another base" else world.open(head)
    if case == "a protected head":
        world.repository.protect(head)
    await configured(world, "depth: 30\n" if case == "no label configured" else f"update_label: {UPDATE}\n")
    if case == "no right":
        world.repository.record.collaborators["mona"] = "triage"
    pull.label(UPDATE, by="mona")
    await world.pass_time(MINUTE)
    before = len(world.server.requests)
    await pushed(world)
    assert world.requests(UPDATES) == 0
    if case in {"another base", "no label configured"}:
        assert len(world.server.requests) == before


async def test_conflicting_pull_request_holds_up_no_other(world: World) -> None:
    """P5: GitHub refuses its update, and shows its author why."""
    conflicting = world.open("first", files={"notes.md": "mine\n"})
    pull = world.open("second")
    await configured(world)
    for each in (pull, conflicting):
        each.label(UPDATE, by="mona")
    await pushed(world)
    assert contains_base(world, pull)
    assert not contains_base(world, conflicting)


@pytest.mark.parametrize("label", [UPDATE, LABEL])
async def test_pull_request_that_waits_outside_the_queue_is_updated_and_keeps_waiting(world: World, label: str) -> None:
    """P4: IMQ's own update renews no consent and withdraws none. The trigger label may be the label, too."""
    pull = world.open("first")
    await configured(world, f"update_label: {label}\nrequire: {{approvals: 1}}\n")
    pull.label(LABEL, by="mona")
    if label != LABEL:
        pull.label(label, by="mona")
    await world.pass_time(MINUTE)
    await pushed(world)
    assert contains_base(world, pull)
    assert world.requests(UPDATES) == 2
    await world.pass_time(CI_TIME)
    pull.review("APPROVED", by="rhea")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    assert world.requests(UPDATES) == 2


@pytest.mark.every_variant("403-lag1", "422-lag0", "503-lag1")
@pytest.mark.parametrize("lag", [timedelta(0), LAG])
@pytest.mark.parametrize("status", [400, 403, 422, 503])
async def test_update_that_github_refuses_for_a_moment_is_made_later(
    tmp_path: Path, status: int, lag: timedelta
) -> None:
    """P5: an answer of a proxy or of GitHub in trouble is no rule, and the other one is updated meanwhile."""
    async with a_world(tmp_path, lag=lag) as world:
        first, second = world.open("first"), world.open("second")
        await configured(world)
        body = {"message": "Resource not accessible by integration" if status == 403 else "Odd"}
        place = re.compile(f"/pulls/{first.number}/update-branch$")
        times = 2 if status == 422 else None
        world.server.faults.add(Fault("fail", route=place, status=status, body=body, times=times))
        for pull in (first, second):
            pull.label(UPDATE, by="mona")
        await world.pass_time(MINUTE * 4)
        assert contains_base(world, second)
        assert contains_base(world, first) is (status == 422)
        world.server.faults.clear()
        await world.pass_time(MINUTE * 20)
        assert contains_base(world, first)


@pytest.mark.thorough
async def test_update_that_github_refuses_in_its_own_words_is_not_made_for_ever(world: World) -> None:
    """P5, P7: after some tries a 422 in unknown words is its answer."""
    pull = world.open("first")
    await configured(world)
    world.server.faults.add(Fault("fail", method="PUT", status=422, body={"message": "Odd"}, times=None))
    pull.label(UPDATE, by="mona")
    await world.pass_time(MINUTE * 60)
    assert 3 <= world.requests(UPDATES) <= 4
    async with world.bot.engine.store.reading() as tx:
        assert await tx.dead_letters.count() == 0
