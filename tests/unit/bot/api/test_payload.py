"""Calls that are not understood: each mistake is named, and nothing is done."""

import gzip
from collections.abc import AsyncIterator

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import Busy
from queue_engine.store import Store
from tests.unit.bot.api.api_server import ApiServer, an_api_server


@pytest.fixture
async def server(sqlite_database: Database) -> AsyncIterator[ApiServer]:
    async with an_api_server(Store(sqlite_database)) as server:
        yield server


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit: "),
        ("limit=201", "limit: "),
        ("limit=many", "limit: "),
        ("retryable=perhaps", "retryable: "),
        ("job_type=", "job_type: "),
        ("job_type=%00", "job_type: "),
        ("colour=blue", "colour: "),
        ("limit=1&limit=2", "limit: given more than once"),
    ],
)
async def test_query_that_is_not_understood_names_what_is_wrong(server: ApiServer, query: str, named: str) -> None:
    """Nothing is guessed, nothing is ignored."""
    answer = await server.call("GET", f"/dead-letters?{query}")
    assert answer.status == 400
    assert answer.error.startswith(f"the query is not understood: {named}")
    assert answer.body["next"] == {"sentence": "Correct the call.", "call": None}, "a read has no Idempotency-Key"


@pytest.mark.parametrize(
    ("headers", "body", "status", "error"),
    [
        ({"Content-Type": "application/json"}, b"{", 400, "the body is not JSON"),
        ({"Content-Type": "application/json"}, b"\xff", 400, "the body is not JSON"),
        ({"Content-Type": "application/json"}, b"[" * 60_000, 400, "the body is not JSON"),
        ({"Content-Type": "application/json"}, b"[]", 400, "the body is JSON, but not an object"),
        ({"Content-Type": "text/plain"}, b"{}", 415, "the content type must be application/json"),
        ({}, b"{}", 415, "the content type must be application/json"),
        ({"Content-Type": "application/json"}, b"{}" + b" " * 65_536, 413, "the body is larger than 64 KiB"),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"{}"), 415, "the body must not have a Content-Encoding"),
    ],
    ids=["cut off", "no text", "deep", "a list", "text", "no type", "large", "compressed"],
)
async def test_body_that_is_none_is_refused(
    server: ApiServer, headers: dict[str, str], body: bytes, status: int, error: str
) -> None:
    """Each with its sentence, before anything is done."""
    answer = await server.call("POST", "/dead-letters/reprocess", key="k", headers=headers, data=body)
    assert (answer.status, answer.error) == (status, error)


async def test_large_body_without_a_length_is_refused_as_well(server: ApiServer) -> None:
    """What is not announced is counted."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1024

    answer = await server.call("POST", "/dead-letters/reprocess", data=endless())
    assert (answer.status, answer.error) == (413, "the body is larger than 64 KiB")


async def test_field_that_is_not_known_is_named(server: ApiServer) -> None:
    """It would have been meant to do something."""
    answer = await server.call("POST", "/dead-letters/reprocess", json={"job_type": "webhook"})
    assert (answer.status, answer.error[:44]) == (400, "the body is not understood: job_type: Extra ")


async def test_body_of_mistakes_has_a_short_answer(server: ApiServer) -> None:
    """Each answer to a call with a key is stored for days: thousands of mistakes in one body had 190 kB stored."""
    answer = await server.call(
        "POST", "/dead-letters/reprocess", json={"x" * 500: 1, **{f"k{n}": 1 for n in range(4000)}}
    )
    assert (answer.status, answer.error[-14:]) == (400, " and 3996 more")
    assert len(answer.error) < 1000


@pytest.mark.parametrize(
    ("method", "path", "allow"), [("PUT", "/dead-letters", "GET,HEAD"), ("GET", "/dead-letters/reprocess/x", "")]
)
async def test_wrong_method_or_address_is_answered_in_json(
    server: ApiServer, method: str, path: str, allow: str
) -> None:
    """405 names the methods that there are, 404 that there is nothing."""
    answer = await server.call(method, path)
    assert answer.status == (405 if allow else 404)
    assert answer.headers.get("Allow", "").replace(" ", "") == allow
    assert answer.error


async def test_unavailable_database_is_503(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with `Retry-After`, and nothing of the inside."""
    await server.token("ops", operator=True)

    def away() -> None:
        raise Busy("/var/lib/imq/imq.db")

    monkeypatch.setattr(server.engine.store.database, "reading", away)
    answer = await server.call("GET", "/dead-letters")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
    assert answer.error == "the database is unavailable; try again later"
