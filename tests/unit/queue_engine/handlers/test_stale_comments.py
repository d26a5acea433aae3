"""Comments of a lost database: which are corrected, and what they say then."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.facts import Commit, Comparison, OwnComment, OwnComments, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import MARKER, Notice, NoticeKind
from queue_engine.domain.port import GitHub as Port
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.handlers.stale_comments import (
    STALE_COMMENTS_JOB,
    StaleComments,
    correct_check_runs,
    newest,
    record_activity,
    request_sweep,
)
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.store.examples import stand
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Clock
from tests.unit.queue_engine.examples import MINUTE, NOW, REPOSITORY, pull
from tests.unit.queue_engine.sweeps import a_job

HOUR = timedelta(hours=1)


def shows(kind: str, number: int = 1, at: datetime = NOW - HOUR) -> OwnComment:
    return OwnComment(number, f"{MARKER} {kind} -->\n**Words**", at, 7)


class Comments:
    """GitHub with one pull request and IMQ's comments."""

    def __init__(self) -> None:
        self.comments: tuple[OwnComment, ...] = (shows("checking"),)
        self.parts: Mapping[str, Any] = {"labels": frozenset()}
        self.since: list[datetime] = []
        self.contained = True
        """Whether the base has the head of the pull request."""

    async def own_comments(self, _: Repository, since: datetime) -> OwnComments:
        self.since.append(since)
        return OwnComments(self.comments, since)

    async def pull_request(self, _: Repository, number: int) -> PullRequest:
        return pull(number=number, **self.parts)

    async def latest_pull_requests(self, _: Repository) -> tuple[PullRequest, ...]:
        return (pull(number=1, **self.parts),)

    async def comparison(self, _: Repository, base_branch: str, head_sha: str) -> Comparison:
        return Comparison("tip", head_sha if self.contained else "fork", 0, Commit(head_sha, "tree", ("fork",)))


@pytest.fixture
def github() -> Comments:
    return Comments()


@pytest.fixture
def engine(sqlite_database: Database, github: Comments) -> Engine:
    policies = StaticPolicies(Policy(trigger_labels=("land",)))
    return Engine(Store(sqlite_database), cast(Port, github), Clock(), policies, random=lambda: 0.5, owner="w")


async def wanted(engine: Engine) -> Notice | None:
    """What the comment is to say once IMQ has looked."""
    await StaleComments(engine).sweep(a_job(asdict(REPOSITORY)))
    async with engine.store.reading() as tx:
        return await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"labels": frozenset()}, Reason.NOT_QUEUED),
        ({"labels": frozenset(), "open": False}, Reason.CLOSED),
        ({"labels": frozenset(), "open": False, "merged": True}, Reason.MERGED_ELSEWHERE),
        ({"labels": frozenset({"land"})}, Reason.NOT_QUEUED),
    ],
)
async def test_comment_of_an_entry_that_exists_no_more_is_corrected(
    engine: Engine, github: Comments, parts: dict[str, Any], reason: Reason
) -> None:
    """P6: people read what is true, also where a label is left that the sweep of labels did not queue again."""
    github.parts = parts
    notice = await wanted(engine)
    assert (notice and notice.reason) == reason
    async with engine.store.transaction() as tx:
        item = await tx.outbox.claim(owner="w", now=NOW + MINUTE, lease=MINUTE)
    assert item is not None
    assert item.maybe_created, "the comment is found by its marker"


def test_newest_comment_of_a_pull_request_counts() -> None:
    """One that needed an action may stand beside an older one for a moment."""
    older, newer = shows("checking", at=NOW - HOUR), shows("failed", at=NOW)
    assert newest((newer, older)) == [newer]
    assert newest((shows("queued", at=NOW), shows("failed", at=NOW - HOUR))) == [shows("queued", at=NOW)]
    assert newest((shows("answered", at=NOW), older)) == [older], "an answer to a command tells of no outcome"


