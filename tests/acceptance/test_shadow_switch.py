"""Switching between modes, and the places that keep IMQ from writing in shadow mode."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from github_emulator import Fault
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.executor.cleanup import BRANCH_JOB
from tests.acceptance.callers import caller
from tests.acceptance.shadow_mode import SHADOW, begin, configure, decision, repository_of, shadowed, writes
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, LAG, World, a_world

_ENDS: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "unlabel": ("label_removed", lambda pull: pull.unlabel(LABEL, by="hubot"), "removed the label"),
    "close": ("closed", lambda pull: pull.close(by="hubot"), "closed the pull request"),
    "draft": ("draft", lambda pull: pull.convert_to_draft(by="hubot"), "made the pull request a draft"),
    "push": ("head_changed", lambda pull: pull.push({"more.py": "more\n"}, by="hubot"), "pushed new commits"),
    "retarget": ("base_changed", lambda pull: pull.edit_base("release", by="hubot"), "changed the base branch"),
}
"""What ends a consent: its reason, what a person does, and the words of the comment."""


@pytest.mark.thorough
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


@pytest.mark.thorough
async def test_switch_from_shadow_mode_queues_the_labels_that_are_there(world: World) -> None:
    """As at a first start: labels count if no push followed them."""
    await begin(world)
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


@pytest.mark.thorough
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


@pytest.mark.thorough
async def test_configuration_that_cannot_be_read_at_all_keeps_shadow_mode(shadow: World) -> None:
    """It names no mode, and a restart has forgotten the last valid file: the stored mode counts."""
    await configure(shadow, "a: [")
    await shadow.kill()
    await shadow.restart()
    pull = shadow.open("change")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await shadow.pass_time(timedelta(minutes=15))
    assert (await decision(shadow, pull)).reason is Reason.MISCONFIGURED
    assert writes(shadow) == []


@pytest.mark.thorough
async def test_faulty_first_configuration_that_asks_for_shadow_mode_gets_it(world: World) -> None:
    """A team that tries IMQ out sees no comment of IMQ, whatever else is wrong in its file."""
    await begin(world, "mode: shadow\ndepth: many\n")
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
    assert [each["landing"]["by"] for each in found.body["pulls"]] == ["mona"]
    assert (found.body["figures"]["merges"], found.body["figures"]["agreed"]) == (1, 1)
    assert (await mona.ask("GET", f"{path}?since=2100-01-01T00:00:00Z")).body["pulls"] == []


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


async def test_shadow_mode_and_back_lands_what_was_queued(world: World) -> None:
    """P4, P6: the labels' consent outlasts shadow mode; what people read is corrected when IMQ may write again."""
    pulls = [await world.behind("first"), world.open("second"), world.open("withdrawn")]
    await world.pass_time(CI_TIME)
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(pulls[0], "checking")
    await world.pass_time(timedelta(minutes=1))
    await configure(world, SHADOW)
    await world.pass_time(timedelta(minutes=15))
    assert await world.entries() == ()
    pulls[2].unlabel(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=15))
    await configure(world, None)
    await world.until(lambda: all(pull.merged for pull in pulls[:2]))
    await world.pass_time(timedelta(minutes=15))
    assert ["anded" in world.comment(pull) for pull in pulls] == [True, True, False]
    assert await world.contradictions() == []


@pytest.mark.parametrize("how", ["label", "command", "call"])
@pytest.mark.parametrize("at", [CI_TIME / 2, CI_TIME + timedelta(seconds=20)])
async def test_shadow_mode_and_back_lands_what_github_alone_cannot_prove(
    world: World, session: aiohttp.ClientSession, how: str, at: timedelta
) -> None:
    """P4: a label in the second of the push, or set by IMQ after a command or call: the ledger names head and person.

    `at`: while the first one is checked, and once IMQ has updated the second one.
    """
    mona, pulls = await caller(world, session), [await world.behind("first"), world.open("second")]
    for pull in pulls:
        if how == "call":
            assert (await mona.queue(pull)).status == 202
        elif how == "command":
            pull.comment("/queue", by="mona")
        else:
            pull.label(LABEL, by="mona")
    await world.pass_time(at)
    await configure(world, SHADOW)
    await world.pass_time(timedelta(minutes=15))
    await configure(world, None)
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("lag", [timedelta(0), LAG])
async def test_shadow_mode_and_back_keeps_the_consent_to_a_stack(tmp_path: Path, lag: timedelta, lands: bool) -> None:
    """P4, P6: a `/queue`, or a label before the one below landed and GitHub changed the base branch; IMQ is killed."""
    async with a_world(tmp_path, lag=lag) as world:
        world.repository.record.delete_branch_on_merge = True
        bottom, top = world.open("bottom"), world.open("top", base="bottom")
        await world.pass_time(CI_TIME * 2)
        if lands:
            bottom.label(LABEL, by="mona")
            top.label(LABEL, by="mona")
            await world.until(lambda: bottom.merged)
            await world.until_status(top, "checking")
        else:
            top.comment("/queue", by="mona")
            await world.pass_time(timedelta(minutes=1))
        await configure(world, SHADOW)
        await world.kill()
        await world.restart()
        await world.pass_time(timedelta(minutes=15))
        await configure(world, None)
        await world.pass_time(timedelta(minutes=1))
        assert await world.contradictions() == []
        if not lands:
            assert [each.reason for each in (await outside(world, top)).unmet] == [Reason.STACKED_ABOVE]
            bottom.label(LABEL, by="mona")
        await world.until(lambda: top.merged, within=timedelta(hours=1))


