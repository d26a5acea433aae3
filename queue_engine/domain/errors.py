"""Errors of the engine and of its port to GitHub. The docstrings are what logs say."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from pydantic import ValidationError


class EngineError(Exception):
    """The queue engine could not do what it was asked to."""


class StaleRecord(EngineError):
    """Somebody else changed this row since it was read: read it again and decide again."""


class InvariantError(EngineError):
    """A queue's stored state contradicts its invariants."""


class TransitionError(InvariantError):
    """An entry was about to take a status that its present one does not lead to."""


class GitHubError(Exception):
    """GitHub did not do what it was asked to."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class Unavailable(GitHubError):
    """GitHub is in trouble: no connection, a timeout, 5xx, 408, or an answer that is not GitHub's.

    The request may have been carried out all the same: read before deciding.
    """


class StaleRead(Unavailable):
    """GitHub answered from a replica that lacks what is known: an older state, or 404 for what was just named. The
    same question is answered rightly seconds later.
    """


class LabelOrderError(EngineError):
    """A label that came before this one is not answered yet: this one is answered after `delay` (P3)."""

    def __init__(self, message: str, *, delay: timedelta) -> None:
        super().__init__(message)
        self.delay = delay


class RateLimitError(GitHubError):
    """A primary or secondary limit was met. `retry_after` is how long GitHub asks to wait. Nothing was done."""

    def __init__(self, message: str, *, retry_after: timedelta, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.retry_after = retry_after


class Busy(RateLimitError):
    """Too many of IMQ's own calls to GitHub are waiting for a slot: nothing was sent. Come back later."""


class ReadLagError(RateLimitError):
    """GitHub's replicas lag: a read would not show yet what was just told, and was not sent; or a token that was just
    issued is not accepted yet. Nothing was done. Come back later.
    """


class NotFound(GitHubError):
    """GitHub knows no such thing, or does not show it to this installation (404, 410)."""


class Forbidden(GitHubError):
    """A permission is missing (403); the message is GitHub's and names it where GitHub does."""


class MergeError(GitHubError):
    """405: the pull request cannot be merged now: a rule, a conflict, or a base that moved in that moment."""


class HeadConflict(GitHubError):
    """409: the head is not the one named, or GitHub was momentarily unsure."""


class Invalid(GitHubError):
    """422: GitHub understood and refuses; the message says why."""


class Unauthorized(GitHubError):
    """401: the App's key, id or token is not accepted."""


def is_retryable(error: Exception) -> bool:
    """Whether what failed with this may succeed if it is simply done again, after a wait.

    Of GitHub's answers only trouble (no connection, a timeout, 5xx, 408) and limits do, never another 4xx: asked
    again, it would refuse again. What is stored and cannot be read never will be. Anything else is a fault of ours or
    of the database, which may be mended meanwhile.
    """
    if isinstance(error, GitHubError):
        return isinstance(error, Unavailable | RateLimitError)
    return not isinstance(error, ValidationError)


@contextmanager
def naming(what: str) -> Iterator[None]:
    """GitHub's errors within say what was asked for: `Not Found` alone is useless in a dead letter."""
    try:
        yield
    except GitHubError as error:
        error.message = f"{what}: {error.message}"
        error.args = (error.message,)
        raise
