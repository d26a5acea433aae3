"""The pace of an installation, kept by several processes on one database: together within what GitHub allows."""

from collections import deque
from collections.abc import Iterator
from datetime import timedelta

import aiohttp
import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, event

from bot.gateway import Gateway
from bot.gateway.http import pacing
from bot.gateway.http.connection import Connection
from bot.gateway.http.pacing import Rates, SharedPace, _Reserved
from queue_engine.core.concurrency.request_context import RequestPriority, WaitCount, working
from queue_engine.domain.errors import RateLimitError
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from queue_engine.store.rate_limits import VALID
from tests.store.examples import NOW, TICK
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import APP_ID, ManualClock
from tests.unit.bot.github_double import GitHubDouble, Says

PULL = "/repos/ada/engine/pulls/3"
COMMENTS = "/repos/ada/engine/issues/3/comments"
SECOND = timedelta(seconds=1)


@pytest.fixture
def gateways(
    session: aiohttp.ClientSession, github: GitHubDouble, pem: str, clock: ManualClock, store: Store
) -> tuple[Gateway, Gateway]:
    """The gateways of two processes on one database."""
    github.on("GET", PULL, Says(pull_request()))
    github.on("POST", COMMENTS, Says({"id": 1}, 201))
    github.on("PUT", f"{PULL}/merge", Says({"sha": "m1"}))
    one, two = (
        Gateway(
            Connection(
                session,
                api_url=github.url,
                app_id=str(APP_ID),
                private_key=SecretStr(pem),
                clock=clock,
                shared=SharedPace(store, owner),
            )
        )
        for owner in ("one", "two")
    )
    return one, two


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """The statements that the database was sent."""
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


