"""Decide how long an entry waits while GitHub fails, and when it is dequeued.

Each queue stores its own wait in the database. So an outage for one installation delays no other, and the wait survives
a restart. Webhooks do not shorten the wait (`Queues.wake`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.core.timing import backoff
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.domain.errors import (
    Disorder,
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimitError,
    Refused,
    StaleRead,
    Unauthorized,
    is_retryable,
)
from queue_engine.domain.reasons import Reason, reason_of
from queue_engine.domain.run import Run
from queue_engine.planner.actions import Dequeue

UNREADABLE = frozenset({Reason.GITHUB_TROUBLE, Reason.PERMISSION_MISSING})
"""Reasons that mean that GitHub refuses reads of the pull request, so that IMQ does not read it again."""

_REPEATED = timedelta(minutes=10)
"""How long GitHub has to repeat a refusal, while everything else works, before it counts as one that lasts."""

_REPEATED_AS: Mapping[int, type[GitHubError]] = {403: Forbidden, 422: Invalid}
_SHORTEST = timedelta(seconds=1)

_IN_DOUBT = 6
"""How many times longer IMQ retries while the answer to a merge request is lost: only GitHub knows the outcome."""

_SHOWN_AFTER = timedelta(minutes=1)
"""How long GitHub fails before the comment says so: a shorter outage is over before anybody reads of it."""


def shows_retrying(run: Run, now: datetime) -> bool:
    """Whether GitHub has failed for so long that comments say that IMQ retries."""
    return run.github_failing_since is not None and now - run.github_failing_since >= _SHOWN_AFTER


def pauses_queue(run: Run, error: GitHubError, now: datetime) -> bool:
    """Whether comments say that GitHub refuses: an unpaid plan does not pass in a minute."""
    return shows_retrying(run, now) or is_unpaid(error)


def is_unpaid(error: GitHubError) -> bool:
    """Whether GitHub starts no jobs until the owner has paid."""
    return isinstance(error, Refused) and error.disorder is Disorder.UNPAID


def out_of_order(error: GitHubError) -> GitHubError:
    """Return a missing permission as what it is: an installation whose owner has not accepted it yet."""
    if isinstance(error, Forbidden) and error.lacking:
        return Refused(error.message, status=error.status, disorder=Disorder.PERMISSION)
    return error


def settled(run: Run, error: GitHubError, now: datetime) -> GitHubError:
    """Return the error for what it is by now: a 403 or 422 without a known cause that GitHub repeats is no trouble.

    For requests that failed while others of the same pass succeeded. An installation or a repository that is out of
    order stays so until its owner ends that.
    """
    since = run.github_failing_since
    if not isinstance(error, Refused) or error.disorder is not None or since is None or now - since < _REPEATED:
        return error
    kind = _REPEATED_AS.get(error.status or 0)
    return error if kind is None else kind(error.message, status=error.status)


@dataclass(frozen=True, slots=True)
class Retry:
    """Wait for GitHub: the run with what it counts of the failures, and when to try again."""

    run: Run
    at: datetime


def on_github_error(
    run: Run, error: GitHubError, policy: Policy, now: datetime, random: Callable[[], float], *, in_doubt: bool = False
) -> Retry | Dequeue:
    """Retry the run whose step ended with this error, of an entry or of a train, or give it up.

    After a rate limit, IMQ waits as long as GitHub asks. A stale read is retried within seconds, and counts as an
    outage only if that fails: `github_failing_since` is not set before. During an outage the waits grow as
    `backoff.TROUBLE` says, within a time limit, which is that of all holds where a repository is out of order. GitHub
    would repeat any other refusal. `in_doubt`: the answer to the run's landing is lost.
    """
    if isinstance(error, RateLimitError):
        return Retry(run, retry_at(error, now))
    # The operator has to replace a rejected key; the entries wait for that. A repository that is gone has a job.
    if not is_retryable(error) and not isinstance(error, Unauthorized | NotFound):
        return Dequeue(Reason.GITHUB_TROUBLE, error.message)
    failed = replace(run, github_failures=run.github_failures + 1)
    if isinstance(error, StaleRead) and not OUTDATED.exhausted(run.github_failures):
        # Replicas catch up within seconds: until then this is no outage.
        return Retry(failed, now + backoff.wait(OUTDATED, run.github_failures, random=random))
    since = run.github_failing_since or now
    in_doubt = in_doubt or run.merge_requested_at is not None
    if now - since >= _outage_limit(error, policy) * (_IN_DOUBT if in_doubt else 1):
        return Dequeue(reason_of(error), error.message)
    if is_unpaid(error):
        # The first retry comes at once, and its pass announces the pause.
        tries, series = (run.github_failures - 1, backoff.OWNER) if run.github_failures else (0, backoff.REQUEST)
        return Retry(replace(failed, github_failing_since=since), now + backoff.wait(series, tries, random=random))
    tries = run.github_failures - 1 if isinstance(error, StaleRead) else run.github_failures
    return Retry(replace(failed, github_failing_since=since), now + backoff.wait(backoff.TROUBLE, tries, random=random))


def _outage_limit(error: GitHubError, policy: Policy) -> timedelta:
    """How long requests may fail like this: as long as any hold where only an owner ends it."""
    lasts = isinstance(error, Refused) and error.disorder is not None
    return policy.timeouts.hold if lasts else policy.outage_timeout


def retry_at(limited: RateLimitError, now: datetime) -> datetime:
    """When to retry a rate-limited request: as GitHub asks, and never at once."""
    return now + max(limited.retry_after, _SHORTEST)


def longest_wait(run: Run) -> timedelta:
    """The longest wait that follows if GitHub fails in the run's next step."""
    return backoff.longest(backoff.TROUBLE, run.github_failures)
