"""The board on which processes.report of themselves."""

from datetime import UTC, datetime, timedelta

from queue_engine.store import Store

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
STATUS = {"role": "worker", "rt_queue": 1, "budget": {"9": {"remaining": 4000}}}


async def _owners(store: Store, now: datetime) -> list[str]:
    async with store.reading() as tx:
        return [report.owner for report in await tx.processes.all(now)]


async def _store_report(store: Store, owner: str, now: datetime, metrics: str = "") -> None:
    async with store.transaction() as tx:
        await tx.processes.report(owner, now, STATUS, metrics)


async def test_process_is_found_as_it_reported_last(store: Store) -> None:
    """A later report replaces the earlier one, status and figures together."""
    await _store_report(store, "one", NOW, "old 1\n")
    await _store_report(store, "one", NOW + timedelta(seconds=30), "new 2\n")
    async with store.reading() as tx:
        (report,) = await tx.processes.all(NOW + timedelta(seconds=31))
    assert (report.owner, report.status, report.metrics) == ("one", STATUS, "new 2\n")


async def test_process_that_reports_nothing_for_two_minutes_counts_as_gone(store: Store) -> None:
    """A killed process is not counted for ever, and a slow one not dropped at once."""
    await _store_report(store, "one", NOW)
    assert await _owners(store, NOW + timedelta(seconds=119)) == ["one"]
    assert await _owners(store, NOW + timedelta(seconds=121)) == []


async def test_process_that_ends_is_gone_at_once(store: Store) -> None:
    """Its end is no alarm."""
    await _store_report(store, "one", NOW)
    await _store_report(store, "two", NOW)
    async with store.transaction() as tx:
        await tx.processes.forget("one")
    assert await _owners(store, NOW) == ["two"]


async def test_board_is_wiped_of_the_killed_and_of_clocks_that_ran_ahead(store: Store) -> None:
    """The table stays as small as the number of processes, whatever clocks did."""
    await _store_report(store, "killed", NOW - timedelta(hours=2))
    await _store_report(store, "ahead", NOW + timedelta(days=400))
    await _store_report(store, "one", NOW)
    for instant in (NOW - timedelta(hours=2), NOW, NOW + timedelta(days=400)):
        assert await _owners(store, instant) == (["one"] if instant == NOW else [])
