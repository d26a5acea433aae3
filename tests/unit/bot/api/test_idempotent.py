"""A call that is sent again with its key is not done again, whatever happened to the first one."""

import asyncio
from datetime import timedelta

import pytest
from aiohttp import web
from sqlalchemy import select

from bot.api.api_errors import ApiError
from queue_engine.core.jobs.idempotency import KEPT, idempotency_keys
from queue_engine.store import Store
from tests.support.claims import claim_one
from tests.support.real_time import LIMIT
from tests.unit.bot.api.api_server import NOW, ApiServer, an_api_server
from tests.unit.bot.api.calls_with_keys import KEY, Works

both = pytest.mark.parametrize("path", ["/whole", "/parts"])


@both
async def test_call_again_with_its_key_gets_the_same_answer_and_does_nothing(
    works: Works, server: ApiServer, path: str
) -> None:
    """Status and body are those of the first call, and a header says so; for 72 hours."""
    first = await server.call("POST", path, key=KEY, json={"a": 1})
    server.clock.move(KEPT - timedelta(seconds=1))
    again = await server.call("POST", path, key=KEY, json={"a": 1})
    assert (again.status, again.body) == (first.status, first.body) == (first.status, {"number": 1})
    assert (first.replayed, again.replayed) == (False, True)
    assert await works.done() == 1
    server.clock.move(timedelta(seconds=1))
    assert (await server.call("POST", path, key=KEY, json={"a": 1})).body == {"number": 2}


async def test_calls_with_another_key_are_done_each_time_and_without_one_never(works: Works, server: ApiServer) -> None:
    """A key is the caller's own choice; a call without one does nothing, and says how to make one."""
    for key in (KEY, "other"):
        assert not (await server.call("POST", "/whole", key=key)).replayed
    for path in ("/whole", "/parts"):
        refused = await server.call("POST", path, key=None)
        assert (refused.status, refused.body["reason"]) == (400, "idempotency_key_missing")
        assert "Idempotency-Key" in refused.body["error"]
        assert "UUID" in refused.body["error"]
        assert 'rel="describedby"' in refused.headers["Link"]
    assert await works.done() == 2


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/whole", b'{"a": 2}'), ("POST", "/parts", b'{"a": 1}'), ("DELETE", "/whole", b'{"a": 1}')],
    ids=["body", "address", "method"],
)
async def test_other_call_with_a_used_key_is_a_conflict(
    works: Works, server: ApiServer, method: str, path: str, body: bytes
) -> None:
    """409 with a sentence, and nothing is done."""
    await server.call("POST", "/whole", key=KEY, data=b'{"a": 1}')
    answer = await server.call(method, path, key=KEY, data=body)
    assert (answer.status, answer.error) == (
        409,
        "this Idempotency-Key was used for another address or body",
    )
    assert "Retry-After" not in answer.headers
    assert await works.done() == 1


@both
async def test_call_while_the_first_one_runs_is_409(works: Works, server: ApiServer, path: str) -> None:
    """409 with `Retry-After`; afterwards it gets the answer."""
    works.gate.clear()
    first = asyncio.create_task(server.call("POST", path, key=KEY))
    await works.started.wait()
    meanwhile = await server.call("POST", path, key=KEY)
    assert (meanwhile.status, meanwhile.headers["Retry-After"]) == (409, "5")
    assert meanwhile.error == "the call with this Idempotency-Key is still running"
    works.gate.set()
    answered = await first
    assert (await server.call("POST", path, key=KEY)).body == answered.body == {"number": 1}


async def test_many_at_the_same_instant_are_done_once(works: Works, server: ApiServer) -> None:
    """Each later caller gets the first one's answer, or a 409 that asks for a retry."""
    answers = await asyncio.gather(*(server.call("POST", "/whole", key=KEY) for _ in range(8)))
    assert await works.done() == 1
    assert {answer.status for answer in answers} <= {201, 409}
    assert sum(answer.status == 201 and not answer.replayed for answer in answers) == 1


async def _renewed(server: ApiServer) -> None:
    """The lease of the one key that is running is as long again as at its beginning."""
    async with asyncio.timeout(LIMIT):
        until = NOW
        while until < server.clock.now() + server.engine.lease:
            async with server.engine.store.reading() as tx:
                until = (await tx.connection.execute(select(idempotency_keys.c.running_until))).scalar_one()


async def test_call_that_takes_long_keeps_its_key(works: Works, server: ApiServer) -> None:
    """The call renews its lease while it runs, so no second call starts the same work."""
    works.gate.clear()
    first = asyncio.create_task(server.call("POST", "/parts", key=KEY))
    await works.started.wait()
    for _ in range(12):
        server.clock.move(server.engine.lease / 3)
        await _renewed(server)
        assert (await server.call("POST", "/parts", key=KEY)).status == 409
    works.gate.set()
    assert (await first).status == 200
    assert await works.done() == 1


