"""The outbox dispatcher when GitHub fails: it retries passing failures and keeps the others as dead letters."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from notifications.outbox_dispatcher import MAX_ATTEMPTS, REPEATED, OutboxDispatcher
from queue_engine.domain.errors import (
    Disorder,
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimitError,
    Refused,
    Unauthorized,
    Unavailable,
)
from queue_engine.domain.notice import NoticeKind
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from queue_engine.store.tables import outbox
from tests.unit.notifications.github_double import MovedClock, Post
from tests.unit.notifications.notices import REPOSITORY, of_kind
from tests.unit.notifications.outbox_items import dead, want, want_label_off


@pytest.mark.parametrize("error", [Unavailable("502 Bad Gateway"), Unauthorized("Bad credentials")])
async def test_item_that_fails_in_passing_waits_longer_each_time_and_arrives(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock, error: GitHubError
) -> None:
    """Thirty seconds, then a minute; then it arrives."""
    post.fail["create_comment"] = [error, error]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    for seconds in (30, 60):
        assert await dispatcher.run_due() is False
        assert await dispatcher.next_due() == clock.now() + timedelta(seconds=seconds)
        clock.move(timedelta(seconds=seconds))
    assert await dispatcher.run_due() is True
    assert len(post.comments_on(42)) == 1


async def test_item_that_met_a_limit_waits_as_long_as_github_asks(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """GitHub's own figure wins over ours, and nothing is asked before it has passed."""
    post.fail["create_comment"] = [RateLimitError("slow down", retry_after=timedelta(minutes=17))]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    assert await dispatcher.next_due() == clock.now() + timedelta(minutes=17)
    clock.move(timedelta(minutes=16))
    assert await dispatcher.run_due() is False
    assert post.calls.total() == 1


@pytest.mark.parametrize("kind", [OutboxKind.COMMENT, OutboxKind.CHECK_RUN])
async def test_item_held_by_a_limit_searches_for_nothing_that_it_may_have_created(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock, kind: OutboxKind
) -> None:
    """P7: where points are short, each try would cost a read beside the write that is held back."""
    limit = RateLimitError("slow down", retry_after=timedelta(minutes=1))
    post.fail["create_comment"], post.fail["create_check_run"] = [limit], [limit]
    await want(store, kind, of_kind(NoticeKind.CHECKING))
    assert await dispatcher.run_due() is False
    clock.move(timedelta(minutes=1))
    assert await dispatcher.run_due() is True
    assert not any(name.startswith("find") for name in post.calls), post.calls


async def test_item_held_by_limits_again_and_again_uses_up_no_try(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """A rate limit never counts as a failure: the first real failure waits as a first one."""
    limits = [RateLimitError("slow down", retry_after=timedelta(minutes=1)) for _ in range(20)]
    post.fail["create_comment"] = [*limits, Unavailable("timeout")]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    for _ in limits:
        await dispatcher.run_due()
        clock.move(timedelta(minutes=1))
    await dispatcher.run_due()
    assert await dispatcher.next_due() == clock.now() + timedelta(seconds=30)
    clock.move(timedelta(seconds=30))
    assert await dispatcher.run_due() is True


async def test_item_that_never_arrives_is_a_dead_letter_after_its_last_try(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """Every retry has a bound; then the item is a dead letter, which a person can send again."""
    post.fail["remove_label"] = [Unavailable("timeout") for _ in range(4)]
    await want_label_off(store)
    await dispatcher.run_due()
    async with store.transaction() as tx:
        # All of a day's tries but two, of which the last is to come.
        await tx.connection.execute(update(outbox).values(attempts=MAX_ATTEMPTS - 2))
    for _ in range(2):
        assert await dead(store) == ()
        clock.move(timedelta(minutes=5))
        await dispatcher.run_due()
    assert await dispatcher.next_due() is None
    (dead_item,) = await dead(store)
    assert dead_item.payload == {
        "kind": "label",
        "repository_id": REPOSITORY.id,
        "number": 42,
        "label": "merge-queue",
    }
    assert (dead_item.job_type, dead_item.error_message, dead_item.attempts) == (
        "outbox_item",
        "timeout",
        MAX_ATTEMPTS,
    )
    assert dead_item.retryable
    assert post.calls["remove_label"] == 3


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(NotFound("gone"), False), (Forbidden("issue is locked"), True)],
)
async def test_item_refused_for_good_is_a_dead_letter_at_once_and_harms_no_other(
    store: Store, dispatcher: OutboxDispatcher, post: Post, error: GitHubError, retryable: bool
) -> None:
    """One refused item becomes a dead letter with its error; the same run sends the others.

    Only a locked conversation is retryable, because somebody can unlock it.
    """
    post.fail["create_comment"] = [error]
    for number in (1, 2, 3):
        await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    assert await dispatcher.run_due() is True
    assert len(post.comments) == 2
    (dead_item,) = await dead(store)
    assert dead_item.error_message == f"{type(error).__name__}: {error.message}"
    assert dead_item.retryable is retryable
    assert await dispatcher.next_due() is None