async def test_label_of_shadow_mode_that_names_no_head_is_refused_for_no_webhook_that_imq_missed(world: World) -> None:
    """P4, P6: it was set right after the push, and its webhook came."""
    await begin(world)
    pull = world.open("labeled")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=5))
    await configure(world, None)
    await world.pass_time(timedelta(minutes=30))
    assert await world.reasons(pull) == ["label_not_received"]
    assert "was set while IMQ was in shadow mode, or IMQ missed its webhook" in world.comment(pull)


@pytest.mark.thorough
async def test_push_during_shadow_mode_is_not_what_the_ledger_has(world: World) -> None:
    """P4: the label stays on, and consents to no newer head."""
    pull = world.open("pushed")
    pull.comment("/queue", by="mona")
    await world.pass_time(CI_TIME / 2)
    await configure(world, SHADOW)
    pull.push({"more.py": "more\n"}, by="hubot")
    await world.pass_time(timedelta(minutes=15))
    await configure(world, None)
    await world.pass_time(timedelta(hours=1))
    assert not pull.merged
    assert await world.reasons(pull) == ["shadow_mode", "head_changed"]


@pytest.mark.every_variant("unlabel-lag1", "close-lag1", "draft-lag0", "push-lag1", "retarget-lag0")
@pytest.mark.parametrize("lag", [timedelta(0), LAG])
@pytest.mark.parametrize("act", _ENDS)
async def test_change_in_shadow_mode_ends_what_was_queued_and_its_person_is_named(
    tmp_path: Path, act: str, lag: timedelta
) -> None:
    """P4, P6: the label's consent would outlast shadow mode; the newest words say who ended it, and how."""
    reason, change, words = _ENDS[act]
    async with a_world(tmp_path, lag=lag) as world:
        world.repository.create_branch("release", "main")
        pull = await checked_until_shadow(world)
        change(pull)
        await world.pass_time(timedelta(minutes=15))
        await configure(world, None)
        await world.pass_time(timedelta(minutes=30))
        assert await world.reasons(pull) == ["shadow_mode", reason]
        left_on = [LABEL] if act == "close" else []
        assert (pull.merged, pull.labels, f"`hubot` {words}" in world.comment(pull)) == (False, left_on, True)
        shown = [each.output["summary"] for each in pull.check_runs if each.name == "IMQ" and each.output]
        assert all(f"`hubot` {words}" in each for each in shown)


async def test_label_that_is_set_again_in_shadow_mode_is_new_consent(world: World) -> None:
    """P4: somebody removed it meanwhile."""
    pull = await checked_until_shadow(world)
    pull.unlabel(LABEL, by="hubot")
    await world.pass_time(timedelta(minutes=2))
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=15))
    await configure(world, None)
    await world.until(lambda: pull.merged, within=timedelta(hours=1))
    assert await world.reasons(pull) == ["shadow_mode", "label_removed"]


@pytest.mark.every_variant(
    *("label-mona-command-later", "label-mona-call-back", "command-mona-call-at once", "command-mona-command-back"),
    *("command-tria-command-at once", "command-tria-call-later"),
)
@pytest.mark.parametrize("when", ["at once", "later", "back"])
@pytest.mark.parametrize("way", ["command", "call"])
@pytest.mark.parametrize(("how", "by"), [("label", "mona"), ("command", "mona"), ("command", "tria")])
async def test_command_or_call_in_shadow_mode_withdraws_what_was_queued(
    world: World, session: aiohttp.ClientSession, how: str, by: str, way: str, when: str
) -> None:
    """P4, P6: it gets no answer yet, and the label stays on; a person without the right to it changes nothing.

    `back`: IMQ may write again, and has not read the labels yet.
    """
    person, pull = await caller(world, session, by), world.open("withdrawn")
    await world.pass_time(CI_TIME / 2)
    if how == "label":
        pull.label(LABEL, by="mona")
    else:
        pull.comment("/queue", by="mona")
    await world.settle()
    await configure(world, SHADOW)
    if when == "later":
        await world.pass_time(timedelta(minutes=12))
    if when == "back":
        world.server.faults.add(Fault("fail", route="GET /repos/{owner}/{repo}/pulls", status=503, times=None))
        await configure(world, None)
    if way == "command":
        pull.comment("/unqueue", by=by)
    else:
        answer = await person.leave(pull)
        assert answer.status == (403 if by == "tria" else 200), answer
    await world.pass_time(timedelta(minutes=2))
    world.server.faults.clear()
    await world.pass_time(timedelta(minutes=13))
    if when != "back":
        await configure(world, None)
    await world.pass_time(timedelta(hours=1))
    assert pull.merged is (by == "tria")
    if not pull.merged:
        assert await world.reasons(pull) == ["shadow_mode", "unqueued"]
        assert "`mona` dequeued the pull request" in world.comment(pull)
        assert (pull.labels, await world.contradictions()) == ([], [])


