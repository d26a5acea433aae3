"""A stored queue and a GitHub double that lets things happen while it answers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from queue_engine.domain.facts import (
    Branch,
    BranchRules,
    CheckReport,
    Comparison,
    HeadPush,
    HistoryEvent,
    LabelEvent,
    Permission,
    PullRequest,
    Review,
    Snapshot,
    WorkflowRun,
)
from queue_engine.domain.model import Entry, Queue
from queue_engine.domain.port import GitHub as Port
from queue_engine.effects.context import Engine
from queue_engine.executor.scheduler import advance
from queue_engine.store import Store
from tests.store.examples import changed
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.examples import (
    HOUR,
    NOW,
    POLICY,
    REPOSITORY,
    comparison,
    pull,
    report,
    rules,
    workflow_run,
)

Meanwhile = Callable[[], Awaitable[None]]
Answer = TypeVar("Answer")


class Clock:
    def now(self) -> datetime:
        return NOW

    async def sleep(self, duration: timedelta) -> None:
        # A pass does not sleep: only the renewal of its lease does, which ends with it.
        await asyncio.Event().wait()


class GitHub:
    """Answers with its attributes; calls `meanwhile[name]` while the first request of that name is under way."""

    def __init__(self) -> None:
        self.pull = pull()
        self.listed: PullRequest | None = None
        """What a list shows of the pull request, if that is older than the pull request itself."""
        self.compared = comparison()
        self.approvals = 0
        """How many approvals the base branch demands."""
        self.reports: tuple[CheckReport, ...] = (report("ci"),)
        self.base_reports: tuple[CheckReport, ...] = ()
        self.labeled: dict[str, tuple[int, ...]] = {}
        """The open pull requests by label, and who set it on each last."""
        self.label_events: dict[int, LabelEvent] = {}
        self.events: tuple[HistoryEvent, ...] = ()
        self.gone: tuple[str, ...] = ()
        self.pushes: tuple[HeadPush, ...] | None = None
        """The history of the head branch; None: the present head was pushed an hour ago."""
        self.meanwhile: dict[str, Meanwhile] = {}
        self.asked: list[str] = []
        self.tip: Branch | None = Branch("base-1", False)
        """The tip of the base branch, where it is asked for by itself."""
        self.reruns: list[int] = []
        """The workflow runs that were asked to run again."""
        self.cached: BranchRules | None = None
        """The rules that were read before."""
        self.prepared = 0
        """How often writes were prepared."""

    async def prepare_writes(self, _repository: object) -> None:
        self.prepared += 1

    async def pull_request(self, *_: object) -> PullRequest:
        return await self._answer("pull", self.pull)

    async def latest_pull_requests(self, *_: object) -> tuple[PullRequest, ...]:
        return await self._answer("latest", (self.listed or self.pull,))

    async def reviews(self, *_: object) -> tuple[Review, ...]:
        return await self._answer("reviews", ())

    async def snapshot(
        self, _repository: object, _number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        permission = None if login is None else _permission(login)
        compared = replace(self.compared, head=replace(self.compared.head, sha=head_sha or self.pull.head_sha))
        shown = None if compared.behind else compared
        taken = Snapshot(self.pull, permission, shown, base_tip=compared.base_tip, behind=compared.behind)
        return await self._answer("snapshot", taken)

    async def comparison(self, _repository: object, _base: str, head: str) -> Comparison:
        compared = replace(self.compared, head=replace(self.compared.head, sha=head))
        return await self._answer("comparison", compared)

    async def check_reports(self, _repository: object, sha: str, *_: object) -> tuple[CheckReport, ...]:
        if sha.startswith("base"):
            return await self._answer("base_reports", self.base_reports)
        return await self._answer("checks", self.reports)

    async def workflow_runs(self, _repository: object, sha: str) -> tuple[WorkflowRun, ...]:
        suites = dict.fromkeys(r.suite for r in (*self.reports, *self.base_reports) if r.suite is not None)
        done = {"status": "completed", "conclusion": "failure"}
        return await self._answer("workflow_runs", tuple(workflow_run(suite, sha, **done) for suite in suites))

    async def labeled_pull_requests(self, _repository: object, label: str) -> tuple[int, ...]:
        return await self._answer("labeled", self.labeled.get(label, ()))

    async def last_labeled_event(self, _repository: object, number: int, _label: str) -> LabelEvent | None:
        return await self._answer("label_event", self.label_events.get(number))

    async def history(self, *_: object) -> tuple[HistoryEvent, ...]:
        return self.events

    async def has_label(self, _repository: object, label: str) -> bool:
        return label not in self.gone

    async def head_pushes(self, _repository: object, pull: PullRequest) -> tuple[HeadPush, ...]:
        pushed = (HeadPush("before", pull.head_sha, NOW - HOUR, pull.author),)
        return await self._answer("head_pushes", pushed if self.pushes is None else self.pushes)

    async def own_login(self) -> str:
        return "imq[bot]"

    async def permission(self, _repository: object, login: str) -> Permission:
        return await self._answer("permission", _permission(login))

    async def is_guarded(self, *_: object) -> bool:
        return False

    async def branch_rules(self, *_: object, kept: bool = False) -> BranchRules:
        return await self._answer("rules", rules("ci", approvals=self.approvals))

    def cached_rules(self, *_: object) -> BranchRules | None:
        return self.cached

    async def branch_tip(self, *_: object) -> Branch | None:
        return await self._answer("branch_tip", self.tip)

    async def update_branch(self, *_: object) -> None:
        await self._answer("update", None)

    async def rerun(self, _repository: object, actions_run: int) -> None:
        self.reruns.append(actions_run)
        await self._answer("rerun", None)

    async def merge(self, *_: object, **__: object) -> str:
        raise AssertionError("nothing here may be merged")

    async def _answer(self, name: str, answer: Answer) -> Answer:
        self.asked.append(name)
        if name in self.meanwhile:
            await self.meanwhile.pop(name)()
        return answer


def _permission(login: str) -> Permission:
    return {"tria": Permission.TRIAGE, "eve": Permission.READ}.get(login, Permission.WRITE)


class Setup:
    """One stored queue whose front is pull request 1."""

    def __init__(self, store: Store) -> None:
        self.github = GitHub()
        self.store = store
        self.engine = Engine(
            store, cast(Port, self.github), Clock(), StaticPolicies(POLICY), random=lambda: 0.5, owner="w"
        )

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
            await tx.entries.save(changed(added, **changes))
        return queue

    async def change_entry(self, **changes: Any) -> None:
        async with self.store.transaction() as tx:
            entry = await tx.entries.find(REPOSITORY.id, 1)
            assert entry is not None
            await tx.entries.save(changed(entry, **changes))

    async def advance(self, queue: Queue) -> Entry | None:
        """One pass; the entry afterwards, None if it left."""
        await advance(self.engine, queue, lambda: True)
        async with self.store.reading() as tx:
            return await tx.entries.find(REPOSITORY.id, 1)
