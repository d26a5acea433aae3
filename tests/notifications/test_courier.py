"""The courier: everything that is wanted arrives, is seen once, and no letter's failure is another's."""

import asyncio
from datetime import timedelta

import pytest

from notifications.comment import render_comment
from notifications.courier import LEASE, MAX_TRIES, Courier
from queue_engine.core.dead_letters import DeadLetter
from queue_engine.errors import (
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from queue_engine.notice import Notice, NoticeKind
from queue_engine.reasons import Reason
from queue_engine.store import Store
from queue_engine.store.outbox import LetterKind
from tests.notifications.notices import NOW, REPOSITORY, notice, of_kind, of_reason
from tests.notifications.post import Fuse, FusedStore, Killed, MovedClock, Post


@pytest.fixture
def clock() -> MovedClock:
    """Time stands still until a test moves it."""
    return MovedClock()


@pytest.fixture
def post() -> Post:
    """A GitHub on which nothing stands yet."""
    return Post()


@pytest.fixture
def courier(store: Store, post: Post, clock: MovedClock) -> Courier:
    """A courier of this test's store."""
    return Courier(store, post, clock, owner="a", random=lambda: 0.5)


async def want(store: Store, kind: LetterKind, wanted: Notice, number: int = 42) -> None:
    """Have a notice told, as the engine does."""
    async with store.transaction() as tx:
        told = wanted.model_copy(update={"number": number})
        await tx.outbox.want(kind, REPOSITORY, number, due=NOW, notice=told)


async def want_label_off(store: Store, number: int = 42) -> None:
    """Have the trigger label taken off."""
    async with store.transaction() as tx:
        await tx.outbox.want(LetterKind.LABEL_OFF, REPOSITORY, number, due=NOW, label="merge-queue")


async def dead(store: Store) -> tuple[DeadLetter, ...]:
    """The dead letters, the latest first."""
    async with store.reading() as tx:
        return await tx.dead_letters.list(100)


# The ordinary way


async def test_courier_with_nothing_due_asks_github_nothing(courier: Courier, post: Post) -> None:
    """An idle courier costs no request."""
    assert await courier.run_due() is False
    assert await courier.next_due() is None
    assert not post.calls


async def test_comment_is_created_once_and_then_edited_in_place(store: Store, courier: Courier, post: Post) -> None:
    """One comment per pull request, whatever happens to it; two requests for two notices."""
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    assert await courier.run_due() is True
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.LANDED))
    assert await courier.run_due() is True
    (comment,) = post.comments_on(42)
    assert comment.bodies == [render_comment(of_kind(NoticeKind.QUEUED)), render_comment(of_kind(NoticeKind.LANDED))]
    assert post.calls.total() == 2
    assert await courier.next_due() is None


async def test_comment_of_quick_changes_is_sent_once(store: Store, courier: Courier, post: Post) -> None:
    """What was overtaken before it went out is not sent."""
    for kind in (NoticeKind.QUEUED, NoticeKind.UPDATING, NoticeKind.CHECKING):
        await want(store, LetterKind.COMMENT, of_kind(kind))
    await courier.run_due()
    assert post.comments_on(42)[0].bodies == [render_comment(of_kind(NoticeKind.CHECKING))]


async def test_comment_wanted_anew_while_it_is_sent_is_sent_again(store: Store, courier: Courier, post: Post) -> None:
    """The newest state stands at the end, although it came while an older one was under way."""

    async def overtake(method: str, number: int) -> None:
        if method == "create_comment":
            await want(store, LetterKind.COMMENT, of_kind(NoticeKind.LANDED))

    post.before = overtake
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    (comment,) = post.comments_on(42)
    assert comment.bodies[-1] == render_comment(of_kind(NoticeKind.LANDED))


async def test_label_off_is_sent_and_forgotten(store: Store, courier: Courier, post: Post) -> None:
    """The label comes off once."""
    await want_label_off(store)
    await courier.run_due()
    assert await courier.run_due() is False
    assert post.labels_off == [(42, "merge-queue")]


async def test_check_run_of_one_stay_is_one_run(store: Store, courier: Courier, post: Post) -> None:
    """From checking to landed the same run is updated."""
    for kind in (NoticeKind.CHECKING, NoticeKind.READY, NoticeKind.LANDED):
        await want(store, LetterKind.CHECK_RUN, of_kind(kind))
        await courier.run_due()
    (run,) = post.runs_of(42)
    assert (run["status"], run["conclusion"]) == ("completed", "success")
    assert post.calls.total() == 3