async def test_processes_together_create_no_more_content_than_one_may(
    gateways: tuple[Gateway, Gateway], github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """P7: what one has merged the other knows, by the minute and by the hour; comments leave room for both's merges."""
    sent = 0
    for gateway in (*gateways, *gateways):
        for _ in range(30):
            try:
                await gateway.merge(repository, 3, "h1", MergeMethod.MERGE)
            except RateLimitError:
                break
            sent += 1
    assert sent == len(github.asked_for("PUT", f"{PULL}/merge")) == 72
    clock.instant += timedelta(minutes=2)
    with working(RequestPriority.BACKGROUND, yields_to=WaitCount(380, 380)), pytest.raises(RateLimitError):
        await gateways[1].create_comment(repository, 3, "hello")
    with working(yields_to=WaitCount(300, 300)):
        await gateways[1].create_comment(repository, 3, "hello")


async def test_points_reserved_for_what_people_wait_for_are_left_by_background_work(
    gateways: tuple[Gateway, Gateway], repository: Repository, statements: list[str]
) -> None:
    """P7: background work reserves its own, so that all windows count it as that."""
    for _ in range(3):
        await gateways[0].pull_request(repository, 3)
    for priority, asks in ((RequestPriority.NOW, False), (RequestPriority.BACKGROUND, True)):
        statements.clear()
        with working(priority):
            await gateways[0].pull_request(repository, 3)
        assert any("INSERT INTO pace_reservations" in each for each in statements) is asks


@pytest.mark.thorough
async def test_processes_together_spend_no_more_points_than_one_may(
    gateways: tuple[Gateway, Gateway],
    github: GitHubDouble,
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    clock: ManualClock,
) -> None:
    """P7: in no minute all processes together exceed the limit, and at least three quarters of it are used."""
    monkeypatch.setattr(pacing, "DOCUMENTED", Rates(points_per_minute=200))
    sent = []
    for _ in range(120):
        for gateway in gateways:
            for _ in range(3):
                try:
                    await gateway.pull_request(repository, 3)
                except RateLimitError:
                    break
                sent.append(clock.instant)
        clock.instant += SECOND
    assert len(sent) == len(github.asked_for("GET", PULL))
    for begin in sent:
        assert sum(begin <= at < begin + timedelta(minutes=1) for at in sent) <= 180
    assert len(sent) >= 2 * 135


async def test_process_that_is_killed_takes_few_points_along(
    gateways: tuple[Gateway, Gateway], github: GitHubDouble, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reservation is missing for a minute: a process that crashes again and again must still make progress."""
    monkeypatch.setattr(pacing, "DOCUMENTED", Rates(points_per_minute=400))
    for _ in range(70):
        await gateways[0].pull_request(repository, 3)
    for _ in range(234 - 70 - 20):
        await gateways[1].pull_request(repository, 3)


async def test_process_that_lives_for_a_few_calls_takes_no_more_points_along_than_it_used(
    session: aiohttp.ClientSession,
    github: GitHubDouble,
    pem: str,
    clock: ManualClock,
    repository: Repository,
    store: Store,
) -> None:
    """Killed every second or so: what is reserved ahead grows with the use of the last second, and expires soon."""
    github.on("GET", PULL, Says(pull_request()))
    shared = SharedPace(store, "one")
    gateway = Gateway(
        Connection(
            session, api_url=github.url, app_id=str(APP_ID), private_key=SecretStr(pem), clock=clock, shared=shared
        )
    )
    for _ in range(6):
        await gateway.pull_request(repository, 3)
        clock.instant += 2 * SECOND
    async with store.transaction() as tx:
        use = await tx.pace.lock(9, clock.now())
    assert sum(each.amount for each in use.reservations) <= 2 * 6
    assert {clock.now() - each.at for each in use.reservations} <= {second * SECOND for second in range(11)}


async def test_points_left_over_survive_a_merge(
    gateways: tuple[Gateway, Gateway], repository: Repository, statements: list[str]
) -> None:
    """A call that creates content reserves for itself alone; what was reserved ahead before is used after it."""
    for _ in range(7):
        await gateways[0].pull_request(repository, 3)
    await gateways[0].merge(repository, 3, "h1", MergeMethod.MERGE)
    statements.clear()
    for _ in range(6):
        await gateways[0].pull_request(repository, 3)
    assert statements == []


async def test_pause_that_one_process_was_asked_for_holds_all(
    gateways: tuple[Gateway, Gateway], github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """GitHub may ban a client that keeps sending, so the other process sends nothing until the time is over."""
    limit = {"message": "You have exceeded a secondary rate limit."}
    github.on("GET", PULL, Says(limit, 403, headers={"retry-after": "90"}), Says(pull_request()))
    with pytest.raises(RateLimitError):
        await gateways[0].pull_request(repository, 3)
    with pytest.raises(RateLimitError) as held:
        await gateways[1].pull_request(repository, 3)
    assert held.value.retry_after == 90 * SECOND
    assert len(github.asked_for("GET", PULL)) == 1
    clock.instant += 90 * SECOND
    await gateways[1].pull_request(repository, 3)


async def test_busy_process_asks_the_database_once_for_many_calls(
    gateways: tuple[Gateway, Gateway], repository: Repository, statements: list[str]
) -> None:
    """The measured cost: below one statement for two calls that create nothing."""
    for _ in range(100):
        await gateways[0].pull_request(repository, 3)
    assert len(statements) < 50


async def test_process_that_is_alone_asks_the_database_nothing(
    session: aiohttp.ClientSession,
    github: GitHubDouble,
    pem: str,
    clock: ManualClock,
    repository: Repository,
    statements: list[str],
) -> None:
    """SQLite with one process costs what it did."""
    github.on("GET", PULL, Says(pull_request()))
    alone = Gateway(
        Connection(session, api_url=github.url, app_id=str(APP_ID), private_key=SecretStr(pem), clock=clock)
    )
    await alone.pull_request(repository, 3)
    assert statements == []


@pytest.mark.parametrize(
    ("passed", "usable"),
    [(timedelta(0), True), (VALID - TICK, True), (VALID, False), (-TICK, False)],
    ids=["at once", "just in time", "too late", "a clock set back"],
)
def test_points_reserved_ahead_are_used_while_they_are_valid(passed: timedelta, usable: bool) -> None:
    """P7: other processes count them until a minute after `VALID`; used later they would exceed the limit."""
    ahead = _Reserved(deque([(NOW, 1), (NOW, 2)]))
    assert ahead.take(2, NOW + passed) is usable
    assert ahead.left == deque([(NOW, 1)] if usable else [])
