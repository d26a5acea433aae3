"""P3: who is labelled first lands first, also where reads show the later label sooner."""

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.admission.request_order import EARLIER_REQUEST
from queue_engine.core.jobs.job import Job
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.effects.record import read_again
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

SECOND = timedelta(seconds=1)


async def labeled_within_a_second(world: World, chance: Random, count: int) -> list[Any]:
    """Pull requests that wait for nothing but their labels, in the order in which these are set."""
    pulls = [world.open(f"add-{number}") for number in range(count)]
    await world.pass_time(CI_TIME * 2)
    chance.shuffle(pulls)
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.pass_time(SECOND * chance.choice([0, 0, 0.1, 0.4]))
    return pulls


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
async def test_labels_of_one_second_land_in_the_order_of_their_webhooks(tmp_path: Path, seed: int) -> None:
    """Each read lags by another time, as replicas do, so that later labels often show first."""
    chance = Random(seed)
    async with a_world(tmp_path, seed=seed) as world:
        world.server.lag.between(timedelta(0), 3 * SECOND, "pull_request", "graphql", seed=seed)
        pulls = await labeled_within_a_second(world, chance, 4)
        await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
        assert world.landed() == [pull.number for pull in pulls]


async def test_later_label_that_shows_first_waits_until_the_earlier_one_is_answered(world: World) -> None:
    """The webhooks come in the same instant; only the read of the first pull request lags."""
    first, second = world.open("first"), world.open("second")
    await world.pass_time(CI_TIME * 2)
    world.server.lag.set(2 * SECOND, "graphql")
    first.label(LABEL, by="mona")
    await world.pass_time(SECOND / 10)
    world.server.lag.set(timedelta(0), "graphql")
    second.label(LABEL, by="mona")
    await world.until(lambda: second.merged, within=CI_TIME * 3)
    assert world.landed() == [first.number, second.number]


@pytest.mark.thorough
async def test_labels_keep_their_order_while_a_fresh_token_is_refused(world: World) -> None:
    """Each replica learns of the token at another time."""
    pulls = [world.open(name) for name in ("first", "second", "third")]
    await world.pass_time(CI_TIME * 2)
    world.bot.gateway.forget_token(next(iter(world.github.state.installations)))
    world.server.lag.between(timedelta(0), 4 * SECOND, "token", seed=4)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    assert {request.status for request in world.server.requests} >= {401}
    assert world.landed() == [pull.number for pull in pulls]


async def test_label_that_is_never_answered_holds_up_later_ones_for_seconds(world: World) -> None:
    """P5: IMQ gives up on the earlier label's read after its bound."""
    world.repository.create_branch("release", "main")
    first, second, elsewhere = world.open("first"), world.open("second"), world.open("third", base="release")
    await world.pass_time(CI_TIME * 2)
    world.server.lag.set(timedelta(minutes=5), "graphql")
    first.label(LABEL, by="mona")
    await world.pass_time(SECOND / 10)
    world.server.lag.set(timedelta(0), "graphql")
    first.unlabel(LABEL, by="mona")
    began: datetime = world.clock.now()
    elsewhere.label(LABEL, by="mona")
    await world.until(lambda: elsewhere.merged, within=SECOND)
    second.label(LABEL, by="mona")
    await world.until(lambda: second.merged, within=CI_TIME)
    assert world.clock.now() - began < 10 * SECOND
    assert world.landed() == [second.number]


async def claimed_elsewhere(world: World, *, owner: str = "other") -> tuple[Job, ...]:
    """Let GitHub send what is due, and another process claim the jobs for its lease of half a minute."""
    await world.github.schedule.run_due()
    async with world.bot.database.transaction() as connection:
        jobs = Jobs(connection)
        return await jobs.claim_some(5, owner=owner, now=world.clock.now(), lease=30 * SECOND)


