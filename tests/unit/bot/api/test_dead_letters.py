"""Dead letters by the API: looked at, done again, discarded."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.store import Store
from tests.support.claims import claim_one
from tests.unit.bot.api.api_server import NOW, ApiServer, an_api_server

TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


@pytest.fixture
async def server(store: Store) -> AsyncIterator[ApiServer]:
    async with an_api_server(store) as server:
        yield server


def a_dead_letter(
    number: int, *, job_type: str = "webhook", retryable: bool = True, error: str = "OSError: away"
) -> DeadLetter:
    """The one that failed `number` minutes ago."""
    return DeadLetter(
        id=f"{number:032x}",
        process_id="7:12",
        job_type=job_type,
        error_message=error,
        payload={"number": number},
        failed_at=NOW - timedelta(minutes=number),
        retryable=retryable,
        attempts=9,
        priority=3,
        created_at=NOW - timedelta(hours=2),
        trace=TRACE,
    )


async def add_dead_letters(server: ApiServer, *dead_letters: DeadLetter) -> None:
    async with server.engine.store.transaction() as tx:
        for dead_letter in dead_letters:
            await tx.dead_letters.put(dead_letter)


async def jobs(server: ApiServer) -> list[tuple[str, str | None, int]]:
    """The jobs that are due, as a worker gets them: id, trace and attempt."""
    async with server.engine.store.transaction() as tx:
        claimed = [
            await claim_one(tx.jobs, owner="test", now=server.clock.now(), lease=timedelta(seconds=30))
            for _ in range(9)
        ]
    return [(job.id, job.trace, job.attempt) for job in claimed if job is not None]


def numbers(page: Any) -> list[int]:
    return [dead_letter["payload"]["number"] for dead_letter in page["dead_letters"]]


async def test_list_of_none_is_an_empty_page(server: ApiServer) -> None:
    """All is well."""
    answer = await server.call("GET", "/dead-letters")
    assert (answer.status, answer.body) == (200, {"dead_letters": [], "count": 0, "next": None})


async def test_dead_letter_is_shown_whole(server: ApiServer) -> None:
    """All that a person needs to decide, in the list and alone."""
    await add_dead_letters(server, a_dead_letter(1))
    alone = await server.call("GET", f"/dead-letters/{1:032x}")
    assert alone.body == {
        "id": f"{1:032x}",
        "job_type": "webhook",
        "process_id": "7:12",
        "error_message": "OSError: away",
        "payload": {"number": 1},
        "failed_at": "2026-01-05T11:59:00Z",
        "created_at": "2026-01-05T10:00:00Z",
        "retryable": True,
        "attempts": 9,
        "trace": TRACE,
    }
    assert (await server.call("GET", "/dead-letters")).body["dead_letters"] == [alone.body]


async def test_list_is_paged_from_the_latest_on(server: ApiServer) -> None:
    """Each once, also those that failed at the same instant, and also while others come."""
    same = [a_dead_letter(3), a_dead_letter(4)]
    same = [
        DeadLetter(**{f: getattr(each, f) for f in DeadLetter.__dataclass_fields__} | {"failed_at": NOW})
        for each in same
    ]
    await add_dead_letters(server, *(a_dead_letter(number) for number in (1, 2, 5)), *same)
    listed: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await server.call("GET", f"/dead-letters?limit=2{cursor and f'&cursor={cursor}'}")).body
        assert page["count"] >= 5
        listed += numbers(page)
        cursor = page["next"]
        await add_dead_letters(server, a_dead_letter(-1))
    assert listed == [4, 3, 1, 2, 5]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("job_type=webhook", [1, 3]),
        ("retryable=false", [3]),
        ("retryable=true&job_type=outbox_item", [2]),
        ("job_type=sweep", []),
    ],
)
async def test_list_shows_only_what_is_asked_for(server: ApiServer, query: str, expected: list[int]) -> None:
    """By type of job, and by whether doing it again may help; counted alike."""
    await add_dead_letters(
        server, a_dead_letter(1), a_dead_letter(2, job_type="outbox_item"), a_dead_letter(3, retryable=False)
    )
    page = (await server.call("GET", f"/dead-letters?{query}")).body
    assert (numbers(page), page["count"]) == (expected, len(expected))


async def test_errors_words_are_shown_without_secrets(server: ApiServer) -> None:
    """Drivers quote addresses, and addresses hold passwords."""
    await add_dead_letters(
        server, a_dead_letter(1, error="OSError: postgresql://imq:hunter2@db/imq and ghs_abcdef123456")
    )
    answer = await server.call("GET", "/dead-letters")
    assert "hunter2" not in str(answer.body)
    assert "ghs_abcdef" not in str(answer.body)


async def test_reprocess_makes_it_a_job_again_with_its_id_and_trace(server: ApiServer) -> None:
    """As if it had never been tried; it is no dead letter any more."""
    await add_dead_letters(server, a_dead_letter(1), a_dead_letter(2))
    answer = await server.call("POST", f"/dead-letters/{1:032x}/reprocess")
    assert (answer.status, answer.body) == (202, {"reprocessed": 1})
    assert await jobs(server) == [(f"{1:032x}", TRACE, 0)]
    assert numbers((await server.call("GET", "/dead-letters")).body) == [2]


async def test_reprocess_of_what_is_not_retryable_is_done_when_it_is_named(server: ApiServer) -> None:
    """An operator who names it knows why."""
    await add_dead_letters(server, a_dead_letter(1, retryable=False))
    assert (await server.call("POST", f"/dead-letters/{1:032x}/reprocess")).status == 202


async def test_reprocess_all_takes_the_retryable_ones_and_counts_them(server: ApiServer) -> None:
    """The others stay, for a person to look at."""
    await add_dead_letters(server, a_dead_letter(1), a_dead_letter(2, retryable=False), a_dead_letter(3))
    answer = await server.call("POST", "/dead-letters/reprocess")
    assert (answer.status, answer.body) == (202, {"reprocessed": 2})
    assert numbers((await server.call("GET", "/dead-letters")).body) == [2]
    assert (await server.call("POST", "/dead-letters/reprocess")).body == {"reprocessed": 0}


async def test_reprocess_sent_twice_with_a_key_answers_alike(server: ApiServer) -> None:
    """The second call does not answer that the dead letter is unknown."""
    await add_dead_letters(server, a_dead_letter(1))
    for _ in range(2):
        answer = await server.call("POST", f"/dead-letters/{1:032x}/reprocess", key="k", json={})
        assert (answer.status, answer.body) == (202, {"reprocessed": 1})
    assert answer.replayed
    assert len(await jobs(server)) == 1


async def test_reprocess_wakes_the_worker(server: ApiServer) -> None:
    """The worker does not sleep until its next poll."""
    await add_dead_letters(server, a_dead_letter(1))
    waiter = server.engine.wakeup.waiter()
    await server.call("POST", "/dead-letters/reprocess")
    await waiter.wait(timedelta(seconds=60))


async def test_discard_deletes_for_good(server: ApiServer) -> None:
    """204, and then there is nothing to find."""
    await add_dead_letters(server, a_dead_letter(1), a_dead_letter(2))
    answer = await server.call("DELETE", f"/dead-letters/{1:032x}")
    assert (answer.status, answer.body) == (204, None)
    assert numbers((await server.call("GET", "/dead-letters")).body) == [2]
    assert await jobs(server) == []


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/reprocess")], ids=["show", "discard", "reprocess"]
)
async def test_unknown_id_is_not_found(server: ApiServer, method: str, path: str) -> None:
    """404 with a sentence."""
    answer = await server.call(method, f"/dead-letters/{9:032x}{path}")
    assert (answer.status, answer.error[:28]) == (404, "no dead letter has this id: ")


async def test_call_that_changes_something_is_logged_with_its_caller(server: ApiServer) -> None:
    """Who discarded it? Reading leaves no line."""
    await add_dead_letters(server, a_dead_letter(1))
    with capture_logs(processors=[merge_contextvars]) as lines:
        await server.call("GET", "/dead-letters")
        await server.call("DELETE", f"/dead-letters/{1:032x}")
    (line,) = [line for line in lines if line["event"] == "api_call"]
    assert (line["caller"], line["method"], line["status"]) == ("ops", "DELETE", 204)
    assert line["path"] == f"/api/v1/dead-letters/{1:032x}"


@pytest.mark.parametrize("cursor", ["x", "MjAyNiB4", "", "MDAwMS0wMS0wMVQwMDowMDowMCswMTowMCB4"])
async def test_list_after_an_unknown_cursor_is_404(server: ApiServer, cursor: str) -> None:
    """A cursor is the `next` of a page; another one leads nowhere."""
    answer = await server.call("GET", f"/dead-letters?cursor={cursor}")
    assert answer.status == 404
    assert "cursor" in answer.error