@pytest.mark.parametrize("kind", ["create_comment", "create_check_run", "remove_label"])
async def test_item_whose_content_is_refused_is_a_dead_letter_only_once_github_repeats_it(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock, kind: str
) -> None:
    """P5, P6: overload and proxies answer 422 too, so neither its first refusal counts, nor one after an outage."""
    refused = Invalid("Request cannot be processed")
    post.fail[kind] = [*(Unavailable("503") for _ in range(REPEATED)), refused, refused]
    if kind == "remove_label":
        await want_label_off(store)
    else:
        wanted = OutboxKind.COMMENT if kind == "create_comment" else OutboxKind.CHECK_RUN
        await want(store, wanted, of_kind(NoticeKind.QUEUED))
    began, tries = clock.now(), 0
    while (due := await dispatcher.next_due()) is not None:
        clock.move(due - clock.now())
        await dispatcher.run_due()
        tries += 1
    (letter,) = await dead(store)
    assert (letter.error_message, letter.retryable) == ("Invalid: Request cannot be processed", False)
    assert tries == REPEATED + 2
    assert clock.now() - began >= timedelta(minutes=10)


async def test_dead_item_is_sent_again_when_something_new_is_wanted(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """A dead letter does not silence its pull request."""
    post.fail["create_comment"] = [Forbidden("issue is locked")]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.LANDED))
    await dispatcher.run_due()
    assert len(post.comments_on(42)) == 1
    assert await dead(store) == ()


async def test_item_with_an_unforeseen_error_is_tried_again_and_harms_no_other(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """A bug in sending one item stops neither the run nor that item."""
    post.fail["create_comment"] = [RuntimeError("a bug")]
    for number in (1, 2):
        await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    assert await dispatcher.run_due() is True
    clock.move(timedelta(seconds=30))
    await dispatcher.run_due()
    assert len(post.comments_on(1)) == len(post.comments_on(2)) == 1


async def test_item_of_a_repository_that_github_refuses_as_a_whole_holds_the_others_too(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """P5, P7: one item finds out whether GitHub accepts the repository again; no other asks before."""
    post.fail["create_comment"] = [Refused("archived", disorder=Disorder.ARCHIVED)]
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    later = timedelta(seconds=5)
    async with store.transaction() as tx:
        notice = of_kind(NoticeKind.QUEUED).model_copy(update={"number": 43})
        await tx.outbox.want(OutboxKind.COMMENT, REPOSITORY, 43, due=clock.now() + later, notice=notice)
    assert await dispatcher.run_due() is False
    again = await dispatcher.next_due()
    assert again is not None
    assert again > clock.now() + later
    clock.move(later)
    assert await dispatcher.run_due() is False
    assert post.calls["create_comment"] == 1
    clock.move(again - clock.now())
    while await dispatcher.run_due():
        pass
    assert [len(post.comments_on(number)) for number in (42, 43)] == [1, 1]


@pytest.mark.parametrize("error", [Refused("archived", disorder=Disorder.ARCHIVED), Forbidden("no permission")])
async def test_item_that_a_person_has_to_make_possible_is_held_and_released(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock, error: GitHubError
) -> None:
    """P2: it is no dead letter for days; a slow timer tries it, and the event that ends the refusal releases it."""
    post.fail["create_comment"] = [error] * 20
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await dispatcher.run_due()
    for _ in range(12):
        clock.move(timedelta(hours=1))
        await dispatcher.run_due()
    assert (await dead(store), post.calls["create_comment"]) == ((), 13)
    post.fail["create_comment"] = []
    async with store.transaction() as tx:
        assert await tx.outbox.release(REPOSITORY.id, clock.now()) == 1
    await dispatcher.run_due()
    assert len(post.comments_on(42)) == 1