@both
@pytest.mark.parametrize("problem", [503, 500, 429, 408])
async def test_refusal_that_passes_is_not_kept(works: Works, server: ApiServer, path: str, problem: int) -> None:
    """The same call is done when it is tried again."""
    works.todo = [ApiError(problem, "not now")]
    assert (await server.call("POST", path, key=KEY)).status == problem
    again = await server.call("POST", path, key=KEY)
    assert (again.body, again.replayed) == ({"number": 1}, False)


@both
async def test_refusal_that_stays_is_kept(works: Works, server: ApiServer, path: str) -> None:
    """Nothing was done, and the same call gets the same refusal."""
    works.todo = [ApiError(422, "never", reason="conflict")]
    for replayed in (False, True):
        answer = await server.call("POST", path, key=KEY)
        assert (answer.status, answer.body["error"], answer.body["reason"]) == (422, "never", "conflict")
        assert answer.replayed == replayed
    assert await works.done() == 0


@both
async def test_call_that_fails_before_its_end_leaves_nothing_and_its_key_free(
    works: Works, server: ApiServer, path: str
) -> None:
    """A failure of ours is no answer: work and key are rolled back, and the call may be sent again at once."""
    works.todo = [RuntimeError("broken")]
    assert (await server.call("POST", path, key=KEY)).status == 500
    assert await works.done() == 0
    assert (await server.call("POST", path, key=KEY)).body == {"number": 1}


async def test_call_that_fails_after_its_end_is_done_and_answered(works: Works, server: ApiServer) -> None:
    """The API does not repeat work that was committed with its answer, although the first caller got no answer."""
    works.todo = [0, RuntimeError("the connection broke")]
    assert (await server.call("POST", "/whole", key=KEY)).status == 500
    again = await server.call("POST", "/whole", key=KEY)
    assert (again.status, again.body, again.replayed) == (201, {"number": 1}, True)
    assert await works.done() == 1


async def test_call_whose_process_was_killed_is_done_by_the_next_and_not_by_both(
    works: Works, server: ApiServer
) -> None:
    """The lease ends, somebody sends the call again; the first one wakes up late, and its work is rolled back."""
    works.gate.clear()
    first = asyncio.create_task(server.call("POST", "/whole", key=KEY))
    await works.started.wait()
    async with server.engine.store.transaction() as tx:
        again = await tx.keys.begin(
            (await tx.tokens.all())[0].id,
            KEY,
            endpoint="POST /api/v1/whole",
            request_hash="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            now=server.clock.now() + server.engine.lease,
            lease=server.engine.lease,
        )
        await tx.keys.finish(again, status=201, body={"number": "by another"})  # type: ignore[arg-type]
    works.gate.set()
    late = await first
    assert (late.status, late.error) == (409, "another call has taken over this request")
    assert await works.done() == 0
    assert (await server.call("POST", "/whole", key=KEY)).body == {"number": "by another"}


async def test_answer_without_a_body_is_replayed_without_one(works: Works, server: ApiServer) -> None:
    """204 both times."""
    for _ in range(2):
        answer = await server.call("DELETE", "/whole", key=KEY)
        assert (answer.status, answer.body) == (204, None)
    assert answer.replayed
    assert await works.done() == 1


@pytest.mark.parametrize("given", ["00-0123456789abcdef0123456789abcdef-0123456789abcdef-01", "nonsense", None])
async def test_call_goes_on_with_the_trace_of_its_caller(works: Works, server: ApiServer, given: str | None) -> None:
    """What it causes is found by the caller's trace id, or by one of its own where the caller has none."""
    await server.call("POST", "/whole", headers={"traceparent": given} if given else {})
    async with server.engine.store.transaction() as tx:
        job = await claim_one(tx.jobs, owner="test", now=server.clock.now(), lease=timedelta(seconds=30))
    assert job is not None
    assert job.trace is not None
    assert (job.trace[3:35] == "0123456789abcdef0123456789abcdef") == (given is not None and given[0] == "0")


async def test_calls_without_a_key_are_done_each_time_where_the_operator_allows_them(store: Store) -> None:
    """`IMQ_IDEMPOTENCY_KEY=optional` is for programs that the operator cannot change."""
    made: list[Works] = []

    def routes(server: ApiServer) -> list[web.RouteDef]:
        made.append(Works(server))
        return made[0].routes()

    async with an_api_server(store, routes, keys_required=False) as server:
        made[0].gate.set()
        for expected in (1, 2):
            assert (await server.call("POST", "/whole", key=None)).body == {"number": expected}
