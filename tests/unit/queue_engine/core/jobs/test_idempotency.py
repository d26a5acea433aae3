"""Idempotency keys: one request with a key is carried out once, whatever comes between."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.idempotency import (
    KEPT,
    Begun,
    KeyConflict,
    KeyHeld,
    KeyLost,
    KeyReply,
    Keys,
    NewKey,
    idempotency_keys,
)

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
TICK = timedelta(microseconds=1)
POST = "POST /api/v1/things"
HASH = "a" * 64


async def begin(
    database: Database,
    *,
    key: str = "k",
    scope: str = "ada",
    endpoint: str = POST,
    body: str = HASH,
    at: datetime = NOW,
) -> Begun:
    """One caller's begin, in a transaction of its own."""
    async with database.transaction() as connection:
        return await Keys(connection).begin(scope, key, endpoint=endpoint, request_hash=body, now=at, lease=LEASE)


async def begun(database: Database, *, at: datetime = NOW) -> NewKey:
    """A key that is ours."""
    new = await begin(database, at=at)
    assert isinstance(new, NewKey)
    return new


async def finish(database: Database, new: NewKey, *, status: int = 200) -> None:
    """Store an answer, in a transaction of its own."""
    async with database.transaction() as connection:
        await Keys(connection).finish(new, status=status, body={"done": [1, None]})


async def stored(database: Database) -> int:
    """How many keys there are."""
    async with database.reading() as connection:
        return (await connection.execute(select(func.count()).select_from(idempotency_keys))).scalar_one()


async def test_same_request_again_gets_the_answer_of_the_first(database: Database) -> None:
    """Status and body, as they were, and for the whole time that a key is kept."""
    await finish(database, await begun(database), status=201)
    for at in (NOW, NOW + KEPT - TICK):
        assert await begin(database, at=at) == KeyReply(201, {"done": [1, None]})


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "running"])
@pytest.mark.parametrize("other", [{"endpoint": "POST /api/v1/others"}, {"body": "b" * 64}], ids=["endpoint", "body"])
async def test_other_request_with_the_key_of_one_is_a_mismatch(
    database: Database, finished: bool, other: dict[str, str]
) -> None:
    """A key says "the same request", so another endpoint or body with it is a mistake of the caller."""
    new = await begun(database)
    if finished:
        await finish(database, new)
    assert await begin(database, **other) == KeyConflict()  # type: ignore[arg-type]
    assert await begin(database, at=NOW + LEASE, **other) == KeyConflict()


async def test_key_of_another_scope_is_another_key(database: Database) -> None:
    """Two callers that count their requests do not get each other's answers."""
    await begun(database)
    assert isinstance(await begin(database, scope="max"), NewKey)


async def test_two_at_the_same_instant_one_runs(database: Database) -> None:
    """The second caller gets the answer to wait, on both databases."""
    answers = await asyncio.gather(*(begin(database) for _ in range(4)))
    assert sum(isinstance(answer, NewKey) for answer in answers) == 1
    assert answers.count(KeyHeld(LEASE)) == 3


async def test_two_at_the_same_instant_over_an_expired_key_one_runs(database: Database) -> None:
    """The same when the key has to be taken over."""
    await finish(database, await begun(database))
    answers = await asyncio.gather(*(begin(database, at=NOW + KEPT) for _ in range(4)))
    assert sum(isinstance(answer, NewKey) for answer in answers) == 1


async def test_running_request_shows_how_long_it_is_believed_to_live(database: Database) -> None:
    """The rest of the lease, which its process prolongs while it lives."""
    new = await begun(database)
    assert await begin(database, at=NOW + timedelta(seconds=10)) == KeyHeld(timedelta(seconds=20))
    async with database.transaction() as connection:
        assert await Keys(connection).renew(new, NOW + timedelta(seconds=50))
    assert await begin(database, at=NOW + LEASE) == KeyHeld(timedelta(seconds=20))


