"""Load and store the entries of a queue and their runs, each change with its effects in one transaction (P2).

Where the rules of the base branch require that IMQ's own check passes, it passes right before the merge. The outbox is
the one writer of the check run. So a pass stores that the check is to pass, and ends; the dispatcher writes that, and
wakes the queue. The next pass reads GitHub again before it merges. If the process dies in between, the outbox still has
what GitHub shows. Then the next pass merges the head, or withdraws the check.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from queue_engine.config.model import Policy, TrainRules
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.departure import DequeueReason, FailingCheckFacts
from queue_engine.domain.errors import GitHubError, Refused
from queue_engine.domain.facts import CheckReport, FailingCheck, as_data
from queue_engine.domain.model import Entry, EntryStatus, Queue, UnmetRequirement
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import CommentPolicy, RerunLimit
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import OF_ENTRY, Run, RunMember, RunState
from queue_engine.effects import record
from queue_engine.effects.check_counts import record_passed
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import remove_testing_label, start_queue_only_checks
from queue_engine.effects.notices import (
    announce_blockers,
    announce_progress,
    announce_retrying,
    announce_run_ended,
    pass_own_check,
    withdraw_own_check,
)
from queue_engine.effects.record import explained
from queue_engine.effects.stale_runs import cancel_later
from queue_engine.executor.cleanup import CLEAN_JOB
from queue_engine.known.own_writes import record_merge_request
from queue_engine.planner.actions import Dequeue, Facts
from queue_engine.planner.github_outage import pauses_queue
from queue_engine.planner.trains.built import former_candidates, with_ended
from queue_engine.planner.trains.memory import Memory, SequentialMode, cancelled, from_json, to_json
from queue_engine.rules.check_progress import (
    check_data,
    check_limits_by,
    job_data,
    progress,
    rerun_jobs,
    rerun_seconds,
    with_reports,
)
from queue_engine.rules.checks import failing_checks, rerun_names
from queue_engine.rules.consent import named, updated_for
from queue_engine.rules.eligibility import Reject
from queue_engine.rules.transitions import check_transition, enter, preempted
from queue_engine.store import Transaction
from queue_engine.store.trains import TrainMemory

_log, _trains_log = structlog.get_logger("imq.entries"), structlog.get_logger("imq.trains")

_NOTICE_OF_STATUS = {EntryStatus.UPDATING: NoticeKind.UPDATING, EntryStatus.CHECKING: NoticeKind.CHECKING}

_MEASURED = 50
"""By how many passed tests of its branch the time limit of a check is set."""

_MOVES_READ = 500
"""The newest moves of the base that are searched for those since a pull request left it."""

Checks = tuple[CheckReport, ...]

_ASK_AGAIN = timedelta(seconds=10)
"""When the pass looks again whether the check run was written, in case that the wake-up was lost."""


@dataclass(frozen=True, slots=True)
class CheckResults:
    """What a pass found out about the checks of an entry."""

    running: Checks = ()
    """The reports under way."""
    ended: datetime | None = None
    """When the last check completed, if they passed."""
    failing: tuple[FailingCheck, ...] = ()
    """The failed checks that run again, with their jobs."""


_NO_RESULTS = CheckResults()


@dataclass(frozen=True, slots=True)
class EntryChange:
    """What goes with a change of an entry."""

    announce: bool = False
    """Whether the comment is updated even if the status is the same."""
    checks: CheckResults = _NO_RESULTS
    before_merge: bool = False
    """Whether a merge request for the head follows, which is recorded in the same transaction."""
    passes_on: bool = False
    """Whether IMQ's own check, if it passes, still does."""


AS_USUAL, PASSES_ON = EntryChange(), EntryChange(passes_on=True)


