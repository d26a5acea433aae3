"""Outbox items that are given up, and requeued by a person."""

from sqlalchemy import update

from queue_engine.store import Transaction
from queue_engine.store.tables import outbox
from tests.store.examples import LEASE, NOW, REPOSITORY, TICK
from tests.store.outbox.outbox_examples import LABEL, take, want


async def test_dead_item_is_kept_and_lives_again_when_wanted(t: Transaction) -> None:
    """An item that cannot be sent delays no other and is kept."""
    await want(t)
    await t.outbox.dead(await take(t), "no permission", NOW, retryable=True)
    assert await t.outbox.next_due() is None
    (dead,) = await t.dead_letters.list(9)
    assert dead.payload == {"kind": "comment", "repository_id": REPOSITORY.id, "number": 1, "label": ""}
    assert (dead.job_type, dead.error_message, dead.attempts, dead.failed_at) == (
        "outbox_item",
        "no permission",
        1,
        NOW,
    )
    await want(t)
    assert await t.dead_letters.count() == 0
    item = await take(t)
    assert item.attempts == 0
    await want(t, now=NOW + TICK)
    await t.outbox.dead(item, "no permission", NOW + TICK, retryable=True)
    assert await t.dead_letters.count() == 0, "something newer was wanted meanwhile"
    await take(t, now=NOW + TICK)


async def test_dead_item_of_a_label_that_is_wanted_otherwise_is_nothing_to_do_again(t: Transaction) -> None:
    """A removal whose label is to be set since is no dead item."""
    await want(t, LABEL)
    await t.outbox.dead(await take(t), "no permission", NOW, retryable=True)
    await t.outbox.want_label(REPOSITORY, 1, "merge-queue", on=True, due=NOW)
    assert await t.dead_letters.count() == 0
    assert (await take(t)).label_on


async def test_dead_item_of_a_sender_whose_lease_ended_is_not_kept(t: Transaction) -> None:
    """A sender that lost an outbox item cannot bury it while another sender holds it."""
    await want(t)
    lost = await take(t)
    holder = await take(t, now=NOW + LEASE, owner="other")
    await t.outbox.dead(lost, "no answer", NOW + LEASE, retryable=True)
    assert await t.dead_letters.count() == 0
    await t.outbox.done(holder, NOW + LEASE)


async def test_dead_item_revived_is_due_at_once_as_if_never_tried(t: Transaction) -> None:
    """Sent again after all, it has all its tries; one that is not dead any more is left as it is."""
    await want(t)
    await t.outbox.dead(await take(t), "no permission", NOW, retryable=True)
    (dead,) = await t.dead_letters.list(9)
    assert await t.outbox.requeue(dead.payload, NOW + LEASE)
    assert await t.dead_letters.count() == 0
    assert await t.outbox.next_due() == NOW + LEASE
    item = await take(t, now=NOW + LEASE)
    assert item.attempts == 0
    await t.outbox.done(item, NOW + LEASE)
    assert not await t.outbox.requeue(dead.payload, NOW + LEASE)
    assert await t.outbox.next_due() is None


async def test_claim_of_a_item_that_cannot_be_read_buries_it_and_takes_the_next(t: Transaction) -> None:
    """An item written by another version delays no other, and is visible."""
    await want(t)
    await want(t, LABEL, now=NOW + TICK)
    await t.connection.execute(update(outbox).where(outbox.c.kind == "comment").values(notice={"kind": "unheard of"}))
    assert (await take(t, now=NOW + TICK)).kind is LABEL
    (dead,) = await t.dead_letters.list(9)
    assert (dead.payload["kind"], dead.retryable) == ("comment", False)
    assert "validation error" in dead.error_message