async def test_check_run_of_a_new_head_is_a_new_run_and_the_old_one_does_not_stay_open(
    store: Store, courier: Courier, post: Post
) -> None:
    """After an update of the branch no commit shows IMQ as running for ever."""
    await want(store, LetterKind.CHECK_RUN, notice(NoticeKind.CHECKING, head_sha="1" * 40))
    await courier.run_due()
    await want(store, LetterKind.CHECK_RUN, notice(NoticeKind.CHECKING, head_sha="2" * 40))
    await courier.run_due()
    old, new = post.runs_of(42)
    assert (old["head_sha"], old["status"], old["conclusion"]) == ("1" * 40, "completed", "neutral")
    assert (new["head_sha"], new["status"]) == ("2" * 40, "in_progress")


@pytest.mark.parametrize("error", [NotFound("gone"), Invalid("archived")])
async def test_check_run_whose_predecessor_cannot_be_closed_is_created_all_the_same(
    store: Store, courier: Courier, post: Post, error: GitHubError
) -> None:
    """The old commit's run is a matter of tidiness, the new one's is not."""
    await want(store, LetterKind.CHECK_RUN, notice(NoticeKind.CHECKING, head_sha="1" * 40))
    await courier.run_due()
    post.fail["update_check_run"] = [error]
    await want(store, LetterKind.CHECK_RUN, notice(NoticeKind.CHECKING, head_sha="2" * 40))
    await courier.run_due()
    assert [run["head_sha"] for run in post.runs_of(42)] == ["1" * 40, "2" * 40]


