"""When a part of the sweep may begin again."""

from datetime import datetime, timedelta

import pytest

from queue_engine.core.database.database import Database
from queue_engine.store import Store
from tests.store.examples import NOW

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("last", "soonest"),
    [
        (None, NOW),
        (NOW - 5 * MINUTE, NOW),
        (NOW - MINUTE / 2, NOW + MINUTE / 2),
        (NOW, NOW + MINUTE),
        (NOW + 60 * MINUTE, NOW + MINUTE),
    ],
    ids=["never done", "long ago", "lately", "now", "by a clock that was set back since"],
)
async def test_sweep_begins_some_time_after_the_last_one_and_never_later(
    sqlite_database: Database, last: datetime | None, soonest: datetime
) -> None:
    """P5: a clock that was an hour fast when the last sweep ended puts off the next one by a minute only."""
    async with Store(sqlite_database).transaction() as tx:
        if last is not None:
            await tx.sweeps.done("part", last)
        assert await tx.sweeps.soonest("part", NOW, apart=MINUTE) == soonest
