"""P7: waking many queues at once costs few requests and few statements, counted and not timed.

Covers `queue_engine/executor/queue_pass.py`, `queue_engine/store/queues.py` and `bot/gateway/repository_api.py`.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from sqlalchemy import delete, event, select, update
from sqlalchemy.engine import Engine

from bot.gateway.http.pacing import DOCUMENTED
from queue_engine.store.operations.rate_limits import POINTS
from queue_engine.store.operations.tables import configuration_files, installation_tokens
from queue_engine.store.tables import queues
from sandbox.rest.record import RecordedCall
from tests.acceptance.project import FILES
from tests.acceptance.world import LABEL, World, a_world

COUNT = 12
"""Queues, each of a repository of its own; twice what one installation gets of the passes at once."""

MOST_STATEMENTS = 7
"""Statements of a pass that finds nothing to do: claim, the policy's generation, queue and entries, release."""


@contextmanager
def statements() -> Iterator[list[str]]:
    """The statements that reach the database meanwhile."""
    executed: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        executed.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def queue_many(world: World) -> None:
    """One pull request waits for its checks in each of many repositories."""
    for number in range(COUNT):
        made = world.github.create_repository(f"acme/r{number}", files=FILES, collaborators={"mona": "write"})
        made.protect("main", required_checks=["ci/test"])
        made.open_pull_request("Own", head="own", by="mona", files={"own.py": "own\n"}).label(LABEL, by="mona")
    # Rules that just changed are read again for a minute.
    await world.pass_time(timedelta(minutes=2))
    assert len(await world.entries()) == COUNT


async def wake_all(world: World) -> None:
    """Wake every queue, as a reconciler does that found something in each repository."""
    async with world.bot.engine.change() as change:
        values = {"due_at": change.now, "wake_count": queues.c.wake_count + 1}
        await change.tx.connection.execute(update(queues).values(values))


async def forget_all(world: World) -> None:
    """Restart with a database that has neither tokens nor configuration files, as after an hour without work."""
    await world.kill()
    await world.restart()
    async with world.bot.engine.change() as change:
        await change.tx.connection.execute(delete(installation_tokens))
        await change.tx.connection.execute(delete(configuration_files))


async def run_passes(world: World) -> tuple[list[RecordedCall], list[str]]:
    """Run the passes that are due, and nothing else; return their requests and statements."""
    before = len(world.server.requests)
    with statements() as executed:
        while await world.bot.processor.run_due():
            pass
    return list(world.server.requests)[before:], executed


def tokens(requests: list[RecordedCall]) -> list[RecordedCall]:
    """The requests for a token."""
    return [request for request in requests if request.template.endswith("/access_tokens")]


def entry_reads(executed: list[str]) -> int:
    """How many statements read all entries of a queue."""
    return sum("AS placed" in statement for statement in executed)


async def test_queues_woken_for_nothing_ask_github_nothing_and_read_their_entries_once(tmp_path: Path) -> None:
    """P7: each pass compares what is stored, and ends."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        await queue_many(world)
        await wake_all(world)
        await run_passes(world)
        await wake_all(world)
        requests, executed = await run_passes(world)
        assert requests == []
        assert entry_reads(executed) == COUNT
        assert len(executed) <= COUNT * MOST_STATEMENTS, Counter(executed)


async def test_queues_woken_after_a_restart_ask_for_one_token_for_each_repository(tmp_path: Path) -> None:
    """P7: reading a configuration file prepares no write; all tokens of an App share one pace."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        await queue_many(world)
        await forget_all(world)
        await wake_all(world)
        requests, _ = await run_passes(world)
        contents = Counter(each.body["permissions"].get("contents") for each in tokens(requests))
        # One more looks for the owner's shared configuration, and one without contents for a public one.
        assert contents == {"read": COUNT + 1, None: 1}


async def test_queues_that_the_pace_keeps_waiting_for_a_token_read_no_entries(tmp_path: Path) -> None:
    """P7: each of them waits for its own instant, so that none asks twice for the same room."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        await queue_many(world)
        await forget_all(world)
        now = world.clock.now()
        world.bot.gateway._connection.limits._paces[None].fill([(POINTS, now, DOCUMENTED.points_per_minute)])
        await wake_all(world)
        requests, executed = await run_passes(world)
        assert (requests, entry_reads(executed)) == ([], 0)
        async with world.bot.engine.store.reading() as tx:
            dues = list(await tx.connection.scalars(select(queues.c.due_at)))
        assert len({due for due in dues if due > now}) == COUNT
