"""Who asks again for a head that was turned away: a person is heard, automation is not (P6).

Automation that acts under an account of a person's kind cannot be told by its account. So whoever asks for the same
head again and again is heard ever less often: a person hardly notices, a loop comes to almost nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.core.backoff import Backoff, wait
from queue_engine.core.monitor import unvaried
from queue_engine.store import Transaction

_PATIENCE = Backoff(base=timedelta(seconds=30), maximum=timedelta(hours=1), jitter=0)
"""What has to pass after each refusal of one head that comes after the free ones."""

_FREE = 4
"""Tries that a person has for one head without any wait: to mend one thing after the other takes some."""


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """The head that was turned away last, when, and how often it was."""

    head_sha: str
    at: datetime
    times: int

    def hears(self, head_sha: str, *, by_machine: bool, now: datetime) -> bool:
        """Whether this head is judged once more for whoever asks now."""
        if head_sha != self.head_sha:
            return True
        if by_machine:
            return False
        waits = self.times - _FREE
        return waits <= 0 or now >= self.at + wait(_PATIENCE, waits - 1, random=unvaried)


async def turned_away(tx: Transaction, repository_id: int, number: int) -> TurnedAway | None:
    """What is known of this pull request's last refusal or failure, if there was one since it last landed."""
    refusal = await tx.refusals.find(repository_id, number)
    if refusal is None:
        return None
    events = await tx.timeline.of_pull_request(repository_id, number)
    heads = [(event.data or {}).get("head") for event in events if event.reason is not None]
    return TurnedAway(refusal.head_sha, refusal.at, max(heads.count(refusal.head_sha), 1))
