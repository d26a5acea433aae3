"""A queued pull request is judged by facts that are no older than its entry's last change (P1, P4)."""

from typing import Any
from unittest.mock import AsyncMock

import pytest

from queue_engine.admission.case import load_case
from queue_engine.admission.request_order import RequestOrder
from queue_engine.admission.revalidate import left_to_pass, revalidate
from queue_engine.core.database.database import Database
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import BranchRules
from queue_engine.domain.known_facts import Fact, MergeRequest, MergeResult, of_pull
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.handlers.check_events import reviewed
from queue_engine.store import Store
from queue_engine.store.rejections import Throttle
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import CHECKING, NOW, READY, REPOSITORY, UPDATING, pull, rules
from tests.unit.queue_engine.sweeps import sweep_repository

OWN_UPDATE = {"status": CHECKING, "head_sha": "head-2", "head_proved": False, "updated_from": "head-1"}


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def entry(scene: Setup) -> Entry | None:
    async with scene.store.reading() as tx:
        return await tx.entries.find(REPOSITORY.id, 1)


async def left(scene: Setup) -> list[Reason | None]:
    """Why entries left."""
    async with scene.store.reading() as tx:
        return [event.reason for event in await tx.timeline.latest(20) if event.reason is not None]


async def sweep(scene: Setup) -> None:
    await sweep_repository(scene.engine, REPOSITORY)


async def test_sweep_whose_listing_is_older_than_the_bind_of_an_own_update_keeps_the_entry(scene: Setup) -> None:
    """IMQ binds its own update between the listing and the judgement: the old head in the listing ejects no entry."""
    await scene.front(status=UPDATING, base_tip="base-1")

    async def own_update_is_bound() -> None:
        scene.github.pull, scene.github.listed = pull(head_sha="head-2"), pull()
        await scene.change_entry(**OWN_UPDATE)

    scene.github.meanwhile["latest"] = own_update_is_bound
    await sweep(scene)
    assert await left(scene) == []
    assert scene.github.asked == ["latest", "pull"]


async def test_sweep_whose_listings_are_a_second_late_keeps_the_entry(scene: Setup) -> None:
    """The update was bound before GitHub was asked, and the listing does not show it yet."""
    await scene.front(**OWN_UPDATE)
    scene.github.pull, scene.github.listed = pull(head_sha="head-2"), pull()
    await sweep(scene)
    assert await left(scene) == []


async def test_sweep_prepares_writes_where_something_is_queued(scene: Setup) -> None:
    """A token is made before it is needed."""
    await scene.front()
    await sweep_repository(scene.engine, REPOSITORY)
    assert scene.github.prepared == 1


async def test_sweep_whose_listing_agrees_with_the_entry_reads_no_pull_request(scene: Setup) -> None:
    """P7: one request shows that all of a hundred pull requests are in order."""
    await scene.front()
    await sweep(scene)
    assert scene.github.asked == ["latest"]


async def test_sweep_whose_listing_is_confirmed_dequeues_the_entry(scene: Setup) -> None:
    """IMQ finds a change that no webhook reported."""
    await scene.front(status=CHECKING)
    scene.github.pull = pull(head_sha="of-a-stranger")
    await sweep(scene)
    assert await left(scene) == [Reason.HEAD_CHANGED]


@pytest.mark.parametrize("changed", [pull(labels=frozenset()), pull(open=False), pull(head_sha="head-0")])
async def test_review_of_a_pull_request_read_before_its_entry_changed_reads_it_again(
    scene: Setup, changed: Any
) -> None:
    """An answer that was on its way while the entry changed dequeues no entry: IMQ asks GitHub again."""
    await scene.front(status=UPDATING, base_tip="base-1")
    scene.github.pull = changed

    async def own_update_is_bound() -> None:
        scene.github.pull = pull(head_sha="head-2")
        await scene.change_entry(**OWN_UPDATE)

    scene.github.meanwhile["pull"] = own_update_is_bound
    await revalidate(scene.engine, await load_case(scene.engine, REPOSITORY, 1))
    assert await left(scene) == []
    assert [each for each in scene.github.asked if each != "branch_tip"] == ["pull", "pull"]


async def test_revalidation_of_an_entry_that_changes_each_time_gives_up_and_keeps_it(scene: Setup) -> None:
    """Reading again is bounded; the job is tried again later."""
    await scene.front(status=CHECKING)
    scene.github.pull = pull(open=False)

    async def entry_changes() -> None:
        await scene.change_entry(title="Changed")
        scene.github.meanwhile["pull"] = entry_changes

    scene.github.meanwhile["pull"] = entry_changes
    with pytest.raises(StaleRecord):
        await revalidate(scene.engine, await load_case(scene.engine, REPOSITORY, 1))
    assert await left(scene) == []
    assert 1 < scene.github.asked.count("pull") < 10


async def test_review_of_an_entry_whose_merge_was_asked_for_meanwhile_leaves_it_to_the_pass(scene: Setup) -> None:
    """Only the pass that requested the merge can find its outcome; revalidation makes it read the pull request."""
    await scene.front(status=CHECKING)
    scene.github.pull = pull(open=False)

    async def merge_is_asked_for() -> None:
        await scene.change_entry(merge_requested_at=NOW)

    scene.github.meanwhile["pull"] = merge_is_asked_for
    await revalidate(scene.engine, await load_case(scene.engine, REPOSITORY, 1))
    standing = await entry(scene)
    assert standing is not None
    assert standing.needs_refetch
    assert [each for each in scene.github.asked if each != "branch_tip"] == ["pull"]


async def test_dismissed_approval_of_an_entry_that_changed_meanwhile_is_judged_again(scene: Setup) -> None:
    """Reviews that were read before the entry changed dequeue no entry; IMQ handles the event again."""
    await scene.front(status=CHECKING)
    scene.github.approvals = 1
    webhook = a_webhook("review", action="submitted")

    async def entry_changes() -> None:
        await scene.change_entry(title="Changed")

    scene.github.meanwhile["reviews"] = entry_changes
    with pytest.raises(StaleRecord):
        await reviewed(scene.engine, webhook, RequestOrder(scene.engine))
    assert await left(scene) == []
    await reviewed(scene.engine, webhook, RequestOrder(scene.engine))
    assert await left(scene) == [Reason.APPROVAL_MISSING]


def a_review(**changes: Any) -> Any:
    """Somebody reviewed pull request 1."""
    webhook = a_webhook("review", action="submitted")
    return webhook.model_copy(update=changes)


@pytest.mark.parametrize(
    ("changes", "judged"),
    [
        ({"sender": "mona"}, True),
        ({"sender": "eve"}, False),
        ({"sender": "eve", "action": "dismissed"}, True),
        ({"sender": "eve", "sender_is_bot": True}, True),
    ],
    ids=["a writer", "a reader", "a reader's was dismissed", "an App"],
)
async def test_review_is_judged_unless_somebody_gave_it_who_may_only_read(
    scene: Setup, changes: dict[str, Any], judged: bool
) -> None:
    """P7: strangers cost one request; who dismisses a review may write, whatever GitHub calls them."""
    await scene.front(status=CHECKING)
    scene.github.approvals = 1
    await reviewed(scene.engine, a_review(**changes), RequestOrder(scene.engine))
    assert await left(scene) == ([Reason.APPROVAL_MISSING] if judged else [])
    assert ("snapshot" in scene.github.asked) is judged


async def test_review_of_somebody_who_is_throttled_asks_nothing(scene: Setup) -> None:
    """P7: not even for the rules."""
    await scene.front(status=CHECKING)
    async with scene.store.transaction() as tx:
        await tx.throttles.put(REPOSITORY.id, "eve", Throttle(9, NOW))
    await reviewed(scene.engine, a_review(sender="eve"), RequestOrder(scene.engine))
    assert scene.github.asked == []
    scene.github.approvals = 1
    await reviewed(scene.engine, a_review(sender="mona"), RequestOrder(scene.engine))
    assert await left(scene) == [Reason.APPROVAL_MISSING]


@pytest.mark.parametrize(("demanded", "judged"), [(rules(code_owners=True), True), (rules("ci"), False)])
async def test_review_is_judged_where_the_rules_ask_for_any(
    scene: Setup, monkeypatch: pytest.MonkeyPatch, demanded: BranchRules, judged: bool
) -> None:
    """A code owner's is one without a number of approvals."""
    await scene.front(status=CHECKING)
    monkeypatch.setattr(scene.github, "branch_rules", AsyncMock(return_value=demanded))
    await reviewed(scene.engine, a_review(sender="mona"), RequestOrder(scene.engine))
    assert ("snapshot" in scene.github.asked) is judged


async def test_review_of_an_entry_whose_merge_was_requested_meanwhile_is_left_to_the_pass(scene: Setup) -> None:
    """An approval that was taken back as the merge was under way undoes no merge."""
    await scene.front(status=READY)
    scene.github.approvals = 1

    async def merge_is_asked_for() -> None:
        await scene.change_entry(merge_requested_at=NOW)

    scene.github.meanwhile["reviews"] = merge_is_asked_for
    await reviewed(scene.engine, a_review(sender="mona"), RequestOrder(scene.engine))
    standing = await entry(scene)
    assert standing is not None
    assert standing.needs_refetch


async def test_review_of_an_entry_that_left_and_joined_again_meanwhile_judges_the_new_one(scene: Setup) -> None:
    """An entry that joined after GitHub was asked is another one: what was read says nothing of it."""
    await scene.front(status=CHECKING)
    scene.github.pull = pull(open=False)

    async def joins_again() -> None:
        scene.github.pull = pull()
        standing = await entry(scene)
        assert standing is not None
        async with scene.store.transaction() as tx:
            await tx.entries.remove(standing)
        await scene.front()

    scene.github.meanwhile["pull"] = joins_again
    await revalidate(scene.engine, await load_case(scene.engine, REPOSITORY, 1))
    assert await left(scene) == []


@pytest.mark.parametrize(("answered", "needs_refetch"), [(False, True), (True, False)])
async def test_event_about_an_entry_whose_merge_is_requested_reads_nothing(
    scene: Setup, answered: bool, needs_refetch: bool
) -> None:
    """P7: the pass that requested the merge reads first, but not what GitHub's answer to the merge contains."""
    await scene.front(status=READY, merge_requested_at=NOW)
    if answered:
        async with scene.store.transaction() as tx:
            await tx.known.record(REPOSITORY.id, [Fact(subject=of_pull(1), statement=MergeResult(sha="landed"))], NOW)
    assert await left_to_pass(scene.engine, REPOSITORY, 1)
    standing = await entry(scene)
    assert standing is not None
    assert standing.needs_refetch is needs_refetch
    assert scene.github.asked == []


@pytest.mark.parametrize(
    ("status", "asked", "ours"),
    [
        (READY, ["head-1"], True),
        (READY, [], False),
        (READY, ["head-0"], False),
        (READY, ["head-1", None], False),
        (CHECKING, ["head-1"], False),
    ],
)
async def test_merge_that_imq_requested_before_a_read_showed_it_open_is_left_to_the_pass(
    scene: Setup, status: EntryStatus, asked: list[str | None], ours: bool
) -> None:
    """P2: GitHub carried the request out after its process died, and after another one had read the pull request."""
    await scene.front(status=status)
    for head in asked:
        async with scene.store.transaction() as tx:
            await tx.known.record(REPOSITORY.id, [Fact(subject=of_pull(1), statement=MergeRequest(head_sha=head))], NOW)
    scene.github.pull = pull(open=False, merged=True)
    await revalidate(scene.engine, await load_case(scene.engine, REPOSITORY, 1))
    standing = await entry(scene)
    assert (standing is not None and standing.run.merge_requested_at == NOW and standing.needs_refetch) is ours
    assert await left(scene) == ([] if ours else [Reason.MERGED_ELSEWHERE])


async def test_event_about_an_entry_whose_merge_is_not_requested_is_not_left_to_the_pass(scene: Setup) -> None:
    """P4: consent that was taken back is judged at once."""
    await scene.front(status=CHECKING)
    assert not await left_to_pass(scene.engine, REPOSITORY, 1)
    assert not await left_to_pass(scene.engine, REPOSITORY, 2)
