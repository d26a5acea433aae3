"""The outbox dispatcher after a crash or a lost answer: each comment and check run exists once."""

from datetime import timedelta

import pytest

from notifications.outbox_dispatcher import LEASE, OutboxDispatcher
from notifications.render.comment import external_id, render_check_run, render_comment
from queue_engine.domain.errors import RateLimitError, Unavailable
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store
from queue_engine.store.outbox.items import READS_LAG, OutboxKind
from tests.unit.notifications.github_double import Comment, Fuse, FusedStore, Killed, MovedClock, Post
from tests.unit.notifications.notices import NOW, REPOSITORY, notice, of_kind, of_reason
from tests.unit.notifications.outbox_items import dead, want, want_label_off


async def test_comment_whose_creation_was_answered_with_an_error_is_found_and_not_written_twice(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """A failed call may have happened: look before creating again."""
    post.fail_after["create_comment"] = [Unavailable("timeout")]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    clock.move(timedelta(seconds=30))
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.LANDED))
    await dispatcher.run_due()
    (comment,) = post.comments_on(42)
    assert comment.bodies[-1] == render_comment(of_kind(NoticeKind.LANDED))


async def test_comment_that_somebody_must_act_on_is_a_new_one_and_the_old_one_goes(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """GitHub notifies of new comments only; progress and outcomes that need no action edit the existing one."""
    comment_ids = list[int]()
    for wanted in (
        of_kind(NoticeKind.QUEUED),
        of_kind(NoticeKind.CHECKING),
        of_reason(Reason.CONFLICT),
        of_kind(NoticeKind.QUEUED),
        of_reason(Reason.PERMISSION_MISSING),
        of_kind(NoticeKind.QUEUED),
        of_reason(Reason.UNQUEUED),
        of_reason(Reason.BASE_RED),
        of_kind(NoticeKind.LANDED),
    ):
        await want(
            store, OutboxKind.COMMENT, wanted.model_copy(update={"at": NOW + timedelta(minutes=len(comment_ids))})
        )
        await dispatcher.run_due()
        ((comment_id, _),) = post.comments.items()
        comment_ids.append(comment_id)
    assert comment_ids == [1001, 1001, 1002, 1002, 1003, 1003, 1003, 1003, 1003]
    assert post.calls == {"create_comment": 3, "update_comment": 6, "delete_comment": 2}


async def test_comment_that_announced_an_outcome_is_edited_when_it_is_sent_again(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """A reply to a command below the outcome notifies no account a second time."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    await want(store, OutboxKind.COMMENT, of_reason(Reason.CONFLICT).model_copy(update={"at": NOW + LEASE}))
    await dispatcher.run_due()
    async with store.transaction() as tx:
        assert await tx.outbox.resend(REPOSITORY.id, 42, due=NOW)
    await dispatcher.run_due()
    assert list(post.comments) == [1002]
    assert post.calls["create_comment"] == 2


async def test_comment_that_replaces_one_and_was_answered_with_an_error_is_found(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """A failed call may have happened: then the new comment stays, and the old one is deleted."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    post.fail_after["create_comment"] = [Unavailable("timeout")]
    await want(store, OutboxKind.COMMENT, of_reason(Reason.CONFLICT).model_copy(update={"at": NOW + LEASE}))
    await dispatcher.run_due()
    assert len(post.comments_on(42)) == 2
    clock.move(timedelta(minutes=1))
    await dispatcher.run_due()
    assert list(post.comments) == [1002]
    assert post.calls["create_comment"] == 2


async def test_comment_that_was_refused_is_not_searched_for(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """GitHub created nothing, so the next try costs no search; the new comment still replaces the old one."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    post.fail["create_comment"] = [RateLimitError("slow down", retry_after=timedelta(minutes=1))]
    await want(store, OutboxKind.COMMENT, of_reason(Reason.CONFLICT).model_copy(update={"at": NOW + LEASE}))
    await dispatcher.run_due()
    clock.move(timedelta(minutes=1))
    await dispatcher.run_due()
    assert list(post.comments) == [1002]
    assert post.calls == {"create_comment": 3, "delete_comment": 1}


async def test_comment_of_a_lost_database_is_found_and_edited(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """An empty database knows no ids: on a pull request with comments one is looked for first, once."""
    post.comments[7] = Comment(42, [render_comment(of_kind(NoticeKind.CHECKING))])
    async with store.transaction() as tx:
        await tx.outbox.search_first(REPOSITORY, 42, NOW)
    for kind in (NoticeKind.QUEUED, NoticeKind.UPDATING):
        await want(store, OutboxKind.COMMENT, of_kind(kind))
        await dispatcher.run_due()
    assert list(post.comments) == [7]
    assert post.calls == {"find_comments": 1, "find_check_run": 1, "update_comment": 2}


@pytest.mark.parametrize("wanted", [of_kind(NoticeKind.QUEUED), of_reason(Reason.CONFLICT)])
async def test_comment_that_replaced_the_known_one_after_a_backup_is_taken_over(
    store: Store, dispatcher: OutboxDispatcher, post: Post, wanted: Notice
) -> None:
    """P6: a restored database knows an id that is gone; there is one comment, and it says what is true."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.CHECKING))
    await dispatcher.run_due()
    del post.comments[1001]
    post.comments[1007] = Comment(42, [render_comment(of_reason(Reason.CHECKS_FAILED))])
    await want(store, OutboxKind.COMMENT, wanted.model_copy(update={"at": NOW + LEASE}))
    await dispatcher.run_due()
    (comment,) = post.comments_on(42)
    assert comment.bodies[-1] == render_comment(wanted.model_copy(update={"at": NOW + LEASE}))
    assert post.calls["find_comments"] == 1


async def test_comment_that_somebody_deleted_is_searched_for_once(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """P7: a deleted comment is not written again, and each further notice costs one request.

    Nothing is written then, so that the sweep of comments does not look for it day after day.
    """
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    post.comments.clear()
    async with store.reading() as tx:
        written_at = await tx.outbox.shown_since(OutboxKind.COMMENT, REPOSITORY.id, 42)
    clock.move(timedelta(hours=1))
    for kind in (NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.UPDATING):
        await want(store, OutboxKind.COMMENT, of_kind(kind))
        await dispatcher.run_due()
    assert post.comments == {}
    assert post.calls == {"create_comment": 1, "find_comments": 1, "update_comment": 4}
    async with store.reading() as tx:
        assert await tx.outbox.shown_since(OutboxKind.COMMENT, REPOSITORY.id, 42) == written_at


async def test_comment_that_says_landed_is_never_turned_into_anything_else(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """A restored database still has it in its queue, an empty one knows nothing of it; both leave it as it is."""
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.CHECKING))
    await dispatcher.run_due()
    landed = render_comment(of_kind(NoticeKind.LANDED))
    for number, (comment_id, wanted) in enumerate(
        ((1001, of_reason(Reason.MERGED_ELSEWHERE)), (7, of_kind(NoticeKind.ANSWERED))), start=42
    ):
        post.comments[comment_id] = Comment(number, [landed])
        async with store.transaction() as tx:
            await tx.outbox.search_first(REPOSITORY, number, NOW)
        for each in (wanted, of_kind(NoticeKind.UPDATING)):
            await want(store, OutboxKind.COMMENT, each, number)
            await dispatcher.run_due()
        assert [comment.bodies for comment in post.comments_on(number)] == [[landed]]


async def test_check_run_whose_creation_was_answered_with_an_error_is_found_and_not_made_twice(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """As for the comment, by external id."""
    post.fail_after["create_check_run"] = [Unavailable("timeout")]
    await want(store, OutboxKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await dispatcher.run_due()
    clock.move(timedelta(seconds=30))
    await dispatcher.run_due()
    assert len(post.runs_of(42)) == 1
    assert post.calls["find_check_run"] == 1


@pytest.mark.parametrize("reason", [Reason.NOT_QUEUED, Reason.CLOSED, Reason.MERGED_ELSEWHERE])
@pytest.mark.parametrize("shown", [NoticeKind.CHECKING, NoticeKind.LANDED, None])
async def test_check_run_of_a_lost_entry_is_completed_unless_it_has_ended_or_never_was(
    store: Store, dispatcher: OutboxDispatcher, post: Post, shown: NoticeKind | None, reason: Reason
) -> None:
    """An empty database knows nothing of it: what waits is completed, what has landed stays so, nothing is created."""
    wanted = of_reason(reason)
    if shown is not None:
        standing = of_kind(shown).model_copy(update={"head_sha": wanted.head_sha})
        await post.create_check_run(
            REPOSITORY, render_check_run(standing, external_id=external_id(REPOSITORY, standing))
        )
    before = [dict(run) for run in post.runs_of(42)]
    async with store.transaction() as tx:
        await tx.outbox.search_first(REPOSITORY, 42, NOW, kind=OutboxKind.CHECK_RUN)
    await want(store, OutboxKind.CHECK_RUN, wanted)
    await dispatcher.run_due()
    runs = post.runs_of(42)
    if shown is NoticeKind.CHECKING:
        assert [(run["status"], run["conclusion"]) for run in runs] == [("completed", "neutral")]
    else:
        assert runs == before


@pytest.mark.parametrize("listed", [True, False])
async def test_check_run_of_a_restored_database_stays_landed_and_one_that_is_not_listed_yet_is_completed(
    store: Store, dispatcher: OutboxDispatcher, post: Post, listed: bool
) -> None:
    """It is known by its id, but somebody else is said to have merged: that may have been IMQ before the restore."""
    wanted = of_reason(Reason.MERGED_ELSEWHERE)
    await want(
        store, OutboxKind.CHECK_RUN, of_kind(NoticeKind.CHECKING).model_copy(update={"head_sha": wanted.head_sha})
    )
    await dispatcher.run_due()
    (run,) = post.runs.values()
    if listed:
        landed = of_kind(NoticeKind.LANDED)
        run.fields |= render_check_run(landed, external_id=run.fields["external_id"]) | {"head_sha": wanted.head_sha}
    else:
        run.fields["name"] = "not listed"
    await want(store, OutboxKind.CHECK_RUN, wanted)
    await dispatcher.run_due()
    assert run.fields["conclusion"] == ("success" if listed else "neutral")
    assert len(post.runs) == 1


BOTH = (OutboxKind.COMMENT, OutboxKind.CHECK_RUN)
RUN = (OutboxKind.CHECK_RUN,)
SEQUENCES: dict[str, tuple[tuple[OutboxKind, ...], tuple[Notice, ...]]] = {
    "failed": (BOTH, (of_kind(NoticeKind.CHECKING), of_reason(Reason.CONFLICT))),
    "landed": (BOTH, (of_kind(NoticeKind.CHECKING), of_kind(NoticeKind.LANDED))),
    "refused": (BOTH, (of_reason(Reason.LABEL_WITHOUT_RIGHT),)),
    "closed": (BOTH, (of_kind(NoticeKind.CHECKING), of_reason(Reason.CLOSED))),
    "updated": (RUN, (of_kind(NoticeKind.CHECKING), notice(NoticeKind.CHECKING, head_sha="2" * 40))),
}


@pytest.mark.parametrize(
    ("database_url", "sequence"),
    # One database suffices for the order of commits and requests. Both have to take over an expired lease.
    [
        *(("sqlite", sequence) for sequence in SEQUENCES),
        pytest.param("postgres", "refused", marks=pytest.mark.postgres),
    ],
    indirect=["database_url"],
)
@pytest.mark.parametrize("lag", [timedelta(0), timedelta(seconds=5)], ids=["at_once", "lagging"])
async def test_dispatcher_killed_at_any_instant_shows_everything_once(
    store: Store, clock: MovedClock, sequence: str, lag: timedelta
) -> None:
    """Before or after any request and any commit: the next start finishes, with one comment and one run per head.

    It follows in the same instant where searches do not show for seconds what the killed process created.
    """
    kinds, notices = SEQUENCES[sequence]
    number, survived = 0, False
    while not survived:
        number += 1
        post, shown = Post(fuse := Fuse(number)), set[int]()
        for later, wanted in enumerate(notices):
            wanted = wanted.model_copy(update={"at": NOW + later * LEASE})
            for kind in kinds:
                await want(store, kind, wanted, number)
            if later == len(notices) - 1:
                await want_label_off(store, number)
            try:
                await OutboxDispatcher(
                    FusedStore(store, fuse), post, clock, owner="a", random=lambda: 0.5, concurrency=2
                ).run_due()
            except Killed:
                post.fuse = Fuse()
                post.hidden = {*post.comments, *post.runs} - shown if lag else set()
                async with store.transaction() as tx:
                    await tx.outbox.release_all()
                next_start = OutboxDispatcher(store, post, clock, owner="b", random=lambda: 0.5)
                await next_start.run_due()
                clock.move(lag)
                post.hidden = set()
                clock.move(READS_LAG)
                await next_start.run_due()
            shown = {*post.comments, *post.runs}
        survived = not fuse.blown
        last = render_comment(wanted.model_copy(update={"number": number}))
        assert [comment.bodies[-1] for comment in post.comments_on(number)] == [last] * (kinds is BOTH)
        heads = dict.fromkeys(wanted.head_sha for wanted in notices)
        assert [run["head_sha"] for run in post.runs_of(number)] == list(heads)
        assert (number, "merge-queue") in post.labels_off
        async with store.reading() as tx:
            assert await tx.outbox.next_due() is None
    assert number > 10
    assert await dead(store) == ()
