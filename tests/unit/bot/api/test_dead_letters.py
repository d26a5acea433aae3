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
async def desk(store: Store) -> AsyncIterator[ApiServer]:
    async with an_api_server(store) as desk:
        yield desk


def a_letter(
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


async def bury(desk: ApiServer, *letters: DeadLetter) -> None:
    async with desk.engine.store.transaction() as tx:
        for letter in letters:
            await tx.dead_letters.put(letter)


async def jobs(desk: ApiServer) -> list[tuple[str, str | None, int]]:
    """The jobs that are due, as a worker gets them: id, trace and attempt."""
    async with desk.engine.store.transaction() as tx:
        claimed = [
            await claim_one(tx.jobs, owner="test", now=desk.clock.now(), lease=timedelta(seconds=30)) for _ in range(9)
        ]
    return [(job.id, job.trace, job.attempt) for job in claimed if job is not None]


def numbers(page: Any) -> list[int]:
    return [letter["payload"]["number"] for letter in page["dead_letters"]]


async def test_list_of_none_is_an_empty_page(desk: ApiServer) -> None:
    """All is well."""
    answer = await desk.call("GET", "/dead-letters")
    assert (answer.status, answer.body) == (200, {"dead_letters": [], "count": 0, "next": None})


async def test_letter_is_shown_whole(desk: ApiServer) -> None:
    """All that a person needs to decide, in the list and alone."""
    await bury(desk, a_letter(1))
    alone = await desk.call("GET", f"/dead-letters/{1:032x}")
    assert alone.body == {
        "id": f"{1:032x}",
        "job_type": "webhook",
        "process_id": "7:12",
        "error": "OSError: away",
        "payload": {"number": 1},
        "failed_at": "2026-01-05T11:59:00Z",
        "created_at": "2026-01-05T10:00:00Z",
        "retryable": True,
        "attempts": 9,
        "trace": TRACE,
    }
    assert (await desk.call("GET", "/dead-letters")).body["dead_letters"] == [alone.body]


async def test_list_is_paged_from_the_latest_on(desk: ApiServer) -> None:
    """Each once, also those that failed at the same instant, and also while others come."""
    same = [a_letter(3), a_letter(4)]
    same = [
        DeadLetter(**{f: getattr(each, f) for f in DeadLetter.__dataclass_fields__} | {"failed_at": NOW})
        for each in same
    ]
    await bury(desk, *(a_letter(number) for number in (1, 2, 5)), *same)
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await desk.call("GET", f"/dead-letters?limit=2{cursor and f'&cursor={cursor}'}")).body
        assert page["count"] >= 5
        seen += numbers(page)
        cursor = page["next"]
        await bury(desk, a_letter(-1))
    assert seen == [4, 3, 1, 2, 5]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("job_type=webhook", [1, 3]),
        ("retryable=false", [3]),
        ("retryable=true&job_type=letter", [2]),
        ("job_type=sweep", []),
    ],
)
async def test_list_shows_only_what_is_asked_for(desk: ApiServer, query: str, expected: list[int]) -> None:
    """By type of job, and by whether doing it again may help; counted alike."""
    await bury(desk, a_letter(1), a_letter(2, job_type="letter"), a_letter(3, retryable=False))
    page = (await desk.call("GET", f"/dead-letters?{query}")).body
    assert (numbers(page), page["count"]) == (expected, len(expected))


async def test_errors_words_are_shown_without_secrets(desk: ApiServer) -> None:
    """Drivers quote addresses, and addresses hold passwords."""
    await bury(desk, a_letter(1, error="OSError: postgresql://imq:hunter2@db/imq and ghs_abcdef123456"))
    answer = await desk.call("GET", "/dead-letters")
    assert "hunter2" not in str(answer.body)
    assert "ghs_abcdef" not in str(answer.body)


