"""Compute how long to wait before the next try. Policies are data, functions pure, randomness injected.

IMQ retries in one layer. The gateway sends each request once (after a 401 again with a new token, unless the token
was just issued); its caller stores the wait:

- A failed job: 1, 2, 4 s, then 2, 4, 8, 16, 32 min (`JOB`: `REQUEST`, then `REDELIVERY`); after nine tries a dead
  letter.
- A pass, by GitHub's trouble: 1, 2, 4 s, then 30, 60, 120, 240, 300 s (`TROUBLE`: `REQUEST`, then `OVERLOAD`), for an
  hour; for six hours while its merge is in doubt.
- Either of them, by an outdated read: 1, 2, 4, 8 s, which is neither an attempt nor trouble; then as above.
- A pass, by an unpaid plan: 1 s, then 10, 20, 40, 60 min (`OWNER`), for as long as any hold.
- An outbox item: 30, 60, 120, 240, 300 s (`OVERLOAD`); after 288 tries, about a day, a dead letter. One that a person
  has to make possible: 10, 20, 40, 60 min.
- A question about something pending: 1 s, longer by a fifth each (`MONITOR`); after six errors in a row none.
- Anything, by a limit: as long as GitHub asks, or the pace needs. Only for an outbox item is that an attempt.
- A loop, by the database: 1 s, until the database is back.

All vary by ten percent to either side, but for `OVERLOAD` and the monitors of an entry. What a server asks for wins. A
success begins a series again; hints and restarts do not shorten it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Backoff:
    """A policy: the first wait is `base`, each next one `factor` times longer, all within `minimum` and `maximum`.

    `jitter` is the share by which a wait varies to either side, so that waiters do not come back together.
    `tries` bounds the attempts, the first included; None leaves the bound to the caller.
    """

    base: timedelta
    maximum: timedelta
    factor: float = 2
    jitter: float = 0.1
    minimum: timedelta = timedelta(0)
    tries: int | None = None

    def exhausted(self, attempts: int) -> bool:
        """Whether after this many failed attempts no other may follow."""
        return self.tries is not None and attempts >= self.tries


REQUEST = Backoff(base=timedelta(seconds=1), maximum=timedelta(seconds=4), tries=3)
"""One request that failed for a passing reason: 1, 2, 4 seconds."""

OUTDATED = Backoff(base=timedelta(seconds=1), maximum=timedelta(seconds=8), tries=4)
"""An answer that is older than what is known: 1, 2, 4, 8 seconds; then it is a failure like any other."""

OVERLOAD = Backoff(base=timedelta(seconds=30), maximum=timedelta(seconds=300), jitter=0)
"""Somebody is overloaded: 30, 60, 120, 240, 300 seconds; back to the start after a success."""

OWNER = Backoff(base=timedelta(minutes=10), maximum=timedelta(hours=1), jitter=0)
"""A person has to make it possible: 10, 20, 40, 60 minutes."""

MONITOR = Backoff(
    base=timedelta(seconds=1), factor=1.2, minimum=timedelta(seconds=1), maximum=timedelta(seconds=60), tries=6
)
"""Polls of a pending thing: from one second on, a fifth longer each time; more than five errors in a row end them."""

REDELIVERY = Backoff(base=timedelta(minutes=2), maximum=timedelta(hours=1))
"""A stored job that failed again: 2^attempt minutes, counted from 1; at most an hour."""


@dataclass(frozen=True, slots=True)
class Backoffs:
    """Policies one after the other: each for as many waits as it has tries, the last one for all that follow."""

    stages: tuple[Backoff, ...]

    def at(self, attempt: int) -> tuple[Backoff, int]:
        """The policy of this failed attempt, counted from 0, and its number within that policy."""
        for stage in self.stages[:-1]:
            if stage.tries is None or attempt < stage.tries:
                return stage, attempt
            attempt -= stage.tries
        return self.stages[-1], attempt


JOB = Backoffs((REQUEST, REDELIVERY))
"""A stored job: what passes quickly costs seconds, what does not is left alone for minutes."""

TROUBLE = Backoffs((REQUEST, OVERLOAD))
"""A service that IMQ depends on fails: the same, and then as if it were overloaded."""


def no_jitter() -> float:
    """The middle of every jitter: for waits that need none."""
    return 0.5


def exponential(
    attempt: int,
    *,
    base: timedelta,
    factor: float = 2,
    maximum: timedelta,
    jitter: float = 0.1,
    random: Callable[[], float],
) -> timedelta:
    """`base * factor ** attempt`, varied by `jitter` to either side, never above `maximum`.

    `attempt` counts the failures before this one, from 0. `random` returns numbers from 0 up to 1.
    """
    try:
        seconds = base.total_seconds() * factor**attempt
    except OverflowError:
        return maximum
    seconds = min(seconds, maximum.total_seconds())
    seconds *= 1 + jitter * (2 * random() - 1)
    return timedelta(seconds=min(seconds, maximum.total_seconds()))


def longest(policy: Backoff | Backoffs, attempt: int) -> timedelta:
    """The longest that the wait after this failed attempt may be, whatever chance makes of it."""
    return wait(policy, attempt, random=lambda: 1.0)


def wait(
    policy: Backoff | Backoffs, attempt: int, *, random: Callable[[], float], asked: timedelta | None = None
) -> timedelta:
    """The wait before the next try. What the server `asked` for wins over the policy, be it shorter or longer."""
    if asked is not None:
        return asked
    if isinstance(policy, Backoffs):
        policy, attempt = policy.at(attempt)
    own = exponential(
        attempt,
        base=policy.base,
        factor=policy.factor,
        maximum=policy.maximum,
        jitter=policy.jitter,
        random=random,
    )
    return max(own, policy.minimum)


@dataclass(frozen=True, slots=True)
class MonitorEntry:
    """The monitor of one thing: `polls` since its start, the exponent; `errors` in a row."""

    next_at: datetime
    polls: int = 0
    errors: int = 0

    @classmethod
    def started(cls, now: datetime) -> "MonitorEntry":
        """Begin, or begin again after a reset: a poll now, and then the shortest interval."""
        return cls(next_at=now)

    def answered(self, policy: Backoff, now: datetime, random: Callable[[], float] = no_jitter) -> "MonitorEntry":
        """Record a poll that found the thing pending: errors are forgotten, and the next wait is longer."""
        return MonitorEntry(now + wait(policy, self.polls, random=random), self.polls + 1)

    def failed(self, policy: Backoff, now: datetime, random: Callable[[], float] = no_jitter) -> "MonitorEntry | None":
        """Record a failed poll: waits grow as after an answer. None if the policy allows no further error in a row."""
        if policy.exhausted(self.errors + 1):
            return None
        return MonitorEntry(now + wait(policy, self.polls, random=random), self.polls + 1, self.errors + 1)
