"""Tokens of installations: when another one is made, and which of two is handed out."""

from datetime import timedelta

import pytest
from pydantic import SecretStr

from bot.gateway.http.installation_tokens import Token, Tokens
from bot.gateway.http.scopes import Purpose, Scope
from tests.unit.bot.conftest import ManualClock

SCOPE, OTHER = Scope(9, 5, Purpose.WRITE), Scope(8, 5, Purpose.WRITE)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


class Issuer:
    """Makes tokens `t1`, `t2`, ... that live for an hour by default."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.life, self.made = clock, timedelta(hours=1), 0
        self.tokens = Tokens(self.fetch, clock)

    async def fetch(self, scope: Scope) -> Token:
        self.made += 1
        now = self.clock.now()
        return Token(SecretStr(f"t{self.made}"), now + self.life, issued_at=now)

    async def get(self, scope: Scope = SCOPE) -> str:
        return (await self.tokens.get(scope)).value.get_secret_value()


@pytest.fixture
def issuer(clock: ManualClock) -> Issuer:
    return Issuer(clock)


async def test_token_prepared_before_the_old_one_expires_is_used_once_all_replicas_know_it(
    issuer: Issuer, clock: ManualClock
) -> None:
    """The old one lives for twenty minutes more: no call is refused in between."""
    await issuer.tokens.prepare(SCOPE)
    clock.instant += 35 * MINUTE
    await issuer.tokens.prepare(SCOPE)
    assert (await issuer.get(), issuer.made) == ("t1", 1)
    clock.instant += SECOND
    await issuer.tokens.prepare(SCOPE)
    assert (await issuer.get(), issuer.made) == ("t1", 2)
    clock.instant += 19 * SECOND
    assert await issuer.get() == "t1"
    clock.instant += SECOND
    assert (await issuer.get(), issuer.made) == ("t2", 2)


async def test_token_that_is_refused_is_forgotten_and_no_newer_one_with_it(issuer: Issuer, clock: ManualClock) -> None:
    """Of two calls that were refused with one token the second finds what the first has fetched."""
    await issuer.get()
    clock.instant += 36 * MINUTE
    await issuer.tokens.prepare(SCOPE)
    await issuer.tokens.forget(SCOPE, SecretStr("t1"))
    assert (await issuer.get(), issuer.made) == ("t2", 2)
    await issuer.tokens.forget(SCOPE, SecretStr("t1"))
    assert (await issuer.get(), issuer.made) == ("t2", 2)
    await issuer.tokens.forget(SCOPE, SecretStr("t2"))
    assert (await issuer.get(), issuer.made) == ("t3", 3)


async def test_tokens_of_one_installation_are_renewed_with_its_new_permissions(
    issuer: Issuer, clock: ManualClock
) -> None:
    """Neither the current token nor its predecessor has the new permissions; other tokens stay."""
    await issuer.get(OTHER)
    await issuer.get()
    clock.instant += 36 * MINUTE
    await issuer.tokens.prepare(SCOPE)
    issuer.tokens.renew(9)
    assert (await issuer.get(), await issuer.get(OTHER)) == ("t4", "t1")


@pytest.mark.parametrize(("life", "used"), [(60 * MINUTE, 50 * MINUTE), (10 * MINUTE, 5 * MINUTE)])
async def test_token_is_used_until_minutes_before_its_end_or_for_half_of_its_life(
    issuer: Issuer, clock: ManualClock, life: timedelta, used: timedelta
) -> None:
    """Where GitHub's clock is late by minutes, each call would fetch a token otherwise."""
    issuer.life = life
    await issuer.get()
    clock.instant += used - SECOND
    assert await issuer.get() == "t1"
    clock.instant += SECOND
    assert await issuer.get() == "t2"


async def test_token_is_new_for_seconds(issuer: Issuer, clock: ManualClock) -> None:
    """Only then its refusal may be that of a replica which does not know it yet."""
    await issuer.get()
    clock.instant += 20 * SECOND - timedelta(microseconds=1)
    assert issuer.tokens.is_new(SCOPE, SecretStr("t1"))
    assert not issuer.tokens.is_new(SCOPE, SecretStr("of another process"))
    assert not issuer.tokens.is_new(OTHER, SecretStr("t1"))
    clock.instant += timedelta(microseconds=1)
    assert not issuer.tokens.is_new(SCOPE, SecretStr("t1"))


async def test_refused_token_is_asked_with_again_ever_later_until_half_a_minute_has_passed_in_vain(
    issuer: Issuer, clock: ManualClock
) -> None:
    """P5: by the token's age; where none is accepted at all, new ones included, GitHub is in trouble."""
    await issuer.get()
    waits = []
    for age in (0, 1, 3, 7, 15, 29, 30):
        clock.instant = ManualClock().instant + age * SECOND
        waits.append(issuer.tokens.refused(SCOPE))
    assert waits == [SECOND, SECOND, 3 * SECOND, 7 * SECOND, 8 * SECOND, 8 * SECOND, None]
    issuer.tokens.accepted(SCOPE)
    assert issuer.tokens.refused(SCOPE) == 8 * SECOND, "one was accepted in between"
