"""Load and store the runs of one queue, its entries, and the memory of its plans."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from queue_engine.config.model import Policy, TrainRules
from queue_engine.domain.candidate_run import CandidateMember, CandidateRun, CandidateState
from queue_engine.domain.model import PROCESSING, Entry, EntryStatus, Queue
from queue_engine.domain.policy import CommentPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.cleanup import CLEAN_JOB
from queue_engine.executor.entry_store import CheckResults, EntryChange, EntryUpdates
from queue_engine.planner.actions import Facts
from queue_engine.planner.trains.built import former_candidates, with_ended
from queue_engine.planner.trains.memory import Memory, SequentialMode, cancelled, from_json, to_json
from queue_engine.rules.transitions import enter, preempted
from queue_engine.store.trains import TrainMemory

_log = structlog.get_logger("imq.trains")

_PREFERRED = (CandidateState.LANDING, CandidateState.PASSED, CandidateState.TESTING, CandidateState.BUILDING)

_PASSED = frozenset({CandidateState.LANDING, CandidateState.PASSED})


@dataclass(slots=True)
class TrainState:
    """What one pass knows of the trains of a leased queue. Every change is stored first, then kept here."""

    engine: Engine
    queue: Queue
    policy: Policy
    trains: TrainRules
    held: Callable[[], bool]
    memory: Memory = field(default_factory=Memory)
    runs: tuple[CandidateRun, ...] = ()
    entries: tuple[Entry, ...] = ()
    depth: int = 0
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
        return EntryUpdates(self.engine, replace(self.policy, comments=comments, checks=checks))

    async def load(self) -> None:
        """Read everything again; runs of several members, and what plans remember, where the queue may have any."""
        async with self.engine.store.reading() as tx:
            self.queue = await tx.queues.get(self.queue.id) or self.queue
            self.entries = await tx.entries.of_queue(self.queue.id)
            if self.policy.trains.enabled or self.queue.in_trains:
                self.runs = await tx.candidate_runs.of_queue(self.queue.id)
                self._stored = await tx.trains.get(self.queue.id)
                self.memory = from_json(self._stored.memory)

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
        async with self.engine.change() as change:
            await self.keep(change, memory)

    async def save_run(self, run: CandidateRun, memory: Memory | None = None) -> CandidateRun:
        """Store a changed run, and with it the memory."""
        async with self.engine.change() as change:
            saved = await self.save_run_within(change, run, memory)
        self.runs = tuple(saved if each.id == saved.id else each for each in self.runs)
        return saved

    async def save_run_within(self, change: Change, run: CandidateRun, memory: Memory | None = None) -> CandidateRun:
        """Store a changed run within a transaction, and with it the memory; the state is to be loaded after it."""
        saved = await change.tx.candidate_runs.save(run)
        if memory is not None:
            await self.keep(change, memory)
        return saved

    def tests_alone(self, entry: Entry) -> bool:
        """Whether this entry, of a fork, is tested alone, and not on a branch of IMQ's."""
        return entry.run.candidate_run is None and self.memory.tests_alone(entry)

    def entry_of(self, member: CandidateMember) -> Entry | None:
        """Return the entry of a member, if it is queued with the head that the run merges."""
        return next((each for each in self.entries if (each.id, each.head) == (member.entry_id, member.head)), None)

    def entries_of(self, run: CandidateRun) -> list[Entry]:
        """Return the entries of a run's members that are queued so."""
        return [entry for each in run.members if (entry := self.entry_of(each)) is not None]

    def find(self, run_id: int) -> CandidateRun:
        """Return a run by its id."""
        return next(each for each in self.runs if each.id == run_id)

    async def end(self, run: CandidateRun, memory: Memory, *, why: str, kept: bool = True) -> None:
        """End a run: store that with the memory and the job that cleans up; `kept`: its branches may exist."""
        async with self.engine.change() as change:
            await self.end_within(change, run, memory, why=why, kept=kept)
        self.runs = tuple(each for each in self.runs if each.id != run.id)

    async def end_within(
        self, change: Change, run: CandidateRun, memory: Memory, *, why: str, kept: bool = True
    ) -> None:
        """End a run within a transaction, and remember what it built."""
        ended = await change.tx.candidate_runs.save(replace(run, state=CandidateState.ENDED))
        built = with_ended(memory.built, run, memory.base_tip)
        candidates = former_candidates(built, (*memory.candidates, run.candidate))
        learnt = {each: names for each, names in memory.pull_request_checks_in_runs.items() if each != str(run.id)}
        memory = replace(memory, built=built, candidates=candidates, pull_request_checks_in_runs=learnt)
        await change.tx.jobs.enqueue(
            kind=CLEAN_JOB,
            request={
                "run": ended.id,
                "queue_id": ended.queue_id,
                "branches": kept,
                "made": ended.id in self.on_tip,
                "cancels": why != "landed",
            },
            process_id=f"{CLEAN_JOB}:{ended.id}",
            now=change.now,
        )
        await self.keep(change, memory)
        data = {"run": ended.id, "members": list(ended.numbers), "tested": sorted(ended.tested), "outcome": why}
        await change.record("run_ended", self.queue, data=data)
        _log.info("run_ended", repository=self.queue.repository.full_name, base_branch=self.queue.base_branch, **data)

    async def cancel(self, run: CandidateRun, *, why: str) -> None:
        """End a run without an outcome."""
        await self.end(run, cancelled(self.memory, run.id), why=why)

    async def switch_off(self, reason: Reason, detail: str, *, suspect: int | None = None, once: bool = False) -> None:
        """Test one entry after the other from now on, until configuration, rules or workflows change.

        `suspect`: until this one left, unless it lands; `once`: in any case.
        """
        memory = self.memory
        for run in self.runs:
            memory = cancelled(memory, run.id)
        off = SequentialMode(reason.value, detail, self.now, self.queue.generation, suspect, once)
        async with self.engine.change() as change:
            for run in self.runs:
                await self.end_within(change, run, memory, why="trains_off")
            await self.keep(change, replace(memory, off=off, built=(), candidates=(), pull_request_checks_in_runs={}))
            await change.record("trains_off", self.queue, reason=reason, data={"detail": detail})
        self.runs = ()
        repository, base = self.queue.repository.full_name, self.queue.base_branch
        _log.warning("trains_off", repository=repository, base_branch=base, reason=reason.value, detail=detail)


