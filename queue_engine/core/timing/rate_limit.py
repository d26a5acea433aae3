"""Limit how much happens in a time, by a sliding window. Pure state: the instant is injected.

A caller that does not fit gets an instant for its retry, one after the other, so that they do not come at once. That
is a `RateLimitError` before any request, and a wait like GitHub's own.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from datetime import datetime, timedelta

from cachetools import LRUCache


class RateLimit:
    """At most `limit` of something within any `span` of time.

    A caller that has to wait gets an instant to retry. These instants are spread out at the pace that the window
    allows, so that they do not all come back for the same free place.
    """

    def __init__(self, limit: int, span: timedelta) -> None:
        if limit < 1:
            raise ValueError("the limit must be at least one")
        self.limit = limit
        self.span = span
        self._taken: deque[tuple[datetime, int]] = deque()
        self._used = 0
        self._delayed_until: dict[int, deque[tuple[datetime, int]]] = {}
        """Those who wait, by how much of the limit is theirs to use: when they come back, and for how much."""

    def fill(self, taken: Iterable[tuple[datetime, int]]) -> None:
        """Replace what was taken, oldest first, by what is known from elsewhere."""
        self._taken = deque(taken)
        self._used = sum(amount for _, amount in self._taken)

    def add(self, other: "RateLimit") -> None:
        """Take what was taken of another limit too."""
        self.fill(sorted((*self._taken, *other._taken)))

    def used(self, now: datetime) -> int:
        """How much of the limit the last `span` has used up."""
        self._forget(now)
        return self._used

    def wait(self, now: datetime, amount: int = 1, *, of: int | None = None) -> timedelta:
        """How long until `amount` fits; zero or less when it does now. `of` is this asker's part of the limit."""
        most = self.limit if of is None else of
        if not 0 < amount <= most <= self.limit:
            raise ValueError(f"{amount} of {most} never fits into {self.limit}")
        self._forget(now)
        over = self._used + amount - most
        freed = now
        for at, taken in self._taken:
            if over <= 0:
                break
            over -= taken
            freed = at + self.span
        return freed - now

    def take(self, now: datetime, amount: int = 1) -> None:
        """Use up some of it."""
        self._forget(now)
        self._taken.append((now, amount))
        self._used += amount

    def delay(self, now: datetime, amount: int = 1, *, of: int | None = None) -> timedelta:
        """Return the delay of a caller that found no room: after those that were delayed before."""
        most = self.limit if of is None else of
        delayed_until = self._delayed_until.setdefault(most, deque())
        while delayed_until and delayed_until[0][0] <= now:
            delayed_until.popleft()
        ahead = sum(amount for _, amount in delayed_until)
        wait = self.wait(now, amount, of=of) + self.span * ahead / most
        delayed_until.append((now + wait, amount))
        return wait

    def _forget(self, now: datetime) -> None:
        while self._taken and now - self._taken[0][0] >= self.span:
            self._used -= self._taken.popleft()[1]
        # A clock that was set back: what was taken stays taken, for one span from now on at most.
        ahead = 0
        while self._taken and self._taken[-1][0] > now:
            ahead += self._taken.pop()[1]
        if ahead:
            self._taken.append((now, ahead))
            self._delayed_until.clear()


Span = tuple[int, timedelta]
"""At most so many within a time."""


class KeyLimits:
    """Limits of each key, such as an address, and limits that all keys share."""

    def __init__(self, *each: Span, together: Iterable[Span] = (), most_keys: int = 1_000) -> None:
        """Keep the limits of the `most_keys` keys that were used last."""
        self._each = each
        self._together = tuple(RateLimit(*one) for one in together)
        self._keys: LRUCache[Hashable, tuple[RateLimit, ...]] = LRUCache(most_keys)

    def wait(self, key: Hashable, now: datetime, amount: int = 1) -> timedelta:
        """Return how long until `amount` fits; zero or less when it does now. The key None has shared limits alone."""
        return max(each.wait(now, amount) for each in self._of(key))

    def take(self, key: Hashable, now: datetime, amount: int = 1) -> timedelta:
        """Use up `amount` if it fits now; returns what `wait` does."""
        if (wait := self.wait(key, now, amount)) <= timedelta(0):
            for each in self._of(key):
                each.take(now, amount)
        return wait

    def _of(self, key: Hashable) -> tuple[RateLimit, ...]:
        if key is None:
            return self._together
        if key not in self._keys:
            self._keys[key] = tuple(RateLimit(*one) for one in self._each)
        return *self._together, *self._keys[key]
