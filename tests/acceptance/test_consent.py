"""P4: whatever withdraws consent takes the entry out of its queue, in every waiting status, and nothing lands."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete

from github_emulator import Fault
from queue_engine.domain.reasons import Reason
from queue_engine.store.tables import consents
from tests.acceptance.callers import Caller
from tests.acceptance.world import CI_TIME, LABEL, LAG, World

MERGE = "/repos/{owner}/{repo}/pulls/{number}/merge"

Act = Callable[[World, Any, bool], object]

ACTS: dict[str, tuple[Act, Reason]] = {
    "push": (lambda w, p, hook: p.push({"more.py": "more\n"}, by="mona", webhook=hook), Reason.HEAD_CHANGED),
    "force_push": (lambda w, p, hook: p.force_push({"else.py": "x\n"}, by="mona", webhook=hook), Reason.HEAD_CHANGED),
    "close": (lambda w, p, hook: p.close(by="mona", webhook=hook), Reason.CLOSED),
    "draft": (lambda w, p, hook: p.convert_to_draft(by="mona", webhook=hook), Reason.DRAFT),
    "edit_base": (lambda w, p, hook: p.edit_base("release", by="mona", webhook=hook), Reason.BASE_CHANGED),
    "unlabel": (lambda w, p, hook: p.unlabel(LABEL, by="mona", webhook=hook), Reason.LABEL_REMOVED),
}


async def queued(world: World, status: str) -> Any:
    """A pull request that waits in this status."""
    [pull] = await opened(world, status, ["pull"])
    await join(world, pull, status)
    return pull


async def opened(world: World, status: str, names: Iterable[str]) -> list[Any]:
    """Green pull requests of these names, none of them queued, in a world where each can come to wait in this status.

    For `pending` another one is the front of the queue; for `updating` and `checking` the base has moved.
    """
    world.repository.create_branch("release", "main")
    first = world.open("first")
    pulls = [world.open(name) for name in names]
    await world.pass_time(CI_TIME * 2)
    if status in {"pending", "updating", "checking"}:
        world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    if status == "pending":
        first.label(LABEL, by="mona")
    await world.settle()
    return pulls


async def join(world: World, pull: Any, status: str) -> None:
    """Label a pull request, and let time pass until it waits in this status."""
    if status == "ready":
        world.server.faults.add(Fault(kind="fail", method="PUT", route=MERGE, status=405))
    pull.label(LABEL, by="mona")
    await world.until_status(pull, status)


async def reasons_of(world: World, pull: Any) -> list[str | None]:
    async with world.bot.engine.store.reading() as tx:
        queues = await tx.queues.all()
        events = await tx.timeline.of_pull_request(queues[0].repository.id, pull.number)
    return [event.reason for event in events if event.reason is not None]


@pytest.mark.every_variant
@pytest.mark.parametrize("status", ["pending", "updating", "checking", "ready"])
async def test_entry_leaves_with_its_reason_in_every_waiting_status(world: World, status: str) -> None:
    """The webhook of the act takes the entry out before its next step, whichever act it is."""
    await leave(world, status, ACTS)


@pytest.mark.thorough
@pytest.mark.parametrize("lag", [LAG], ids=["lagging"])
@pytest.mark.parametrize(
    ("status", "acts"),
    [
        ("ready", ("push", "unlabel")),
        ("checking", ("force_push", "draft")),
        ("updating", ("close",)),
        ("pending", ("edit_base",)),
    ],
)
async def test_entry_leaves_with_its_reason_although_reads_still_show_it_unchanged(
    world: World, status: str, acts: tuple[str, ...]
) -> None:
    """Each act once, and each waiting status: the webhook is newer than the reads."""
    await leave(world, status, acts)


async def leave(world: World, status: str, acts: Iterable[str]) -> None:
    """One pull request after the other waits in this status, until somebody does one of these acts."""
    acts = list(acts)
    pulls = await opened(world, status, acts)
    tip = world.repository.tree("main")
    for act, pull in zip(acts, pulls, strict=True):
        await join(world, pull, status)
        do, reason = ACTS[act]
        do(world, pull, True)
        await world.until_status(pull, None)
        assert reason.value in await reasons_of(world, pull), act
    await world.pass_time(timedelta(hours=1))
    assert [(act, pull.merged, world.spoken(pull)) for act, pull in zip(acts, pulls, strict=True)] == [
        (act, False, 1) for act in acts
    ]
    if status != "pending":
        assert world.repository.tree("main") == tip


@pytest.mark.every_variant
@pytest.mark.parametrize("act", ACTS)
async def test_nothing_lands_when_the_webhook_of_the_act_never_came(world: World, act: str) -> None:
    """GitHub is read before the merge: consent withdrawn in silence is found there."""
    pull = await queued(world, "checking")
    do, reason = ACTS[act]
    tip = world.repository.tree("main")
    do(world, pull, False)
    await world.until_status(pull, None)
    assert reason.value in await reasons_of(world, pull)
    assert not pull.merged
    assert world.repository.tree("main") == tip


@pytest.mark.thorough
async def test_update_by_somebody_else_with_the_right_parents_keeps_its_place(world: World) -> None:
    """Who pressed the update button proves nothing either way: the parents do."""
    pull = await queued(world, "updating")
    await world.until(lambda: pull.merged)
    assert world.spoken(pull) == 1


async def test_label_queues_for_the_base_branch_that_it_was_set_for_and_no_other(world: World) -> None:
    """P4: the author of a pull request changes its base branch without any right, also in the moment of the label."""
    world.repository.create_branch("dev", "main")
    pull = world.open("pull", base="dev")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="hubot")
    pull.edit_base("main", by="mona")
    await world.pass_time(timedelta(hours=1))
    assert not pull.merged
    assert await world.reasons(pull) == [Reason.BASE_CHANGED.value]
    assert LABEL not in pull.labels


@pytest.mark.parametrize("act", ["push", "edit_base"])
async def test_label_of_a_time_when_imq_was_away_lands_nothing_that_changed_after_it(world: World, act: str) -> None:
    """P4: the sweep finds the label before its webhook comes again, and does not know what was labelled."""
    world.repository.create_branch("dev", "main")
    pull = world.open("pull", base="dev")
    await world.pass_time(CI_TIME * 2)
    await world.kill()
    pull.label(LABEL, by="hubot")
    await world.github.schedule.run_due()
    world.clock.set(world.clock.now() + timedelta(minutes=2))
    if act == "push":
        pull.push({"unseen.py": "unseen\n"}, by="mona")
    else:
        pull.edit_base("main", by="mona")
    await world.github.schedule.run_due()
    world.clock.set(world.clock.now() + timedelta(minutes=10))
    await world.restart()
    await world.pass_time(timedelta(hours=1))
    assert not pull.merged
    assert await world.reasons(pull) == [ACTS[act][1].value]
    assert LABEL not in pull.labels


@pytest.mark.thorough
@pytest.mark.parametrize("touched", [True, False])
async def test_label_without_a_webhook_queues_what_did_not_change_after_it_and_nothing_else(
    world: World, touched: bool
) -> None:
    """P4, P5: without its webhook, a label is refused within minutes, and people can queue again. A push does not
    land by it, whether or not it renews `updated_at`."""
    world.github.behaviour.pushes_touch_pulls = touched
    same, changed = world.open("same"), world.open("changed")
    await world.pass_time(CI_TIME * 2)
    for pull in (same, changed):
        pull.label(LABEL, by="hubot", webhook=False)
    await world.pass_time(timedelta(seconds=5))
    changed.push({"unseen.py": "unseen\n"}, by="mona", webhook=False)
    await world.until(lambda: same.merged)
    await world.pass_time(timedelta(minutes=6))
    assert await world.reasons(changed) == [Reason.LABEL_NOT_RECEIVED.value]
    assert world.spoken(changed) == 1
    assert LABEL not in changed.labels
    changed.comment("/queue", by="hubot")
    await world.until(lambda: changed.merged)


async def test_entry_leaves_before_its_merge_when_the_person_who_queued_it_lost_the_permission(world: World) -> None:
    """P4: no webhook reports it, so the permission is read again right before the merge."""
    pull = await queued(world, "checking")
    world.repository.record.collaborators["mona"] = "read"
    await world.until_status(pull, None)
    assert await reasons_of(world, pull) == [Reason.PERMISSION_LOST.value]
    assert world.requests(f"PUT {MERGE}") == 0
    world.repository.record.collaborators["mona"] = "write"
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged)


def _craft(world: World, pull: Any) -> None:
    """A writer pushes a merge with the parents of IMQ's update and a content of his own."""
    git = world.repository.record.git
    tip, head = world.repository.sha("main"), pull.head_sha
    tree = git.write_tree(git.tree(tip), {"pull.py": "2\n", "crafted.py": "crafted\n"})
    signature = git.must(head).author
    crafted = git.write_commit(tree, (head, tip), "Merge branch 'main' into pull", signature, signature)
    world.repository.push_commit("pull", crafted, by="hubot", webhook=False)