async def test_request_whose_process_died_runs_again_and_the_dead_cannot_finish(database: Database) -> None:
    """Its lease has ended: the next one has the key, and a process that wakes up late changes nothing."""
    late = await begun(database)
    again = await begun(database, at=NOW + LEASE)
    async with database.transaction() as connection:
        assert not await Keys(connection).renew(late, NOW + 10 * LEASE)
    with pytest.raises(KeyLost):
        await finish(database, late)
    async with database.transaction() as connection:
        await Keys(connection).abandon(late)
    await finish(database, again)
    assert await begin(database) == KeyReply(200, {"done": [1, None]})


async def test_answer_is_stored_once(database: Database) -> None:
    """A second answer to one request would not be what the first caller got."""
    new = await begun(database)
    await finish(database, new)
    with pytest.raises(KeyLost):
        await finish(database, new, status=500)
    async with database.transaction() as connection:
        await Keys(connection).abandon(new)
    assert await begin(database) == KeyReply(200, {"done": [1, None]})


async def test_abandoned_key_is_free_for_any_request(database: Database) -> None:
    """What had no effect may be sent again, corrected or not."""
    new = await begun(database)
    async with database.transaction() as connection:
        await Keys(connection).abandon(new)
    assert isinstance(await begin(database, body="b" * 64), NewKey)


async def test_expired_key_counts_as_not_there_before_it_is_purged(database: Database) -> None:
    """After 72 hours the same key is a new request, with any body."""
    await finish(database, await begun(database))
    assert isinstance(await begin(database, body="b" * 64, at=NOW + KEPT), NewKey)


async def test_finish_in_a_transaction_that_fails_leaves_the_key_running(database: Database) -> None:
    """The answer is stored with the work or not at all."""
    new = await begun(database)

    async def finish_and_die() -> None:
        async with database.transaction() as connection:
            await Keys(connection).finish(new, status=200, body={})
            raise OSError("died")

    with pytest.raises(OSError, match="died"):
        await finish_and_die()
    assert await begin(database) == KeyHeld(LEASE)


async def test_answer_without_a_body_is_replayed_without_one(database: Database) -> None:
    """A 204 has none."""
    new = await begun(database)
    async with database.transaction() as connection:
        await Keys(connection).finish(new, status=204, body=None)
    assert await begin(database) == KeyReply(204, None)


async def test_purge_forgets_what_has_expired_and_nothing_else(database: Database) -> None:
    """The table stays as small as three days of requests."""
    await begun(database)
    await begin(database, key="later", at=NOW + TICK)
    async with database.transaction() as connection:
        assert await Keys(connection).purge(NOW + KEPT) == 1
    assert await stored(database) == 1
    assert isinstance(await begin(database, key="later"), KeyHeld)


async def test_recorded_key_is_known_until_it_expires_and_then_new_again(database: Database) -> None:
    """Deliveries: one that comes again after three days is followed again, purged or not."""
    times = (NOW, NOW + KEPT - TICK, NOW + KEPT)
    for at, expected in zip(times, ({"a", "b"}, set(), {"a", "b"}), strict=True):
        async with database.transaction() as connection:
            keys = Keys(connection)
            assert await keys.known("webhook", "a", at) == (at == NOW + KEPT - TICK)
            assert await keys.record("webhook", [("b", "push"), ("a", "push")], at) == expected


async def test_forgotten_key_is_new_again(database: Database) -> None:
    """Its request had no effect."""
    async with database.transaction() as connection:
        keys = Keys(connection)
        await keys.record("webhook", [("a", "push"), ("b", "push")], NOW)
        await keys.forget("webhook", "a")
        assert await keys.record("webhook", [("a", "push"), ("b", "push")], NOW) == {"a"}


async def test_scope_with_any_key_is_found(database: Database) -> None:
    """The keys of other scopes do not count."""
    async with database.transaction() as connection:
        keys = Keys(connection)
        await keys.record("webhook", [("a", "push")], NOW)
        assert await keys.any_in("webhook")
        assert not await keys.any_in("another")