async def test_check_run_of_a_second_stay_on_the_same_head_is_a_run_of_its_own(
    store: Store, courier: Courier, post: Post
) -> None:
    """A completed run is never asked to run again: GitHub would go on showing its conclusion."""
    await want(store, LetterKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await courier.run_due()
    await want(store, LetterKind.CHECK_RUN, of_reason(Reason.CHECKS_FAILED))
    await courier.run_due()
    await want(store, LetterKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await courier.run_due()
    assert [run["status"] for run in post.runs_of(42)] == ["completed", "in_progress"]


async def test_check_run_that_github_forgot_is_created_anew(store: Store, courier: Courier, post: Post) -> None:
    """A run whose id is unknown to GitHub is replaced."""
    await want(store, LetterKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await courier.run_due()
    post.runs.clear()
    await want(store, LetterKind.CHECK_RUN, of_kind(NoticeKind.READY))
    await courier.run_due()
    assert len(post.runs_of(42)) == 1


# A comment that somebody deleted


async def test_comment_deleted_by_somebody_stays_deleted_while_nobody_must_act(
    store: Store, courier: Courier, post: Post
) -> None:
    """Whoever deletes IMQ's comment hears no more of its progress."""
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    post.comments.clear()
    for told in (of_kind(NoticeKind.CHECKING), of_kind(NoticeKind.LANDED), of_reason(Reason.LABEL_REMOVED)):
        await want(store, LetterKind.COMMENT, told)
        await courier.run_due()
    assert post.comments_on(42) == []
    assert await dead(store) == ()


async def test_comment_deleted_by_somebody_is_written_anew_when_the_author_must_act(
    store: Store, courier: Courier, post: Post
) -> None:
    """An outcome that waits for the author is told all the same, and then edited in place again."""
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    post.comments.clear()
    await want(store, LetterKind.COMMENT, of_reason(Reason.CONFLICT))
    await courier.run_due()
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    (comment,) = post.comments_on(42)
    assert len(comment.bodies) == 2


# Failures


@pytest.mark.parametrize("error", [Unavailable("502 Bad Gateway"), Unauthorized("Bad credentials")])
async def test_letter_that_met_passing_trouble_waits_longer_each_time_and_arrives(
    store: Store, courier: Courier, post: Post, clock: MovedClock, error: GitHubError
) -> None:
    """Thirty seconds, then a minute; then it arrives."""
    post.fail["create_comment"] = [error, error]
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    for seconds in (30, 60):
        assert await courier.run_due() is False
        assert await courier.next_due() == clock.now() + timedelta(seconds=seconds)
        clock.move(timedelta(seconds=seconds))
    assert await courier.run_due() is True
    assert len(post.comments_on(42)) == 1


async def test_letter_that_met_a_limit_waits_as_long_as_github_asks(
    store: Store, courier: Courier, post: Post, clock: MovedClock
) -> None:
    """GitHub's own figure wins over ours, and nothing is asked before it has passed."""
    post.fail["create_comment"] = [RateLimited("slow down", retry_after=timedelta(minutes=17))]
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    assert await courier.next_due() == clock.now() + timedelta(minutes=17)
    clock.move(timedelta(minutes=16))
    assert await courier.run_due() is False
    assert post.calls.total() == 1


async def test_letter_that_limits_hold_back_again_and_again_uses_up_no_try(
    store: Store, courier: Courier, post: Post, clock: MovedClock
) -> None:
    """A limit is nobody's failure, however often it is met: the first real failure waits as the first one does."""
    limits = [RateLimited("slow down", retry_after=timedelta(minutes=1)) for _ in range(20)]
    post.fail["create_comment"] = [*limits, Unavailable("timeout")]
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    for _ in limits:
        await courier.run_due()
        clock.move(timedelta(minutes=1))
    await courier.run_due()
    assert await courier.next_due() == clock.now() + timedelta(seconds=30)
    clock.move(timedelta(seconds=30))
    assert await courier.run_due() is True


async def test_letter_that_never_arrives_is_buried_after_its_last_try(
    store: Store, courier: Courier, post: Post, clock: MovedClock
) -> None:
    """Every retry has a bound; then the letter is among the dead, to be sent again once GitHub is back."""
    post.fail["remove_label"] = [Unavailable("timeout") for _ in range(MAX_TRIES + 1)]
    await want_label_off(store)
    for _ in range(MAX_TRIES):
        assert await courier.next_due() is not None
        await courier.run_due()
        clock.move(timedelta(minutes=5))
    assert await courier.next_due() is None
    (letter,) = await dead(store)
    assert letter.payload == {"kind": "label_off", "repository_id": REPOSITORY.id, "number": 42}
    assert (letter.job_type, letter.error_message, letter.attempts) == ("letter", "timeout", MAX_TRIES)
    assert letter.retryable
    assert post.calls["remove_label"] == MAX_TRIES


@pytest.mark.parametrize(
    ("error", "retryable"), [(NotFound("gone"), False), (Forbidden("locked"), True), (Invalid("too long"), False)]
)
async def test_letter_refused_for_good_is_buried_at_once_and_harms_no_other(
    store: Store, courier: Courier, post: Post, error: GitHubError, retryable: bool
) -> None:
    """One refused letter is kept with its error; the letters of others arrive in the same run.

    Only a permission is something that somebody can give, so that the same letter arrives after all.
    """
    post.fail["create_comment"] = [error]
    for number in (1, 2, 3):
        await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    assert await courier.run_due() is True
    assert len(post.comments) == 2
    (letter,) = await dead(store)
    assert letter.error_message == f"{type(error).__name__}: {error.message}"
    assert letter.retryable is retryable
    assert await courier.next_due() is None


async def test_letter_that_died_is_sent_again_when_something_new_is_wanted(
    store: Store, courier: Courier, post: Post
) -> None:
    """A dead letter does not silence its pull request."""
    post.fail["create_comment"] = [Forbidden("locked")]
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.LANDED))
    await courier.run_due()
    assert len(post.comments_on(42)) == 1
    assert await dead(store) == ()


async def test_letter_with_an_unforeseen_error_is_tried_again_and_harms_no_other(
    store: Store, courier: Courier, post: Post, clock: MovedClock
) -> None:
    """A bug in the sending of one letter stops neither the run nor the letter."""
    post.fail["create_comment"] = [RuntimeError("a bug")]
    for number in (1, 2):
        await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    assert await courier.run_due() is True
    clock.move(timedelta(seconds=30))
    await courier.run_due()
    assert len(post.comments_on(1)) == len(post.comments_on(2)) == 1


# Seen once


async def test_comment_whose_creation_was_answered_with_an_error_is_found_and_not_written_twice(
    store: Store, courier: Courier, post: Post, clock: MovedClock
) -> None:
    """A failed call may have happened: look before creating again."""
    post.fail_after["create_comment"] = [Unavailable("timeout")]
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    await courier.run_due()
    clock.move(timedelta(seconds=30))
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.LANDED))
    await courier.run_due()
    (comment,) = post.comments_on(42)
    assert comment.bodies[-1] == render_comment(of_kind(NoticeKind.LANDED))


