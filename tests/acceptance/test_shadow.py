"""Shadow mode: IMQ judges everything beside the present way of merging, and writes nothing on GitHub.

Covers `queue_engine/shadow/landing.py`, `queue_engine/shadow/mode.py`, `queue_engine/shadow/pull_requests.py`,
`queue_engine/handlers/shadow.py` and `bot/api/shadow.py`.
"""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from queue_engine.domain.facts import CheckState
from queue_engine.domain.model import Repository
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow import BaseState, ShadowAction, ShadowLanding, ShadowOutcome, ShadowPull
from queue_engine.executor.cleanup import BRANCH_JOB
from sandbox.rest.record import RecordedCall
from tests.acceptance.callers import caller
from tests.acceptance.world import CI_TIME, LABEL, World

FILE = ".github/imq.yml"
SHADOW = "mode: shadow\n"
QUERIES = {"POST /graphql", "POST /app/installations/{installation_id}/access_tokens"}
"""What IMQ posts in shadow mode too: queries, and requests for its own tokens."""


def repository_of(world: World) -> Repository:
    """The world's repository as IMQ addresses it."""
    record = world.repository.record
    installation = next(each for each in world.github.state.installations_of(record) if each.app is world.app)
    return Repository(record.id, "acme", "widgets", installation.id)


def writes(world: World, since: int = 0) -> list[RecordedCall]:
    """The bot's requests that change something on GitHub."""
    asked = list(world.server.requests)[since:]
    return [each for each in asked if each.method != "GET" and each.template not in QUERIES]


async def shadowed(world: World, pull: Any) -> ShadowPull:
    """What IMQ stored of a pull request."""
    async with world.bot.engine.store.reading() as tx:
        found = await tx.shadow.find(pull.record.repository.id, pull.number)
    assert found is not None, f"#{pull.number} is not shadowed"
    return found


async def decision(world: World, pull: Any) -> ShadowAction:
    """What IMQ would have done with a pull request last."""
    found = (await shadowed(world, pull)).decision
    assert found is not None
    return found


async def landing(world: World, pull: Any) -> ShadowLanding:
    """How IMQ judges the merge of a pull request."""
    found = (await shadowed(world, pull)).landing
    assert found is not None
    return found


async def configure(world: World, text: str | None) -> None:
    """Push a configuration to the default branch, or remove it."""
    world.repository.push("main", {FILE: text}, "Configure IMQ", by="rhea")
    await world.settle()


@pytest.fixture
async def shadow(world: World) -> AsyncIterator[World]:
    """A world whose repository is in shadow mode from the start; at its end IMQ has written nothing."""
    await configure(world, SHADOW)
    yield world
    await world.settle()
    assert writes(world) == []
    assert await world.entries() == ()


async def test_label_of_an_up_to_date_pull_request_would_be_merged_at_once(shadow: World) -> None:
    """Its checks have passed on the base's tip: IMQ would merge at once, and a person does half an hour later."""
    pull = shadow.open("green")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.method, found.at) == (ShadowOutcome.MERGED, "merge", shadow.clock.now())
    assert not pull.merged
    assert pull.labels == [LABEL]
    await shadow.pass_time(timedelta(minutes=30))
    pull.merge(by="mona")
    await shadow.settle()
    assert await decision(shadow, pull) == found
    assert (await landing(shadow, pull)).at - found.at >= timedelta(minutes=30)


async def test_label_while_checks_run_would_be_merged_when_they_pass(shadow: World) -> None:
    """The last required check makes the decision, as it would in a queue."""
    pull = shadow.open("slow")
    await shadow.settle()
    pull.label(LABEL, by="mona")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.checks) == (ShadowOutcome.WAITING, ("ci/test",))
    queued = shadow.clock.now()
    await shadow.pass_time(CI_TIME * 2)
    found = await decision(shadow, pull)
    assert found.outcome is ShadowOutcome.MERGED
    assert found.at - queued < CI_TIME + timedelta(minutes=1)


async def test_behind_its_base_the_landing_is_predicted_until_somebody_updates_the_branch(shadow: World) -> None:
    """IMQ may not update the branch: it predicts by the checks of the head, and continues after a person's update."""
    pull = await shadow.behind("old")
    pull.label(LABEL, by="mona")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert found.outcome is ShadowOutcome.UPDATING
    assert found.predicted_at is not None
    assert timedelta(minutes=2) < found.predicted_at - found.at < timedelta(minutes=4)
    await shadow.pass_time(timedelta(hours=1))
    assert await decision(shadow, pull) == found
    pull.update_branch(by="mona")
    await shadow.pass_time(CI_TIME * 2)
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED


