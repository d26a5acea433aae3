"""Sessions of people as they are stored."""

from datetime import datetime, timedelta

from sqlalchemy import select

from queue_engine.store import Store
from queue_engine.store.sessions import GRACE, Session
from queue_engine.store.tables import sessions
from tests.store.examples import NOW

HOUR = timedelta(hours=1)


async def login(store: Store, person_id: int = 7) -> str:
    async with store.transaction() as tx:
        return await tx.sessions.create(person_id=person_id, login="ada", now=NOW)


async def find(store: Store, secret: str, now: datetime = NOW) -> Session | None:
    async with store.reading() as tx:
        return await tx.sessions.find(secret, now)


async def renew(store: Store, secret: str, now: datetime) -> str:
    found = await find(store, secret, now)
    assert found is not None
    async with store.transaction() as tx:
        new = await tx.sessions.renew(found, secret, now)
    assert new is not None
    return new


async def use(store: Store, secret: str, now: datetime) -> None:
    found = await find(store, secret, now)
    assert found is not None
    async with store.transaction() as tx:
        await tx.sessions.note_use(found, now)


async def test_session_is_found_by_its_secret_which_is_not_stored(store: Store) -> None:
    """And by nothing else, its hash included."""
    secret = await login(store)
    found = await find(store, secret)
    assert found is not None
    assert (found.person_id, found.login, found.former) == (7, "ada", False)
    async with store.reading() as tx:
        rows = (await tx.connection.execute(select(sessions))).all()
    assert secret not in str(rows)
    assert [await find(store, guess) for guess in (secret[:-1], "", found.secret_hash, found.id)] == [None] * 4


async def test_session_ends_with_age_and_without_use(store: Store) -> None:
    """Thirty days after the login, or seven days after the last request; then its row goes."""
    unused, used = await login(store), await login(store)
    for day in range(6, 31, 6):
        if day < 30:
            await use(store, used, NOW + timedelta(days=day))
    assert await find(store, unused, NOW + timedelta(days=7)) is None
    assert await find(store, used, NOW + timedelta(days=30, seconds=-1)) is not None
    assert await find(store, used, NOW + timedelta(days=30)) is None
    async with store.transaction() as tx:
        await tx.sessions.purge(NOW + timedelta(days=29))
        assert len((await tx.connection.execute(select(sessions))).all()) == 1
        await tx.sessions.purge(NOW + timedelta(days=30))
        assert (await tx.connection.execute(select(sessions))).all() == []


async def test_former_secret_lives_until_the_new_one_has_arrived(store: Store) -> None:
    """A browser that lost the answer stays logged in; one that has the new secret can soon use that one only."""
    first = await login(store)
    at = NOW + HOUR
    second = await renew(store, first, at)
    late = at + timedelta(hours=5)
    lost = await find(store, first, late)
    assert lost is not None
    assert lost.former
    await use(store, first, late)
    assert await find(store, first, late + 2 * GRACE) is not None
    await use(store, second, late)
    assert await find(store, first, late + GRACE / 2) is not None
    assert await find(store, first, late + GRACE) is None
    assert await find(store, second, late + GRACE) is not None


async def test_of_two_requests_one_replaces_the_secret(store: Store) -> None:
    """The other one keeps what it has."""
    first = await login(store)
    found = await find(store, first, NOW + HOUR)
    assert found is not None
    async with store.transaction() as tx:
        assert await tx.sessions.renew(found, first, NOW + HOUR) is not None
        assert await tx.sessions.renew(found, first, NOW + HOUR) is None


async def test_logout_ends_one_session_or_all_of_the_person(store: Store) -> None:
    """Others stay."""
    one, two, other = await login(store), await login(store), await login(store, 8)
    found = await find(store, one)
    assert found is not None
    async with store.transaction() as tx:
        await tx.sessions.end(found.id)
    assert [await find(store, each) is None for each in (one, two, other)] == [True, False, False]
    async with store.transaction() as tx:
        assert await tx.sessions.end_all(7) == 1
    assert [await find(store, each) is None for each in (two, other)] == [True, False]


async def test_new_login_of_a_person_is_stored_for_all_their_sessions(store: Store) -> None:
    """Their id finds them."""
    secret = await login(store)
    async with store.transaction() as tx:
        await tx.sessions.rename(7, "lovelace")
    found = await find(store, secret)
    assert found is not None
    assert found.login == "lovelace"


async def test_use_is_noted_once_a_minute(store: Store) -> None:
    """Most requests write nothing."""
    secret = await login(store)
    found = await find(store, secret)
    assert found is not None
    assert found.noted(NOW)
    assert not found.noted(NOW + timedelta(minutes=1))
    assert not found.noted(NOW - timedelta(seconds=1))
    assert not found.needs_secret(NOW + HOUR - timedelta(seconds=1))
    assert found.needs_secret(NOW + HOUR)
