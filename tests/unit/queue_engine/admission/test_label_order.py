"""P3: which labels wait for an earlier one, and until when."""

from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from queue_engine.admission.label_order import await_earlier, postpone
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.errors import LabelOrderError, ReadLagError, StaleRead
from queue_engine.domain.port import GitHub as Port
from queue_engine.domain.webhooks import LabelRequest, LabelRetry
from queue_engine.effects.context import Engine
from queue_engine.store import Store
from tests.support.policies import StaticPolicies
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.engine_setup import Clock, GitHub
from tests.unit.queue_engine.examples import NOW, SECOND

OUTDATED = StaleRead("the label is known to have changed")


class Moved(Clock):
    """A clock that a test sets."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Moved:
    return Moved()


@pytest.fixture
def engine(sqlite_database: Database, clock: Moved) -> Engine:
    policies = StaticPolicies(Policy())
    return Engine(Store(sqlite_database), cast(Port, GitHub()), clock, policies, random=lambda: 0.5, owner="w")


def label(order: int, *, tries: int = 0, outdated: int | None = None, branch: str = "main") -> Any:
    """The webhook of a label, stored as number `order`; put off `tries` times, by default for outdated reads."""
    event = a_webhook(
        "labeled",
        delivery=f"{order}",
        installation_id=1,
        branch=branch,
        label="merge-queue",
    )
    attempt = LabelRetry(order=order, tries=tries, outdated=tries if outdated is None else outdated)
    return event.model_copy(update={"attempt": attempt})


async def waits_until(engine: Engine, event: LabelRequest) -> datetime | None:
    """Until when a label waits for an earlier one; None if for none."""
    try:
        attempt = event.attempt
        await await_earlier(
            engine, event.repository, event.branch, ["merge-queue"], order=attempt.order, awaited=attempt.awaited
        )
    except LabelOrderError as earlier:
        return engine.clock.now() + earlier.retry_after
    return None


@pytest.mark.parametrize(
    ("later", "waits"),
    [
        (label(8), True),
        (label(8, tries=3), True),
        (label(8, tries=4), True),
        (label(7), False),
        (label(6), False),
        (label(8, branch="release"), False),
    ],
)
async def test_label_waits_for_an_earlier_one_of_its_base_branch(
    engine: Engine, later: LabelRequest, waits: bool
) -> None:
    """A label waits for no later one and not for itself; its own last read waits too, or jitter would reorder them."""
    await postpone(engine, label(7), OUTDATED)
    assert (await waits_until(engine, later) is not None) is waits


@pytest.mark.parametrize(("tries", "seconds"), [(0, 2.1), (1, 3.2), (2, 5.4), (3, 9), (4, None)])
async def test_label_waits_until_the_earlier_one_was_read_again(
    engine: Engine, clock: Moved, tries: int, seconds: float | None
) -> None:
    """After 1, 2, 4 and 8 seconds with their jitter, and the time of one read; then for no longer."""
    await postpone(engine, label(7, tries=tries), OUTDATED)
    until = None if seconds is None else NOW + timedelta(seconds=seconds)
    assert await waits_until(engine, label(8)) == until
    if until is not None:
        clock.at = until
        assert await waits_until(engine, label(8)) is None


async def test_label_that_waited_for_others_is_read_again_as_soon_as_any(engine: Engine) -> None:
    """Only its own outdated reads make the next wait longer, as in the job that reads it."""
    await postpone(engine, label(7, tries=3, outdated=0), OUTDATED)
    assert await waits_until(engine, label(8)) == NOW + 2.1 * SECOND


async def test_label_that_waits_postpones_those_after_it_just_as_long(engine: Engine) -> None:
    """So waits do not add up along a line of labels."""
    await postpone(engine, label(7), OUTDATED)
    delay = 3 * SECOND
    await postpone(engine, label(8), LabelOrderError("earlier", retry_after=delay))
    assert await waits_until(engine, label(9)) == NOW + delay


@pytest.mark.parametrize("why", [OUTDATED, LabelOrderError("earlier", retry_after=SECOND)])
async def test_label_postponed_as_often_as_a_read_is_tried_holds_up_no_other(
    engine: Engine, why: StaleRead | LabelOrderError
) -> None:
    """P5: each label makes others wait four times at most, so that no wait has no end."""
    await postpone(engine, label(7, tries=4), why)
    assert await waits_until(engine, label(8)) is None


async def test_label_waits_for_the_last_of_those_before_it(engine: Engine) -> None:
    """Each repeated read renews the wait."""
    await postpone(engine, label(7, tries=1), OUTDATED)
    await postpone(engine, label(7), OUTDATED)
    assert await waits_until(engine, label(8)) == NOW + 3.2 * SECOND


async def test_label_that_is_not_read_yet_holds_up_later_ones_until_it_is(engine: Engine) -> None:
    """P3: as long as its read waits, and a second for the read itself."""
    await postpone(engine, label(7), ReadLagError("GitHub lags", retry_after=3 * SECOND))
    assert await waits_until(engine, label(8)) == NOW + 4 * SECOND
