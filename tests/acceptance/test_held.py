"""A full queue: a pull request waits for room in it, in order, and costs GitHub nothing meanwhile."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from queue_engine.domain.model import Pause
from queue_engine.domain.reasons import Reason
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

COMMENTS = "POST /repos/{owner}/{repo}/issues/{number}/comments"
COMMENT = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
PULL = "/repos/{owner}/{repo}/pulls/{number}"


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose queues have room for one pull request."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        yield world


async def labeled(world: World, count: int) -> list[Any]:
    """So many pull requests, labelled one after the other; there is room for the first only."""
    pulls = [world.open(f"add-{number}") for number in range(count)]
    await world.pass_time(timedelta(seconds=5))
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    assert await held(world) == [pull.number for pull in pulls[1:]]
    return pulls


async def held(world: World) -> list[int]:
    """Who waits for room, in order."""
    return [entry.number for entry in await world.entries() if entry.held_since is not None]


@pytest.mark.thorough
async def test_held_get_room_in_order_and_each_has_one_comment(full: World) -> None:
    """P3, P6: first in, first out, beyond the limit as well; each reads in its one comment how it stands."""
    pulls = await labeled(full, 4)
    await full.pass_time(timedelta(seconds=5))
    assert await held(full) == [pull.number for pull in pulls[1:]]
    assert "is full. The pull request waits for room" in full.comment(pulls[3])
    assert "2 other pull requests were waiting longer" in full.comment(pulls[3])
    await full.until(lambda: all(pull.merged for pull in pulls))
    await full.settle()
    assert full.landed() == [pull.number for pull in pulls]
    assert [full.spoken(pull) for pull in pulls] == [1] * 4


async def test_held_while_the_queue_remains_full_asks_github_nothing(full: World) -> None:
    """P7: it waits, and a pause that holds those before it is not announced to it."""
    pulls = await labeled(full, 3)
    await full.pass_time(timedelta(seconds=10))
    before = full.comment(pulls[2])
    async with full.bot.engine.store.transaction() as tx:
        (queue,) = await tx.queues.all()
        await tx.pauses.put(queue.id, Pause(Reason.TREE_MISMATCH, "looked into", full.clock.now()))
    asked = len(full.server.requests)
    await full.pass_time(timedelta(minutes=9))
    since = list(full.server.requests)[asked:]
    assert [r.path for r in since if r.path.endswith(tuple(f"/{pull.number}" for pull in pulls[1:]))] == []
    assert await held(full) == [pulls[1].number, pulls[2].number]
    assert full.comment(pulls[2]) == before


async def test_held_gets_room_after_a_restart_with_a_greater_limit(tmp_path: Path) -> None:
    """P2: entries survive the process; a greater depth makes room without any event."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        pulls = await labeled(world, 4)
        await world.kill()
        world.environment["IMQ_MAX_QUEUE_DEPTH"] = "20"
        await world.restart()
        await world.pass_time(timedelta(seconds=31))
        assert await held(world) == []
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert world.landed() == [pull.number for pull in pulls]


@pytest.mark.parametrize("act", ["unlabel", "close", "push", "edit_base", "draft"])
async def test_held_is_not_wanted_any_more_and_leaves_with_a_word(full: World, act: str) -> None:
    """P4: consent ends at once, with room or without."""
    pulls = await labeled(full, 3)
    full.repository.create_branch("next", "main", by="rhea")
    first = pulls[1]
    match act:
        case "unlabel":
            first.unlabel(LABEL, by="mona")
        case "close":
            first.close(by="mona")
        case "push":
            first.push({"more.py": "more\n"}, by="mona")
        case "edit_base":
            first.edit_base("next", by="mona")
        case "draft":
            first.convert_to_draft(by="mona")
    await full.pass_time(timedelta(seconds=10))
    assert await held(full) == [pulls[2].number]
    assert any(word in full.comment(first) for word in ("Dequeued", "Removed"))
    assert LABEL not in first.labels
    await full.until(lambda: bool(pulls[2].merged))
    assert not first.merged
    assert full.spoken(first) == 1


async def test_label_set_when_room_is_made_does_not_overtake_those_that_wait(full: World) -> None:
    """P3: room belongs to the first that waits for it, not to the next label."""
    pulls = await labeled(full, 2)
    late = full.open("late")
    await full.pass_time(CI_TIME)
    full.meanwhile(f"PUT {PULL}/merge", lambda: late.label(LABEL, by="mona"), phase="after")
    await full.until(lambda: bool(late.merged))
    assert full.landed() == [pulls[0].number, pulls[1].number, late.number]


@pytest.mark.thorough
async def test_hotfix_goes_before_those_that_have_room_and_pushes_out_the_last(tmp_path: Path) -> None:
    """The limit counts positions: the last one reads that it waits, and later that it has room again."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "2"}) as world:
        rules = "priority:\n  labels:\n    hotfix: {priority: 1, hotfix: true}\n"
        world.repository.push("main", {".github/imq.yml": rules}, "Rules of the queue", by="rhea")
        front, last, hotfix = (world.open(name) for name in ("front", "last", "hotfix"))
        for pull in (front, last):
            pull.label(LABEL, by="mona")
            await world.settle()
        hotfix.label("hotfix", by="mona")
        hotfix.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=5))
        assert [entry.number for entry in await world.entries()] == [front.number, hotfix.number, last.number]
        assert await held(world) == [last.number]
        assert "is full. The pull request waits for room" in world.comment(last)
        await world.until(lambda: bool(last.merged))
        assert world.landed() == [front.number, hotfix.number, last.number]
        assert world.spoken(last) == 1


async def test_held_has_its_limit_of_time_although_the_queue_is_paused(tmp_path: Path) -> None:
    """P5: no wait is without an end; the pause keeps those that have room."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        world.repository.push("main", {".github/imq.yml": "timeouts: {hold: 1h}\n"}, "Rules", by="rhea")
        await world.settle()
        pulls = await labeled(world, 2)
        async with world.bot.engine.store.transaction() as tx:
            (queue,) = await tx.queues.all()
            await tx.pauses.put(queue.id, Pause(Reason.TREE_MISMATCH, "looked into", world.clock.now()))
        await world.pass_time(timedelta(minutes=59))
        assert await held(world) == [pulls[1].number]
        await world.pass_time(timedelta(minutes=2))
        assert [entry.number for entry in await world.entries()] == [pulls[0].number]
        assert await world.reasons(pulls[1]) == ["queue_full", "hold_timed_out"]
        assert LABEL not in pulls[1].labels


async def test_held_label_removed_and_added_again_at_once_keeps_its_position_and_one_comment(full: World) -> None:
    """P6: hints are followed by what is true now; the same consent again edits nothing and counts nothing."""
    pulls = await labeled(full, 3)
    await full.pass_time(timedelta(seconds=5))
    before = full.requests(COMMENTS, COMMENT)
    pulls[1].unlabel(LABEL, by="mona")
    pulls[1].label(LABEL, by="mona")
    await full.pass_time(timedelta(seconds=5))
    assert full.requests(COMMENTS, COMMENT) == before
    assert await held(full) == [pulls[1].number, pulls[2].number]
    page = await full.bot.reporter.page()
    assert 'imq_queue_full_total{process="run",where="label"} 2.0' in page