@dataclass(frozen=True, slots=True)
class EntryUpdates:
    """Stores changes of the front of one queue."""

    engine: Engine
    policy: Policy
    announces: bool = True
    """Whether comments and check runs show the changes; they do not while they name a blocker of the queue."""

    async def save(self, entry: Entry, changed: Entry, *, depth: int, how: EntryChange = AS_USUAL) -> Entry:
        """Store a changed entry; returns it. Raises StaleRecord, and InvariantError for a forbidden transition."""
        return await self.engine.write(lambda change: self.save_within(change, entry, changed, depth=depth, how=how))

    async def save_within(
        self, change: Change, entry: Entry, changed: Entry, *, depth: int, how: EntryChange = AS_USUAL
    ) -> Entry:
        """Do the same within a transaction."""
        moved = changed.status is not entry.status
        if moved:
            check_transition(entry.status, changed.status)
        if moved and changed.status is EntryStatus.CHECKING and not changed.run.has_branch:
            measured = await measured_before(change.tx, changed.repository.id, changed.base_branch)
            changed = replace(changed, run=replace(changed.run, **measured))
        saved = await change.tx.entries.save(changed)
        await change.tx.consents.follow(entry, saved, change.now)
        await start_queue_only_checks(change, entry, saved, self.policy)
        if how.before_merge:
            await record_merge_request(change.tx, saved, saved.head_sha, change.now)
        elif _may_withdraw(entry) and not how.passes_on:
            await withdraw_own_check(change, saved, self.policy)
        if changed.head_sha != entry.head_sha:
            await cancel_later(change, replace(entry, run=replace(entry.run, new_head=None)), self.policy)
        if self.announces and (moved or how.announce):
            # Once the check run names the pending checks, progress updates it, in rarer outbox items of its own.
            check_run = moved or not entry.run.pending_checks
            await self._announce(change, saved, depth=depth, checks=how.checks.running, check_run=check_run)
        if self.announces and moved and saved.status is EntryStatus.PENDING and entry.run.has_branch:
            await announce_run_ended(change, saved, self.policy, depth=depth)
        if (event := progress(entry, saved)) is not None:
            change.progress.append(event)
        listed = [each for each in self.policy.checks.flaky if each.counts(change.now)]
        for word, data in _events(entry, saved, change.now, how.checks, listed).items():
            await change.record(word, saved, delivery=saved.delivery, data=data)
            _log.info(word, repository=saved.repository.full_name, number=saved.number, **_logged(data))
        passed = moved and saved.status is EntryStatus.READY and not saved.run.has_branch
        if passed and not entry.run.merge_refusals:
            await record_passed(change, saved, saved.run, [saved.number])
        return saved

    async def _announce(self, change: Change, saved: Entry, *, depth: int, checks: Checks, check_run: bool) -> None:
        """Announce the entry's status, if people are to read of this status."""
        if (kind := _NOTICE_OF_STATUS.get(saved.status)) is not None:
            await announce_progress(change, saved, kind, self.policy, depth=depth, checks=checks, check_run=check_run)

    async def save_retrying(self, changed: Entry, next_try: datetime, error: GitHubError, *, depth: int) -> Entry:
        """Store that the entry waits for a retry, and announce that once GitHub has failed for a while.

        If GitHub refuses requests, the queue is paused for that, which all of its entries read instead.
        """
        async with self.engine.change() as change:
            saved = await change.tx.entries.save(changed)
            if _may_withdraw(saved) and saved.run.merge_requested_at is None:
                await withdraw_own_check(change, saved, self.policy)
            if pauses_queue(saved.run, error, change.now):
                await record.pause_refused(change, saved.queue_id, error)
                if not isinstance(error, Refused):
                    await announce_retrying(change, saved, next_try, self.policy, depth=depth)
        return saved

    async def block(self, entry: Entry, changed: Entry, reason: Reason, message: str) -> None:
        """Block the entry: it keeps its position in the order, its queue proceeds, and its comment names the reason."""
        async with self.engine.change() as change:
            saved = await change.tx.entries.save(changed)
            await remove_testing_label(change, entry, self.policy)
            blocker = Blocker(reason, message)
            await announce_blockers(change, saved, [blocker], self.policy, kind=NoticeKind.BLOCKED)
            # Without a head, since this event is no refusal of one.
            data = {"detail": message, **check_data(entry, change.now)}
            await change.record("blocked", saved, reason=reason, delivery=saved.delivery, data=data)
        _log.info("blocked", repository=saved.repository.full_name, number=saved.number, reason=reason.value)

    async def unready(self, entry: Entry, unmet: tuple[UnmetRequirement, ...]) -> None:
        """Store the entry outside its queue until it has what it lacks; its proved head keeps the consent (P4)."""
        await self.engine.write(lambda change: record.unready(change, entry, unmet, self.policy))
        _log.info("unready", repository=entry.repository.full_name, number=entry.number, reason=unmet[0].reason.value)

    async def dequeue(
        self,
        entry: Entry,
        reason: Reason,
        facts: Facts,
        *,
        detail: str | None,
        checks: Checks = (),
        failure: FailingCheckFacts | None = None,
    ) -> None:
        """Dequeue the entry, with what this pass has read, and with what else is known of failed checks."""
        if reason is Reason.HEAD_CHANGED and (other := await self._updated_for(entry, facts)) is not None:
            reason, detail = Reason.UPDATED_FOR_ANOTHER, named(other)
        with suppress(GitHubError):
            why_lost = await explained(self.engine, entry, Reject(reason, detail))
            reason, detail = why_lost.reason, why_lost.detail
        if failure is not None:
            failure = await self._with_landings(entry, failure)
        people = (entry.author, *(facts.pull.assignees if facts.pull else ()))
        entry = replace(entry, run=with_reports(entry.run, facts.reports or ()))
        left = await record.with_author(self.engine, entry, DequeueReason(reason, detail), facts.pull, self.policy)
        async with self.engine.change() as change:
            if reason is Reason.CONFLICT and detail is None:
                detail = await _landed_meanwhile(change.tx, entry)
            failing = failing_checks(checks, facts.reports)
            people = tuple(dict.fromkeys(people))
            why = replace(
                left,
                detail=detail,
                checks=checks,
                people=people,
                delivery=entry.delivery,
                failing=failing,
                failure=failure,
            )
            await record.dequeue(change, entry, why, self.policy)
        _log.info("dequeued", repository=entry.repository.full_name, number=entry.number, reason=reason.value)

    async def _with_landings(self, entry: Entry, failure: FailingCheckFacts) -> FailingCheckFacts:
        """Add what landed on the base since the queued head left it, if the change had passed alone.

        GitHub's comparison lists the commits, and IMQ's own timeline knows which of them are landings. If GitHub does
        not answer, that stays unknown.
        """
        head_branch = entry.head_branch or ""
        fork = bool(head_branch) and not head_branch.startswith(f"{entry.repository.full_name}:")
        failure = replace(failure, fork=fork)
        if not failure.is_together or failure.base_tip is None:
            return failure
        try:
            found = await self.engine.github.comparison(entry.repository, failure.head_sha, failure.base_tip)
        except GitHubError:
            return failure
        async with self.engine.store.reading() as tx:
            moves = await tx.timeline_reads.of_branch(
                entry.repository.id, entry.base_branch, ["landed", "landed_outside"], limit=_MOVES_READ
            )
        between = [each for each in reversed(moves) if each.data.get("sha") in found.ahead]
        landed = tuple(each.number for each in between if each.event == EntryStatus.LANDED)
        return replace(failure, landed=landed, outside=len(landed) < len(between))

    async def _updated_for(self, entry: Entry, facts: Facts) -> Entry | None:
        """Return the entry of the same branch for which IMQ made the new head; None if IMQ did not make it."""
        head = entry.run.new_head if facts.pull is None else facts.pull.head_sha
        if entry.head_branch is None or head is None:
            return None
        async with self.engine.store.reading() as tx:
            others = await tx.entries.sharing(entry.repository.id, entry.number, entry.head_branch)
        return updated_for(entry, head, others)