@pytest.mark.parametrize(
    ("kind", "ago", "corrected"),
    [
        (NoticeKind.FAILED, 2 * HOUR, True),
        (NoticeKind.FAILED, HOUR + MINUTE, False),
        (NoticeKind.FAILED, MINUTE, False),
        (NoticeKind.LANDED, 2 * HOUR, False),
    ],
)
async def test_list_that_is_older_than_a_later_announcement_corrects_nothing(
    engine: Engine, kind: NoticeKind, ago: timedelta, corrected: bool
) -> None:
    """P1: a read that lags shows "checking" of one that has left; a restored database is older than the comment."""
    known = Notice(kind=kind, number=1, base_branch="main", head_sha="h", at=NOW - ago)
    async with engine.store.transaction() as tx:
        await tx.outbox.want(OutboxKind.COMMENT, REPOSITORY, 1, due=NOW - ago, notice=known)
    notice = await wanted(engine)
    assert notice is not None
    assert (notice.reason is Reason.NOT_QUEUED) is corrected


@pytest.mark.parametrize("is_listed", [False, True])
async def test_comment_is_sent_again_where_the_list_lacks_it_and_not_where_it_has_it(
    engine: Engine, github: Comments, is_listed: bool
) -> None:
    """P6, P7: GitHub lost what IMQ wrote half an hour ago; what it shows costs no request."""
    written = NOW - HOUR / 2
    notice = Notice(kind=NoticeKind.FAILED, number=1, base_branch="main", head_sha="h", at=written)
    async with engine.store.transaction() as tx:
        await tx.outbox.want(OutboxKind.COMMENT, REPOSITORY, 1, due=written, notice=notice)
        item = await tx.outbox.claim(owner="w", now=written, lease=MINUTE)
        assert item is not None
        await tx.outbox.created(item, shows("failed").id)
        await tx.outbox.done(item, written)
    other = replace(shows("failed", 2), id=8)
    github.comments = (other, shows("failed", at=written)) if is_listed else (other,)
    assert await wanted(engine) == notice
    async with engine.store.transaction() as tx:
        again = await tx.outbox.claim(owner="w", now=NOW, lease=MINUTE)
    assert (again is None) is is_listed


@pytest.mark.parametrize(
    ("kind", "queued", "corrected"),
    [
        ("checking", True, False),
        ("landed", True, False),
        ("failed", True, True),
        ("landed", False, False),
        ("failed", False, False),
    ],
)
async def test_comment_is_corrected_only_where_it_contradicts_the_queue(
    engine: Engine, github: Comments, kind: str, queued: bool, corrected: bool
) -> None:
    """P6: what is true stays, and so does a landing, which a restored database may not know."""
    github.comments = (shows(kind),)
    if queued:
        async with engine.change() as change:
            await stand(change.tx, await change.tx.queues.find_or_create(REPOSITORY, "main", NOW), 1)
    assert (await wanted(engine) is not None) is corrected


async def test_comments_are_checked_once_a_day_from_the_last_sweep_on(engine: Engine, github: Comments) -> None:
    """P7: the first sweep goes back a month; with a restored database it reads what changed since its backup."""

    async def requested() -> int:
        async with engine.change() as change:
            await request_sweep(change, REPOSITORY)
            return len(await change.tx.jobs.unfinished(f"{STALE_COMMENTS_JOB}:{REPOSITORY.id}"))

    assert [await requested(), await requested()] == [1, 1]
    async with engine.change() as change:
        jobs = await change.tx.jobs.claim_some(9, owner="w", now=NOW + 15 * MINUTE, lease=MINUTE)
        await change.tx.jobs.finish(jobs)
    await wanted(engine)
    assert await requested() == 0
    async with engine.change() as change:
        await change.tx.sweeps.done(f"{STALE_COMMENTS_JOB}:{REPOSITORY.id}", NOW - 24 * HOUR)
    assert await requested() == 1
    await wanted(engine)
    assert github.since == [NOW - timedelta(days=30), NOW - 24 * HOUR - 10 * MINUTE]


@pytest.mark.parametrize(
    ("life", "swept", "asked"),
    [
        (20 * MINUTE, HOUR, 0),
        (21 * MINUTE, HOUR, 1),
        (21 * MINUTE, -MINUTE, 0),
        (None, HOUR, 0),
    ],
)
async def test_database_that_was_idle_for_a_while_has_comments_checked_soon(
    engine: Engine, life: timedelta | None, swept: timedelta, asked: int
) -> None:
    """P6: it may be a restored one, and the daily sweep would come hours late. An empty one had no sweep."""
    part = f"{STALE_COMMENTS_JOB}:{REPOSITORY.id}"
    async with engine.change() as change:
        await change.tx.sweeps.done(part, NOW - swept)
        if life is not None:
            await change.tx.sweeps.done("life", NOW - life)
        for _ in range(2):
            await record_activity(change, longest_pause=20 * MINUTE)
        await request_sweep(change, REPOSITORY)
        assert len(await change.tx.jobs.unfinished(part)) == asked


