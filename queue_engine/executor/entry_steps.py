"""Take the steps of one entry: decide, store, act on GitHub; the front of a queue, or a member of a train that lands.

Every state change is a compare-and-set; a step that loses one is decided again. The intent is stored before each
request that changes GitHub, and GitHub is read after a kill (P2). Facts are kept for one pass, or until a webhook
changes the entry.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.observability import trace
from queue_engine.domain.errors import (
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimitError,
    ReadLagError,
    Refused,
    RequestOrderError,
    StaleRead,
    StaleRecord,
    attempt_level,
)
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Entry, EntryStatus, Queue, Stall, UnmetRequirement
from queue_engine.domain.port import PendingMerge
from queue_engine.domain.reasons import REASONS, Outcome, Reason
from queue_engine.effects.context import Engine
from queue_engine.effects.record import set_aside
from queue_engine.executor import requests
from queue_engine.executor.front import StallFacts, hold_for_base, record_refused_merge, record_stall
from queue_engine.executor.landing import land_merged
from queue_engine.executor.proof_marks import mark_tested
from queue_engine.executor.reads import read_entry_fact
from queue_engine.executor.run_store import (
    AS_USUAL,
    PASSES_ON,
    CheckResults,
    Checks,
    EntryChange,
    EntryUpdates,
    TrainState,
    await_own_check,
)
from queue_engine.known.own_writes import answered_merge, merged_by_imq
from queue_engine.planner import actions
from queue_engine.planner.actions import OF_PULL, Action, FactKind, Facts, ReadFact, Step, Wait
from queue_engine.planner.check_outcome import FAILED_CHECKS, failure_of, rerun_answered
from queue_engine.planner.decide import decide, with_pending_merge
from queue_engine.planner.github_outage import (
    UNREADABLE,
    Retry,
    on_github_error,
    out_of_order,
    retry_at,
    settled,
    shows_retrying,
)
from queue_engine.planner.merge_errors import misses_own_check
from queue_engine.rules.checks import failing_checks
from queue_engine.rules.readiness import may_be_renewed
from queue_engine.rules.transitions import with_refusal

_log = structlog.get_logger("imq.queue_pass")


@contextmanager
def entry_trace(entry: Entry) -> Iterator[None]:
    """Continue the entry's trace, and add its delivery to every log line within."""
    delivery = {} if entry.delivery is None else {"delivery": entry.delivery}
    with trace.continued(entry.trace, "pass"), structlog.contextvars.bound_contextvars(**delivery):
        try:
            yield
        except Exception as error:
            # The caller logs the error outside of the trace.
            error.add_note(f"#{entry.number}, delivery {entry.delivery}, trace {trace.ids()['trace_id']}")
            raise


class PassError(Exception):
    """A pass met an unexpected error, which is its cause, with this entry."""

    def __init__(self, entry: Entry | None) -> None:
        super().__init__("a pass met an unexpected error")
        self.entry = entry


@contextmanager
def counted_on(entry: Entry) -> Iterator[None]:
    """Count an unexpected error within on this entry, so that its queue continues without it (P5)."""
    try:
        yield
    except (StaleRecord, GitHubError, RequestOrderError):
        raise
    except Exception as error:
        raise PassError(entry) from error


