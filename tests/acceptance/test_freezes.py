"""What blocks a queue, seen from outside: freezes, pauses by hand, broken rules, a base that is red."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from github_emulator import Fault
from queue_engine.control import pauses
from queue_engine.domain.model import Repository
from tests.acceptance.choosing import configure
from tests.acceptance.test_priorities import opened
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

MERGE = "/repos/{owner}/{repo}/pulls/{number}/merge"
HOUR = timedelta(hours=1)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose bot sweeps seldom: what happens here happens without sweeps."""
    async with a_world(tmp_path, settings={"IMQ_SWEEP_SECONDS": "43200"}) as made:
        yield made


def frozen_for(world: World, length: timedelta) -> str:
    """Rules that freeze everything from now on for so long."""
    start, end = world.clock.now(), world.clock.now() + length
    return f"""\
freeze:
  exempt_labels: [allowed]
  windows:
    - from: {start:%Y-%m-%d %H:%M}
      to: {end:%Y-%m-%d %H:%M}
      why: the fair
priority:
  labels:
    fix: {{fixes_base: true}}
"""


async def control(world: World, how: Any, **more: Any) -> Any:
    """A maintainer's control of the queue of `main`."""
    record = world.repository.record
    repository = Repository(record.id, "acme", "widgets", await installation(world))
    async with world.bot.engine.change() as change:
        return await how(change, repository, "main", by="rhea", **more)


async def installation(world: World) -> int:
    async with world.bot.engine.store.reading() as tx:
        found = await tx.repositories.named("acme", "widgets")
    assert found is not None
    return found.installation_id


async def events(world: World, *names: str) -> list[tuple[str, str | None]]:
    """The timeline's entries for queues: event and reason."""
    async with world.bot.engine.store.reading() as tx:
        latest = await tx.timeline.latest(200)
    return [
        (e.event, e.reason and e.reason.value)
        for e in reversed(latest)
        if e.number == 0 and (not names or e.event in names)
    ]


@pytest.mark.thorough
async def test_freeze_blocks_all_is_announced_once_and_ends_by_itself(world: World) -> None:
    """Nothing lands in it; who joins meanwhile reads it as well; at its end all land in their order, unasked."""
    await configure(world, frozen_for(world, 12 * HOUR))
    first, second = await opened(world, "first", "second")
    first.label(LABEL, by="mona")
    await world.pass_time(HOUR)
    edited = len(first.comments), world.comment(first)
    second.label(LABEL, by="mona")
    await world.pass_time(HOUR)
    for pull in (first, second):
        assert "frozen" in world.comment(pull).lower()
        assert "the fair" in world.comment(pull)
    assert (len(first.comments), world.comment(first)) == edited
    before = world.requests()
    await world.pass_time(2 * HOUR)
    assert world.requests() == before, "a frozen queue asks nothing (P7)"
    await world.until(lambda: second.merged, within=12 * HOUR)
    assert world.landed() == [first.number, second.number]
    assert await events(world) == [("paused", "frozen"), ("resumed", "frozen")]


@pytest.mark.thorough
async def test_freeze_lets_the_exempt_through_before_all_others(world: World) -> None:
    """They land in the freeze, past the entry that had begun; all other entries keep their places."""
    front, other, exempt, late = await opened(world, "front", "other", "exempt", "late")
    for pull in (front, other):
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(front, "checking")
    await configure(world, frozen_for(world, 12 * HOUR))
    for pull in (exempt, late):
        pull.label("allowed", by="mona")
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: late.merged, within=2 * HOUR)
    assert world.landed() == [exempt.number, late.number]
    assert [e.number for e in await world.entries()] == [front.number, other.number]
    await world.until(lambda: other.merged, within=24 * HOUR)
    assert world.landed() == [p.number for p in (exempt, late, front, other)]
    assert await world.paused() is None


@pytest.mark.thorough
async def test_pause_by_hand_stops_everybody_and_resume_lets_all_go_on(world: World) -> None:
    """The entry in checks continues where it was, with all the time that it had; everybody is notified once."""
    front, other = await opened(world, "front", "other")
    front.label(LABEL, by="mona")
    await world.until_status(front, "checking")
    assert (await control(world, pauses.pause, reason="the @disk is full")).concerned == (front.number,)
    assert not (await control(world, pauses.pause, reason="the @disk is full")).changed
    other.label(LABEL, by="mona")
    await world.pass_time(5 * HOUR)
    assert not front.merged
    for pull in (front, other):
        assert "paused" in world.comment(pull)
        assert "the @disk is full" in world.comment(pull)
    assert (await control(world, pauses.resume)).changed
    assert not (await control(world, pauses.resume)).changed
    await world.until(lambda: other.merged)
    assert world.landed() == [front.number, other.number]
    assert await events(world) == [("paused", "paused_by_hand"), ("resumed", "paused_by_hand")]


async def test_freeze_by_hand_of_a_branch_without_a_queue_holds_who_comes_until_its_end(world: World) -> None:
    """A release branch is frozen before anybody wants to land there."""
    pull = world.open("early")
    await world.pass_time(CI_TIME * 2)
    done = await control(world, pauses.freeze, until=world.clock.now() + 3 * HOUR, reason="release")
    assert (done.changed, done.concerned) == (True, ())
    pull.label(LABEL, by="mona")
    await world.pass_time(2 * HOUR)
    assert "release" in world.comment(pull)
    assert not pull.merged
    await world.until(lambda: pull.merged, within=2 * HOUR)
    assert await events(world) == [("paused", "frozen"), ("resumed", "frozen")]