async def test_reprocess_makes_it_a_job_again_with_its_id_and_trace(desk: ApiServer) -> None:
    """As if it had never been tried; it is no dead letter any more."""
    await bury(desk, a_letter(1), a_letter(2))
    answer = await desk.call("POST", f"/dead-letters/{1:032x}/reprocess")
    assert (answer.status, answer.body) == (202, {"reprocessed": 1})
    assert await jobs(desk) == [(f"{1:032x}", TRACE, 0)]
    assert numbers((await desk.call("GET", "/dead-letters")).body) == [2]


async def test_reprocess_of_what_is_not_retryable_is_done_when_it_is_named(desk: ApiServer) -> None:
    """An operator who names it knows why."""
    await bury(desk, a_letter(1, retryable=False))
    assert (await desk.call("POST", f"/dead-letters/{1:032x}/reprocess")).status == 202


async def test_reprocess_all_takes_the_retryable_ones_and_tells_how_many(desk: ApiServer) -> None:
    """The others stay, for a person to look at."""
    await bury(desk, a_letter(1), a_letter(2, retryable=False), a_letter(3))
    answer = await desk.call("POST", "/dead-letters/reprocess")
    assert (answer.status, answer.body) == (202, {"reprocessed": 2})
    assert numbers((await desk.call("GET", "/dead-letters")).body) == [2]
    assert (await desk.call("POST", "/dead-letters/reprocess")).body == {"reprocessed": 0}


async def test_reprocess_sent_twice_with_a_key_answers_alike(desk: ApiServer) -> None:
    """The second does not say that there is no such letter."""
    await bury(desk, a_letter(1))
    for _ in range(2):
        answer = await desk.call("POST", f"/dead-letters/{1:032x}/reprocess", key="k", json={})
        assert (answer.status, answer.body) == (202, {"reprocessed": 1})
    assert answer.replayed
    assert len(await jobs(desk)) == 1


async def test_reprocess_wakes_the_worker(desk: ApiServer) -> None:
    """Nobody waits for the next poll."""
    await bury(desk, a_letter(1))
    ear = desk.engine.wakeup.waiter()
    await desk.call("POST", "/dead-letters/reprocess")
    await ear.wait(timedelta(seconds=60))


async def test_discard_deletes_for_good(desk: ApiServer) -> None:
    """204, and then there is nothing to find."""
    await bury(desk, a_letter(1), a_letter(2))
    answer = await desk.call("DELETE", f"/dead-letters/{1:032x}")
    assert (answer.status, answer.body) == (204, None)
    assert numbers((await desk.call("GET", "/dead-letters")).body) == [2]
    assert await jobs(desk) == []


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/reprocess")], ids=["show", "discard", "reprocess"]
)
async def test_unknown_id_is_not_found(desk: ApiServer, method: str, path: str) -> None:
    """404 with a sentence."""
    answer = await desk.call(method, f"/dead-letters/{9:032x}{path}")
    assert (answer.status, answer.error[:28]) == (404, "no dead letter has this id: ")


async def test_call_that_changes_something_is_logged_with_its_caller(desk: ApiServer) -> None:
    """Who discarded it? Reading leaves no line."""
    await bury(desk, a_letter(1))
    with capture_logs(processors=[merge_contextvars]) as lines:
        await desk.call("GET", "/dead-letters")
        await desk.call("DELETE", f"/dead-letters/{1:032x}")
    (line,) = [line for line in lines if line["event"] == "api_call"]
    assert (line["caller"], line["method"], line["status"]) == ("ops", "DELETE", 204)
    assert line["path"] == f"/api/v1/dead-letters/{1:032x}"


@pytest.mark.parametrize("cursor", ["x", "MjAyNiB4", "", "MDAwMS0wMS0wMVQwMDowMDowMCswMTowMCB4"])
async def test_list_after_a_cursor_that_nobody_gave_says_so(desk: ApiServer, cursor: str) -> None:
    """A cursor is the `next` of a page; another one leads nowhere."""
    answer = await desk.call("GET", f"/dead-letters?cursor={cursor}")
    assert answer.status == 404
    assert "cursor" in answer.error