@pytest.mark.thorough
@pytest.mark.parametrize(("who_may_queue", "lands"), [("maintain", False), ("write", True)])
async def test_crafted_update_of_a_writer_lands_only_where_writers_may_queue(
    world: World, who_may_queue: str, lands: bool
) -> None:
    """P4: the parents of an update prove what was merged, and GitHub's signature that IMQ made the merge."""
    rules = f"who_may_queue:\n  permission: {who_may_queue}\n"
    world.repository.push("main", {".github/imq.yml": rules}, "Rules", by="rhea")
    pull = world.repository.open_pull_request("Pull", head="pull", by="mona", files={"pull.py": "2\n"})
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    await world.settle()
    world.server.faults.add(
        Fault(
            kind="fail",
            method="PUT",
            route="/repos/{owner}/{repo}/pulls/{number}/update-branch",
            status=502,
            times=None,
        )
    )
    pull.label(LABEL, by="rhea")
    await world.until_status(pull, "updating")
    _craft(world, pull)
    world.server.faults.clear()
    await world.pass_time(timedelta(hours=1))
    assert pull.merged is lands
    assert ("crafted.py" in world.repository.files("main")) is lands


async def test_update_of_imq_lands_where_only_maintainers_may_queue(world: World) -> None:
    """GitHub signs what IMQ has it merge, and names IMQ as the author."""
    rules = "who_may_queue:\n  permission: maintain\n"
    world.repository.push("main", {".github/imq.yml": rules}, "Rules", by="rhea")
    await world.settle()
    pull = await world.behind("pull")
    pull.label(LABEL, by="rhea")
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_ledger_names_who_consented_to_each_head_and_by_what(world: World, mona: Caller) -> None:
    """By a label, a command, a call, and IMQ's own update of what the person saw."""
    labeled, commanded, called = await world.behind("labeled"), world.open("commanded"), world.open("called")
    await world.pass_time(CI_TIME * 2)
    labeled.label(LABEL, by="mona")
    await world.settle()
    commanded.comment("/queue", by="mona")
    await mona.queue(called)
    await world.until_status(labeled, "checking")
    entries = {each.number: each for each in await world.entries()}
    await world.until(lambda: all(each.merged for each in (labeled, commanded, called)))
    async with world.bot.engine.store.reading() as tx:
        found = {number: await tx.consents.of(entry) for number, entry in entries.items()}
    first = [(each.source.value, each.by, each.base_branch) for each in found[labeled.number]]
    assert first[:2] == [("label", "mona", "main"), ("own_update", None, "main")]
    sources = [found[pull.number][0].source.value for pull in (commanded, called)]
    assert sources == ["command", "call"]
    assert all(found[pull.number][-1].head_sha == pull.head_sha for pull in (labeled, commanded, called))


