"""Consent lasts as long as the label that queued, and no other person's label changes it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import DropConnection, Fault, RecordedCall
from queue_engine.domain.reasons import Reason
from tests.acceptance.choosing import configure
from tests.acceptance.test_label_creation import SWEEP
from tests.acceptance.train_world import a_train_world
from tests.acceptance.world import CI_TIME, LABEL, LAG, World, a_world

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


async def two_queued(world: World) -> tuple[Any, Any]:
    """Two pull requests in the queue, by mona's label."""
    pulls = world.open("first"), world.open("second")
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    return pulls


def again_while_the_label_goes(world: World, pull: Any, *, phase: str, deaf: bool = False) -> list[str | None]:
    """Have `/queue` carried out while IMQ's removal of the label is on its way; the status that it had then."""
    statuses: list[str | None] = []

    async def hook(exchange: RecordedCall) -> None:
        if exchange.phase == phase and exchange.template.startswith("DELETE") and "labels" in exchange.template:
            world.server.on_request = None
            pull.comment("/queue", by="mona")
            for _ in range(6):
                await world.github.schedule.run_due()
                await world.bot.worker.run_due()
            statuses.append(await world.status(pull))
            if deaf:
                world.app.webhook_url = "http://127.0.0.1:9/webhook"

    world.server.on_request = hook
    return statuses


@pytest.mark.thorough
@pytest.mark.parametrize("phase", ["before", "after"])
async def test_pull_request_queued_again_while_imq_removes_the_label_remains_queued(world: World, phase: str) -> None:
    """Labels that IMQ itself changes are no commands: the label is set again, once, and it lands."""
    _, pull = await two_queued(world)
    statuses = again_while_the_label_goes(world, pull, phase=phase)
    pull.comment("/unqueue", by="mona")
    await world.settle()
    await world.pass_time(30 * SECOND)
    assert statuses == ["pending"]
    assert LABEL in pull.labels
    assert await world.reasons(pull) == [Reason.UNQUEUED.value]
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_unqueue_and_queue_in_one_comment_leave_it_queued(world: World) -> None:
    """Both commands are carried out, one after the other."""
    _, pull = await two_queued(world)
    pull.comment("/unqueue\n/queue", by="mona")
    await world.pass_time(MINUTE)
    assert LABEL in pull.labels
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_label_is_found_by_the_sweep_when_the_removals_webhook_was_lost(world: World) -> None:
    """GitHub shows who removed the label, however IMQ learns that it is gone."""
    _, pull = await two_queued(world)
    address = world.app.webhook_url
    statuses = again_while_the_label_goes(world, pull, phase="before", deaf=True)
    pull.comment("/unqueue", by="mona")
    await world.settle()
    world.app.webhook_url = address
    await world.until(lambda: pull.merged)
    assert statuses == ["pending"]
    assert await world.reasons(pull) == [Reason.UNQUEUED.value]


@pytest.mark.thorough
async def test_request_counts_although_github_does_not_let_the_label_be_set(world: World) -> None:
    """P2, P4: what IMQ is still to set is not missing: no read that lacks the label takes the pull request out."""
    set_label = "/repos/{owner}/{repo}/issues/{number}/labels"
    world.server.faults.add(Fault(kind="fail", method="POST", route=set_label, status=502, times=None))
    pull = world.open("typed")
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged)
    assert (await world.reasons(pull), pull.labels) == ([], [])


@pytest.mark.thorough
async def test_dequeue_by_a_person_after_that_ends_the_request(world: World) -> None:
    """The label that IMQ set again is a person's to take off, like any other."""
    _, pull = await two_queued(world)
    again_while_the_label_goes(world, pull, phase="before")
    pull.comment("/unqueue", by="mona")
    await world.pass_time(30 * SECOND)
    pull.unlabel(LABEL, by="mona")
    await world.settle()
    assert await world.status(pull) is None
    await world.pass_time(HOUR)
    assert not pull.merged
    assert LABEL not in pull.labels


async def test_label_of_somebody_without_right_keeps_no_entry_queued(world: World) -> None:
    """Of two labels that queue, the one that queued it is its consent."""
    await configure(world, "trigger_labels: [merge-queue, ship]\n")
    _, pull = await two_queued(world)
    pull.label("ship", by="tria")
    await world.settle()
    pull.unlabel(LABEL, by="mona")
    await world.settle()
    assert await world.status(pull) is None
    await world.pass_time(HOUR)
    assert not pull.merged


