"""A job that read something outdated: asked again within seconds, whatever ended its earlier tries."""

from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from queue_engine.core.jobs import Job
from queue_engine.core.outcomes import Hold, Outcome
from queue_engine.errors import OutdatedRead
from queue_engine.inbox import _obeying_limits


async def outdated(job: Job) -> Outcome | None:
    raise OutdatedRead("a token that was just issued is not accepted yet")


def a_job(*, claims: int, attempt: int = 0, deaths: int = 0) -> Job:
    return cast(Job, SimpleNamespace(claims=claims, attempt=attempt, deaths=deaths))


@pytest.mark.parametrize(
    ("attempt", "deaths", "held", "seconds"), [(0, 0, 0, 1), (0, 0, 3, 8), (2, 0, 0, 1), (0, 6, 1, 2), (1, 3, 2, 4)]
)
async def test_outdated_read_is_asked_again_within_seconds_whatever_became_of_earlier_tries(
    attempt: int, deaths: int, held: int, seconds: int
) -> None:
    """Neither workers that were killed nor tries that failed use up the four looks that an outdated read has."""
    job = a_job(claims=1 + attempt + deaths + held, attempt=attempt, deaths=deaths)
    assert await _obeying_limits(outdated, lambda: 0.5)(job) == Hold(timedelta(seconds=seconds))


async def test_outdated_read_that_stays_outdated_is_a_failure_like_others() -> None:
    """After four looks it is GitHub in trouble."""
    with pytest.raises(OutdatedRead):
        await _obeying_limits(outdated, lambda: 0.5)(a_job(claims=8, attempt=1, deaths=2))