def rerun_data(
    before: Run,
    after: Run,
    head_sha: str,
    failing: Sequence[FailingCheck],
    listed: Iterable[RerunLimit],
    share: float = 1,
) -> dict[str, Any]:
    """Return a rerun's data, with its listed flaky checks and `share`, the part of its seconds for one entry."""
    names = rerun_names(after)
    data: dict[str, Any] = {"head": head_sha, "checks": list(names)}
    data["check_seconds"] = {name: each * share for name, each in rerun_seconds(before, after).items()}
    if jobs := rerun_jobs(before, after, share):
        data["check_jobs"] = jobs
    if failing:
        data["failing"] = as_data(failing)
    if until := {each.name: each.until.isoformat() for each in listed if each.name in names}:
        data["listed"] = until
    return data


def _events(
    before: Entry, after: Entry, now: datetime, checks: CheckResults, listed: Iterable[RerunLimit]
) -> dict[str, dict[str, Any]]:
    """Return the events that this change of an entry adds to its timeline, with their data."""
    events: dict[str, dict[str, Any]] = {}
    if (
        before.run.rerun_at is not None
        and after.run.rerun_at is None
        and before.run.rerun_checks == after.run.rerun_checks
    ):
        events["rerun"] = rerun_data(before.run, after.run, after.head_sha, checks.failing, listed)
    if after.status is before.status:
        return events
    data: dict[str, Any] = {"head": after.head_sha, "base_tip": after.run.base_tip}
    events[after.status.value] = data
    if before.run.candidate is not None and after.run.candidate is None:
        # The run starts over: its checks are void, but they took their time.
        data |= check_data(before, now)
    elif after.status is EntryStatus.READY:
        data |= check_data(after, now, passed=True)
    ended = checks.ended
    if after.status is EntryStatus.READY and ended is not None:
        # IMQ may find that later than the checks completed, for example after a pause.
        ended = min(max(ended, before.run.since), now)
        data["ended"] = ended.isoformat()
    if after.status is EntryStatus.READY and before.run.merge_refusals == 0:
        if after.run.rerun_checks:
            events["flaky"] = {"head": after.head_sha, "checks": list(rerun_names(after.run))}
        elif after.head_sha != after.queued_head and ended is not None:
            # Only the checks of IMQ's own update all began with the status: their durations are history.
            data["checks"] = (ended - before.run.since).total_seconds()
    return events


