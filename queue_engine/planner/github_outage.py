"""Decide how long an entry waits while GitHub fails, and when it has waited long enough.

Every queue waits by itself, in the database: the trouble that one installation has slows down no other, and the wait
goes on after a restart. Hints that come meanwhile are kept, and change nothing about it (`Queues.wake`).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.core.timing import backoff
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.domain.errors import GitHubError, RateLimitError, StaleRead, Unauthorized, is_retryable
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, Wait

_SHORTEST = timedelta(seconds=1)

_IN_DOUBT = 6
"""A merge in doubt is not given up lightly, so many times less than other work: only GitHub can say what happened."""


_SHOWN_AFTER = timedelta(minutes=1)
"""Shorter trouble is over before anybody could have read of it."""


def shows_retrying(entry: Entry, now: datetime) -> bool:
    """Whether GitHub's trouble with an entry has lasted so long that people are told of it."""
    return entry.run.github_failing_since is not None and now - entry.run.github_failing_since >= _SHOWN_AFTER


def on_github_error(
    entry: Entry, error: GitHubError, policy: Policy, now: datetime, random: Callable[[], float]
) -> Wait | Dequeue:
    """What becomes of an entry whose pass ended with this error.

    A limit is waited out as long as asked. An outdated read is asked again within seconds, and counts as trouble only
    when that did not help: `trouble_since` is not set before. Trouble is waited out in the series of
    `backoff.TROUBLE`, each time longer until something succeeds, for a bounded time. Any other refusal would be the
    same again: the entry leaves.
    """
    if isinstance(error, RateLimitError):
        return Wait(entry, retry_at(error, now))
    # A key that is not accepted is the operator's trouble: it is mended while entries wait.
    if not is_retryable(error) and not isinstance(error, Unauthorized):
        return Dequeue(Reason.GITHUB_TROUBLE, error.message)
    if isinstance(error, StaleRead) and not OUTDATED.exhausted(entry.run.github_failures):
        # It passes within seconds, and is no trouble until then.
        again = now + backoff.wait(OUTDATED, entry.run.github_failures, random=random)
        return Wait(replace(entry, run=replace(entry.run, github_failures=entry.run.github_failures + 1)), again)
    since = entry.run.github_failing_since or now
    if now - since >= policy.trouble_timeout * (_IN_DOUBT if entry.run.merge_requested_at else 1):
        return Dequeue(Reason.GITHUB_TROUBLE, error.message)
    tries = entry.run.github_failures - 1 if isinstance(error, StaleRead) else entry.run.github_failures
    again = now + backoff.wait(backoff.TROUBLE, tries, random=random)
    return Wait(
        replace(
            entry, run=replace(entry.run, github_failures=entry.run.github_failures + 1, github_failing_since=since)
        ),
        again,
    )


def retry_at(limited: RateLimitError, now: datetime) -> datetime:
    """When a call that met a limit is made again: as GitHub asks, and never at once."""
    return now + max(limited.retry_after, _SHORTEST)


def longest_wait(entry: Entry) -> timedelta:
    """How long the wait is at most if the entry's next step meets trouble."""
    return backoff.longest(backoff.TROUBLE, entry.run.github_failures)
