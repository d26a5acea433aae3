"""A full queue: a held pull request waits in line, joins by itself, and costs nothing while there is no place."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from queue_engine.domain.model import Pause
from queue_engine.domain.reasons import Reason
from sandbox.rest.faults import Fault
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

COMMENTS = "POST /repos/{owner}/{repo}/issues/{number}/comments"
COMMENT = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
PULL = "/repos/{owner}/{repo}/pulls/{number}"
SERIES = (30, 60, 120, 240, 300, 300)


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose queues have one place."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        yield world


async def labelled(world: World, count: int) -> list[Any]:
    """So many pull requests, labelled one after the other; only the first gets a place."""
    pulls = [world.open(f"add-{number}") for number in range(count)]
    await world.pass_time(timedelta(seconds=5))
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    assert [entry.number for entry in await world.entries()] == [pulls[0].number]
    return pulls


async def held(world: World) -> list[int]:
    """Who waits for a place, in order."""
    async with world.bot.engine.store.reading() as tx:
        found = [await tx.held.find(world.repository.record.id, n) for n in range(1, 100)]
        queue = next(queue for queue in await tx.queues.all())
        waiting = [(await tx.held.ahead(queue.id, h.repository_id, h.number), h.number) for h in found if h]
    return [number for _, number in sorted(waiting)]


async def test_held_join_in_order_as_places_free_and_each_has_one_comment(full: World) -> None:
    """P3, P6: first in, first out, outside of the queue as well; each reads in its one comment how it stands."""
    pulls = await labelled(full, 4)
    await full.pass_time(timedelta(seconds=5))
    assert await held(full) == [pull.number for pull in pulls[1:]]
    assert "is full. The pull request joins" in full.comment(pulls[3])
    assert "2 other pull requests were waiting longer" in full.comment(pulls[3])
    await full.until(lambda: all(pull.merged for pull in pulls))
    await full.settle()
    assert full.landed() == [pull.number for pull in pulls]
    assert [full.spoken(pull) for pull in pulls] == [1] * 4


async def test_held_while_the_queue_stays_full_asks_github_nothing(full: World) -> None:
    """P7: it retries after 30, 60, 120, 240 and 300 seconds, and finds by itself that there is no place."""
    pulls = await labelled(full, 3)
    await full.pass_time(timedelta(seconds=10))
    said = full.comment(pulls[2])
    async with full.bot.engine.store.transaction() as tx:
        (queue,) = await tx.queues.all()
        await tx.pauses.put(queue.id, Pause(Reason.TREE_MISMATCH, "looked into", full.clock.now()))
    asked = len(full.server.requests)
    await full.pass_time(timedelta(seconds=sum(SERIES)))
    since = list(full.server.requests)[asked:]
    assert [r.path for r in since if r.path.endswith(tuple(f"/{pull.number}" for pull in pulls[1:]))] == []
    assert await held(full) == [pulls[1].number, pulls[2].number]
    assert full.comment(pulls[2]) == said


async def test_held_joins_after_a_restart_although_nobody_told_that_a_place_is_free(tmp_path: Path) -> None:
    """P2: the line and its retries survive the process; a greater depth admits them without any event."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        pulls = await labelled(world, 4)
        await world.kill()
        world.environment["IMQ_MAX_QUEUE_DEPTH"] = "20"
        await world.restart()
        await world.pass_time(timedelta(seconds=31))
        assert [entry.number for entry in await world.entries()] == [pull.number for pull in pulls]
        assert await held(world) == []
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert world.landed() == [pull.number for pull in pulls]


@pytest.mark.parametrize("act", ["unlabel", "close", "push", "edit_base", "draft"])
async def test_held_is_not_wanted_any_more_and_leaves_with_a_word(full: World, act: str) -> None:
    """P4: consent to wait ends like consent to land, at once; the line moves up."""
    pulls = await labelled(full, 3)
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
    assert "Not queued" in full.comment(first)
    assert LABEL not in first.labels
    await full.until(lambda: bool(pulls[2].merged))
    assert not first.merged
    assert full.spoken(first) == 1


async def test_held_that_github_does_not_let_us_read_holds_up_nobody(full: World) -> None:
    """P5: who cannot be judged now steps behind the others, and gets its place when it can be."""
    pulls = await labelled(full, 3)
    number = pulls[1].number
    fault = full.server.faults.add(
        Fault(
            kind="fail",
            status=502,
            times=None,
            when=lambda asked: (
                asked.path.endswith(f"/pulls/{number}")
                or (asked.body or {}).get("variables", {}).get("number") == number
            ),
        )
    )
    await full.until(lambda: bool(pulls[2].merged))
    assert not pulls[1].merged
    assert fault.hits
    full.server.faults.clear()
    await full.until(lambda: bool(pulls[1].merged), within=timedelta(minutes=20))


async def test_label_on_a_place_that_others_wait_for_does_not_overtake_them(full: World) -> None:
    """P3: a place that frees belongs to the first held pull request, not to the next label."""
    pulls = await labelled(full, 2)
    late = full.open("late")
    await full.pass_time(CI_TIME)
    full.meanwhile(f"PUT {PULL}/merge", lambda: late.label(LABEL, by="mona"), phase="after")
    await full.until(lambda: bool(late.merged))
    assert full.landed() == [pulls[0].number, pulls[1].number, late.number]


async def test_held_joins_with_the_trace_and_the_delivery_that_it_came_with(full: World) -> None:
    """A search for a delivery finds its outcome, however long it waited and whichever event made room."""
    pulls = await labelled(full, 2)
    async with full.bot.engine.store.reading() as tx:
        waiting = await tx.held.find(full.repository.record.id, pulls[1].number)
    assert waiting is not None
    assert waiting.trace
    assert waiting.delivery
    await full.until_status(pulls[1], "updating")
    entry = await full.entry(pulls[1])
    assert entry is not None
    assert entry.delivery == waiting.delivery
    assert (entry.trace or "").split("-")[1] == waiting.trace.split("-")[1]


async def test_held_label_taken_off_and_set_again_at_once_keeps_its_place_and_is_told_once(full: World) -> None:
    """P6: hints are followed by what is true now; the same consent once more edits nothing and counts nothing."""
    pulls = await labelled(full, 3)
    await full.pass_time(timedelta(seconds=5))
    said = full.requests(COMMENTS, COMMENT)
    pulls[1].unlabel(LABEL, by="mona")
    pulls[1].label(LABEL, by="mona")
    await full.pass_time(timedelta(seconds=5))
    assert full.requests(COMMENTS, COMMENT) == said
    assert await held(full) == [pulls[1].number, pulls[2].number]
    page = await full.bot.reporter.page()
    assert 'imq_queue_full_total{process="run",where="label"} 2.0' in page
