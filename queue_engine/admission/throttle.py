"""Throttle people without the right: their events cost ever fewer requests to GitHub (P7).

Anybody may comment on a public repository and review its pull requests. A person whose last requests had no right
behind them is ignored for a while that doubles each time, so that they cost at most a dozen requests an hour.

Without this, four accounts that wrote 80 comments a minute each delayed a landing by 605 s; with it, by 0.0 s
(`make bench`, row `strangers`).
"""

from datetime import datetime, timedelta

import structlog

from queue_engine.core.timing.backoff import Backoff, no_jitter, wait
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Change, Engine
from queue_engine.store.operations.throttles import Throttle

_WAITS = Backoff(base=timedelta(seconds=30), maximum=timedelta(hours=1), jitter=0)
"""How long a person is ignored after each request without the right that comes after the free ones."""

_FREE = 3
"""Requests without the right after which a person is still heard at once."""

KEPT = timedelta(days=1)
"""After so long without such a request a person starts from nothing."""

TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Associations whose permission is read together with the pull request. GitHub shows private members as NONE."""

_log = structlog.get_logger("imq.throttle")


def requested_by(login: str) -> str:
    """Under what name it is counted what somebody asks that everybody may ask: no login has a space.

    So a maintainer whom GitHub calls a stranger may ask often, and is still heard when the queue must be paused.
    """
    return f"{login} asks"


def labeling(login: str) -> str:
    """The name under which refused labels are counted. A writer who may not pause queues sets labels undisturbed."""
    return f"{login} labels"


def ignored_until(throttle: Throttle) -> datetime:
    """When this person is heard again."""
    waits = throttle.times - _FREE
    return throttle.at if waits <= 0 else throttle.at + wait(_WAITS, waits - 1, random=no_jitter)


async def is_throttled(engine: Engine, repository: Repository, login: str) -> bool:
    """Whether what this person asks for is ignored now."""
    if await heard_from(engine, repository, login) is None:
        return False
    _log.debug("ignored", repository=repository.full_name, by=login)
    return True


async def heard_from(engine: Engine, repository: Repository, login: str) -> datetime | None:
    """When this person is heard again; None if they are heard now."""
    async with engine.store.reading() as tx:
        throttle = await tx.throttles.find(repository.id, login)
    until = None if throttle is None else ignored_until(throttle)
    return until if until is not None and engine.clock.now() < until else None


async def count_without_right(change: Change, repository: Repository, login: str) -> None:
    """This person asked for something that they may not have."""
    before = await change.tx.throttles.find(repository.id, login)
    times = 0 if before is None or before.at < change.now - KEPT else before.times
    await change.tx.throttles.put(repository.id, login, Throttle(times + 1, change.now))


async def is_outsider(engine: Engine, repository: Repository, login: str) -> bool:
    """Whether this person may no more than read here, and no configuration lets them queue. Raises GitHubError.

    One request; an outsider's counts.
    """
    if await engine.github.permission(repository, login) not in (Permission.NONE, Permission.READ):
        return False
    if await engine.policies.admit_readers(repository, login):
        return False
    async with engine.change() as change:
        await count_without_right(change, repository, login)
    _log.info("outsider", repository=repository.full_name, by=login)
    return True