@pytest.mark.thorough
async def test_pause_and_freeze_are_shown_together_and_what_remains_after_each_is_announced_once(world: World) -> None:
    """The pause is lifted by itself: the comment then names the freeze alone, which holds until its end."""
    (pull,) = await opened(world, "pull")
    await control(world, pauses.freeze, until=world.clock.now() + 3 * HOUR, reason="the fair")
    await control(world, pauses.pause, reason="the disk is full")
    pull.label(LABEL, by="mona")
    await world.pass_time(HOUR)
    assert all(words in world.comment(pull) for words in ("the fair", "the disk is full"))
    await control(world, pauses.resume)
    await world.pass_time(HOUR)
    assert not pull.merged
    assert "the fair" in world.comment(pull)
    assert "the disk is full" not in world.comment(pull).partition("<details>")[0]
    await world.until(lambda: pull.merged, within=2 * HOUR)
    paused, frozen = "paused_by_hand", "frozen"
    assert await events(world) == [("paused", frozen), ("paused", paused), ("resumed", paused), ("resumed", frozen)]


@pytest.mark.thorough
async def test_pause_while_a_merge_is_in_doubt_lets_it_be_settled(world: World) -> None:
    """What was asked for may have happened: that is found out, and nothing else is begun."""
    first, second = world.open("first"), world.open("second")
    await world.pass_time(CI_TIME * 2)
    world.server.faults.add(Fault(kind="apply_then_fail", method="PUT", route=MERGE, status=502))
    for pull in (first, second):
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: first.merged)
    assert len(await world.entries()) == 2
    await control(world, pauses.pause)
    await world.pass_time(3 * HOUR)
    assert [e.number for e in await world.entries()] == [second.number]
    assert not second.merged


async def test_broken_rules_hold_their_own_queue_and_are_shown_with_their_line(world: World) -> None:
    """P5: a push fixes the rules, and the queue continues from there."""
    pull = (await opened(world, "pull"))[0]
    await configure(world, "depht: 3\n")
    pull.label(LABEL, by="mona")
    await world.pass_time(HOUR)
    assert not pull.merged
    assert "line 1" in world.comment(pull)
    await configure(world, "depth: 3\n")
    await world.until(lambda: pull.merged, within=2 * HOUR)
    assert await events(world, "paused", "resumed") == [("paused", "misconfigured"), ("resumed", "misconfigured")]


@pytest.mark.thorough
async def test_red_base_holds_the_queue_until_its_fix_lands(world: World) -> None:
    """A broken base ejects no entry; its fix lands first, and then all others."""
    await configure(world, "priority: {labels: {fix: {fixes_base: true}}}\n")
    front, other = await opened(world, "front", "other")
    world.repository.push("main", {"limits.txt": "11\n"}, "Break it", by="rhea")
    await world.pass_time(CI_TIME * 2)
    for pull in (front, other):
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.pass_time(HOUR)
    assert [e.number for e in await world.entries()] == [front.number, other.number]
    for pull in (front, other):
        assert "ci/test" in world.comment(pull)
    fix = world.open("fix", files={"limits.txt": "1\n"})
    await world.pass_time(CI_TIME * 2)
    fix.label("fix", by="mona")
    fix.label(LABEL, by="mona")
    await world.until(lambda: other.merged)
    assert world.landed() == [fix.number, front.number, other.number]
    assert await events(world) == [("paused", "base_red"), ("resumed", "base_red")]


@pytest.mark.thorough
async def test_red_base_that_is_mended_by_hand_is_noticed_by_its_checks(world: World) -> None:
    """A push past the queue moves the base; its report says that all may go on."""
    front = (await opened(world, "front"))[0]
    world.repository.push("main", {"limits.txt": "11\n"}, "Break it", by="rhea")
    await world.pass_time(CI_TIME * 2)
    front.label(LABEL, by="mona")
    await world.pass_time(HOUR)
    assert await events(world, "paused", "resumed") == [("paused", "base_red")]
    world.repository.push("main", {"limits.txt": "1\n"}, "Mend it", by="rhea")
    await world.until(lambda: front.merged, within=CI_TIME * 4)
    assert await events(world, "paused", "resumed") == [("paused", "base_red"), ("resumed", "base_red")]


async def test_red_base_costs_few_requests_however_long_it_lasts(world: World) -> None:
    """P7: it is looked at ever less often; webhooks tell sooner."""
    front = (await opened(world, "front"))[0]
    world.repository.push("main", {"limits.txt": "11\n"}, "Break it", by="rhea")
    await world.pass_time(CI_TIME * 2)
    front.label(LABEL, by="mona")
    await world.pass_time(HOUR)
    reports = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"
    before = world.requests(reports)
    await world.pass_time(24 * HOUR)
    assert world.requests(reports) - before <= 8
    assert not front.merged


@pytest.mark.thorough
async def test_announced_blocker_survives_a_restart(world: World) -> None:
    """The announced blockers are in the database: another start announces nothing again."""
    pull = (await opened(world, "pull"))[0]
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await control(world, pauses.pause, reason="hold")
    await world.pass_time(HOUR)
    edits = world.requests("PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}")
    await world.kill()
    await world.restart()
    await world.pass_time(HOUR)
    assert world.requests("PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}") == edits
    async with world.bot.database.reading() as connection:
        announced = (await connection.execute(text("SELECT announced FROM queues"))).scalars().all()
    assert [t is not None for t in announced] == [True]
