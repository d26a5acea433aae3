"""Passes over a stored queue while webhooks change its front: what a pass read before is not believed after."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import pytest

from queue_engine.advance import advance
from queue_engine.core.database import Database
from queue_engine.engine import Engine
from queue_engine.facts import BranchRules, CheckReport, CheckState, Comparison, PullRequest
from queue_engine.model import Entry, Queue
from queue_engine.port import GitHub as Port
from queue_engine.store import Store
from tests.queue_engine.examples import (
    CHECKING,
    NOW,
    POLICY,
    READY,
    REPOSITORY,
    SECOND,
    UPDATING,
    comparison,
    pull,
    report,
    rules,
)

Meanwhile = Callable[[], Awaitable[None]]
Answer = TypeVar("Answer")


class Clock:
    def now(self) -> datetime:
        return NOW

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("a pass does not sleep")


class GitHub:
    """Answers from what it is told; `meanwhile` happens while the first request of a name is on its way back."""

    def __init__(self) -> None:
        self.pull = pull()
        self.compared = comparison()
        self.reports: tuple[CheckReport, ...] = (report("ci"),)
        self.meanwhile: dict[str, Meanwhile] = {}
        self.asked: list[str] = []

    async def pull_request(self, *_: object) -> PullRequest:
        return await self._answer("pull", self.pull)

    async def comparison(self, _repository: object, _base: str, head: str) -> Comparison:
        compared = replace(self.compared, head=replace(self.compared.head, sha=head))
        return await self._answer("comparison", compared)

    async def check_reports(self, *_: object) -> tuple[CheckReport, ...]:
        return await self._answer("checks", self.reports)

    async def branch_rules(self, *_: object) -> BranchRules:
        return await self._answer("rules", rules("ci"))

    async def update_branch(self, *_: object) -> None:
        await self._answer("update", None)

    async def merge(self, *_: object) -> str:
        raise AssertionError("nothing here may be merged")

    async def _answer(self, name: str, answer: Answer) -> Answer:
        self.asked.append(name)
        if name in self.meanwhile:
            await self.meanwhile.pop(name)()
        return answer


class Scene:
    """One stored queue whose front is pull request 1."""

    def __init__(self, store: Store) -> None:
        self.github = GitHub()
        self.store = store
        self.engine = Engine(store, cast(Port, self.github), Clock(), POLICY, random=lambda: 0.5, owner="w")

    async def front(self, **changes: Any) -> Queue:
        async with self.store.transaction() as tx:
            queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
            added = await tx.entries.add(
                queue_id=queue.id,
                number=1,
                title="Change 1",
                author="ada",
                queued_by="max",
                queued_head="head-1",
                enqueued_at=NOW,
            )
            await tx.entries.save(replace(added, **changes))
        return queue

    async def hint(self, **changes: Any) -> None:
        async with self.store.transaction() as tx:
            entry = await tx.entries.find(REPOSITORY.id, 1)
            assert entry is not None
            await tx.entries.save(replace(entry, **changes))

    async def advance(self, queue: Queue) -> Entry | None:
        """One pass; the entry afterwards, None if it left."""
        await advance(self.engine, queue, lambda: True)
        async with self.store.reading() as tx:
            return await tx.entries.find(REPOSITORY.id, 1)


@pytest.fixture
def scene(sqlite_database: Database) -> Scene:
    return Scene(Store(sqlite_database))


async def test_advance_told_of_the_update_while_it_reads_the_old_head_binds_the_update(scene: Scene) -> None:
    """The pull request was read just before the update, the webhook came just after: that is no push of a stranger."""
    queue = await scene.front(status=UPDATING, base_tip="base-1", recheck_at=NOW)

    async def update_appears() -> None:
        scene.github.pull = pull(head_sha="head-2")
        await scene.hint(candidate_head="head-2", candidate_is_ours=True)

    scene.github.meanwhile["pull"] = update_appears
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, entry.head) == (CHECKING, "head-2")


@pytest.mark.parametrize("status", [CHECKING, READY])
async def test_advance_told_of_a_push_to_the_base_while_it_compares_compares_again(
    scene: Scene, status: object
) -> None:
    """P1: a comparison that is older than the push that a webhook told of is not what a merge may rest on."""
    queue = await scene.front(status=status, base_tip="base-1", known_behind=status is CHECKING)

    async def base_moves() -> None:
        scene.github.compared = comparison(behind=1, base_tip="base-2")
        await scene.hint(known_behind=True)

    scene.github.meanwhile["comparison"] = base_moves
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, entry.base_tip) == (UPDATING, "base-2")


async def test_advance_told_of_a_report_while_it_reads_reports_reads_them_again(scene: Scene) -> None:
    """The last report came while the ones before it were on their way: no slow fallback for that."""
    scene.github.reports = (report("ci", CheckState.PENDING),)
    queue = await scene.front(status=CHECKING, base_tip="base-1", recheck_at=NOW)

    async def check_fails() -> None:
        scene.github.reports = (report("ci", CheckState.FAILED),)
        await scene.hint(reported_checks=("ci",), recheck_at=NOW)

    scene.github.meanwhile["checks"] = check_fails
    assert await scene.advance(queue) is None
    assert scene.github.asked == ["rules", "checks", "rules", "checks", "pull"]


async def test_advance_keeps_what_it_read_over_its_own_changes(scene: Scene) -> None:
    """The other side of it: a pass that nobody disturbs asks for nothing twice."""
    scene.github.compared = comparison(behind=1, base_tip="base-2", parents=("head-0", "base-0"))
    queue = await scene.front(
        status=READY, head_proved=False, updated_from="head-0", recheck_at=NOW - SECOND, suspect=True
    )
    entry = await scene.advance(queue)
    assert entry is not None
    assert entry.status is UPDATING
    assert scene.github.asked == ["pull", "comparison", "update"]