@pytest.mark.thorough
async def test_second_label_of_somebody_with_right_keeps_it_queued(world: World) -> None:
    """Who may queue may say so twice."""
    await configure(world, "trigger_labels: [merge-queue, ship]\n")
    _, pull = await two_queued(world)
    pull.label("ship", by="hubot")
    await world.settle()
    pull.unlabel(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert await world.reasons(pull) == []


async def test_label_taken_off_and_set_again_without_right_keeps_nothing_wanted(world: World) -> None:
    """The second label went with who set it; a triager's is another one."""
    await configure(world, "trigger_labels: [merge-queue, ship]\n")
    _, pull = await two_queued(world)
    pull.label("ship", by="hubot")
    await world.settle()
    pull.unlabel("ship", by="hubot")
    await world.settle()
    pull.label("ship", by="tria")
    await world.settle()
    pull.unlabel(LABEL, by="mona")
    await world.settle()
    assert await world.status(pull) is None


@pytest.mark.thorough
@pytest.mark.parametrize(("by", "title"), [("tria", "Merge pull request"), ("hubot", "pull")])
async def test_method_label_counts_from_who_may_queue(world: World, by: str, title: str) -> None:
    """How a pull request lands is for those to say who may land it."""
    await configure(world, "merge:\n  method: merge\n  method_labels: {squash-it: squash}\n")
    pull = world.open("pull")
    pull.label(LABEL, by="mona")
    await world.settle()
    pull.label("squash-it", by=by)
    await world.until(lambda: pull.merged)
    assert world.repository.log("main")[0].title.startswith(title)


@pytest.mark.thorough
async def test_method_label_that_was_there_when_queued_counts(world: World) -> None:
    """A person who queues approves the present labels; IMQ does not ask who set them."""
    await configure(world, "merge:\n  method: merge\n  method_labels: {squash-it: squash}\n")
    pull = world.open("pull")
    pull.label("squash-it", by="tria")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert world.repository.log("main")[0].title.startswith("pull")


@pytest.mark.thorough
async def test_label_renamed_in_the_configuration_dequeues_no_entry(world: World) -> None:
    """Consent was given by the label that queued then; it lands, and that label comes off."""
    pulls = await two_queued(world)
    await configure(world, "trigger_labels: ship\n")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.pass_time(MINUTE)
    assert [(await world.reasons(pull), pull.labels) for pull in pulls] == [([], []), ([], [])]


@pytest.mark.parametrize("lag", [LAG, timedelta(0)])
@pytest.mark.parametrize("trains", [False, True])
async def test_label_renamed_in_the_repository_is_still_consent(tmp_path: Path, trains: bool, lag: timedelta) -> None:
    """P4, P6: no one withdrew anything. It lands by the former name, and both say what the new name needs."""
    world_of = a_train_world(tmp_path, lag=lag) if trains else a_world(tmp_path, lag=lag)
    async with world_of as world:
        pulls = await two_queued(world)
        world.repository.edit_label(LABEL, "land", by="rhea")
        await world.pass_time(MINUTE * 2)
        assert [await world.status(pull) for pull in pulls] != [None, None]
        assert await world.reasons(pulls[0]) == await world.reasons(pulls[1]) == []
        named = "renamed by `rhea` to `land`: it queues others only if `trigger_labels` names it"
        assert named in world.comment(pulls[1])
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.pass_time(MINUTE)
        assert [pull.labels for pull in pulls] == [[], []]
        assert all(named in world.comment(pull) for pull in pulls)


@pytest.mark.every_variant("False-lag1")
@pytest.mark.parametrize("lag", [LAG, timedelta(0)])
@pytest.mark.parametrize("trains", [False, True])
async def test_label_whose_rename_no_webhook_reported_is_still_consent(
    tmp_path: Path, trains: bool, lag: timedelta
) -> None:
    """P2, P4: the process was dead, and GitHub never sends the webhook again: its history has no removal."""
    world_of = a_train_world(tmp_path, lag=lag) if trains else a_world(tmp_path, lag=lag)
    async with world_of as world:
        pulls = await two_queued(world)
        pulls[1].label("docs", by="hubot")
        await world.settle()
        await world.kill()
        world.repository.edit_label(LABEL, "land", by="rhea", webhook=False)
        await world.restart()
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.pass_time(MINUTE)
        assert [pull.labels for pull in pulls] == [[], ["docs"]]
        named = "renamed to `land`: it queues others only if `trigger_labels` names it"
        assert all(named in world.comment(pull) for pull in pulls)


@pytest.mark.every_variant
@pytest.mark.parametrize("act", ["removed", "renamed and removed", "renamed and others set", "deleted"])
async def test_label_that_is_gone_without_a_webhook_calls_off_and_names_who_removed_it(world: World, act: str) -> None:
    """P4, P6: only one label that no one set, in the place of one that is not there any more, is a renamed one."""
    pull = world.open("only")
    pull.label(LABEL, by="mona")
    for name in ("docs", "text"):
        world.repository.create_label(name, by="rhea")
        await world.settle()
    await world.kill()
    with world.repository.domain.context.events.muted(True):
        match act:
            case "removed":
                pull.unlabel(LABEL, by="hubot")
                pull.label("docs", by="hubot")
            case "deleted":
                world.repository.delete_label(LABEL, by="rhea")
            case _:
                world.repository.edit_label(LABEL, "land", by="rhea")
                if act == "renamed and removed":
                    pull.unlabel("land", by="hubot")
                else:
                    pull.label("docs", by="hubot")
                    world.repository.edit_label("docs", "other", by="rhea")
    await world.restart()
    await world.pass_time(CI_TIME * 3)
    deleted = act in ("deleted", "renamed and others set")
    assert await world.reasons(pull) == [Reason.LABEL_DELETED.value if deleted else Reason.LABEL_REMOVED.value]
    assert deleted or "`hubot` removed the label" in world.comment(pull)
    assert not pull.merged


@pytest.mark.thorough
async def test_label_renamed_in_the_repository_and_taken_off_calls_off(world: World) -> None:
    """P4: what queued it is what keeps it queued, by any name; a renamed label of another kind changes nothing."""
    _, pull = await two_queued(world)
    world.repository.create_label("docs", by="rhea")
    world.repository.edit_label("docs", "text", by="rhea")
    world.repository.edit_label(LABEL, "land", by="rhea")
    await world.pass_time(MINUTE)
    assert await world.status(pull) is not None
    pull.unlabel("land", by="hubot")
    await world.settle()
    assert await world.status(pull) is None
    assert await world.reasons(pull) == [Reason.LABEL_REMOVED.value]
    assert "`hubot` removed the label" in world.comment(pull)


@pytest.mark.thorough
async def test_label_that_is_renamed_to_the_one_that_queues_is_no_consent(world: World) -> None:
    """P4: GitHub's history shows that somebody set another label."""
    world.repository.delete_label(LABEL, by="rhea")
    pull = await world.behind("add")
    pull.label("bug", by="mona")
    await world.settle()
    world.repository.edit_label("bug", LABEL, by="rhea")
    await world.pass_time(SWEEP * 3)
    assert await world.status(pull) is None
    assert not pull.merged
    assert await world.reasons(pull) == [Reason.LABEL_NOT_RECEIVED.value]


@pytest.mark.every_variant
@pytest.mark.parametrize("trains", [False, True])
async def test_label_deleted_in_the_repository_is_named_as_the_cause_on_each_pull_request(
    tmp_path: Path, trains: bool
) -> None:
    """P6: no one removed it from these two; `/queue` sets it again. Another label that is deleted changes nothing."""
    async with a_train_world(tmp_path) if trains else a_world(tmp_path) as world:
        pulls = await two_queued(world)
        pulls[1].label("docs", by="mona")
        world.repository.delete_label("docs", by="rhea")
        await world.settle()
        assert await world.status(pulls[1]) is not None
        world.repository.delete_label(LABEL, by="rhea")
        await world.pass_time(MINUTE)
        for pull in pulls:
            assert await world.reasons(pull) == [Reason.LABEL_DELETED.value]
            assert "`rhea` deleted the label in the repository" in world.comment(pull)
            pull.comment("/queue", by="mona")
        await world.until(lambda: all(pull.merged for pull in pulls))


async def test_old_label_of_a_renamed_one_taken_off_still_calls_off(world: World) -> None:
    """What queued it is what keeps it queued."""
    _, pull = await two_queued(world)
    await configure(world, "trigger_labels: ship\n")
    pull.unlabel(LABEL, by="hubot")
    await world.settle()
    assert await world.status(pull) is None
    assert await world.reasons(pull) == [Reason.LABEL_REMOVED.value]
    assert "`hubot` removed the label" in world.comment(pull)


@pytest.mark.thorough
async def test_label_renamed_while_waiting_for_a_place_gets_its_place(world: World) -> None:
    """Who waits outside of a full queue consented, too."""
    await configure(world, "depth: 1\n")
    first, second = await two_queued(world)
    await configure(world, "depth: 1\ntrigger_labels: ship\n")
    await world.until(lambda: first.merged and second.merged)
    assert await world.reasons(second) == [Reason.QUEUE_FULL.value]


@pytest.mark.thorough
async def test_dequeue_while_its_merge_is_under_way_is_announced_once(world: World) -> None:
    """IMQ removes the label on behalf of the sender: that is no mishap, whenever its webhook comes."""
    merge = "/repos/{owner}/{repo}/pulls/{number}/merge"
    pull = world.open("pull")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    world.server.faults.add(Fault(kind="fail", method="PUT", route=merge, status=502))

    async def call_off(exchange: RecordedCall) -> None:
        if (exchange.method, exchange.phase) == ("DELETE", "after"):
            # The webhook of the removal is heard before IMQ has noted what it was for: GitHub's answer is lost.
            world.server.on_request = None
            await world.github.schedule.run_due()
            raise DropConnection
        if (exchange.template, exchange.phase) == (f"PUT {merge}", "before"):
            pull.comment("/unqueue", by="mona")
            for _ in range(4):
                await world.github.schedule.run_due()
                await world.bot.worker.run_due()

    world.server.on_request = call_off
    await world.until_status(pull, None)
    await world.pass_time(HOUR)
    assert (pull.merged, pull.labels) == (False, [])
    assert world.requests(f"PUT {merge}") == 1
