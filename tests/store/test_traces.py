"""What waits in the database keeps the trace that it belongs to: entries and outbox items."""

from datetime import timedelta

from queue_engine.core.observability import trace
from queue_engine.store import Transaction
from queue_engine.store.outbox.items import OutboxItem
from tests.store.examples import NOW, REPOSITORY, SOON, queue

GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
TRACE = f"00-{GUID.replace('-', '')}-{'1' * 16}-01"
LATER = NOW + SOON


async def test_entry_keeps_trace_and_delivery_while_it_stands(t: Transaction) -> None:
    """Whatever is changed about it later, it was queued by one delivery."""
    entry = await t.entries.add(
        queue_id=(await queue(t)).id,
        number=1,
        title="Add",
        author="mona",
        queued_by="max",
        queued_head="head",
        enqueued_at=NOW,
        trace=TRACE,
        delivery=GUID,
    )
    await t.entries.save(entry)
    found = await t.entries.find(REPOSITORY.id, 1)
    assert found is not None
    assert (found.trace, found.delivery) == (TRACE, GUID)


async def test_letter_has_the_trace_of_what_wanted_it_last(t: Transaction) -> None:
    """The state that goes out is that of the newest cause."""

    async def claimed() -> OutboxItem:
        item = await t.outbox.claim(owner="me", now=LATER, lease=timedelta(0))
        assert item is not None
        return item

    await t.outbox.want_label(REPOSITORY, 1, "merge-queue", on=False, due=NOW)
    assert (await claimed()).trace is None
    with trace.of_delivery(GUID):
        await t.outbox.want_label(REPOSITORY, 1, "merge-queue", on=False, due=NOW)
        wanted = trace.current()
    assert (await claimed()).trace == wanted
