"""Run one pass over one queue: read it, plan, take one step of a run, store it, until the queue has to wait.

A landing that has begun goes first. Where one entry is tested after the other, the plan names the front, whose own head
is the candidate of its run. Of larger runs, those of members that left are cancelled, active ones are built and their
checks judged, and the plan says what to land, eject, cancel and start.

The pass never sleeps: a wait is a due time in the database. Each change is stored before its effect; a pass that loses
a race reads everything again (P2). A webhook during a pass increments `wake_count`; a pass that releases the queue with
an older count makes it due at once. While no check reports, IMQ polls an entry ever less often.
"""

from collections.abc import Awaitable, Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, TypeVar

import structlog

from queue_engine.config.model import Policy, TrainRules
from queue_engine.core.concurrency.request_context import working
from queue_engine.domain.errors import (
    GitHubError,
    RateLimitError,
    Refused,
    RequestOrderError,
    StaleRead,
    StaleRecord,
    attempt_level,
    is_retryable,
)
from queue_engine.domain.model import PROCESSING, Entry, EntryStatus, Queue
from queue_engine.domain.policy import Candidates
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run, RunState
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.executor.candidate import begin, build
from queue_engine.executor.entry_steps import EntrySteps, counted_on, entry_trace, steps_of
from queue_engine.executor.front import lift, make
from queue_engine.executor.members import sets_aside, still_alone
from queue_engine.executor.run_checks import eject, test
from queue_engine.executor.run_landing import begin_landing, continue_landing, stop_landing
from queue_engine.executor.run_slots import RUNNER_AGAIN, release_for_runner, set_aside_for_runner
from queue_engine.executor.run_store import TrainState
from queue_engine.known.own_writes import AWAITED
from queue_engine.planner.github_outage import (
    Retry,
    longest_wait,
    on_github_error,
    out_of_order,
    pauses_queue,
    retry_at,
)
from queue_engine.planner.queue_plan import (
    Front,
    Members,
    QueueAction,
    QueueChange,
    QueueWait,
    accepted_again,
    filling,
    first,
    follow_queue,
    front_without_policy,
    next_front,
    next_members,
    next_runs,
    preempted_by,
)
from queue_engine.planner.trains.memory import Memory, base_moved, cancelled, under_generation
from queue_engine.planner.trains.model import NewRun, Plan
from queue_engine.planner.trains.plan import hangs_at
from queue_engine.rules.blockers import in_flight
from queue_engine.rules.priority import HANGING, MOST_YIELDS, UNKNOWN, has_waited, usual_duration, yields_after
from queue_engine.rules.transitions import preempted, unblocked

_log = structlog.get_logger("imq.queue_pass")

_STEPS = 300
"""More steps than any real pass needs; a pass with so many ends, and its queue is due again, behind the others."""

_OFF_FOR = timedelta(days=1)
"""How long trains are off at most before IMQ tries them again."""

_AGAIN = timedelta(minutes=5)
"""How soon a step that met a failure of GitHub is tried again at the latest."""

_CHANGES = 20
"""More changes than one queue needs before its members are known."""

_PLAN_AGAIN = timedelta(minutes=10)
"""A queue in trains is due at least so often: some plans depend on how long members wait."""

_Done = TypeVar("_Done")
_Front: TypeAlias = Front | QueueWait | QueueChange
_RunStep = Callable[[TrainState, Run], Awaitable[datetime | None]]


class LeaseLost(Exception):
    """Another worker has the queue's lease now; the pass ends without another step."""