_UNLOGGED = frozenset({"check_seconds", "check_ended", "check_jobs", "failing", "jobs", "rerun_jobs"})


def _logged(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _UNLOGGED}


async def measured_before(tx: Transaction, repository_id: int, base_branch: str) -> dict[str, Any]:
    """Return, for a new run, the time limits of checks and the prices of jobs, by what ran on this branch before."""
    events = await tx.timeline_reads.of_branch(repository_id, base_branch, [EntryStatus.READY.value], limit=_MEASURED)
    prices = next((event.data["job_prices"] for event in events if "job_prices" in event.data), None)
    return {"check_limits": check_limits_by(event.data for event in events) or None, "job_prices": prices}


async def _landed_meanwhile(tx: Transaction, entry: Entry) -> str | None:
    """Name the pull requests that landed since this entry was queued, since the conflict may be with one of them."""
    landed = EntryStatus.LANDED.value
    numbers = await tx.timeline.pull_requests(entry.repository.id, entry.base_branch, landed, entry.enqueued_at)
    return (
        f"since it was queued, {', '.join(f'#{n}' for n in numbers)} landed on {entry.base_branch}" if numbers else None
    )


async def await_own_check(engine: Engine, entry: Entry, policy: Policy) -> datetime | Dequeue | None:
    """Return when to look again for IMQ's check on this head; None if it passes or need not. Raises StaleRecord."""
    if not entry.own_check_required:
        return None
    now = engine.clock.now()
    state = await engine.store.read(lambda tx: tx.outbox.check_run(entry.repository.id, entry.number))
    if state is not None and state.notice.merges_now and state.notice.head_sha == entry.head_sha:
        if state.shown:
            return None
        if state.error is not None:
            return Dequeue(Reason.PERMISSION_MISSING, f"IMQ's check run was not written: {state.error}")
        if now - state.notice.at >= policy.outage_timeout:
            return Dequeue(Reason.GITHUB_TROUBLE, "IMQ's check run was not written")
    else:
        async with engine.change() as change:
            # The save proves that no webhook changed the entry since it was judged.
            saved = await change.tx.entries.save(entry)
            await pass_own_check(change, saved, policy)
    return now + _ASK_AGAIN


def _may_withdraw(entry: Entry) -> bool:
    """Whether IMQ's check may pass on this entry, so that a change of the entry has to withdraw that."""
    return entry.own_check_required and entry.status is EntryStatus.READY