async def test_failing_check_would_eject(shadow: World) -> None:
    """As in a queue, after a comparison with the base."""
    pull = shadow.open("red", files={"limits.txt": "99\n"})
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason, found.checks) == (ShadowOutcome.DEQUEUED, Reason.CHECKS_FAILED, ("ci/test",))


async def test_label_without_right_would_be_rejected_once(shadow: World) -> None:
    """A triager's label queues nothing; to set it again at once costs no judgement."""
    pull = shadow.open("change")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="tria")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason) == (ShadowOutcome.REJECTED, Reason.LABEL_WITHOUT_RIGHT)
    asked = len(shadow.server.requests)
    pull.unlabel(LABEL, by="tria")
    pull.label(LABEL, by="tria")
    await shadow.settle()
    assert len(shadow.server.requests) == asked
    pull.unlabel(LABEL, by="mona")
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED


async def test_withdrawn_consent_would_dequeue(shadow: World) -> None:
    """P4 holds for the would-be entry: a removed label, a push, a draft and a close count."""
    acts: dict[Reason, Callable[[Any], object]] = {
        Reason.LABEL_REMOVED: lambda pull: pull.unlabel(LABEL, by="mona"),
        Reason.HEAD_CHANGED: lambda pull: pull.push({"more.py": "more\n"}, by="mona"),
        Reason.DRAFT: lambda pull: pull.convert_to_draft(by="mona"),
        Reason.CLOSED: lambda pull: pull.close(by="mona"),
    }
    pulls = {reason: shadow.open(reason.value) for reason in acts}
    await shadow.settle()
    for pull in pulls.values():
        pull.label(LABEL, by="mona")
    await shadow.settle()
    assert {(await decision(shadow, pull)).outcome for pull in pulls.values()} == {ShadowOutcome.WAITING}
    for reason, act in acts.items():
        act(pulls[reason])
    await shadow.settle()
    for reason, pull in pulls.items():
        found = await decision(shadow, pull)
        assert (found.outcome, found.reason) == (ShadowOutcome.DEQUEUED, reason)


async def test_merge_by_hand_of_a_green_and_current_head_is_one_that_imq_would_have_made(shadow: World) -> None:
    """It has no label. IMQ judges the head that landed, and what checks say of the base afterwards."""
    pull = shadow.open("sound")
    await shadow.pass_time(CI_TIME * 2)
    pull.review("APPROVED", by="hubot")
    await shadow.pass_time(timedelta(minutes=10))
    pull.merge(by="mona")
    await shadow.pass_time(CI_TIME * 2)
    found = await landing(shadow, pull)
    assert (found.by, found.reason, found.checks, found.tree_tested) == ("mona", None, CheckState.PASSED, True)
    assert found.approved_at is not None
    assert timedelta(minutes=9) < found.at - found.approved_at < timedelta(minutes=11)
    assert (found.base, found.base_checks) == (BaseState.GREEN, ())
    assert (await shadowed(shadow, pull)).decision is None


@pytest.mark.lagging
async def test_merges_that_pass_alone_but_break_together_are_named(shadow: World) -> None:
    """The conflict that a queue prevents: both heads are green, the second tree was never tested, the base is red."""
    pulls = [shadow.open(name, files={f"{name}.txt": "6\n"}) for name in ("one", "two")]
    await shadow.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.merge(by="rhea")
        await shadow.pass_time(CI_TIME * 2)
    first, second = [await landing(shadow, pull) for pull in pulls]
    assert (first.tree_tested, first.base) == (True, BaseState.GREEN)
    assert (second.checks, second.tree_tested, second.base) == (CheckState.PASSED, False, BaseState.RED)
    assert (second.base_checks, second.red_before) == (("ci/test",), False)
    assert (await landing(shadow, pulls[0])).before != second.before


async def test_merge_by_hand_with_unfinished_checks_is_named(shadow: World) -> None:
    """An administrator may merge past required checks; the checks that pass a minute later do not count."""
    pull = shadow.open("hasty")
    await shadow.settle()
    pull.merge(by="rhea")
    await shadow.pass_time(CI_TIME * 2)
    found = await landing(shadow, pull)
    assert (found.checks, found.not_passed) == (CheckState.PENDING, ("ci/test",))


async def test_changed_configuration_counts_for_the_pull_requests_that_wait(shadow: World) -> None:
    """A label that blocks from now on dequeues the would-be entry."""
    pull = shadow.open("blocked")
    pull.label("needs design", by="mona")
    await shadow.settle()
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING
    await configure(shadow, SHADOW + "blocking: {labels: needs design}\n")
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason) == (ShadowOutcome.DEQUEUED, Reason.BLOCKED_BY_LABEL)


