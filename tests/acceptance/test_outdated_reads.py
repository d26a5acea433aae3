"""P1, P4: no answer of GitHub's that is older than a known fact decides anything.

IMQ repeats a read that lags by about two seconds, and reports no outage.
"""

from datetime import timedelta

import pytest

from github_emulator import READ_KINDS, ReadKind
from tests.acceptance.callers import Caller
from tests.acceptance.world import LABEL, World

SECONDS = timedelta(seconds=1)


@pytest.mark.thorough
async def test_label_that_a_read_does_not_show_yet_queues_within_seconds(world: World) -> None:
    """GitHub sends the webhook first; the job of the delivery reads again, and keeps its place in the order."""
    pull = world.open("late")
    await world.pass_time(timedelta(minutes=10))
    world.server.lag.set(2 * SECONDS, "pull_request")
    pull.label(LABEL, by="mona")
    await world.pass_time(8 * SECONDS)
    assert pull.merged or await world.entry(pull) is not None
    await world.until(lambda: pull.merged, within=timedelta(minutes=5))


async def test_label_taken_off_dequeues_although_reads_still_show_it(world: World) -> None:
    """P4: the read that shows the label is older than the webhook."""
    pull = world.open("called-off")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    world.server.lag.set(3 * SECONDS, "pull_request")
    pull.unlabel(LABEL, by="mona")
    await world.pass_time(10 * SECONDS)
    assert await world.reasons(pull) == ["label_removed"]


@pytest.mark.thorough
@pytest.mark.parametrize(("lag_of_pulls", "touched"), [(3 * SECONDS, True), (20 * SECONDS, False)])
async def test_push_to_a_queued_head_dequeues_although_reads_still_show_the_old_head(
    world: World, lag_of_pulls: timedelta, touched: bool
) -> None:
    """P4: what was pushed is not what was consented to. The old head is known by its webhook, however long reads show
    it, and whether or not a push renews `updated_at`."""
    world.github.behaviour.pushes_touch_pulls = touched
    pull = world.open("pushed")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    world.server.lag.set(lag_of_pulls, "pull_request", "graphql")
    pull.push({"more.py": "unreviewed\n"}, "More", by="hubot")
    await world.pass_time(lag_of_pulls * 2 + 4 * SECONDS)
    assert await world.reasons(pull) == ["head_changed"]


async def test_command_typed_after_a_push_queues_the_new_head(world: World) -> None:
    """P4: consent is given to what stands there when `/queue` is typed, not to what reads still show."""
    pull = world.open("pushed-and-typed")
    await world.pass_time(timedelta(minutes=10))
    world.server.lag.set(5 * SECONDS, "pull_request", "graphql")
    world.server.lag.set(timedelta(0), "graphql_branches")
    pull.push({"more.py": "reviewed\n"}, "More", by="mona")
    await world.pass_time(2 * SECONDS)
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged, within=timedelta(minutes=10))
    assert not await world.reasons(pull)


@pytest.mark.thorough
async def test_ended_check_that_is_not_listed_yet_is_read_again_after_seconds(world: World) -> None:
    """Not after fifteen minutes: that is for webhooks that were lost."""
    pull = world.open("checked")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    world.server.lag.set(2 * SECONDS, "checks", "statuses")
    began = world.clock.now()
    await world.until(lambda: pull.merged)
    assert world.clock.now() - began < timedelta(minutes=4)


@pytest.mark.thorough
async def test_token_that_is_not_known_yet_costs_no_command(world: World) -> None:
    """The typed `/queue` is carried out when GitHub's replicas know the token."""
    pull = world.open("typed")
    await world.pass_time(timedelta(minutes=10))
    world.server.lag.set(2 * SECONDS, "token")
    world.server.tokens.revoke_all()
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged, within=timedelta(minutes=5))


async def test_call_that_met_an_outdated_read_may_be_retried_soon(world: World, mona: Caller) -> None:
    """A caller over HTTP waits for two seconds, and the pull request is queued by its newest head."""
    pull = world.open("called")
    await world.pass_time(timedelta(minutes=10))
    world.server.lag.set(2 * SECONDS, "pull_request", "graphql")
    pull.push({"more.py": "more\n"}, "More", by="mona")
    await world.pass_time(SECONDS)
    answer = await mona.queue(pull)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    await world.pass_time(2 * SECONDS)
    assert (await mona.queue(pull, head_sha=pull.head_sha)).status == 202


async def test_comment_and_pull_request_just_named_are_not_missing(world: World) -> None:
    """A 404 for what a webhook just named passes with time."""
    world.server.lag.set(2 * SECONDS, "pull_request", "comments")
    pull = world.open("new")
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged, within=timedelta(minutes=15))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", READ_KINDS)
async def test_read_that_lags_for_seconds_is_no_trouble(world: World, kind: ReadKind) -> None:
    """It is counted as what it is; no entry waits for GitHub, and no comment says so."""
    world.server.lag.set(2 * SECONDS, kind)
    pull = await world.behind("calm")
    pull.label(LABEL, by="mona")
    troubled = False
    for _ in range(100):
        await world.pass_time(4 * SECONDS)
        entry = await world.entry(pull)
        troubled = troubled or (entry is not None and entry.run.github_failing_since is not None)
    assert (pull.merged, troubled) == (True, False)
    assert not await world.reasons(pull)


@pytest.mark.thorough
async def test_read_that_remains_outdated_is_an_outage_and_delays_for_a_bounded_time(world: World) -> None:
    """After 1, 2, 4 and 8 seconds it is an outage of GitHub's, and the queue continues when that ends."""
    first, second = world.open("first"), world.open("second")
    await world.pass_time(timedelta(minutes=10))
    first.label(LABEL, by="mona")
    second.label(LABEL, by="mona")
    await world.until(lambda: first.merged)
    world.server.lag.set(timedelta(minutes=2), "compare")
    await world.pass_time(timedelta(minutes=1))
    await world.until(lambda: second.merged, within=timedelta(minutes=30))