@dataclass(slots=True)
class TrainState:
    """What one pass knows of the trains of a leased queue. Every change is stored first, then kept here."""

    engine: Engine
    queue: Queue
    policy: Policy
    trains: TrainRules
    held: Callable[[], bool]
    memory: Memory = field(default_factory=Memory)
    runs: tuple[Run, ...] = ()
    entries: tuple[Entry, ...] = ()
    depth: int = 0
    blocked: bool = False
    """Whether nothing may land or begin, which comments and check runs say."""
    verified: dict[tuple[str, int], Facts] = field(default_factory=dict)
    """What this pass read of entries before it verified them, by their ids and versions."""
    begun: set[int] = field(default_factory=set)
    """The runs that this pass itself began to build, so that nothing of theirs is in doubt."""
    on_tip: set[int] = field(default_factory=set)
    """The runs whose build branch is known to end at their last commit."""
    judged: set[int] = field(default_factory=set)
    """The runs whose checks this pass saw pass."""
    landing: set[int] = field(default_factory=set)
    """The runs whose members this pass verified right before their landing."""
    _stored: TrainMemory | None = None
    generation: int = field(init=False)
    """That of the policy: configuration and rules may change while the pass runs."""

    def __post_init__(self) -> None:
        self.generation = self.queue.generation

    @property
    def now(self) -> datetime:
        """The present instant."""
        return self.engine.clock.now()

    @property
    def seconds(self) -> float:
        """The present instant as plans count."""
        return self.now.timestamp()

    @property
    def updates(self) -> EntryUpdates:
        """What stores changes of entries: comments show outcomes only, and queue-only checks run on candidates."""
        comments = self.policy.comments
        if comments.level is CommentPolicy.ALL:
            comments = replace(comments, level=CommentPolicy.OUTCOMES)
        checks = replace(self.policy.checks, queue_only=frozenset())
        return EntryUpdates(self.engine, replace(self.policy, comments=comments, checks=checks), not self.blocked)

    async def load(self) -> None:
        """Read everything again; runs of several members, and what plans remember, where the queue may have any."""
        async with self.engine.store.reading() as tx:
            self.queue = await tx.queues.get(self.queue.id) or self.queue
            self.entries = await tx.entries.of_queue(self.queue.id)
            if self.policy.trains.enabled or self.queue.in_trains:
                self.runs = await tx.runs.of_queue(self.queue.id)
                self._stored = await tx.trains.get(self.queue.id)
                self.memory = from_json(self._stored.memory)

    @asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """Open a transaction that changes runs; at its end, the entries of their members follow (P2).

        The timeline has each change of a member's status. A run is changed before its members, in every transaction, so
        that no two wait for each other.
        """
        before = {each.id: each for each in self.entries}
        async with self.engine.change() as change:
            yield change
            runs = await change.tx.runs.of_queue(self.queue.id)
            found = await change.tx.entries.of_queue(self.queue.id)
            self.runs = runs
            self.entries = tuple([await self._follow(change, before.get(each.id, each), each, runs) for each in found])

    async def _follow(self, change: Change, before: Entry, entry: Entry, runs: tuple[Run, ...]) -> Entry:
        """Store that an entry, announced as `before`, is a member of the most advanced run, and what changed."""
        while (step := member_of(entry, runs, change.now)) is not None:
            shown = replace(entry, run=before.run)
            moved = (step.status, step.run.id) != (shown.status, shown.run.id)
            published = step.run.candidate is not None and step.run.candidate != shown.run.candidate
            announce = published or step.run.pending_checks != shown.run.pending_checks
            if not moved and not announce:
                break
            ended = max((each.ended for each in step.run.timings if each.ended is not None), default=None)
            how = EntryChange(announce, CheckResults(ended=ended))
            depth = self.depth or len(self.entries)
            before = entry = await self.updates.save_within(change, shown, step, depth=depth, how=how)
        return entry

    async def follow(self) -> bool:
        """Have entries follow their runs where these changed without them, as in a restored backup; whether any did."""
        steps = [(each, member_of(each, self.runs, self.now)) for each in self.entries]
        late = any(step and (step.status, step.run.id) != (each.status, each.run.id) for each, step in steps)
        if late:
            async with self.change():
                pass
        return late

    async def keep(self, change: Change, memory: Memory) -> None:
        """Store the memory within a transaction, if it changed."""
        assert self._stored is not None
        written = to_json(memory)
        if written != self._stored.memory:
            self._stored = await change.tx.trains.save(replace(self._stored, memory=written))
            if not self.queue.in_trains:
                await change.tx.queues.note_trains(self.queue.id, True)
                self.queue = replace(self.queue, in_trains=True)
        self.memory = memory

    async def remember(self, memory: Memory) -> None:
        """Store the memory in a transaction of its own."""
        await self.engine.write(lambda change: self.keep(change, memory))

    async def save_run(self, run: Run, memory: Memory | None = None) -> Run:
        """Store a changed run, and with it the memory."""
        async with self.change() as change:
            saved = await change.tx.runs.save(run)
            if memory is not None:
                await self.keep(change, memory)
        return saved

    def tests_alone(self, entry: Entry) -> bool:
        """Whether this entry, of a fork, is tested alone, and not on a branch of IMQ's."""
        return not entry.run.has_branch and self.memory.tests_alone(entry)

    def entry_of(self, member: RunMember) -> Entry | None:
        """Return the entry of a member, if it is queued with the head that the run merges."""
        return next(
            (each for each in self.entries if (each.id, each.head_sha) == (member.entry_id, member.head_sha)), None
        )

    def entries_of(self, run: Run) -> list[Entry]:
        """Return the entries of a run's members that are queued so."""
        return [entry for each in run.members if (entry := self.entry_of(each)) is not None]

    def find(self, run_id: int) -> Run:
        return next(each for each in self.runs if each.id == run_id)

    async def end(self, run: Run, memory: Memory, *, why: str, kept: bool = True) -> None:
        """End a run: store that with the memory and the job that cleans up; `kept`: its branches may exist."""
        async with self.change() as change:
            await self.end_within(change, run, memory, why=why, kept=kept)

    async def end_within(self, change: Change, run: Run, memory: Memory, *, why: str, kept: bool = True) -> None:
        """End a run within a transaction, and remember what it built."""
        ended = await change.tx.runs.save(replace(run, state=RunState.ENDED))
        built = with_ended(memory.built, run, memory.base_tip)
        candidates = former_candidates(built, (*memory.candidates, run.candidate))
        learnt = {each: names for each, names in memory.pull_request_checks_in_runs.items() if each != str(run.id)}
        memory = replace(memory, built=built, candidates=candidates, pull_request_checks_in_runs=learnt)
        request = {"run": ended.id, "queue_id": ended.queue_id, "branches": kept, "cancels": why != "landed"}
        await change.enqueue(CLEAN_JOB, request, ended.id)
        await self.keep(change, memory)
        data = {"run": ended.id, "members": list(ended.numbers), "tested": sorted(ended.tested), "outcome": why}
        figures = job_data(run, change.now)
        await change.record("run_ended", self.queue, data=data | figures)
        _trains_log.info(
            "run_ended", repository=self.queue.repository.full_name, base_branch=self.queue.base_branch, **data
        )

    async def cancel(self, run: Run, *, why: str, yields: bool = False) -> None:
        """End a run without an outcome; `yields`: a run of agents, for people."""
        await self.end(run, cancelled(self.memory, run.id, yields=yields), why=why)

    async def switch_off(self, reason: Reason, detail: str, *, suspect: int | None = None, once: bool = False) -> None:
        """Test one entry after the other from now on, until configuration, rules or workflows change.

        `suspect`: until this one left, unless it lands; `once`: in any case.
        """
        memory = self.memory
        for run in self.runs:
            memory = cancelled(memory, run.id)
        off = SequentialMode(reason.value, detail, self.now, self.queue.generation, suspect, once)
        async with self.change() as change:
            for run in self.runs:
                await self.end_within(change, run, memory, why="trains_off")
            await self.keep(change, replace(memory, off=off, built=(), candidates=(), pull_request_checks_in_runs={}))
            await change.record("trains_off", self.queue, reason=reason, data={"detail": detail})
        repository, base = self.queue.repository.full_name, self.queue.base_branch
        _trains_log.warning("trains_off", repository=repository, base_branch=base, reason=reason.value, detail=detail)


def member_of(entry: Entry, runs: tuple[Run, ...], now: datetime) -> Entry | None:
    """Return the entry as its most advanced run wants it, or one step nearer to that; None if no run concerns it."""
    found = [
        run
        for run in runs
        for member in run.members
        if (member.entry_id, member.head_sha) == (entry.id, entry.head_sha) and member.landed_sha is None
    ]
    if not found:
        return preempted(entry, now) if entry.run.has_branch else None
    run = min(found, key=lambda each: each.precedence(entry.number)).of_member(entry.id, entry.head_sha)
    if run.has_passed and entry.status is EntryStatus.PENDING:
        run = replace(run, state=RunState.TESTING)
    if run.state is not None and EntryStatus.of(run) is not entry.status:
        entry = enter(entry, run.state, now)
    return replace(entry, run=replace(run, **{name: getattr(entry.run, name) for name in OF_ENTRY}))