async def test_label_whose_webhook_comes_before_its_sweep_ends_has_the_place_of_that_webhook(world: World) -> None:
    """By GitHub's time of the label it would land before earlier labels, which count from when their webhooks came."""
    first, second, third = [world.open(name) for name in ("first", "second", "third")]
    await world.pass_time(CI_TIME * 2)
    first.label(LABEL, by="mona")
    await world.settle()
    async with world.bot.engine.change() as change:
        repository = (await change.tx.queues.all())[0].repository
        await read_again(change, repository, third.number, new=True)
    second.label(LABEL, by="mona")
    third.label(LABEL, by="mona")
    await world.github.schedule.run_due()
    await world.until(lambda: all(pull.merged for pull in (first, second, third)), within=CI_TIME * 8)
    assert world.landed() == [pull.number for pull in (first, second, third)]
    async with world.bot.engine.store.reading() as tx:
        (queued,) = [e for e in await tx.timeline.of_pull_request(repository.id, third.number) if e.event == "queued"]
    assert queued.delivery is not None


@pytest.mark.parametrize("later", [timedelta(0), timedelta(minutes=1)])
async def test_label_that_a_sweep_finds_lands_after_earlier_ones_whose_webhooks_took_seconds(
    world: World, later: timedelta
) -> None:
    """They count from when their webhooks came, and its own has not come yet, or never comes."""
    front, first, second = [world.open(name) for name in ("front", "first", "second")]
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"moved.py": "moved\n"}, "Move the base", by="rhea")
    front.label(LABEL, by="mona")
    await world.settle()
    world.github.webhooks.faults.delay(4 * SECOND, event="pull_request", action="labeled")
    first.label(LABEL, by="mona")
    await world.pass_time(2 * SECOND)
    world.github.webhooks.faults.drop(event="pull_request", action="labeled")
    second.label(LABEL, by="mona")
    await world.pass_time(3 * SECOND + later)
    async with world.bot.engine.change() as change:
        await read_again(change, (await change.tx.queues.all())[0].repository, second.number, new=True)
    await world.until(lambda: second.merged, within=CI_TIME * 8)
    assert world.landed() == [pull.number for pull in (front, first, second)]


async def test_label_that_this_process_has_not_answered_lands_before_later_ones(world: World) -> None:
    """Its job is under way, or failed and is not stored as such yet."""
    pulls = [world.open(name) for name in ("first", "second")]
    await world.pass_time(CI_TIME * 2)
    pulls[0].label(LABEL, by="mona")
    assert await claimed_elsewhere(world, owner=world.bot.engine.owner)
    pulls[1].label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    assert world.landed() == [pull.number for pull in pulls]


@pytest.mark.thorough
@pytest.mark.parametrize("lag", [timedelta(0), 2 * SECOND])
async def test_label_of_a_killed_process_lands_before_later_ones(world: World, lag: timedelta) -> None:
    """No other process knows that it was killed before the lease ends."""
    pulls = [world.open(name) for name in ("first", "second", "third")]
    await world.pass_time(CI_TIME * 2)
    world.server.lag.set(lag)
    pulls[0].label(LABEL, by="mona")
    (killed,) = await claimed_elsewhere(world)
    assert killed.request["number"] == pulls[0].number
    for pull in pulls[1:]:
        pull.label(LABEL, by="mona")
        await world.pass_time(SECOND / 3)
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    assert world.landed() == [pull.number for pull in pulls]


async def test_label_that_a_killed_process_held_is_answered_as_soon_as_the_next_one_starts(world: World) -> None:
    """P2: on SQLite no other process can have the lease, so that the start ends it."""
    pull = world.open("first")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    assert await claimed_elsewhere(world)
    await world.kill()
    await world.restart()
    await world.until(lambda: pull.merged, within=SECOND)


@pytest.mark.thorough
@pytest.mark.parametrize("why", [None, "outdated_read"])
async def test_label_whose_job_is_put_back_lands_before_later_ones(world: World, why: str | None) -> None:
    """A process that lost its database puts its jobs back for a second, and no process may be free to read again."""
    pulls = [world.open(name) for name in ("first", "second")]
    await world.pass_time(CI_TIME * 2)
    pulls[0].label(LABEL, by="mona")
    (job,) = await claimed_elsewhere(world)
    async with world.bot.database.transaction() as connection:
        await Jobs(connection).hold(job, at=world.clock.now() + SECOND, now=world.clock.now(), why=why)
    pulls[1].label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    assert world.landed() == [pull.number for pull in pulls]