class QueuePass:
    """Advances a leased queue: reads it, plans, and takes one step of a run, until it has to wait."""

    def __init__(self, engine: Engine, queue: Queue, held: Callable[[], bool], policy: Policy) -> None:
        """`held` returns whether this worker still has the lease."""
        self._engine, self._policy = engine, policy
        trains = policy.trains if policy.trains.enabled else TrainRules(Candidates.AUTO)
        self._state = TrainState(engine, queue, policy, trains, held)
        self._steps = EntrySteps(engine, queue, held, policy)
        self._front_id: str | None = None

    async def run(self) -> datetime | None:
        """Advance the queue; return when it is due again, None if only an event can wake it. Raises LeaseLost."""
        with ExitStack() as traced:
            for _ in range(_STEPS):
                if not self._state.held():
                    raise LeaseLost(self._state.queue.repository.full_name)
                try:
                    found = await self._step(traced)
                except StaleRecord:
                    self._state.verified.clear()
                    self._steps.forget()
                    continue
                except RateLimitError as limited:
                    return retry_at(limited, self._state.now)
                except RequestOrderError as early:
                    return await self._await(early)
                if found is not None:
                    return found.until
        return self._state.now

    async def _await(self, early: RequestOrderError) -> datetime:
        """Have the commands judged for which a landing waits; return when the queue is due again."""
        _log.info("landing_waits", repository=self._state.queue.repository.full_name, why=str(early))
        await self._engine.write(lambda change: change.tx.jobs.await_these(early.jobs, change.now, AWAITED))
        return self._state.now + early.retry_after

    async def on_unreadable_policy(self, error: GitHubError) -> datetime | None:
        """Handle a policy that cannot be read: the front waits for GitHub as after any other error."""
        state = self._state
        await state.load()
        if (over := accepted_again(state.queue, state.entries, state.runs)) is not None:
            await lift(state.engine, state.queue, over)
            await state.load()
        found = front_without_policy(state.queue, state.entries, state.now)
        if isinstance(found, QueueWait):
            return found.until
        try:
            return await self._steps.on_error(found.entry, error, reading_pull=True)
        except StaleRecord:
            return state.now

    async def _step(self, traced: ExitStack) -> QueueWait | None:
        """Take one step of the queue; return the wait, None if there is more to do now."""
        state, trains = self._state, self._policy.trains.enabled
        await state.load()
        if (trains or state.queue.in_trains) and self._front_id is None and self._engine.ending.is_set():
            return QueueWait(state.now)
        with working(again=_AGAIN):
            if landing := [run for run in state.runs if run.state is RunState.LANDING]:
                return await self._on_run(landing[0], continue_landing)
            if state.queue.in_trains and not trains and self._policy.fault is None:
                await self._leave()
                return None
            found = await find_members(state)
            waiting = [each for each in state.entries if each.blocked_for is not None]
            if waiting and await release_for_runner(self._engine, waiting, self._policy):
                return None
            # What began without a branch of its own ends first.
            one = not (trains or state.queue.in_trains) or any(
                in_flight(each) and not each.run.has_branch for each in state.entries
            )
            if not one and (one := await self._is_off()) and await state.follow():
                return None
            if isinstance(found, QueueWait):
                return found if one else await self._without_members(found)
            state.depth = len(found.room)
            front = next_front(found, state.now) if one or state.memory.tested_alone else None
            begun = isinstance(front, Front) and front.entry.status in PROCESSING and state.tests_alone(front.entry)
            if one and isinstance(front, Front):
                front = await self._preempted(found, front)
            if front is not None and (one or begun):
                return await self._front_step(front, traced)
            return await self._advance(found, front, traced)

    async def _preempted(self, found: Members, front: Front) -> Front | QueueChange:
        """Return the front, or its preemption: the run of an agent ends for a person while it is young, or hangs."""
        state, entry, started = self._state, front.entry, front.entry.run.started_at
        other = preempted_by(found, front, self._policy, state.now)
        if other is None or started is None:
            return front
        async with state.engine.store.reading() as tx:
            durations = await tx.timeline.durations(
                state.queue.repository.id, state.queue.base_branch, EntryStatus.LANDED.value, "front"
            )
            usual = usual_duration(durations) or UNKNOWN
            late = has_waited((entry.rank - entry.share_delay) / 1000, entry.rank / 1000, state.now.timestamp())
            if not yields_after((state.now - started) / usual, late=late):
                return replace(front, until=first((front.until, started + HANGING * usual)))
            events = await tx.timeline.of_pull_request(state.queue.repository.id, entry.number)
        own = (each for each in events if each.entry_id == entry.id)
        if sum(each.data.get("yields_to") is not None for each in own) >= MOST_YIELDS:
            return front
        return QueueChange(QueueAction.PREEMPT, (entry, other), depth=front.depth)

    async def _front_step(self, found: _Front, traced: ExitStack) -> QueueWait | None:
        """Take one step of the run that has the front as its only member, or preempt it; return as `_step`."""
        state = self._state
        if isinstance(found, QueueChange):
            front, other = found.entries
            if not await set_aside_for_runner(self._engine, [other], self._policy, ending=[front.number]):
                await make(state.engine, state.queue, found, state.policy)
            return None
        if isinstance(found, QueueWait):
            return found
        entry, self._steps.depth, self._steps.stall = found.entry, found.depth, state.queue.stall
        if entry.id != self._front_id:
            if self._front_id is not None and self._engine.ending.is_set():
                return QueueWait(state.now)
            traced.close()
            traced.enter_context(entry_trace(entry))
            self._front_id = entry.id
        with counted_on(entry), working(again=longest_wait(entry.run)):
            if entry.status is EntryStatus.PENDING:
                if await set_aside_for_runner(self._engine, [entry], self._policy):
                    return None
                if entry.blocked_for is not None:
                    await self._steps.save(entry, unblocked(entry))
                    return None
            if entry.run.has_branch:
                # Its candidate was not its own head alone, so no result of that run lands it (P1).
                await self._steps.save(entry, preempted(entry, state.now))
                return None
            due = await self._steps.step(entry)
        return None if due is None else QueueWait(first((due, found.until)))

    async def _leave(self) -> None:
        """End one run after the other, since trains were switched off; then test one entry after the other."""
        state = self._state
        if state.runs:
            await state.cancel(state.runs[0], why="trains_off")
        elif not await state.follow():
            async with state.engine.change() as change:
                await change.tx.trains.remove(state.queue.id)
                await change.tx.queues.note_trains(state.queue.id, False)

    async def _is_off(self) -> bool:
        state = self._state
        off, queue = state.memory.off, state.queue
        if off is None or off.generation != queue.generation:
            return False
        if off.reason != Reason.CHECK_FAILS_ON_CANDIDATES:
            return state.now - off.since < _OFF_FOR
        if off.suspect is None or any(each.number == off.suspect for each in state.entries):
            return True
        if off.once:
            return False
        async with state.engine.store.reading() as tx:
            history = await tx.timeline.of_pull_request(queue.repository.id, off.suspect)
        if not any(each.event == EntryStatus.LANDED and each.at >= off.since for each in history):
            return False
        # The check was green on its own branch: it judges the pull request, until a workflow or a rule changes.
        await state.remember(replace(state.memory, off=replace(off, suspect=None)))
        return True

    async def _without_members(self, found: QueueWait) -> QueueWait | None:
        """End all runs of a queue without entries; a queue that only changed is read again."""
        state = self._state
        if state.entries or not state.runs:
            return found
        for run in state.runs:
            await state.cancel(run, why="left")
        return None

    async def _advance(self, found: Members, front: _Front | None, traced: ExitStack) -> QueueWait | None:
        """Make one change of the runs of several members; return the wait, None if there is more to do now."""
        state = self._state
        # The runs' own retries find out when GitHub accepts requests again.
        holding = tuple(each for each in found.blockers if each.reason is not Reason.GITHUB_REFUSES or each.until)
        found = replace(found, blockers=holding)
        free = found.free(state.now)
        state.blocked = blocked = bool(found.blockers) and not free
        frozen = blocked and all(each.reason is Reason.FROZEN for each in found.blockers)
        if blocked and await self._end_outages(frozen=frozen):
            return None
        if blocked and not frozen:
            # Runs go on without IMQ; their checks are judged when the queue continues.
            return QueueWait(found.until)
        if await _end_outdated_run(state):
            return None
        state.memory = follow_queue(self._renewed(), found.room, state.policy)
        if blocked:
            # In a freeze nothing lands or begins; what passes is shown as passed.
            return await self._follow(found.until, RunState.TESTING)
        if not self._knows_base():
            return await self._read_base(found.until)
        alone = [each for each in state.entries if each.status in PROCESSING and not each.run.has_branch]
        for entry in alone:  # Runs with a branch test it from now on.
            await state.updates.save(entry, preempted(entry, state.now), depth=state.depth)
        if alone or await state.follow():
            await state.remember(state.memory)
            return None
        due = first((found.until, found.hold_ends))
        followed = await self._follow(due, RunState.BUILDING, RunState.TESTING)
        return followed and await self._plan(found, front, followed.until, traced)

    async def _end_outages(self, *, frozen: bool) -> bool:
        """Forget since when GitHub fails where a hold asks it nothing; whether there was an outage (P5)."""
        state = self._state
        entries = [each for each in state.entries if each.run.github_failures]
        runs = [each for each in state.runs if each.github_failures]
        runs = [each for each in runs if not frozen or each.state is not RunState.TESTING]
        if not entries and not runs:
            return False
        async with state.engine.change() as change:
            for run in runs:
                await change.tx.runs.save(run.without_failures())
            for entry in entries:
                await change.tx.entries.save(replace(entry, run=entry.run.without_failures()))
        return True

    async def _follow(self, due: datetime | None, *states: RunState) -> QueueWait | None:
        """Build and test the runs in these states; None once something changed, else the wait, `due` at the latest."""
        for run in self._state.runs:
            if run.state in states:
                waits = await self._on_run(run, build if run.state is RunState.BUILDING else test)
                if waits is None:
                    return None
                due = first((waits.until, due))
        return QueueWait(due)

    def _renewed(self) -> Memory:
        memory = under_generation(self._state.memory, self._state.queue.generation)
        if memory.off is None:
            return memory
        # Something changed since, or a day has passed: what did not work may work now.
        return replace(memory, off=None, silent=(), by_api=None, trigger=None, unreported="")

    def _knows_base(self) -> bool:
        """Whether the base has not moved without IMQ, as far as webhooks say."""
        state = self._state
        unknown = {each.newer_tip for each in state.entries if each.newer_tip is not None} - set(state.memory.tips)
        return state.memory.base_tip is not None and not unknown

    async def _read_base(self, due: datetime | None) -> QueueWait | None:
        """Read the base's tip, and take account of it; the wait if GitHub has to catch up before."""
        state, first_entry = self._state, self._state.entries[0]
        again = first_entry.run.next_poll_at if first_entry.run.github_failures else None
        if again is not None and again > state.now:
            return QueueWait(first((due, again)))
        try:
            found = await state.engine.github.branch_tip(state.queue.repository, state.queue.base_branch)
            if found is None:
                raise StaleRead("the base branch is gone")
        except GitHubError as error:
            await self._on_entry_error(first_entry, error)
            return None
        memory = state.memory.with_tips(sorted(each.newer_tip for each in state.entries if each.newer_tip is not None))
        if found.sha != memory.base_tip:
            memory = base_moved(memory, found.sha)
        await state.remember(memory)
        return None

    async def _plan(
        self, found: Members, front: _Front | None, due: datetime | None, traced: ExitStack
    ) -> QueueWait | None:
        """Carry out the next plan; the wait, `due` at the latest, if the plan is to wait."""
        state = self._state
        free = found.free(state.now)
        waiting = {
            each.number: each.run
            for each in free
            if each.run.github_failures and each.run.next_poll_at is not None and each.run.next_poll_at > state.now
        }
        if lagging := [each.next_poll_at for each in waiting.values() if not each.github_failing_since]:
            # Replicas catch up within seconds: a plan without this entry would cost another CI run.
            return QueueWait(first((due, *lagging)))
        numbers = {each.number for each in free} - waiting.keys()
        if (
            isinstance(front, Front)
            and not state.runs
            and state.tests_alone(front.entry)
            and front.entry.number in numbers
        ):
            # A pull request of a fork is tested by its own head, unless that head was approved meanwhile.
            alone = await self._on_entries((front.entry.number,), lambda: still_alone(state, front.entry))
            return await self._front_step(front, traced) if alone else None
        if state.trains.fill_wait is not None:
            # One that is tested alone makes no run fuller.
            tested = {number for run in state.runs for number in run.numbers}
            unknown = [each for each in free if each.number not in tested and not state.tests_alone(each)]
            if await self._on_entries(tuple(numbers), lambda: sets_aside(state, unknown, state.memory.base_tip)):
                return None
        filled = filling(state.memory, found, numbers, state.policy, state.now)
        state.memory = replace(state.memory, filling=filled)
        made = next_runs(state.memory, numbers.difference(filled.members), state.now)
        if made == Plan():
            await state.remember(state.memory)
            trains = state.memory.trains
            hang = (datetime.fromtimestamp(hangs_at(trains, each), UTC) for each in trains.runs)
            later = [each for each in hang if each > state.now]
            later += [state.now + _PLAN_AGAIN] if state.runs or numbers else []
            return QueueWait(first((due, filled.until, *(each.next_poll_at for each in waiting.values()), *later)))
        if made.land is not None:
            run = state.find(made.land.id)
            planned, again = made.land, run.next_poll_at
            if run.merge_refusals and again is not None and again > state.now:
                # GitHub misses a check; nothing else lands before.
                return QueueWait(first((due, again)))
            await self._on_entries(run.numbers, lambda: begin_landing(state, run, planned))
        elif made.eject:
            await self._on_entries(made.eject[:1], lambda: eject(state, made.eject[0]))
        elif made.start and (waits := await self._await_runner(made.start[0], made.cancel)) is not None:
            return QueueWait(first((due, waits.until))) if waits.until else None
        elif made.cancel:
            run_id = made.cancel[0]
            await state.cancel(state.find(run_id), why="cancelled", yields=run_id in made.yields)
        else:
            new = made.start[0]
            await self._on_entries(new.content, lambda: begin(state, new, state.memory))
        return None

    async def _await_runner(self, new: NewRun, ending: Collection[int]) -> QueueWait | None:
        """Set aside members of a new run that need a busy runner; None if the run may begin once others are `ending`.

        No run ends for one that waits. The wait has an end where other runs test all of these members.
        """
        state = self._state
        if not self._policy.capacity:
            return None
        ended = {number for run in state.runs if run.id in ending for number in run.numbers}
        ended -= {number for run in state.runs if run.id not in ending for number in run.numbers}
        known = (*state.memory.trains.runs, *state.memory.trains.passed)
        active = {member for run in known for member in run.content}
        members = [each for each in state.entries if each.number in new.content]
        if await set_aside_for_runner(self._engine, members, self._policy, active=active, ending=ended):
            await state.remember(state.memory)
            aside = any(each.number not in active for each in members)
            return QueueWait(None if aside else state.now + RUNNER_AGAIN)
        if waited := [each for each in members if each.blocked_for is not None]:
            async with self._engine.change() as change:
                for entry in waited:
                    await change.tx.entries.save(unblocked(entry))
            return QueueWait(None)
        return None

    async def _on_entries(self, numbers: tuple[int, ...], act: Callable[[], Awaitable[_Done]]) -> _Done | None:
        """Verify and act; an error of GitHub makes the first of these entries wait, and returns None."""
        try:
            return await act()
        except GitHubError as error:
            entry = next(each for each in self._state.entries if each.number in numbers)
            await self._on_entry_error(entry, error)
        return None

    async def _on_run(self, run: Run, act: _RunStep) -> QueueWait | None:
        """Do the next step of a run; returns the wait, None if something changed."""
        due = run.next_poll_at
        if run.github_failures and due is not None and due > self._state.now:
            return QueueWait(due)
        try:
            due = await act(self._state, run)
        except GitHubError as error:
            due = await self._on_run_error(run, error)
        return None if due is None else QueueWait(due)

    async def _on_entry_error(self, entry: Entry, error: GitHubError) -> None:
        """Make the entry wait for GitHub; a limit, which concerns all of them, makes the queue wait."""
        if isinstance(error, RateLimitError):
            raise error
        await steps_of(self._state).on_error(entry, error, reading_pull=True)

    async def _on_run_error(self, run: Run, error: GitHubError) -> datetime | None:
        """Make the run wait for GitHub; after the time limit of outages, trains are off (P5), and None is returned."""
        state = self._state
        if isinstance(error, RateLimitError):
            raise error
        _log.log(attempt_level(error), "github_error", run=run.id, error=repr(error))
        error = out_of_order(error)
        if not is_retryable(error):
            # Not for what its members are: GitHub, or a proxy, is in trouble.
            error = Refused(error.message, status=error.status)
        await state.load()
        run = next((each for each in state.runs if each.id == run.id), run)
        landing = run.state is RunState.LANDING
        match on_github_error(run, error, state.policy, state.now, state.engine.random, in_doubt=landing):
            case Retry(failing, at):
                async with state.change() as change:
                    await change.tx.runs.save(replace(failing, next_poll_at=at))
                    if pauses_queue(failing, error, state.now):
                        await record.pause_refused(change, state.queue.id, error)
                return at
        if landing:
            await stop_landing(state, run, error.message, refused=True)
        else:
            await state.switch_off(Reason.CANDIDATES_REFUSED, error.message)
        return None


