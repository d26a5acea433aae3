"""Throttle people without permission: their events cost ever fewer requests to GitHub (P7).

Everybody may comment on a public repository and review its pull requests. IMQ ignores a person whose last requests
lacked permission, for a while that doubles each time. So a person costs at most a dozen requests an hour.

Without this, four accounts that wrote 80 comments a minute each delayed a landing by 605 s; with it, by 0.0 s
(`make bench`, row `strangers`).
"""

from datetime import datetime, timedelta

import structlog

from queue_engine.core.timing.backoff import Backoff, no_jitter, wait
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Change, Engine
from queue_engine.store.rejections import Throttle

_WAITS = Backoff(base=timedelta(seconds=30), maximum=timedelta(hours=1), jitter=0)
"""How long IMQ ignores a person after each request without permission beyond the free ones."""

_FREE = 3
"""How many requests without permission have no wait."""

KEPT = timedelta(days=1)
"""How long without such a request until the count starts again."""

TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Associations whose permission is read together with the pull request. GitHub shows private members as NONE."""

_log = structlog.get_logger("imq.throttle")


def requested_by(login: str) -> str:
    """Return the key that counts requests which everybody may make: no login has a space.

    So a maintainer whom GitHub shows as a stranger may ask often, and can still pause the queue.
    """
    return f"{login} asks"


def labeling(login: str) -> str:
    """Return the key that counts refused labels. Refused commands of a writer do not throttle the writer's labels."""
    return f"{login} labels"


def ignored_until(throttle: Throttle) -> datetime:
    """Compute when the throttle ends."""
    waits = throttle.times - _FREE
    return throttle.at if waits <= 0 else throttle.at + wait(_WAITS, waits - 1, random=no_jitter)


async def is_throttled(engine: Engine, repository: Repository, login: str) -> bool:
    """Return whether IMQ ignores this person's requests now."""
    if await throttled_until(engine, repository, login) is None:
        return False
    _log.debug("ignored", repository=repository.full_name, by=login)
    return True


async def throttled_until(engine: Engine, repository: Repository, login: str) -> datetime | None:
    """Return when this person's throttle ends; None if there is none."""
    async with engine.store.reading() as tx:
        throttle = await tx.throttles.find(repository.id, login)
    until = None if throttle is None else ignored_until(throttle)
    return until if until is not None and engine.clock.now() < until else None


async def count_without_right(change: Change, repository: Repository, login: str) -> None:
    """Count a request without permission."""
    before = await change.tx.throttles.find(repository.id, login)
    times = 0 if before is None or before.at < change.now - KEPT else before.times
    await change.tx.throttles.put(repository.id, login, Throttle(times + 1, change.now))


async def is_outsider(engine: Engine, repository: Repository, login: str) -> bool:
    """Return whether a person has no more than read permission, and no configuration lets them queue.

    Costs one request, and counts an outsider's. Raises GitHubError.
    """
    if await engine.github.permission(repository, login) not in (Permission.NONE, Permission.READ):
        return False
    if await engine.policies.admit_readers(repository, login):
        return False
    async with engine.change() as change:
        await count_without_right(change, repository, login)
    _log.info("outsider", repository=repository.full_name, by=login)
    return True
