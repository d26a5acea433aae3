"""Tokens of the API as they are stored."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from queue_engine.store import Store
from queue_engine.store.tables import api_tokens
from queue_engine.store.tokens import Token, TokenPolicy
from tests.store.examples import NOW

MINUTE = timedelta(minutes=1)


async def create(store: Store, name: str = "ops") -> str:
    async with store.transaction() as tx:
        secret = await tx.tokens.create(name, TokenPolicy(login="ada", operator=True), now=NOW)
    assert secret is not None
    return secret


async def only(store: Store) -> Token:
    async with store.reading() as tx:
        (token,) = await tx.tokens.all()
    return token


async def test_token_is_long_random_and_stored_as_its_hash_only(store: Store) -> None:
    """A reader of the database can use none of them."""
    made = [await create(store, name) for name in ("one", "two")]
    assert len(set(made)) == 2
    assert all(token.startswith("imq_") and len(token) == len("imq_") + 49 for token in made)
    async with store.reading() as tx:
        rows = (await tx.connection.execute(select(api_tokens))).all()
    assert all(token not in str(rows) for token in made)


async def test_token_is_found_by_its_whole_secret(store: Store) -> None:
    """And by nothing else, its hash included."""
    secret = await create(store)
    async with store.reading() as tx:
        found = await tx.tokens.find(secret, NOW)
        (digest,) = (await tx.connection.execute(select(api_tokens.c.token_hash))).scalars()
        assert [await tx.tokens.find(guess, NOW) for guess in (secret[:-1], secret + "x", "", digest)] == [None] * 4
    assert found == await only(store)
    assert (found.name, found.login, found.grant.operator, found.created_at) == ("ops", "ada", True, NOW)


async def test_name_of_a_token_is_given_once(store: Store) -> None:
    """Else revoking one by its name would leave another."""
    secret = await create(store)
    async with store.transaction() as tx:
        assert await tx.tokens.create("ops", TokenPolicy(login=None, operator=False), now=NOW) is None
        assert await tx.tokens.find(secret, NOW) is not None


async def test_revoked_token_is_deleted_for_good(store: Store) -> None:
    """Nothing of it is left, and the other ones stay."""
    secret, other = await create(store), await create(store, "other")
    async with store.transaction() as tx:
        assert await tx.tokens.revoke("ops")
        assert not await tx.tokens.revoke("ops")
        assert await tx.tokens.find(secret, NOW) is None
        assert await tx.tokens.find(other, NOW) is not None


@pytest.mark.parametrize(
    ("again", "noted"),
    [(MINUTE - timedelta(seconds=1), False), (MINUTE, True), (-MINUTE, True)],
    ids=["within a minute", "later", "by a clock set back"],
)
async def test_last_use_is_noted_once_a_minute(store: Store, again: timedelta, noted: bool) -> None:
    """Also where two processes note it, and also after a clock that was ahead."""
    await create(store)
    token = await only(store)
    for at in (NOW, NOW + again):
        async with store.transaction() as tx:
            await tx.tokens.note_use(token, at)
    assert (await only(store)).last_used_at == (NOW + again if noted else NOW)