async def test_check_run_beside_a_stale_comment_is_corrected_as_well(engine: Engine) -> None:
    """It is looked for, as nothing is known of it."""
    assert (notice := await wanted(engine)) is not None
    async with engine.store.transaction() as tx:
        items = [await tx.outbox.claim(owner="w", now=NOW + MINUTE, lease=MINUTE) for _ in range(2)]
    kinds = {item.kind: (item.maybe_created, item.notice) for item in items if item is not None}
    assert kinds == {OutboxKind.COMMENT: (True, notice), OutboxKind.CHECK_RUN: (True, notice)}


async def test_pull_request_that_was_queued_while_its_comment_was_checked_is_left_alone(
    engine: Engine, github: Comments
) -> None:
    """P6: its comment was found stale before GitHub answered; since then the sweep has queued it."""

    async def meanwhile(_: Repository, number: int) -> PullRequest:
        async with engine.change() as change:
            queue = await change.tx.queues.find_or_create(REPOSITORY, "main", NOW)
            await stand(change.tx, queue, number)
        return pull(number=number, labels=frozenset())

    github.pull_request = meanwhile  # type: ignore[method-assign]
    assert await wanted(engine) is None


async def test_doubt_from_a_time_to_come_has_comments_checked_at_once(engine: Engine) -> None:
    """P7: with a clock that was set back IMQ would check them again and again until that time."""
    part = f"{STALE_COMMENTS_JOB}:{REPOSITORY.id}"
    async with engine.change() as change:
        await change.tx.sweeps.done(part, NOW - HOUR)
        await change.tx.sweeps.done("database_doubted", NOW + HOUR)
        await request_sweep(change, REPOSITORY)
        assert await change.tx.jobs.unfinished(part) == ()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (NoticeKind.FAILED, (NoticeKind.FAILED, Reason.CHECKS_FAILED)),
        (NoticeKind.CHECKING, (NoticeKind.CANCELLED, Reason.NOT_QUEUED)),
        (NoticeKind.NOT_READY, (NoticeKind.CANCELLED, Reason.NOT_QUEUED)),
        (NoticeKind.ANSWERED, (NoticeKind.CANCELLED, Reason.NOT_QUEUED)),
        (None, (NoticeKind.CANCELLED, Reason.NOT_QUEUED)),
    ],
)
async def test_check_run_without_an_entry_ends_with_the_outcome_that_the_comment_has(
    engine: Engine, words: NoticeKind | None, shown: tuple[NoticeKind, Reason]
) -> None:
    """P6: it has not ended beside an entry that left; words of a wait, or of a reply, are no outcome."""
    its_own: dict[str, Any] = {"number": 1, "base_branch": "main", "head_sha": "h", "at": NOW}
    async with engine.store.transaction() as tx:
        await tx.repositories.refresh(REPOSITORY)
        checking = Notice(kind=NoticeKind.CHECKING, **its_own)
        await tx.outbox.want(OutboxKind.CHECK_RUN, REPOSITORY, 1, due=NOW, notice=checking)
        item = await tx.outbox.claim(owner="w", now=NOW, lease=MINUTE)
        assert item is not None
        await tx.outbox.created(item, 5, "h")
        await tx.outbox.done(item, NOW)
        if words is not None:
            reason = Reason.CHECKS_FAILED if words is NoticeKind.FAILED else None
            known = Notice(kind=words, reason=reason, **its_own)
            await tx.outbox.want(OutboxKind.COMMENT, REPOSITORY, 1, due=NOW, notice=known)
    await correct_check_runs(engine, REPOSITORY)
    async with engine.store.reading() as tx:
        notice = await tx.outbox.wanted(OutboxKind.CHECK_RUN, REPOSITORY.id, 1)
    assert notice is not None
    assert (notice.kind, notice.reason) == shown