@pytest.mark.every_variant
@pytest.mark.parametrize("trains", [False, True])
async def test_what_a_command_asked_for_outlasts_shadow_mode(tmp_path: Path, trains: bool) -> None:
    """P3, P4: `/queue alone` and `/queue high` count again, beside the consent itself."""
    async with a_train_world(tmp_path) if trains else a_world(tmp_path) as world:
        pulls = front, alone, last = await ready(world, "front", "alone", "last")
        text = world.repository.files("main").get(".github/imq.yml", "")
        world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
        await world.settle()
        for pull, words, by in (
            (front, "/queue", "mona"),
            (alone, "/queue alone", "mona"),
            (last, "/queue high", "rhea"),
        ):
            pull.comment(words, by=by)
            await world.settle()
        await configure(world, SHADOW)
        await world.pass_time(timedelta(minutes=15))
        await configure(world, text)
        await world.until(lambda: all(pull.merged for pull in (front, alone, last)))
        async with world.bot.engine.store.reading() as tx:
            ledgers = [await tx.consents.of_last_entry(world.repository.record.id, each.number) for each in pulls]
        asked = [any(each.source == "command_alone" for each in ledger) for ledger in ledgers]
        assert asked == [False, True, False]
        order = [
            commit.title.split()[3].lstrip("#")
            for commit in world.repository.log("main")
            if "pull request" in commit.title
        ]
        assert order.index(str(last.number)) > order.index(str(front.number)), "the newest comes first"


async def test_check_run_from_before_shadow_mode_ends_although_the_pull_request_waits_outside_then(
    world: World,
) -> None:
    """P6: somebody pushed a head that fails, and set the label again, while IMQ could not write."""
    pull = await checked_until_shadow(world)
    pull.push({"queued.txt": "11\n"}, by="mona")
    await world.pass_time(CI_TIME * 2)
    pull.unlabel(LABEL, by="mona")
    pull.label(LABEL, by="mona")
    await world.settle()
    await configure(world, None)
    await world.pass_time(timedelta(minutes=30))
    assert [each.reason for each in (await outside(world, pull)).unmet] == [Reason.CHECKS_FAILED]
    assert await world.contradictions() == []


@pytest.mark.every_variant
@pytest.mark.parametrize("merged", [True, False])
async def test_check_run_from_before_shadow_mode_ends_although_only_a_reply_is_left_of_the_comment(
    world: World, merged: bool
) -> None:
    """P6: a command was answered, and a person merged it or not, before a sweep had it queued again."""
    pull = await checked_until_shadow(world)
    pull.unlabel(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=5))
    await configure(world, None)
    pull.comment("/why", by="mona")
    if merged:
        pull.merge(by="rhea")
    await world.pass_time(timedelta(minutes=30))
    assert [each.status for each in pull.check_runs if each.name == "IMQ"] == ["completed"]
    assert await world.contradictions() == []


async def checked_until_shadow(world: World) -> Any:
    """A queued pull request whose checks run while somebody switches to shadow mode."""
    pull = await world.behind("queued")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(timedelta(minutes=1))
    await configure(world, SHADOW)
    return pull


async def outside(world: World, pull: Any) -> Entry:
    """The entry of a pull request that waits outside its queue."""
    async with world.bot.engine.store.reading() as tx:
        [entry] = await tx.entries.waiting_outside(pull.record.repository.id)
    assert entry.number == pull.number
    return entry


@pytest.mark.parametrize("state", ["building", "testing"])
async def test_shadow_mode_leaves_no_branch_of_a_train(tmp_path: Path, state: str) -> None:
    """P2: cleaning waits until IMQ may write again, and the pull requests land then."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "first", "second")
        trains = world.repository.record.git
        queue_all(pulls)
        await world.pass_time(timedelta(seconds=5 if state == "building" else 60))
        assert [name for name in trains.branches() if name.startswith("imq")]
        await configure(world, SHADOW)
        await world.pass_time(timedelta(minutes=20))
        await configure(world, "trains: {candidates: push}\n")
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.pass_time(timedelta(hours=3))
        assert [name for name in trains.branches() if name.startswith("imq")] == []
        assert await world.contradictions() == []