async def _end_outdated_run(state: TrainState) -> bool:
    """End one run of which a member left or has another head, or which no plan knows; whether anything changed."""
    trains = state.memory.trains
    planned = {each.id: each for each in (*trains.runs, *trains.passed)}
    for run in state.runs:
        known = planned.get(run.id or 0)
        members = [each for each in run.members if known is not None and each.number in known.content]
        if run.new_head is not None:
            await state.cancel(run, why="branch_changed")
            return True
        if known is None or not members or any(state.entry_of(each) is None for each in members):
            await state.cancel(run, why="outdated" if known is None else "left")
            return True
    if gone := set(planned) - {run.id for run in state.runs}:
        memory = state.memory
        for run_id in gone:
            memory = cancelled(memory, run_id)
        await state.remember(memory)
    return bool(gone)


async def find_members(state: TrainState) -> Members | QueueWait:
    """Return the entries of a leased queue with room, after the changes that come first; the wait if there are none.

    The state was read. A queue that breaks an invariant is paused, and affects no other. When configuration or rules
    have changed since the policy was read, the queue is due at once (P1).
    """
    for _ in range(_CHANGES):
        if state.generation != state.queue.generation:
            break
        found = next_members(state.queue, state.entries, state.runs, state.policy, state.now)
        if not isinstance(found, QueueChange):
            return found
        with suppress(StaleRecord):
            await make(state.engine, state.queue, found, state.policy)
        await state.load()
    return QueueWait(state.now)