async def test_switch_to_shadow_mode_dequeues_without_a_write_and_judges_the_labels(world: World) -> None:
    """The configuration forbids it: IMQ leaves label, comment and check run as they are."""
    pull = await world.behind("queued")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(timedelta(minutes=1))
    comment = world.comment(pull)
    since = len(world.server.requests)
    await configure(world, SHADOW)
    await world.pass_time(timedelta(minutes=15))
    assert await world.entries() == ()
    assert await world.reasons(pull) == ["shadow_mode"]
    assert writes(world, since) == []
    assert (world.comment(pull), pull.labels, pull.merged) == (comment, [LABEL], False)
    assert (await shadowed(world, pull)).decision is not None


async def test_switch_from_shadow_mode_queues_the_labels_that_are_there(world: World) -> None:
    """As at a first start: labels count if no push followed them."""
    await configure(world, SHADOW)
    pull = await world.behind("labeled")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=5))
    assert writes(world) == []
    await configure(world, None)
    await world.until(lambda: pull.merged)
    await world.settle()
    assert "anded" in world.comment(pull)
    found = await shadowed(world, pull)
    assert (found.entry, found.interrupted) == (None, True)


async def test_faulty_configuration_keeps_shadow_mode(shadow: World) -> None:
    """A mistake in the file does not make IMQ write, also after a restart with an empty memory."""
    await configure(shadow, SHADOW + "depth: many\n")
    await shadow.kill()
    await shadow.restart()
    pull = shadow.open("change")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).reason is Reason.MISCONFIGURED


async def test_faulty_first_configuration_that_asks_for_shadow_mode_gets_it(world: World) -> None:
    """A team that tries IMQ out sees no comment of IMQ, whatever else is wrong in its file."""
    await configure(world, "mode: shadow\ndepth: many\n")
    pull = world.open("change")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 2)
    assert writes(world) == []


async def test_calls_and_commands_are_refused_and_the_report_is_shown(
    shadow: World, session: aiohttp.ClientSession
) -> None:
    """A program that queues learns why not; IMQ cannot answer a comment."""
    mona = await caller(shadow, session)
    pull = shadow.open("called")
    await shadow.pass_time(CI_TIME * 2)
    refused = await mona.queue(pull)
    assert (refused.status, refused.body["reason"]) == (422, "shadow_mode")
    pull.comment("/queue", by="mona")
    await shadow.settle()
    pull.merge(by="mona")
    await shadow.settle()
    path = "/api/v1/repositories/acme/widgets/shadow"
    found = await mona.ask("GET", path)
    assert (found.status, found.body["repositories"]) == (200, ["acme/widgets"])
    assert [each["merge"]["by"] for each in found.body["pull_requests"]] == ["mona"]
    assert (found.body["figures"]["merges"], found.body["figures"]["agreed"]) == (1, 1)
    assert (await mona.ask("GET", f"{path}?since=2100-01-01T00:00:00Z")).body["pull_requests"] == []


async def test_gateway_sends_no_write_even_if_queues_forgot_the_mode(shadow: World) -> None:
    """The entry, the label and the branch to delete are from before the switch; their writes are dropped."""
    landed = shadow.open("landed")
    pull = await shadow.behind("queued")
    landed.merge(by="mona")
    await shadow.settle()
    async with shadow.bot.engine.change() as change:
        queue = await change.tx.queues.find_or_create(repository_of(shadow), "main", change.now)
        await change.tx.entries.add(
            queue_id=queue.id,
            number=pull.number,
            title="Add",
            author="mona",
            queued_by="mona",
            queued_head=pull.head_sha,
            enqueued_at=change.now,
        )
        await change.tx.outbox.want_label(queue.repository, pull.number, "shipped", on=True, due=change.now)
        await change.tx.jobs.enqueue(
            kind=BRANCH_JOB,
            request={"queue_id": queue.id, "number": landed.number, "head": landed.head_sha},
            process_id="branch",
            now=change.now,
        )
        await change.tx.queues.wake(queue.id, change.now)
    await shadow.pass_time(timedelta(minutes=5))
    assert writes(shadow) == []
    async with shadow.bot.engine.store.reading() as tx:
        assert await tx.outbox.wanted_labels(queue.repository.id, pull.number) == {}
        assert await tx.dead_letters.count() == 0


async def test_label_whose_webhook_was_lost_is_judged_by_the_sweep(shadow: World) -> None:
    """As in a queue, GitHub has to prove that no push followed."""
    pull = shadow.open("lost")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona", webhook=False)
    await shadow.pass_time(timedelta(minutes=15))
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED
