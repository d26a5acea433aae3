"""The outbox dispatcher sends every wanted item, and creates each once."""

from datetime import timedelta
from typing import Any

import pytest

from notifications.outbox_dispatcher import OutboxDispatcher
from notifications.render.comment import render_comment
from queue_engine.core.concurrency.request_context import RequestPriority, WaitCount
from queue_engine.domain.errors import GitHubError, Invalid, NotFound, Unavailable
from queue_engine.domain.notice import NoticeKind, ReplyKind
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.unit.notifications.github_double import MovedClock, Post
from tests.unit.notifications.notices import HEAD, NOW, REPOSITORY, answer, notice, of_kind, of_reason
from tests.unit.notifications.outbox_items import dead, want, want_label_off

# The ordinary way


async def test_dispatcher_with_nothing_due_sends_no_request(dispatcher: OutboxDispatcher, post: Post) -> None:
    """An idle dispatcher costs no request."""
    assert await dispatcher.run_due() is False
    assert await dispatcher.next_due() is None
    assert not post.calls


async def test_comment_is_created_once_and_then_edited_in_place(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """One comment per pull request, whatever happens to it; two requests for two notices."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    assert await dispatcher.run_due() is True
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.LANDED))
    assert await dispatcher.run_due() is True
    (comment,) = post.comments_on(42)
    assert comment.bodies == [render_comment(of_kind(NoticeKind.QUEUED)), render_comment(of_kind(NoticeKind.LANDED))]
    assert post.calls.total() == 2
    assert await dispatcher.next_due() is None


async def test_comment_of_quick_changes_is_sent_once(store: Store, dispatcher: OutboxDispatcher, post: Post) -> None:
    """What was overtaken before it went out is not sent."""
    for kind in (NoticeKind.QUEUED, NoticeKind.UPDATING, NoticeKind.CHECKING):
        await want(store, OutboxKind.COMMENT, of_kind(kind))
    await dispatcher.run_due()
    assert post.comments_on(42)[0].bodies == [render_comment(of_kind(NoticeKind.CHECKING))]


async def test_comment_wanted_again_while_it_is_sent_is_sent_again(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """The newest state stands at the end, although it came while an older one was under way."""

    async def overtake(method: str, number: int) -> None:
        if method == "create_comment":
            await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.LANDED))

    post.before = overtake
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    (comment,) = post.comments_on(42)
    assert comment.bodies[-1] == render_comment(of_kind(NoticeKind.LANDED))


async def test_comment_yields_to_merges_unless_somebody_must_act_on_it(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """Comments about progress or a landing are background work, and leave content points to waiting merges."""
    async with store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        await tx.entries.add(
            queue_id=queue.id, number=5, title="t", author="a", queued_by="a", queued_head="1" * 40, enqueued_at=NOW
        )
    shown = (of_kind(NoticeKind.QUEUED), of_kind(NoticeKind.LANDED), of_reason(Reason.CONFLICT))
    for number, wanted in enumerate(shown, start=40):
        await want(store, OutboxKind.COMMENT, wanted, number)
        await dispatcher.run_due()
    assert post.asked_with == [
        (RequestPriority.BACKGROUND, WaitCount(1, 1)),
        (RequestPriority.BACKGROUND, WaitCount(1, 1)),
        (RequestPriority.NOW, WaitCount(1, 1)),
    ]


@pytest.mark.parametrize(
    ("changes", "shown", "renewed"),
    [
        ({}, "at position 2 of 2", "position 1 of 1 as of 2026-03-14 15:14 UTC"),
        ({"text": "Place {position} on {base}."}, "Place 2 on main.", "Place 1 on main."),
        ({"kind": NoticeKind.PAUSED, "text": "Paused at {position}."}, "Paused at 2.", "Paused at 1."),
    ],
)
async def test_comment_shows_the_position_of_when_it_is_edited(
    store: Store,
    dispatcher: OutboxDispatcher,
    post: Post,
    clock: MovedClock,
    changes: dict[str, Any],
    shown: str,
    renewed: str,
) -> None:
    """Every edit renews a position in the queue that changed meanwhile, in a custom text too."""
    async with store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        first, _ = [
            await tx.entries.add(
                queue_id=queue.id, number=n, title="t", author="a", queued_by="a", queued_head=HEAD, enqueued_at=NOW
            )
            for n in (41, 42)
        ]
    queued = notice(NoticeKind.QUEUED, position=1, depth=2, enqueued_at=NOW)
    await want(store, OutboxKind.COMMENT, queued.model_copy(update=changes))
    await dispatcher.run_due()
    async with store.transaction() as tx:
        await tx.entries.remove(first)
        await tx.outbox.resend(REPOSITORY.id, 42, due=NOW)
    clock.move(timedelta(minutes=5))
    await dispatcher.run_due()
    ((before, after),) = [comment.bodies for comment in post.comments_on(42)]
    assert shown in before
    assert renewed in after


async def test_label_off_is_sent_and_forgotten(store: Store, dispatcher: OutboxDispatcher, post: Post) -> None:
    """The label comes off once."""
    await want_label_off(store)
    await dispatcher.run_due()
    assert await dispatcher.run_due() is False
    assert post.labels_off == [(42, "merge-queue")]


async def test_label_wanted_on_while_its_removal_is_under_way_is_set_after_it(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """P4: the latest request counts, whichever GitHub carries out last."""

    async def queue_again(method: str, number: int) -> None:
        post.before = None
        async with store.transaction() as tx:
            await tx.outbox.want_label(REPOSITORY, number, "merge-queue", on=True, due=NOW)

    await want_label_off(store)
    post.before = queue_again
    await dispatcher.run_due()
    assert (post.labels_off, post.labels_on) == ([(42, "merge-queue")], [(42, "merge-queue")])
    assert await dispatcher.next_due() is None


async def test_check_run_of_one_entry_is_one_run(store: Store, dispatcher: OutboxDispatcher, post: Post) -> None:
    """From checking to landed the same run is updated. Its first word and its outcome are urgent."""
    for kind in (NoticeKind.CHECKING, NoticeKind.READY, NoticeKind.LANDED):
        await want(store, OutboxKind.CHECK_RUN, of_kind(kind))
        await dispatcher.run_due()
    assert post.shown_with == [RequestPriority.NOW, RequestPriority.BACKGROUND, RequestPriority.NOW]
    (run,) = post.runs_of(42)
    assert (run["status"], run["conclusion"]) == ("completed", "success")
    assert post.calls.total() == 3


async def test_check_run_of_a_new_head_is_a_new_run_and_completes_the_old_one(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """After an update of the branch no commit shows IMQ as running for ever."""
    await want(store, OutboxKind.CHECK_RUN, notice(NoticeKind.CHECKING, head_sha="1" * 40))
    await dispatcher.run_due()
    await want(store, OutboxKind.CHECK_RUN, notice(NoticeKind.CHECKING, head_sha="2" * 40))
    await dispatcher.run_due()
    old, new = post.runs_of(42)
    assert (old["head_sha"], old["status"], old["conclusion"]) == ("1" * 40, "completed", "neutral")
    assert (new["head_sha"], new["status"]) == ("2" * 40, "in_progress")


@pytest.mark.parametrize("error", [NotFound("gone"), Invalid("archived")])
async def test_check_run_whose_predecessor_cannot_be_closed_is_created_all_the_same(
    store: Store, dispatcher: OutboxDispatcher, post: Post, error: GitHubError
) -> None:
    """The old commit's run is a matter of tidiness, the new one's is not."""
    await want(store, OutboxKind.CHECK_RUN, notice(NoticeKind.CHECKING, head_sha="1" * 40))
    await dispatcher.run_due()
    post.fail["update_check_run"] = [error]
    await want(store, OutboxKind.CHECK_RUN, notice(NoticeKind.CHECKING, head_sha="2" * 40))
    await dispatcher.run_due()
    assert [run["head_sha"] for run in post.runs_of(42)] == ["1" * 40, "2" * 40]


async def test_check_run_of_a_second_entry_on_the_same_head_is_a_run_of_its_own(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """A completed run is never asked to run again: GitHub would go on showing its conclusion."""
    await want(store, OutboxKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await dispatcher.run_due()
    await want(store, OutboxKind.CHECK_RUN, of_reason(Reason.CHECKS_FAILED))
    await dispatcher.run_due()
    await want(store, OutboxKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await dispatcher.run_due()
    assert [run["status"] for run in post.runs_of(42)] == ["completed", "in_progress"]


async def test_check_run_that_github_forgot_is_created_again(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """A run whose id is unknown to GitHub is replaced."""
    await want(store, OutboxKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await dispatcher.run_due()
    post.runs.clear()
    await want(store, OutboxKind.CHECK_RUN, of_kind(NoticeKind.READY))
    await dispatcher.run_due()
    assert len(post.runs_of(42)) == 1


# A comment that somebody deleted


async def test_comment_deleted_by_somebody_stays_deleted_while_no_action_is_needed(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """A person who deletes IMQ's comment gets no more of its progress."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    post.comments.clear()
    for shown in (of_kind(NoticeKind.CHECKING), of_kind(NoticeKind.LANDED), of_reason(Reason.LABEL_REMOVED)):
        await want(store, OutboxKind.COMMENT, shown)
        await dispatcher.run_due()
    assert post.comments_on(42) == []
    assert await dead(store) == ()


async def test_comment_deleted_by_somebody_is_written_again_when_the_author_must_act(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """IMQ posts an outcome that waits for the author again, and then edits that comment in place."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    post.comments.clear()
    await want(store, OutboxKind.COMMENT, of_reason(Reason.CONFLICT))
    await dispatcher.run_due()
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    (comment,) = post.comments_on(42)
    assert len(comment.bodies) == 2


async def answer_put(store: Store, clock: MovedClock) -> None:
    """Somebody asks for help on #42, and is answered at once."""
    async with store.transaction() as tx:
        given = answer(ReplyKind.HELP, command="help").model_copy(update={"at": clock.now()})
        await tx.answers.put(REPOSITORY.id, 42, 70, given)
        await tx.outbox.resend(REPOSITORY.id, 42, due=clock.now())


@pytest.mark.parametrize("progress", [False, True])
async def test_comment_deleted_by_somebody_is_written_again_for_an_answer_that_was_asked_for(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock, progress: bool
) -> None:
    """The author of a command gets its reply once, also when a progress edit was due; then IMQ stays quiet."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    post.comments.clear()
    clock.move(timedelta(minutes=1))
    if progress:
        async with store.transaction() as tx:
            later = clock.now() + timedelta(seconds=5)
            shown = of_kind(NoticeKind.CHECKING)
            await tx.outbox.want(OutboxKind.COMMENT, REPOSITORY, 42, due=later, notice=shown)
    await answer_put(store, clock)
    clock.move(timedelta(seconds=10))
    await dispatcher.run_due()
    (comment,) = post.comments_on(42)
    assert "`/help` by" in comment.bodies[-1]
    post.comments.clear()
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.LANDED))
    await dispatcher.run_due()
    assert post.comments_on(42) == [], "deleted once more, and nobody has asked since"


async def test_comment_written_again_with_an_error_is_found_and_not_written_twice(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """P6: the id of the deleted one is still known, and yet the new one is looked for."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    post.comments.clear()
    clock.move(timedelta(minutes=1))
    post.fail_after["create_comment"] = [Unavailable("timeout")]
    await answer_put(store, clock)
    await dispatcher.run_due()
    clock.move(timedelta(minutes=1))
    await dispatcher.run_due()
    assert len(post.comments_on(42)) == 1
    assert post.calls["create_comment"] == 2
    assert await dispatcher.next_due() is None