async def follow_runs(state: TrainState, *, sequential: bool = False) -> bool:
    """Store one change of each entry that its runs do not agree with; whether any changed.

    With `sequential`, IMQ tests one entry after the other: an entry that was in no run keeps its status.
    """
    changed = False
    for entry in state.entries:
        if sequential and entry.run.candidate_run is None:
            continue
        step = following(entry, state.runs, state.now)
        if step != entry:
            ended = max((each.ended for each in step.run.timings if each.ended is not None), default=None)
            published = step.run.candidate is not None and step.run.candidate != entry.run.candidate
            announce = published or step.run.pending_checks != entry.run.pending_checks
            how = EntryChange(announce, CheckResults(ended=ended))
            await state.updates.save(entry, step, depth=state.depth, how=how)
            changed = True
    return changed


def following(entry: Entry, runs: tuple[CandidateRun, ...], now: datetime) -> Entry:
    """Return the entry as its most advanced run wants it, or one step nearer to that; the same if nothing changes."""
    found = _of(entry, runs)
    if found is None:
        is_member = entry.run.candidate_run is not None or entry.status in PROCESSING
        return preempted(entry, now) if is_member else entry
    run, member = found
    wanted = EntryStatus.READY if run.state in _PASSED else EntryStatus.CHECKING
    if entry.status is EntryStatus.PENDING:
        wanted = EntryStatus.CHECKING
    moved = entry if entry.status is wanted else enter(entry, wanted, now)
    base = run.base_tip
    for each in run.members:
        if each.number == member.number:
            break
        base = each.landed_sha or each.commit or base
    return replace(
        moved,
        run=replace(
            moved.run,
            started_at=moved.run.started_at or run.started_at,
            candidate_run=run.id,
            candidate=run.candidate,
            base_tip=base,
            tested_tree=member.tree,
            pending_checks=run.test.pending_checks if wanted is EntryStatus.CHECKING else (),
            completed_checks=run.test.completed_checks if wanted is EntryStatus.CHECKING else (),
            timings=run.test.timings,
            reruns=run.test.reruns,
            rerun_checks=run.test.rerun_checks,
        ),
    )


def _of(entry: Entry, runs: tuple[CandidateRun, ...]) -> tuple[CandidateRun, CandidateMember] | None:
    """Return the most advanced run with this entry as a member."""
    found = [
        (run, member)
        for run in runs
        for member in run.members
        if (member.entry_id, member.head) == (entry.id, entry.head) and member.landed_sha is None
    ]
    if not found:
        return None
    return min(
        found, key=lambda each: (_PREFERRED.index(each[0].state), entry.number not in each[0].tested, each[0].id)
    )
