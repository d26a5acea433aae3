"""A job that read something outdated: asked again within seconds, whatever ended its earlier tries."""

from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from queue_engine.core.jobs.job import Hold, Job, Outcome
from queue_engine.domain.errors import ReadLagError, StaleRead
from queue_engine.handlers.inbox import obeying_limits


async def outdated(job: Job) -> Outcome | None:
    raise StaleRead("main is known to have moved on")


async def early(job: Job) -> Outcome | None:
    raise ReadLagError("a token that was just issued is not accepted yet", retry_after=timedelta(seconds=2))


def a_job(*, attempt: int = 0, deaths: int = 0, claims: int = 1, **holds: int) -> Job:
    return cast(Job, SimpleNamespace(claims=claims, attempt=attempt, deaths=deaths, holds=holds))


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        (a_job(), 1),
        (a_job(claims=4, outdated_read=3), 8),
        (a_job(claims=3, attempt=2), 1),
        (a_job(claims=8, deaths=6, outdated_read=1), 2),
        (a_job(claims=12, earlier_label=4, too_early=4, outdated_read=2), 4),
    ],
)
async def test_outdated_read_is_asked_again_within_seconds_whatever_put_the_job_off_before(
    job: Job, seconds: int
) -> None:
    """Workers that died, tries that failed, limits and other holds do not use up the four looks of an outdated read."""
    held = Hold(timedelta(seconds=seconds), "outdated_read")
    assert await obeying_limits(outdated, lambda: 0.5)(job) == held


async def test_outdated_read_that_stays_outdated_is_a_failure_like_others() -> None:
    """After four looks GitHub is in trouble."""
    with pytest.raises(StaleRead):
        await obeying_limits(outdated, lambda: 0.5)(a_job(outdated_read=4))


async def test_job_whose_token_is_too_new_is_held_however_often() -> None:
    """Each process that starts begins with new tokens: that is no failure of the job."""
    job = a_job(claims=20, too_early=19)
    assert await obeying_limits(early, lambda: 0.5)(job) == Hold(timedelta(seconds=2))
