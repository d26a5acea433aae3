"""Which callers are authenticated, and the answers to all others."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
from structlog.testing import capture_logs

from queue_engine.core.database.database import Database
from queue_engine.store import Store
from tests.unit.bot.api.api_server import NOW, ApiServer, an_api_server

SECOND = timedelta(seconds=1)


@pytest.fixture
async def server(sqlite_database: Database) -> AsyncIterator[ApiServer]:
    async with an_api_server(Store(sqlite_database)) as server:
        yield server


async def last_used(server: ApiServer) -> datetime | None:
    async with server.engine.store.reading() as tx:
        (token,) = await tx.tokens.all()
    return token.last_used_at


@pytest.mark.parametrize("path", ["/dead-letters", "/nowhere"])
async def test_call_without_a_token_is_refused_whatever_its_address(server: ApiServer, path: str) -> None:
    """A caller without a token cannot find out which paths exist."""
    answer = await server.call("GET", path, by=None)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="imq"')
    assert "imq token create" in answer.error


@pytest.mark.parametrize(
    "given", ["imq_guess", "Bearer", "Bearer a b", "Basic aW1xOng=", "Bearer t\xf6ken", "", "Bearer "]
)
async def test_credentials_that_are_no_bearer_token_are_refused(server: ApiServer, given: str) -> None:
    """A sentence says what is missing."""
    answer = await server.call("GET", "/dead-letters", by=None, headers={"Authorization": given})
    assert (answer.status, answer.error[:28]) == (401, "send `Authorization: Bearer`")


async def test_unknown_token_is_refused_as_such_and_not_repeated(server: ApiServer) -> None:
    """RFC 6750: the token is invalid. It stands neither in the answer nor in the log."""
    with capture_logs() as lines:
        answer = await server.call("GET", "/dead-letters", by=None, headers={"Authorization": "Bearer imq_guess"})
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="imq", error="invalid_token"')
    assert "imq_guess" not in f"{answer.body} {lines}"


async def test_two_authorization_headers_are_refused(server: ApiServer) -> None:
    """A proxy might check one while the application uses the other."""
    token = await server.token("ops", operator=True)
    answer = await server.call("GET", "/dead-letters", headers=[("Authorization", f"Bearer {token}")])
    assert (answer.status, answer.error) == (400, "send the Authorization header only once")


async def test_revoked_token_is_refused_at_the_next_call(server: ApiServer) -> None:
    """Nothing remembers it."""
    assert (await server.call("GET", "/dead-letters")).status == 200
    async with server.engine.store.transaction() as tx:
        assert await tx.tokens.revoke("ops")
        assert not await tx.tokens.revoke("ops")
    assert (await server.call("GET", "/dead-letters")).status == 401


@pytest.mark.parametrize("word", ["Bearer", "bearer", "BEARER "])
async def test_scheme_is_known_in_any_case(server: ApiServer, word: str) -> None:
    """RFC 9110: schemes do not differ by case."""
    token = await server.token("ops", operator=True)
    answer = await server.call("GET", "/dead-letters", by=None, headers={"Authorization": f"{word} {token}"})
    assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/dead-letters"),
        ("GET", "/dead-letters/0123456789abcdef0123456789abcdef"),
        ("POST", "/dead-letters/0123456789abcdef0123456789abcdef/reprocess"),
        ("POST", "/dead-letters/reprocess"),
        ("DELETE", "/dead-letters/0123456789abcdef0123456789abcdef"),
    ],
)
async def test_token_without_the_right_reads_which_right_it_lacks(server: ApiServer, method: str, path: str) -> None:
    """Dead letters are about everybody's repositories: they are for operators."""
    await server.token("ada", login="ada")
    answer = await server.call(method, path, by="ada")
    assert (answer.status, answer.error) == (
        403,
        "this needs a token made with `imq token create --operator`",
    )


async def test_last_use_of_a_token_is_noted_once_a_minute(server: ApiServer) -> None:
    """An operator sees which tokens are unused, without a write for each call."""
    for after, expected in ((0, 0), (59, 0), (60, 60), (61, 60), (125, 125)):
        server.clock.instant = NOW + after * SECOND
        await server.call("GET", "/dead-letters")
        assert await last_used(server) == NOW + expected * SECOND


async def test_last_use_from_a_wrong_future_is_corrected(server: ApiServer) -> None:
    """A clock that was ahead does not freeze it."""
    for at in (NOW + timedelta(days=400), NOW):
        server.clock.instant = at
        await server.call("GET", "/dead-letters")
        assert await last_used(server) == at


async def test_refused_call_notes_no_use(server: ApiServer) -> None:
    """Only calls of the token itself count."""
    await server.token("ops", operator=True)
    await server.call("GET", "/dead-letters", by=None, headers={"Authorization": "Bearer imq_guess"})
    assert await last_used(server) is None
