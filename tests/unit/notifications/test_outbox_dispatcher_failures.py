"""The courier when GitHub fails it: what passes is waited for, what does not is kept, no letter harms another."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from notifications.outbox_dispatcher import MAX_ATTEMPTS, OutboxDispatcher
from queue_engine.domain.errors import (
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimitError,
    Unauthorized,
    Unavailable,
)
from queue_engine.domain.notice import NoticeKind
from queue_engine.store import Store
from queue_engine.store.outbox.outbox import OutboxKind
from queue_engine.store.tables import outbox
from tests.unit.notifications.github_double import MovedClock, Post
from tests.unit.notifications.notices import REPOSITORY, of_kind
from tests.unit.notifications.outbox_items import dead, want, want_label_off


@pytest.mark.parametrize("error", [Unavailable("502 Bad Gateway"), Unauthorized("Bad credentials")])
async def test_letter_that_met_passing_trouble_waits_longer_each_time_and_arrives(
    store: Store, courier: OutboxDispatcher, post: Post, clock: MovedClock, error: GitHubError
) -> None:
    """Thirty seconds, then a minute; then it arrives."""
    post.fail["create_comment"] = [error, error]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    for seconds in (30, 60):
        assert await courier.run_due() is False
        assert await courier.next_due() == clock.now() + timedelta(seconds=seconds)
        clock.move(timedelta(seconds=seconds))
    assert await courier.run_due() is True
    assert len(post.comments_on(42)) == 1


async def test_letter_that_met_a_limit_waits_as_long_as_github_asks(
    store: Store, courier: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """GitHub's own figure wins over ours, and nothing is asked before it has passed."""
    post.fail["create_comment"] = [RateLimitError("slow down", retry_after=timedelta(minutes=17))]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    assert await courier.next_due() == clock.now() + timedelta(minutes=17)
    clock.move(timedelta(minutes=16))
    assert await courier.run_due() is False
    assert post.calls.total() == 1


@pytest.mark.parametrize("kind", [OutboxKind.COMMENT, OutboxKind.CHECK_RUN])
async def test_letter_that_met_a_limit_looks_for_nothing_that_it_may_have_created(
    store: Store, courier: OutboxDispatcher, post: Post, clock: MovedClock, kind: OutboxKind
) -> None:
    """P7: where points are short, each try would cost a read beside the write that is held back."""
    limit = RateLimitError("slow down", retry_after=timedelta(minutes=1))
    post.fail["create_comment"], post.fail["create_check_run"] = [limit], [limit]
    await want(store, kind, of_kind(NoticeKind.CHECKING))
    assert await courier.run_due() is False
    clock.move(timedelta(minutes=1))
    assert await courier.run_due() is True
    assert not any(name.startswith("find") for name in post.calls), post.calls


async def test_letter_that_limits_hold_back_again_and_again_uses_up_no_try(
    store: Store, courier: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """A limit is nobody's failure, however often it is met: the first real failure waits as the first one does."""
    limits = [RateLimitError("slow down", retry_after=timedelta(minutes=1)) for _ in range(20)]
    post.fail["create_comment"] = [*limits, Unavailable("timeout")]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    for _ in limits:
        await courier.run_due()
        clock.move(timedelta(minutes=1))
    await courier.run_due()
    assert await courier.next_due() == clock.now() + timedelta(seconds=30)
    clock.move(timedelta(seconds=30))
    assert await courier.run_due() is True


async def test_letter_that_never_arrives_is_buried_after_its_last_try(
    store: Store, courier: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """Every retry has a bound; then the letter is among the dead, to be sent again once GitHub is back."""
    post.fail["remove_label"] = [Unavailable("timeout") for _ in range(4)]
    await want_label_off(store)
    await courier.run_due()
    async with store.transaction() as tx:
        # All of a day's tries but two, of which the last is to come.
        await tx.connection.execute(update(outbox).values(attempts=MAX_ATTEMPTS - 2))
    for _ in range(2):
        assert await dead(store) == ()
        clock.move(timedelta(minutes=5))
        await courier.run_due()
    assert await courier.next_due() is None
    (letter,) = await dead(store)
    assert letter.payload == {"kind": "label", "repository_id": REPOSITORY.id, "number": 42, "label": "merge-queue"}
    assert (letter.job_type, letter.error_message, letter.attempts) == ("letter", "timeout", MAX_ATTEMPTS)
    assert letter.retryable
    assert post.calls["remove_label"] == 3


@pytest.mark.parametrize(
    ("error", "retryable"), [(NotFound("gone"), False), (Forbidden("locked"), True), (Invalid("too long"), False)]
)
async def test_letter_refused_for_good_is_buried_at_once_and_harms_no_other(
    store: Store, courier: OutboxDispatcher, post: Post, error: GitHubError, retryable: bool
) -> None:
    """One refused letter is kept with its error; the letters of others arrive in the same run.

    Only a permission is something that somebody can give, so that the same letter arrives after all.
    """
    post.fail["create_comment"] = [error]
    for number in (1, 2, 3):
        await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    assert await courier.run_due() is True
    assert len(post.comments) == 2
    (letter,) = await dead(store)
    assert letter.error_message == f"{type(error).__name__}: {error.message}"
    assert letter.retryable is retryable
    assert await courier.next_due() is None


async def test_letter_that_died_is_sent_again_when_something_new_is_wanted(
    store: Store, courier: OutboxDispatcher, post: Post
) -> None:
    """A dead letter does not silence its pull request."""
    post.fail["create_comment"] = [Forbidden("locked")]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.LANDED))
    await courier.run_due()
    assert len(post.comments_on(42)) == 1
    assert await dead(store) == ()


async def test_letter_with_an_unforeseen_error_is_tried_again_and_harms_no_other(
    store: Store, courier: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """A bug in the sending of one letter stops neither the run nor the letter."""
    post.fail["create_comment"] = [RuntimeError("a bug")]
    for number in (1, 2):
        await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    assert await courier.run_due() is True
    clock.move(timedelta(seconds=30))
    await courier.run_due()
    assert len(post.comments_on(1)) == len(post.comments_on(2)) == 1
