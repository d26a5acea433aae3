"""P7: waking many queues at once costs few requests and few statements, counted and not timed."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event, select, update
from sqlalchemy.engine import Engine

from bot.gateway.http.pacing import DOCUMENTED
from bot.gateway.policy_cache import Policies
from github_emulator import CheckRunFields, RecordedCall
from queue_engine.store.figures import POINTS
from queue_engine.store.tables import configuration_files, installation_tokens, queues
from tests.acceptance.project import FILES
from tests.acceptance.world import LABEL, World, a_world

COUNT = 12
"""Queues, each of a repository of its own; twice what one installation gets of the passes at once."""

MOST_STATEMENTS = 11
"""Statements for all idle queues together: claim some, lock the others, read generations and entries, release."""


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


async def queue_many(world: World) -> list[Any]:
    """One pull request waits for its checks in each of many repositories."""
    pulls = []
    for number in range(COUNT):
        made = world.github.create_repository(
            f"acme/r{number}", files=FILES, collaborators={"mona": "write", "rhea": "admin"}
        )
        made.protect("main", required_checks=["ci/test"])
        pulls.append(made.open_pull_request("Own", head="own", by="mona", files={"own.py": "own\n"}))
        pulls[-1].label(LABEL, by="mona")
    # Rules that just changed are read again for a minute.
    await world.pass_time(timedelta(minutes=2))
    assert len(await world.entries()) == COUNT
    return pulls


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
        while await world.bot.scheduler.run_due():
            pass
    return list(world.server.requests)[before:], executed


async def due_times(world: World) -> list[datetime | None]:
    """When each queue is due."""
    async with world.bot.engine.store.reading() as tx:
        return [queue.due_at for queue in await tx.queues.all()]


async def outcome(world: World, pull: Any, head: str) -> str:
    """What became of a pull request: it landed, left for a reason, or was updated; else what its comment says."""
    if pull.merged:
        return "landed"
    if reasons := await world.reasons(pull):
        return " ".join(reasons)
    if pull.head_sha != head:
        return "updated"
    comment = world.comment(pull)
    return next(
        (word for word in ("the fair", "imq.yml", "ci/lint", "is paused", "ci/test") if word in comment), comment
    )


def tokens(requests: list[RecordedCall]) -> list[RecordedCall]:
    """The requests for a token."""
    return [request for request in requests if request.template.endswith("/access_tokens")]


def entry_reads(executed: list[str]) -> int:
    """How many statements read all entries of queues, or their fronts."""
    return sum("AS placed" in statement or "AS fronts" in statement for statement in executed)


@pytest.mark.thorough
async def test_queues_woken_for_nothing_ask_github_nothing_and_share_a_few_statements(tmp_path: Path) -> None:
    """P7: one transaction compares what is stored of all of them, and ends."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        await queue_many(world)
        await wake_all(world)
        await run_passes(world)
        dues = await due_times(world)
        await wake_all(world)
        requests, executed = await run_passes(world)
        assert requests == []
        assert entry_reads(executed) == 1, "the fronts of all"
        assert len(executed) <= MOST_STATEMENTS, Counter(executed)
        assert await due_times(world) == dues


Change = Callable[[World, Any, Any], object]
"""Something that happens to a repository or its pull request."""


def report(world: World, pull: Any, conclusion: str) -> None:
    """Some App reports the required check on the head of a pull request."""
    reporter = world.github.create_app(f"reporter-{len(world.github.state.apps)}", permissions={"checks": "write"})
    fields = CheckRunFields(status="completed", conclusion=conclusion)
    repository, head = pull.record.repository, pull.head_sha
    world.github.checks.create_run(repository, app=reporter, name="ci/test", head_sha=head, fields=fields)


def move(repository: Any, files: dict[str, str]) -> None:
    """Somebody pushes to the base branch."""
    repository.push("main", files, "Change the base", by="rhea")


def require_more(world: World, repository: Any, pull: Any) -> None:
    """A check becomes required that does not report, and the other one passes."""
    repository.protect("main", required_checks=["ci/test", "ci/lint"])
    report(world, pull, "success")


FROZEN = """\
freeze:
  windows:
    - from: 2020-01-01
      to: 2100-01-01
      why: the fair
"""

CHANGES: Mapping[str, tuple[Change, str]] = {
    "passed": (lambda world, repository, pull: report(world, pull, "success"), "landed"),
    "failed": (lambda world, repository, pull: report(world, pull, "failure"), "checks_failed"),
    "unlabeled": (lambda world, repository, pull: pull.unlabel(LABEL, by="mona"), "label_removed"),
    "pushed": (lambda world, repository, pull: pull.push({"more.py": "more\n"}, "More", by="mona"), "head_changed"),
    "closed": (lambda world, repository, pull: pull.close(by="mona"), "closed"),
    "base moved": (lambda world, repository, pull: move(repository, {"base.py": "base\n"}), "updated"),
    "frozen": (lambda world, repository, pull: move(repository, {".github/imq.yml": FROZEN}), "the fair"),
    "broken": (lambda world, repository, pull: move(repository, {".github/imq.yml": "a: ["}), "imq.yml"),
    "rules": (lambda world, repository, pull: require_more(world, repository, pull), "ci/lint"),
    "paused": (lambda world, repository, pull: pull.comment("/pause", by="rhea"), "is paused"),
}
"""What happens, and what becomes of the pull request."""


@pytest.mark.thorough
async def test_queue_with_a_change_acts_among_queues_that_are_woken_for_nothing(tmp_path: Path) -> None:
    """P1, P2, P4: whatever the change, and although all queues are due at once; the others keep waiting."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        pulls = await queue_many(world)
        await wake_all(world)
        await run_passes(world)
        heads = [pull.head_sha for pull in pulls]
        for number, (happens, _) in enumerate(CHANGES.values()):
            happens(world, world.github.repository(f"acme/r{number}"), pulls[number])
        for _ in range(3):
            await wake_all(world)
            await world.pass_time(timedelta(seconds=5))
        outcomes = [await outcome(world, pull, head) for pull, head in zip(pulls, heads, strict=True)]
        assert dict(zip(CHANGES, outcomes, strict=False)) == {name: result for name, (_, result) in CHANGES.items()}
        assert outcomes[len(CHANGES) :] == ["ci/test"] * (COUNT - len(CHANGES))


@pytest.mark.thorough
async def test_queues_woken_without_cached_policies_recall_them_together(tmp_path: Path) -> None:
    """P7: as after a restart; no request, and most of the queues get no pass; each of them waits on."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        await queue_many(world)
        await wake_all(world)
        await run_passes(world)
        dues = await due_times(world)
        policies = world.bot.engine.policies
        assert isinstance(policies, Policies)
        policies._cache.clear()
        world.bot.scheduler._of_installation = 2  # Few passes at once, as if there were many more queues.
        await wake_all(world)
        requests, executed = await run_passes(world)
        assert requests == []
        # Two get a pass at first, and two beside the recall; one statement reads the others.
        assert entry_reads(executed) <= 5
        assert await due_times(world) == dues


@pytest.mark.thorough
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
