import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import StaleRecord, TransitionError
from queue_engine.domain.facts import Commit
from queue_engine.domain.known_facts import Fact, Push, of_branch
from queue_engine.domain.model import Entry, EntryStatus, RedBase
from queue_engine.domain.reasons import Reason
from queue_engine.executor.landing import land, settle_pending_merge
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import CHECKING, HOUR, NOW, PENDING, POLICY, READY, REPOSITORY, pull

AS_TESTED = Commit("landed-1", "tree-of-head-1", ("base-1", "head-1"))
OTHERWISE = Commit("landed-1", "tree-of-something", ("base-1", "head-1"))


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def merged(scene: Setup, landed: Commit, status: EntryStatus = READY) -> tuple[Reason | None, tuple[Entry, ...]]:
    """Land the front of a queue of two; return why the queue is paused then, and its entries."""
    queue = await scene.front(status=status, tested_tree="tree-of-head-1", merge_requested_at=NOW)
    async with scene.store.transaction() as tx:
        await tx.entries.add(
            queue_id=queue.id,
            number=2,
            title="Change 2",
            author="bob",
            queued_by="max",
            queued_head="head-of-2",
            enqueued_at=NOW,
        )
        front = (await tx.entries.of_queue(queue.id))[0]
    await land(scene.engine, queue, front, landed, POLICY)
    async with scene.store.reading() as tx:
        after = await tx.queues.get(queue.id)
        assert after is not None
        return after.pauses[0].reason if after.pauses else None, await tx.entries.of_queue(queue.id)


async def test_landing_of_the_tested_tree_lets_the_next_one_begin(scene: Setup) -> None:
    """The entry is gone, and the next is known to lack what landed: it is updated without a question."""
    paused, (second,) = await merged(scene, AS_TESTED)
    assert paused is None
    assert (second.number, second.position, second.status) == (2, 0, PENDING)
    assert second.newer_tip == "landed-1"


async def test_landing_of_another_tree_pauses_the_queue_and_says_so(scene: Setup) -> None:
    """P1: the base has an untested tree; nothing else may land before a maintainer resumes the queue."""
    paused, (second,) = await merged(scene, OTHERWISE)
    assert paused is Reason.TREE_MISMATCH
    assert second.number == 2
    async with scene.store.reading() as tx:
        events = await tx.timeline.latest(9)
    assert {(event.event, event.reason) for event in events} == {("landed", None), ("paused", Reason.TREE_MISMATCH)}


@pytest.mark.parametrize("landed", [AS_TESTED, OTHERWISE])
async def test_landing_records_what_landed_and_what_was_tested(scene: Setup, landed: Commit) -> None:
    """P1: on the pull request itself a mismatch is a mismatch, with both trees; the timeline has them in any case."""
    await merged(scene, landed)
    reason = None if landed is AS_TESTED else Reason.TREE_MISMATCH
    async with scene.store.reading() as tx:
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)
        (event,) = [event for event in await tx.timeline.latest(9) if event.event == "landed"]
        known = await tx.known.about(REPOSITORY.id, [of_branch("main")], since=NOW - HOUR)
    assert notice is not None
    detail = f"#1 landed as landed-1 with tree {landed.tree}; tested was tree-of-head-1"
    assert (notice.reason, notice.landed_sha, notice.detail) == (reason, "landed-1", reason and detail)
    assert event.data is not None
    recorded = {"sha": "landed-1", "tree": landed.tree, "tested_tree": "tree-of-head-1", "head": "head-1"}
    assert {key: event.data[key] for key in recorded} == recorded
    assert event.entry_id is not None
    moves = [one.statement for one in known[of_branch("main")]]
    assert moves == [Push(before="base-1", after="landed-1")], "no read may say that the base stands where it stood"


async def test_landing_of_rebased_commits_records_that_the_base_left_the_tip_that_was_tested(scene: Setup) -> None:
    """P1: the landed commit's parent is a rebased one; no later read may show the tip from before them all."""
    queue = await scene.front(status=READY, tested_tree="tree-of-head-1", base_tip="base-1")
    async with scene.store.reading() as tx:
        (front,) = await tx.entries.of_queue(queue.id)
    await land(scene.engine, queue, front, Commit("landed-1", "tree-of-head-1", ("rebased-1",)), POLICY)
    async with scene.store.reading() as tx:
        known = await tx.known.about(REPOSITORY.id, [of_branch("main")], since=NOW - HOUR)
    assert Push(before="base-1", after="landed-1") in [one.statement for one in known[of_branch("main")]]


@pytest.mark.parametrize(
    ("base_tip", "parents", "after", "squashed", "untested"),
    [
        ("base-0", ("base-1", "head-1"), None, False, True),
        ("base-1", ("base-1", "head-1"), None, False, False),
        ("base-1", ("base-1", "head-1"), "base-2", False, False),
        (None, ("base-1",), None, True, False),
        ("base-0", ("base-1",), None, True, True),
        ("base-1", ("base-1",), None, True, False),
        ("base-0", ("rebased-1",), None, False, False),
        ("base-0", ("rebased-1",), "landed-1", False, False),
        ("base-0", ("base-1",), "base-1", False, True),
        ("base-0", ("rebased-1",), "base-1", False, True),
    ],
)
async def test_landing_of_another_tree_because_somebody_pushed_is_judged_by_the_checks_of_the_new_tip(
    scene: Setup,
    base_tip: str | None,
    parents: tuple[str, ...],
    after: str | None,
    squashed: bool,
    untested: bool,
) -> None:
    """P1: the base moved between the last poll and the merge.

    Any other difference is for a person. The parent of several rebased commits is never the base's tip: only a push
    that a webhook reported proves it.
    """
    queue = await scene.front(status=READY, tested_tree="tree-of-head-1", base_tip=base_tip)
    async with scene.store.transaction() as tx:
        (front,) = await tx.entries.of_queue(queue.id)
        if after is not None:
            recorded = Push(before=base_tip or "", after=after, at=NOW)
            await tx.known.record(REPOSITORY.id, [Fact(subject=of_branch("main"), statement=recorded)], NOW)
    await land(scene.engine, queue, front, Commit("landed-1", "tree-of-something", parents), POLICY, squashed=squashed)
    async with scene.store.reading() as tx:
        after_landing = await tx.queues.get(queue.id)
    assert after_landing is not None
    red = RedBase("", "landed-1", NOW, 0, NOW + POLICY.ask_again.maximum, untested=True)
    assert after_landing.red == (red if untested else None)


