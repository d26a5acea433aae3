"""P3: labels are answered in the order in which their webhooks came, also while GitHub's reads lag.

A read that does not show a label yet is asked again after seconds. Until then IMQ postpones the labels that came
after it on the same base branch: otherwise the later one would land first. Each wait has its instant, so that neither
a dead process nor a lost label holds up the next one (P5).
"""

from datetime import datetime, timedelta

from queue_engine.core import backoff
from queue_engine.core.backoff import OUTDATED
from queue_engine.engine import Engine
from queue_engine.errors import EarlierLabel, OutdatedRead, TooEarly
from queue_engine.hints import Hint
from queue_engine.known.facts import Fact, Known, Postponed, of_labels
from queue_engine.model import Repository

_READ = timedelta(seconds=1)
"""How long the next read of the earlier label may take, in another process."""

_LONGEST = backoff.longest(OUTDATED, 3) + _READ


async def await_earlier(engine: Engine, repository: Repository, hint: Hint) -> None:
    """Raise EarlierLabel while a label that came before on the same base branch is postponed.

    However often it waited itself, its own last read included: otherwise two labels whose last reads are due within
    the jitter of their waits would change places. Such waits end all the same, see `postpone`.
    """
    subject, now = of_labels(hint.branch or ""), engine.clock.now()
    async with engine.store.reading() as tx:
        known = (await tx.known.about(repository.id, [subject], since=now - _LONGEST)).get(subject, [])
    until = max(_earlier(known, hint.order), default=now)
    if until > now:
        raise EarlierLabel("an earlier label is answered first", delay=until - now)


async def postpone(
    engine: Engine, repository: Repository, hint: Hint, why: OutdatedRead | TooEarly | EarlierLabel
) -> None:
    """Store that a label is not answered yet, and until when those that came after it wait.

    Each label does so at most as often as a read is asked again, so that nobody waits for it longer than that (P5).
    """
    if OUTDATED.exhausted(hint.tries):
        return
    async with engine.change() as change:
        until = change.now + _answered_after(hint, why)
        fact = Fact(subject=of_labels(hint.branch or ""), told=Postponed(order=hint.order, until=until))
        await change.tx.known.tell(repository.id, [fact], change.now)


def _answered_after(hint: Hint, why: OutdatedRead | TooEarly | EarlierLabel) -> timedelta:
    """After how long the label is answered, or its read has been asked again at the latest."""
    match why:
        case EarlierLabel():
            return why.delay
        case TooEarly():
            return why.retry_after + _READ
        case OutdatedRead():
            return backoff.longest(OUTDATED, hint.outdated) + _READ


def _earlier(known: list[Known], order: int) -> list[datetime]:
    """Until when those wait that came after a label which came before this one."""
    return [one.told.until for one in known if isinstance(one.told, Postponed) and one.told.order < order]
