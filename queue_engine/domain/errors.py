"""Errors of the engine and of its port to GitHub. Logs show the docstrings."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum

from pydantic import ValidationError


class EngineError(Exception):
    """The queue engine could not carry out a request."""


class StaleRecord(EngineError):
    """Another transaction changed this row since it was read: read it again and decide again."""


class InvariantError(EngineError):
    """A queue's stored state contradicts its invariants."""


class TransitionError(InvariantError):
    """An entry was about to take a status that its present one does not lead to."""


class GitHubError(Exception):
    """GitHub did not carry out a request."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class Unavailable(GitHubError):
    """GitHub is unavailable: no connection, a timeout, 5xx, 408, or an answer that is not GitHub's.

    GitHub may have carried out the request nevertheless: read before deciding.
    """


class GitHubOutage(Unavailable):
    """GitHub did not answer: no connection, or none that lasted, or no answer in time."""


class Disorder(StrEnum):
    """Why an installation or a repository is out of order: only its owner ends that, and no pull request leaves."""

    ARCHIVED = "archived"
    BLOCKED = "blocked"
    """GitHub blocks access, as for an unpaid plan."""
    GONE = "gone"
    """The App is uninstalled, or may not reach the repository any more."""
    PERMISSION = "permission"
    """The owner has not accepted a permission that the App needs."""
    SUSPENDED = "suspended"
    NOT_ALLOWED_ADDRESS = "not_allowed_address"
    SINGLE_SIGN_ON = "single_sign_on"
    UNPAID = "unpaid"
    """GitHub starts no jobs: a payment failed, or a spending limit is reached."""


class Refused(Unavailable):
    """GitHub, or a proxy before it, refused what IMQ may do as far as GitHub itself has said: this may pass.

    With `disorder` the installation or the repository is out of order, which only its owner ends. Without it, a refusal
    that repeats while everything else works counts as a missing permission (`queue_engine.planner.github_outage`).
    """

    def __init__(self, message: str, *, status: int | None = None, disorder: Disorder | None = None) -> None:
        super().__init__(message, status=status)
        self.disorder = disorder


class StaleRead(Unavailable):
    """GitHub answered from a replica that lags behind known facts: an older state, or 404 for an existing object.
    The same request succeeds seconds later.
    """


class RequestOrderError(EngineError):
    """An earlier request has no answer yet: IMQ judges this one, or lands, after `retry_after` (P3, P4).

    `jobs` are the ids of the jobs that answer it, where their next tries are too late.
    """

    def __init__(self, message: str, *, retry_after: timedelta, jobs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.retry_after, self.jobs = retry_after, jobs


class RateLimitError(GitHubError):
    """The App reached a primary or secondary rate limit. GitHub did nothing, and asks to wait for `retry_after`."""

    def __init__(self, message: str, *, retry_after: timedelta, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.retry_after = retry_after


class CommentLimitError(RateLimitError):
    """The content that GitHub lets an installation create is kept for merges, or used up: IMQ did not create a
    comment. A check run creates no content, and may show its words.
    """


class Busy(RateLimitError):
    """Too many of IMQ's own calls to GitHub wait for a slot: IMQ sent nothing. Try again later."""


class ReadLagError(RateLimitError):
    """GitHub's replicas lag: IMQ did not send a read that would miss the latest webhook, or GitHub does not accept a
    new token yet. Nothing was done. Try again later.
    """


class NotFound(GitHubError):
    """404, 410: the object does not exist, or GitHub does not show it to this installation."""


class Forbidden(GitHubError):
    """403 that would repeat: the token's own answer lacks the permission, or GitHub names a rule. See `Refused`.

    `lacking`: the token lacks the permission, which the owner of the installation may still accept.
    """

    def __init__(self, message: str, *, status: int | None = None, lacking: bool = False) -> None:
        super().__init__(message, status=status)
        self.lacking = lacking


class MergeError(GitHubError):
    """405: the pull request cannot be merged now, because of a rule, a conflict, or a base that just moved."""


class HeadConflict(GitHubError):
    """409: the head is not the named one, or GitHub could not determine it just now."""


class Invalid(GitHubError):
    """422: GitHub refused a well-formed request; the message says why."""


class WriteRefused(GitHubError):
    """IMQ sent nothing: the repository is in shadow mode, in which IMQ writes nothing on GitHub.

    `what` names the write.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was not sent: the repository is in shadow mode")
        self.what = what


class Unauthorized(GitHubError):
    """401: GitHub does not accept the App's key, id or token."""


def is_retryable(error: Exception) -> bool:
    """Return whether work that failed with this error may succeed later, unchanged.

    Of GitHub's answers only outages (no connection, a timeout, 5xx, 408), rate limits and refusals without a known
    cause are retryable: any other 4xx would repeat. A stored value that does not validate never will. Other errors are
    bugs or database failures, which a restart or an operator may fix meanwhile.
    """
    if isinstance(error, GitHubError):
        return isinstance(error, Unavailable | RateLimitError)
    return not isinstance(error, ValidationError)


def attempt_level(error: Exception) -> int:
    """Return the level at which to log a failed attempt: an error means a fault of IMQ.

    While GitHub cannot be reached every attempt fails, and the gateway logs that once a minute.
    """
    if isinstance(error, GitHubOutage):
        return logging.DEBUG
    return logging.WARNING if isinstance(error, GitHubError) else logging.ERROR


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Name the requested object in GitHub's errors: `Not Found` alone is useless in a dead letter."""
    try:
        yield
    except GitHubError as error:
        error.message = f"{what}: {error.message}"
        error.args = (error.message,)
        raise


class EntryConflict(EngineError):
    """This pull request is queued already."""