@pytest.mark.parametrize(("landed", "agrees"), [(AS_TESTED, True), (OTHERWISE, False)])
async def test_landing_of_the_tested_tree_ends_a_red_base(scene: Setup, landed: Commit, agrees: bool) -> None:
    """The queue is due at once; a base with a tested tree is not red."""
    async with scene.store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        await tx.red_bases.note(queue.id, RedBase("ci", "base-1", NOW, 0, NOW, 10))
    await merged(scene, landed)
    async with scene.store.reading() as tx:
        after = await tx.queues.get(queue.id)
        assert await tx.queues.next_due() == NOW
    assert after is not None
    assert (after.red is None) is agrees


async def test_landing_from_any_other_status_than_ready_is_refused(scene: Setup) -> None:
    """What lands was checked."""
    with pytest.raises(TransitionError):
        await merged(scene, AS_TESTED, status=CHECKING)


async def test_landing_of_an_entry_that_changed_meanwhile_stores_nothing(scene: Setup) -> None:
    """All or nothing: the next pass reads again and lands it once."""
    queue = await scene.front(status=READY, tested_tree="tree-of-head-1")
    async with scene.store.reading() as tx:
        (read,) = await tx.entries.of_queue(queue.id)
    await scene.change_entry(needs_refetch=True)
    with pytest.raises(StaleRecord):
        await land(scene.engine, queue, read, OTHERWISE, POLICY)
    async with scene.store.reading() as tx:
        after = await tx.queues.get(queue.id)
        assert after is not None
        assert after.pauses == ()
        assert len(await tx.entries.of_queue(queue.id)) == 1


async def test_landing_without_a_known_tested_tree_is_a_mismatch(scene: Setup) -> None:
    """P1: nothing is known to be green."""
    queue = await scene.front(status=READY, tested_tree=None, merge_requested_at=NOW)
    async with scene.store.reading() as tx:
        (front,) = await tx.entries.of_queue(queue.id)
    await land(scene.engine, queue, front, AS_TESTED, POLICY)
    async with scene.store.reading() as tx:
        after = await tx.queues.get(queue.id)
    assert after is not None
    assert [pause.reason for pause in after.pauses] == [Reason.TREE_MISMATCH]


async def test_merge_of_a_departed_entry_that_was_settled_before_lands_no_second_time(scene: Setup) -> None:
    """P2: two sweeps may find the same merge; the first one stored it."""
    queue = await scene.front(status=READY, tested_tree=AS_TESTED.tree)
    async with scene.store.transaction() as tx:
        (entry,) = await tx.entries.of_queue(queue.id)
        await tx.pending_merges.put(entry, NOW)
        await tx.entries.remove(entry)
        await tx.red_bases.note(queue.id, RedBase("ci", "tip", NOW, 0, NOW))
    for _ in range(2):
        await land(scene.engine, queue, entry, AS_TESTED, POLICY, departed=True)
    async with scene.store.reading() as tx:
        landed = await tx.timeline_reads.of_branch(REPOSITORY.id, queue.base_branch, ["landed"], limit=9)
        after = await tx.queues.get(queue.id)
    assert [event.number for event in landed] == [entry.number]
    # The base may have moved since, and what it is now was not tested.
    assert after is not None
    assert after.red is not None


async def test_merge_of_a_departed_entry_waits_while_its_pull_request_is_queued_again(scene: Setup) -> None:
    """P1: the pass over the present entry reads what GitHub did; the former one is settled once that has left."""
    await scene.front(status=READY, tested_tree=AS_TESTED.tree)
    async with scene.store.transaction() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
        assert entry is not None
        await tx.pending_merges.put(entry, NOW)
    scene.github.pull = pull(open=False)
    await settle_pending_merge(scene.engine, REPOSITORY, 1)
    assert scene.github.asked == []
    async with scene.store.transaction() as tx:
        await tx.entries.remove(entry)
    await settle_pending_merge(scene.engine, REPOSITORY, 1)
    async with scene.store.reading() as tx:
        assert await tx.pending_merges.find(REPOSITORY.id, 1) is None


async def test_landing_forgets_the_refusals_of_its_pull_request_alone(scene: Setup) -> None:
    """They are counted since the last landing."""
    async with scene.store.transaction() as tx:
        for number in (1, 2):
            await tx.rejections.put(REPOSITORY.id, number, "head-0", Reason.CONFLICT, NOW)
    await merged(scene, AS_TESTED)
    async with scene.store.reading() as tx:
        left = [await tx.rejections.find(REPOSITORY.id, number) is not None for number in (1, 2)]
    assert left == [False, True]