@pytest.mark.parametrize("whys", [(EARLIER_REQUEST,) * 4, (None, None, "outdated_read", "outdated_read")])
async def test_label_whose_job_is_put_back_many_times_lands_before_later_ones(
    world: World, whys: tuple[str | None, ...]
) -> None:
    """Each process that dies leaves its successor a new token, which GitHub may refuse at first."""
    pulls = [world.open(name) for name in ("first", "second")]
    await world.pass_time(CI_TIME * 2)
    pulls[0].label(LABEL, by="mona")
    for after, why in enumerate(whys, start=1 - len(whys)):
        (job,) = await claimed_elsewhere(world)
        async with world.bot.database.transaction() as connection:
            at = world.clock.now() + SECOND * (after == 0)
            await Jobs(connection).hold(job, at=at, now=world.clock.now(), why=why)
    pulls[1].label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    assert world.landed() == [pull.number for pull in pulls]


async def test_label_whose_read_fails_beside_the_next_one_lands_first(world: World) -> None:
    """Both jobs are under way in one process."""
    pulls = [world.open(name) for name in ("first", "second")]
    await world.pass_time(CI_TIME * 2)
    world.server.faults.add(Fault(kind="fail", method="POST", route="/graphql", status=502))
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    assert world.landed() == [pull.number for pull in pulls]


@pytest.mark.parametrize(("failures", "in_order"), [(1, True), (3, True), (4, False)])
async def test_label_whose_reads_fail_lands_before_later_ones_while_they_are_repeated_within_seconds(
    world: World, failures: int, in_order: bool
) -> None:
    """P5: a label whose next read is minutes away holds up no other."""
    pulls = [world.open(name) for name in ("first", "second")]
    await world.pass_time(CI_TIME * 2)
    world.server.faults.add(Fault(kind="fail", method="POST", route="/graphql", status=502, times=failures))
    pulls[0].label(LABEL, by="mona")
    await world.pass_time(SECOND / 10 if in_order else SECOND * 8)
    pulls[1].label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    assert (world.landed() == [pull.number for pull in pulls]) is in_order


@pytest.mark.thorough
@pytest.mark.parametrize("here", [False, True])
async def test_label_that_a_sweep_finds_lands_after_the_earlier_one(world: World, here: bool) -> None:
    """The sweep lists the later label before its webhook comes, while a process answers the earlier one."""
    pulls = [world.open(name) for name in ("first", "second")]
    await world.pass_time(CI_TIME * 2)
    pulls[0].label(LABEL, by="mona")
    assert await claimed_elsewhere(world, owner=world.bot.engine.owner if here else "other")
    world.github.webhooks.faults.delay(timedelta(minutes=1), event="pull_request", action="labeled")
    pulls[1].label(LABEL, by="mona")
    world.bot.sweeper.schedule_now()
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    assert world.landed() == [pull.number for pull in pulls]


async def test_label_whose_processes_die_holds_up_later_ones_for_a_minute(world: World) -> None:
    """P5: the later label lands all the same, and so does one for another base branch or with another label at once."""
    world.unsettled = "a dead letter waits for an operator"
    world.repository.create_branch("release", "main")
    first, second, elsewhere = world.open("first"), world.open("second"), world.open("third", base="release")
    await world.pass_time(CI_TIME * 2)
    first.label(LABEL, by="mona")
    (job,) = await claimed_elsewhere(world)
    async with world.bot.database.transaction() as connection:
        await Jobs(connection).renew(job, world.clock.now() + timedelta(hours=1))
    began: datetime = world.clock.now()
    elsewhere.label(LABEL, by="mona")
    await world.until(lambda: elsewhere.merged, within=SECOND)
    second.label(LABEL, by="mona")
    await world.until(lambda: second.merged, within=CI_TIME * 8)
    assert 60 * SECOND <= world.clock.now() - began < 65 * SECOND


async def test_label_that_queues_nothing_holds_up_none(world: World) -> None:
    """Another process that handles a label such as `documentation` does not delay the queue."""
    first, second = world.open("first"), world.open("second")
    await world.pass_time(CI_TIME * 2)
    first.label("documentation", by="mona")
    assert await claimed_elsewhere(world)
    second.label(LABEL, by="mona")
    await world.until(lambda: second.merged, within=SECOND)
