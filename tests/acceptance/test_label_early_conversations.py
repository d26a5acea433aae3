"""A pull request gets its label while a conversation is open: it waits, and joins when the last one is resolved."""

from datetime import timedelta

import pytest

from github_emulator import PullRequestOptions
from tests.acceptance.branch_rules import guard
from tests.acceptance.choosing import green
from tests.acceptance.shadow_mode import decision
from tests.acceptance.test_label_early import SOON, waiting
from tests.acceptance.world import CI_TIME, LABEL, World

DRAFT = PullRequestOptions(draft=True)
GRAPHQL = "POST /graphql"
QUARTER = timedelta(minutes=15)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_open_conversation_keeps_the_label_waiting_until_it_is_resolved(world: World) -> None:
    """P6: one comment says what the pull request lacks, and whose move it is; the webhook lets it join."""
    guard(world, required_conversation_resolution=True)
    pull = world.open("early")
    threads = [pull.open_thread(text, by="hubot") for text in ("Really?", "Why?")]
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.pass_time(QUARTER)
    assert (LABEL in pull.labels, await world.entries()) == (True, ())
    comment = world.comment(pull)
    assert "`main` requires resolved conversations, and some are open." in comment
    assert "**Next step for the author:** Resolve the open conversations." in comment
    pull.resolve_thread(threads[0])
    await world.pass_time(timedelta(seconds=30))
    assert not (await waiting(world, pull)).is_ready
    pull.resolve_thread(threads[1])
    await world.until(lambda: pull.merged, within=SOON)
    await world.settle()
    assert world.spoken(pull) == 1
    assert LABEL not in pull.labels


@pytest.mark.thorough
@pytest.mark.lagging
async def test_conversation_that_is_opened_again_keeps_it_waiting(world: World) -> None:
    """P4: a read that still shows the conversation as resolved lets nothing join."""
    guard(world, required_conversation_resolution=True)
    pull = world.open("early", options=DRAFT)
    thread = pull.open_thread("Really?", by="hubot")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    pull.resolve_thread(thread)
    await world.pass_time(timedelta(minutes=1))
    assert "conversations" not in world.comment(pull)
    pull.resolve_thread(thread, by="hubot", resolved=False)
    pull.ready_for_review(by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert not pull.merged
    assert "requires resolved conversations" in world.comment(pull)
    pull.resolve_thread(thread)
    await world.until(lambda: pull.merged, within=SOON)


@pytest.mark.thorough
async def test_app_without_the_event_lets_the_sweep_join_it_within_the_hour(world: World) -> None:
    """An App that was registered before lacks the event: no list shows the change, so IMQ reads once an hour."""
    world.app.events = frozenset({*world.app.events} - {"pull_request_review_thread"})
    guard(world, required_conversation_resolution=True)
    pull = world.open("early")
    thread = pull.open_thread("Really?", by="hubot")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.pass_time(QUARTER * 2)
    asked = world.requests(GRAPHQL)
    pull.resolve_thread(thread)
    await world.pass_time(timedelta(minutes=1))
    assert (world.requests(GRAPHQL), pull.merged) == (asked, False)
    await world.until(lambda: pull.merged, within=timedelta(minutes=75))


async def test_conversations_cost_nothing_where_no_rule_requires_them(world: World) -> None:
    """P7: an open one is no reason to wait, and its webhooks cause no request, nor do those of a queued one."""
    pull = await green(world, "free", options=DRAFT)
    thread = pull.open_thread("Really?", by="hubot")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    asked = world.requests()
    for is_resolved in (True, False):
        pull.resolve_thread(thread, resolved=is_resolved)
        await world.settle()
    assert world.requests() == asked
    pull.ready_for_review(by="mona")
    await world.until(lambda: pull.merged, within=SOON)


async def test_open_conversation_in_shadow_mode_would_be_waited_for(shadow: World) -> None:
    """IMQ judges again when it is resolved."""
    guard(shadow, required_conversation_resolution=True)
    pull = await green(shadow, "early")
    thread = pull.open_thread("Really?", by="hubot")
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert str((await decision(shadow, pull)).reason) == "conversations_unresolved"
    pull.resolve_thread(thread)
    await shadow.settle()
    assert str((await decision(shadow, pull)).outcome) == "merged"
