"""P1, P4: no answer of GitHub's that is older than what it told before decides anything.

What lags by two seconds or so is asked again within seconds, and nobody hears of trouble.
"""

from datetime import timedelta

import pytest

from sandbox.rest.lag import Kind
from tests.scenarios.callers import Caller
from tests.scenarios.world import LABEL, World

SECONDS = timedelta(seconds=1)


async def test_comparison_that_lags_behind_a_landing_lands_nothing_untested(world: World) -> None:
    """Green alone, red together. No webhook tells of the landing: IMQ knows it by GitHub's answer to the merge."""
    first = world.open("first", files={"limits.txt": "6\n"})
    second = world.open("second", files={"others.txt": "6\n"})
    await world.pass_time(timedelta(minutes=10))
    world.github.webhooks.faults.drop(None, event="push")
    world.server.lag.set(6 * SECONDS, "compare", "graphql_branches")
    first.label(LABEL, by="mona")
    await world.until(lambda: first.merged)
    await world.pass_time(2 * SECONDS)
    second.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=20))
    assert not second.merged
    assert await world.reasons(second) == ["checks_failed"]


async def test_comparison_that_lags_behind_a_push_to_the_base_lands_nothing_untested(world: World) -> None:
    """The same with a push by hand, which its webhook told."""
    pull = world.open("change", files={"others.txt": "6\n"})
    await world.pass_time(timedelta(minutes=10))
    world.server.lag.set(6 * SECONDS, "compare", "graphql_branches")
    world.repository.push("main", {"limits.txt": "6\n"}, "By hand", by="rhea")
    await world.pass_time(2 * SECONDS)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=20))
    assert not pull.merged
    assert await world.reasons(pull) == ["checks_failed"]


async def test_label_that_a_read_does_not_show_yet_queues_within_seconds(world: World) -> None:
    """GitHub sends the webhook first; the job of the delivery reads again, and keeps its turn."""
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


async def test_push_to_a_queued_head_dequeues_although_reads_still_show_the_old_head(world: World) -> None:
    """P4: what was pushed is not what was consented to."""
    pull = world.open("pushed")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    world.server.lag.set(3 * SECONDS, "pull_request")
    pull.push({"more.py": "unreviewed\n"}, "More", by="hubot")
    await world.pass_time(10 * SECONDS)
    assert await world.reasons(pull) == ["head_changed"]


async def test_ended_check_that_is_not_listed_yet_is_looked_at_again_after_seconds(world: World) -> None:
    """Not after fifteen minutes: that is for webhooks that were lost."""
    pull = world.open("checked")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    world.server.lag.set(2 * SECONDS, "checks", "statuses")
    began = world.clock.now()
    await world.until(lambda: pull.merged)
    assert world.clock.now() - began < timedelta(minutes=4)


async def test_token_that_is_not_known_yet_costs_no_command(world: World) -> None:
    """The typed `/queue` is carried out when GitHub's replicas know the token."""
    pull = world.open("typed")
    await world.pass_time(timedelta(minutes=10))
    world.server.lag.set(2 * SECONDS, "token")
    world.server.tokens.revoke_all()
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged, within=timedelta(minutes=5))


async def test_call_that_met_an_outdated_read_is_told_to_try_again_soon(world: World, mona: Caller) -> None:
    """Whoever waits over HTTP waits for two seconds, and the pull request is queued by its newest head."""
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


@pytest.mark.parametrize("kind", ["pull_request", "compare", "checks", "contents"])
async def test_read_that_lags_for_seconds_is_no_trouble(world: World, kind: Kind) -> None:
    """It is counted as what it is; no entry waits for GitHub, and nobody is told that it does."""
    world.server.lag.set(2 * SECONDS, kind)
    pull = await world.behind("calm")
    pull.label(LABEL, by="mona")
    troubled = False
    for _ in range(100):
        await world.pass_time(4 * SECONDS)
        entry = await world.entry(pull)
        troubled = troubled or (entry is not None and entry.trouble_since is not None)
    assert (pull.merged, troubled) == (True, False)
    assert not await world.reasons(pull)


async def test_read_that_stays_outdated_is_trouble_and_holds_up_for_a_bounded_time(world: World) -> None:
    """After 1, 2, 4 and 8 seconds it is GitHub in trouble, and goes on by itself when that ends."""
    first, second = world.open("first"), world.open("second")
    await world.pass_time(timedelta(minutes=10))
    first.label(LABEL, by="mona")
    second.label(LABEL, by="mona")
    await world.until(lambda: first.merged)
    world.server.lag.set(timedelta(minutes=2), "compare")
    await world.pass_time(timedelta(minutes=1))
    await world.until(lambda: second.merged, within=timedelta(minutes=30))