async def test_check_run_whose_creation_was_answered_with_an_error_is_found_and_not_made_twice(
    store: Store, courier: Courier, post: Post, clock: MovedClock
) -> None:
    """As for the comment, by external id."""
    post.fail_after["create_check_run"] = [Unavailable("timeout")]
    await want(store, LetterKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await courier.run_due()
    clock.move(timedelta(seconds=30))
    await courier.run_due()
    assert len(post.runs_of(42)) == 1
    assert post.calls["find_check_run"] == 1


BOTH = (LetterKind.COMMENT, LetterKind.CHECK_RUN)
RUN = (LetterKind.CHECK_RUN,)
STORIES: dict[str, tuple[tuple[LetterKind, ...], tuple[Notice, ...]]] = {
    "landed": (BOTH, (of_kind(NoticeKind.CHECKING), of_kind(NoticeKind.LANDED))),
    "refused": (BOTH, (of_reason(Reason.LABEL_WITHOUT_RIGHT),)),
    "updated": (RUN, (of_kind(NoticeKind.CHECKING), notice(NoticeKind.CHECKING, head_sha="2" * 40))),
}


@pytest.mark.parametrize("story", STORIES)
async def test_courier_killed_at_any_instant_tells_everything_once(store: Store, clock: MovedClock, story: str) -> None:
    """Before or after any request and any commit: the next start finishes, with one comment and one run per head."""
    kinds, notices = STORIES[story]
    number, survived = 0, False
    while not survived:
        number += 1
        post = Post(fuse := Fuse(number))
        for told in notices:
            for kind in kinds:
                await want(store, kind, told, number)
            if told is notices[-1]:
                await want_label_off(store, number)
            try:
                await Courier(FusedStore(store, fuse), post, clock, owner="a", random=lambda: 0.5).run_due()
            except Killed:
                post.fuse = Fuse()
                clock.move(LEASE)
                await Courier(store, post, clock, owner="b", random=lambda: 0.5).run_due()
        survived = not fuse.blown
        last = render_comment(notices[-1].model_copy(update={"number": number}))
        assert [comment.bodies[-1] for comment in post.comments_on(number)] == [last] * (kinds is BOTH)
        heads = dict.fromkeys(told.head_sha for told in notices)
        assert [run["head_sha"] for run in post.runs_of(number)] == list(heads)
        assert (number, "merge-queue") in post.labels_off
        async with store.reading() as tx:
            assert await tx.outbox.next_due() is None
    assert number > 10
    assert await dead(store) == ()


# One after another, and side by side


class Gate:
    """Holds the calls for one pull request until opened, and remembers who was in a call at the same time."""

    def __init__(self, *held: int) -> None:
        self.held = held
        self.opened = asyncio.Event()
        self.entered: list[tuple[str, int]] = []
        self._changed = asyncio.Condition()

    async def __call__(self, method: str, number: int) -> None:
        """Stand in front of a call."""
        async with self._changed:
            self.entered.append((method, number))
            self._changed.notify_all()
        if number in self.held:
            await self.opened.wait()

    async def wait_for(self, count: int) -> None:
        """Until so many calls were begun."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.entered) >= count)


async def test_letters_of_one_pull_request_go_one_after_another(store: Store, courier: Courier, post: Post) -> None:
    """While its comment is on the way, neither its check run nor its label is touched."""
    post.before = gate = Gate(42)
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.CHECKING))
    await want(store, LetterKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await want_label_off(store)
    running = asyncio.ensure_future(courier.run_due())
    async with asyncio.timeout(10):
        await gate.wait_for(1)
        # Once nothing is left to claim the others have had their chance.
        while await _unclaimed(store):
            pass
    assert len(gate.entered) == 1
    gate.opened.set()
    await running
    assert len(gate.entered) == 3


async def test_letter_that_hangs_holds_up_no_other_pull_request(store: Store, courier: Courier, post: Post) -> None:
    """The comments of ten others arrive while one pull request's three letters wait for GitHub."""
    post.before = gate = Gate(42)
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.CHECKING))
    await want(store, LetterKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await want_label_off(store)
    for number in range(1, 11):
        await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    running = asyncio.ensure_future(courier.run_due())
    async with asyncio.timeout(10):
        await gate.wait_for(11)
    gate.opened.set()
    await running
    assert len(post.comments) == 11


async def test_courier_serves_only_a_few_pull_requests_at_once(store: Store, post: Post, clock: MovedClock) -> None:
    """GitHub's secondary limits do not like crowds."""
    post.before = gate = Gate(*range(1, 6))
    for number in range(1, 6):
        await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    courier = Courier(store, post, clock, owner="a", random=lambda: 0.5, concurrency=2)
    running = asyncio.ensure_future(courier.run_due())
    async with asyncio.timeout(10):
        await gate.wait_for(2)
        for _ in range(3):
            await _unclaimed(store)
    assert len(gate.entered) == 2
    gate.opened.set()
    await running
    assert len(post.comments) == 5


async def test_letter_whose_turn_comes_after_its_lease_is_left_to_the_next_courier(
    store: Store, courier: Courier, post: Post, clock: MovedClock
) -> None:
    """What waited too long behind a hanging letter may have been sent by another courier, and is not sent twice."""
    post.before = gate = Gate(42)
    await want_label_off(store)
    await want(store, LetterKind.COMMENT, of_kind(NoticeKind.QUEUED))
    running = asyncio.ensure_future(courier.run_due())
    async with asyncio.timeout(10):
        await gate.wait_for(1)
        while await _unclaimed(store):
            pass
    clock.move(LEASE)
    post.before = None
    await Courier(store, post, clock, owner="b", random=lambda: 0.5).run_due()
    gate.opened.set()
    await running
    (comment,) = post.comments_on(42)
    assert len(comment.bodies) == 1


async def _unclaimed(store: Store) -> bool:
    """Whether a letter is still free to be claimed."""
    async with store.reading() as tx:
        due = await tx.outbox.next_due()
    return due is not None and due <= NOW