async def test_head_that_the_ledger_lacks_does_not_land(world: World) -> None:
    """A database that lost its consents lands nothing of them; the comment says so, and others go on (P5)."""
    pull, other = await world.behind("pull"), world.open("other")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    async with world.bot.engine.store.transaction() as tx:
        await tx.connection.execute(delete(consents))
    other.label(LABEL, by="mona")
    await world.until(lambda: other.merged, within=timedelta(hours=1))
    assert not pull.merged
    assert await reasons_of(world, pull) == [Reason.INTERNAL_ERROR]
    assert world.requests("PUT " + MERGE) == 1


@pytest.mark.parametrize("then", ["back", "amended"])
@pytest.mark.parametrize("status", ["checking", pytest.param("ready", marks=pytest.mark.thorough)])
async def test_base_that_was_moved_by_force_brings_no_dropped_commit_back(world: World, status: str, then: str) -> None:
    """P4, P6: the base lost the commit that IMQ merged. No one pushed to the pull request, and none is blamed."""
    pull = await queued(world, "checking")
    dropped = world.repository.sha()
    if status == "ready":
        # GitHub refuses once: the update is proved by then, and waits for the next call.
        world.server.faults.add(Fault(kind="fail", method="PUT", route=MERGE, status=405))
        await world.until(lambda: world.requests(f"PUT {MERGE}") == 1)
    if then == "amended":
        world.repository.force_push("main", {"moved.py": "amended\n"}, by="rhea")
    else:
        parent = world.repository.record.git.must(dropped).parents[0]
        world.repository.push_commit("main", parent, by="rhea", force=True)
    await world.pass_time(CI_TIME * 4)
    assert await reasons_of(world, pull) == [Reason.BASE_REWRITTEN]
    assert not world.repository.is_ancestor(dropped, "main")
    comment = world.comment(pull)
    assert dropped in comment
    assert "somebody moved `main` by force" in comment
    assert "pushed" not in comment.partition("<details>")[0]