class EntrySteps:
    """Takes the steps of entries of a leased queue, one entry at a time."""

    depth = 0
    """How many entries of the queue have room."""
    stall: Stall | None = None
    """The queue's blocker for checks that do not start, if it has one."""
    stopped: actions.HoldLanding | None = None
    """Why the train of the member lands no further, if it does not."""

    def __init__(
        self,
        engine: Engine,
        queue: Queue,
        held: Callable[[], bool],
        policy: Policy,
        *,
        updates: EntryUpdates | None = None,
        in_trains: bool = False,
    ):
        """`held` returns whether this worker still has the lease; `in_trains`: others go on while an entry waits."""
        self._engine, self._queue, self._held = engine, queue, held
        self._facts = Facts()
        self._facts_for: tuple[str, int] | None = None  # The entry, by id and version, that `_facts` were read for.
        if queue.pause(Reason.GITHUB_REFUSES) is not None:
            # An owner ends what GitHub refuses as a whole: it may last as long as any hold.
            policy = replace(policy, outage_timeout=policy.timeouts.hold)
        self._policy = policy
        self._updates = updates or EntryUpdates(engine, policy)
        self._in_trains = in_trains

    def forget(self) -> None:
        """Have the next step read everything again."""
        self._facts = Facts()

    def know(self, entry: Entry, facts: Facts) -> None:
        """Have the next step of this entry, as it is now, decide by these facts, which were read a moment ago."""
        self._facts, self._facts_for = facts, (entry.id, entry.version)

    async def step(self, entry: Entry) -> datetime | None:
        """Read facts and carry out the next action; returns when the queue is due again if the action was to wait.

        The entry may change during a read. So after a read only a wait is carried out; the next step decides the rest.
        Raises StaleRecord if the entry changed since it was read.
        """
        if (entry.id, entry.version) != self._facts_for:
            # A webhook changed the entry, or it is another one: facts read before may be outdated.
            self.know(entry, Facts())
        self._facts = replace(self._facts, ci_active_at=self.stall.ci_active_at if self.stall else None)
        for reads in range(len(FactKind) + 1):
            action = await self._decide(entry)
            if not isinstance(action, ReadFact):
                return await self._act(entry, action) if not reads or isinstance(action, Wait) else None
            before = self._facts
            due = await self._read_fact(entry, action.fact)
            if due is not None or self._facts is before or not self._held():
                return due
        return None

    async def _decide(self, entry: Entry) -> Action:
        if entry.run.merge_requested_at is not None:
            landed = await self._engine.store.read(lambda tx: answered_merge(tx, entry, self._engine.clock.now()))
            self._facts = replace(self._facts, landed_sha=landed)
        return decide(entry, self._facts, self._policy, self._engine.clock.now())

    async def _act(self, entry: Entry, action: Step) -> datetime | None:
        match action:
            case actions.Save(changed, ended):
                goes_on = changed.status is EntryStatus.READY  # It merges in this pass, or changes again.
                await self.save(entry, changed, EntryChange(checks=CheckResults(ended=ended), passes_on=goes_on))
                return None
            case Wait(run, until, pending, not_starting, never, failing):
                waiting = run if failing else run.without_failures()
                if waiting != entry.run:
                    recovered = not failing and shows_retrying(entry.run, self._engine.clock.now())
                    announce = recovered or waiting.pending_checks != entry.run.pending_checks
                    passes_on = waiting.merge_requested_at is not None or misses_own_check(self._facts.merge_refused)
                    how = EntryChange(announce, CheckResults(pending), passes_on=passes_on)
                    await self.save(entry, replace(entry, run=waiting), how)
                found = StallFacts(not_starting, never)
                return await record_stall(self._engine, self._queue, self.stall, run, found) or until
            case actions.Update(changed):
                return await self._update(entry, changed)
            case actions.Merge(changed):
                if (early := await await_own_check(self._engine, entry, self._policy)) is not None:
                    return await self._act(entry, early) if isinstance(early, actions.Dequeue) else early
                return await self._merge(await self.save(entry, changed, EntryChange(before_merge=True)), action)
            case actions.Landing(sha):
                return await self._land(entry, sha)
            case actions.Dequeue(reason, detail, checks):
                return await self._dequeue(entry, reason, detail, checks)
            case actions.Block(changed, reason, message):
                await self._updates.block(entry, changed, reason, message)
                return None
            case actions.Unmet(changed, unmet):
                await self._updates.unready(changed, unmet)
                return None
            case actions.Rerun(run, failed):
                return await self._rerun(await self.save(entry, replace(entry, run=run)), failed)
            case actions.RefusedJobs(detail, again):
                return await self._start_again(entry, detail, again)
            case actions.HoldLanding():
                self.stopped = action
                return self._engine.clock.now()
            case actions.HoldBase(run, check, tip, failing):
                await self.save(entry, replace(entry, run=run))
                return await hold_for_base(self._engine, self._queue, self._policy, check, tip, failing)

    async def save(self, entry: Entry, changed: Entry, how: EntryChange = AS_USUAL) -> Entry:
        """Store a changed entry; returns the stored one. Raises StaleRecord."""
        saved = await self._updates.save(entry, changed, depth=self.depth, how=how)
        self._facts_for = (saved.id, saved.version)
        return saved

    async def _read_fact(self, entry: Entry, fact: FactKind) -> datetime | None:
        try:
            facts = await read_entry_fact(self._engine, entry, fact, self._facts, self._policy)
            if facts is None:
                return None
            if facts.merge_refused is not None and self._facts.merge_refused is None:
                await record_refused_merge(self._engine, entry)
            self._facts = facts
        except GitHubError as error:
            return await self.on_error(entry, error, reading_pull=fact in OF_PULL)
        return None

    async def _update(self, entry: Entry, changed: Entry) -> datetime | None:
        saved = await self.save(entry, changed)
        self._facts = Facts()
        try:
            self._facts = await requests.update(self._engine.github, saved, self._engine.clock.now())
        except RateLimitError as limited:  # Nothing was sent.
            due = retry_at(limited, self._engine.clock.now())
            await self.save(saved, _not_requested(saved, due))
            return due
        except GitHubError as error:
            return await self.on_error(saved, error, requested=True)
        if saved.run.github_failing_since is not None and self._facts.update_refused is None:
            # GitHub has accepted it: how long it takes to update the branch counts from now on.
            answered = replace(saved, status_since=self._engine.clock.now(), run=saved.run.without_failures())
            await self.save(saved, answered, EntryChange(announce=True))
        return None

    async def _merge(self, entry: Entry, how: actions.Merge) -> datetime | None:
        refused, self._facts = self._facts.refused_methods, Facts()
        if not self._in_trains:
            tree, proof = entry.run.tested_tree, entry.run.proof
            await mark_tested(self._engine, self._queue, entry.head_sha, tree, proof, self._policy)
        try:
            answer = await requests.merge(self._engine.github, entry, how, refused, self._engine.clock.now())
        except RateLimitError as limited:  # GitHub did not merge, so there is no lost answer to find.
            await record_refused_merge(self._engine, entry)
            await self.save(entry, replace(entry, run=replace(entry.run, merge_requested_at=None)))
            return retry_at(limited, self._engine.clock.now())
        except GitHubError as error:
            return await self.on_error(entry, error)
        if isinstance(answer, str):
            return await self._land(entry, answer, squashed=how.method is MergeMethod.SQUASH)
        if isinstance(answer, PendingMerge):
            await self.save(entry, with_pending_merge(entry, answer, self._engine.clock.now()), PASSES_ON)
            return None
        await record_refused_merge(self._engine, entry)
        self._facts = answer
        if answer.merge_denied is None:
            kept = EntryChange(passes_on=misses_own_check(self._facts.merge_refused))
            await self.save(entry, with_refusal(entry, self._engine.clock.now()), kept)
        return None

    async def _rerun(self, entry: Entry, failed: Checks) -> datetime | None:
        now = self._engine.clock.now()
        results, self._facts = CheckResults(failing=failing_checks(failed, self._facts.reports)), Facts()
        try:
            message = await requests.rerun(self._engine.github, entry.repository, entry.run, failed, now)
        except GitHubError as error:
            return await self.on_error(entry, error)
        if message is not None:
            _log.info("rerun_refused", number=entry.number, message=message)
        answered = rerun_answered(entry.run, failed, message, self._policy, self._engine.clock.now())
        await self.save(entry, replace(entry, run=answered), EntryChange(message is None, results))
        return None

    async def _start_again(self, entry: Entry, detail: str, again: Checks) -> datetime | None:
        """Wait for the owner of an unpaid plan, and have jobs that did not start run again."""
        try:
            await requests.start_again(
                self._engine.github, entry.repository, entry.run, detail, again, self._engine.clock.now()
            )
        except GitHubError as error:
            return await self.on_error(entry, error)

    async def _land(self, entry: Entry, sha: str | None, *, squashed: bool = False) -> datetime | None:
        try:
            await land_merged(self._engine, self._queue, entry, sha, self._facts, self._policy, squashed=squashed)
        except GitHubError as error:
            return await self.on_error(entry, error, reading_pull=True)
        return None

    async def _dequeue(self, entry: Entry, reason: Reason, detail: str | None, checks: Checks = ()) -> datetime | None:
        """Dequeue the entry; if the reason is a failure of the pull request, read the pull request first."""
        pull, now = self._facts.pull, self._engine.clock.now()
        if reason is Reason.MERGED_ELSEWHERE:
            own = await self._engine.store.read(lambda tx: merged_by_imq(tx, entry, now))
            if own:
                await self.save(entry, replace(entry, run=replace(entry.run, merge_requested_at=now)))
                return None
        if entry.head_proved and may_be_renewed(entry, reason, self._policy):
            async with self._engine.change() as change:
                await set_aside(change, entry, UnmetRequirement(reason, detail), self._policy)
            return None
        if pull is None and REASONS[reason].outcome is Outcome.FAILED and reason not in UNREADABLE:
            return await self._read_fact(entry, FactKind.PULL)
        failure = None
        if checks and reason in FAILED_CHECKS:
            failure = failure_of(entry.queued_head, entry.run, checks, self._facts)
            failure = replace(failure, pushed=failure.merged)
        await self._updates.dequeue(entry, reason, self._facts, detail=detail, checks=checks, failure=failure)
        return None

    async def on_error(
        self, entry: Entry, error: GitHubError, *, reading_pull: bool = False, requested: bool = False
    ) -> datetime | None:
        """Handle an error of GitHub: wait, read or dequeue; a `requested` update counts once GitHub has answered."""
        now = self._engine.clock.now()
        if not isinstance(error, StaleRead | ReadLagError):
            _log.log(attempt_level(error), "github_error", number=entry.number, error=repr(error))
        read = reading_pull or self._facts.pull is not None
        if reading_pull and isinstance(error, Invalid):
            # No parameter of this read can be wrong, so it is no rule: GitHub, or a proxy, is in trouble.
            error = Refused(error.message, status=error.status)
        error = out_of_order(error)
        if not reading_pull:
            error = settled(entry.run, error, now)
        if isinstance(error, NotFound | Forbidden | Invalid) and not read and not requested:
            await self.save(entry, replace(entry, needs_refetch=True))
            return None
        if isinstance(error, Forbidden):
            return await self._dequeue(entry, Reason.PERMISSION_MISSING, error.message)
        match on_github_error(entry.run, error, self._policy, now, self._engine.random):
            case actions.Dequeue(reason, detail):
                return await self._dequeue(entry, reason, detail)
            case Retry(run, at):
                changed = replace(entry, run=replace(run, next_poll_at=at) if self._in_trains else run)
                changed = _not_requested(changed, at) if requested else changed
                if changed != entry:
                    saved = await self._updates.save_retrying(changed, at, error, depth=self.depth)
                    self._facts_for = (saved.id, saved.version)
                return at


def _not_requested(entry: Entry, due: datetime) -> Entry:
    """Return an entry whose update GitHub has not accepted: it is requested again at `due`, and its limit begins then.

    If GitHub has updated the branch all the same, the new head's webhook or the next read shows it.
    """
    return replace(entry, status_since=due, run=replace(entry.run, polls=0, next_poll_at=due))


def steps_of(state: TrainState) -> EntrySteps:
    """Return what takes the steps of single members of trains."""
    steps = EntrySteps(state.engine, state.queue, state.held, state.policy, updates=state.updates, in_trains=True)
    steps.depth = state.depth or len(state.entries)
    return steps
