"""Land runs that passed: move the base branch to the candidate in one call, or merge the members one by one.

The intent is stored before the first request, with the state `landing`; a pass continues such a run before anything
else. A repeated move finds the base at the candidate; a repeated merge finds the pull request merged (P2). A later pass
does not repeat the first request: if nothing landed, it gives the run back, and its members are verified again (P4).

Before it lands, the newest checks are judged again, of the candidate and of the heads of its members: somebody may run
a check again after it passed. GitHub's merge looks at the checks of the pull request's own head ("About protected
branches"): one that fails there would stop a landing by merges after its first step.

Members that land by merge calls take the steps of any other entry. Before each merge the member is read and judged
again, and its intent alone is stored; after it the landed tree is compared with the tree that the run has after that
member. Between the first merge and the last the base has trees that no run tested by itself, so nothing else lands
then. A landing that stops in between has its tip tested first.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from queue_engine.core.timing.backoff import no_jitter, wait
from queue_engine.domain.departure import FailingCheckFacts
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError
from queue_engine.domain.facts import (
    GITHUB_ACTIONS,
    Branch,
    CheckReport,
    CheckState,
    Commit,
    MergeMethod,
    RequiredCheck,
)
from queue_engine.domain.landing_record import CheckProof, ProofKind
from queue_engine.domain.model import Entry, RedBase
from queue_engine.domain.port import BranchUpdate
from queue_engine.domain.reasons import Reason, few
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.effects.context import Change
from queue_engine.executor.cleanup import schedule_close
from queue_engine.executor.entry_steps import counted_on, entry_trace, steps_of
from queue_engine.executor.landing import land
from queue_engine.executor.members import leaves_for_absent, merges_refused, read_members, verify
from queue_engine.executor.proof_marks import mark_tested
from queue_engine.executor.run_checks import MOST_CANCELLED, kept, read_again
from queue_engine.executor.run_store import TrainState
from queue_engine.executor.triggers import key_of, pull_request_checks_of
from queue_engine.known.own_writes import await_withdrawals, record_merge_request
from queue_engine.planner.actions import Facts
from queue_engine.planner.merge_errors import misses_checks
from queue_engine.planner.trains.memory import FailingChecks, base_moved, cancelled, failed, find_run, landed
from queue_engine.planner.trains.model import TrainRun
from queue_engine.rules.blockers import blockers_of, is_blocked
from queue_engine.rules.checks import CommitChecks, absent_checks, counted, judge, names_of, run_checks
from queue_engine.rules.proof import check_proofs

_log = structlog.get_logger("imq.trains")

_STEPS = 1000
"""More steps than the largest train needs."""

_REPLICAS = timedelta(minutes=1)
"""How long GitHub may miss a check that passed: pascalgn/automerge-action #35 saw that for a minute."""


async def begin_landing(state: TrainState, run: Run, planned: TrainRun) -> bool:
    """Verify the members, and store that the run lands; False if the pass has to plan again. Raises GitHubError."""
    members = [each for each in run.members if each.number in planned.content]
    await read_members(state, [entry for each in members if (entry := state.entry_of(each)) is not None])
    entries: list[Entry] = []
    for member in members:
        entry = state.entry_of(member)
        if entry is None:
            await state.cancel(run, why="left")
            return False
        if (method := await verify(state, entry, mergeable=False)) is None:
            return False
        if method is not member.method:
            await state.cancel(run, why="method_changed")
            return False
        snapshot = state.verified[entry.id, entry.version].snapshot
        if snapshot is not None and snapshot.base_tip not in {None, state.memory.base_tip}:
            await state.remember(base_moved(state.memory, snapshot.base_tip or ""))
            return False
        entries.append(entry)
    if await merges_refused(state, [each.method for each in members]):
        return False
    if (passing := await _still_passes(state, run)) is None:
        return False
    moves = state.memory.by_api is None and all(each.method is MergeMethod.MERGE for each in members)
    if (own := await own_heads_pass(state, run, entries, merges=not moves)) is None:
        return False
    run = passing if passing.proof is None else replace(passing, proof=passing.proof.with_checks(own))
    run = _without_landed(replace(run, next_poll_at=None), planned)
    onto = None if moves else state.memory.base_tip
    async with state.change() as change:
        await change.tx.runs.save(replace(run, state=RunState.LANDING, merges_onto=onto))
        for entry in entries:
            with counted_on(entry):
                if not moves:
                    await await_withdrawals(change.tx, entry)
                    continue
                requested = replace(entry.run, merge_requested_at=change.now, next_poll_at=None)
                await change.tx.entries.save(replace(entry, run=requested))
                await record_merge_request(change.tx, entry, entry.head_sha, change.now)
    assert run.id is not None
    assert run.candidate is not None
    await mark_tested(state.engine, state.queue, run.candidate, run.members[-1].tree, run.proof, state.policy)
    state.landing.add(run.id)
    return True


def _without_landed(run: Run, planned: TrainRun) -> Run:
    """Return the run without its first members that landed with another run since."""
    gone = [each for each in run.members if each.number not in planned.content]
    if not gone:
        return run
    tip = next((each.commit for each in reversed(gone) if each.commit is not None), run.base_tip)
    return replace(run, members=tuple(each for each in run.members if each.number in planned.content), base_tip=tip)


async def continue_landing(state: TrainState, run: Run) -> datetime | None:
    """Land a run whose landing has begun; returns when to try again, None if that changed. Raises GitHubError."""
    merged = [each for each in run.members if each.landed_sha is not None]
    if run.merges_onto is not None or any(each.landed_sha != each.commit for each in merged):
        return await _merge_members(state, run)
    if not await _may_move(state, run):
        return None
    cleaned = await _move_base(state, run)
    if cleaned is not None:
        await _land_members(state, run, cleaned=cleaned)
    return None


async def _may_move(state: TrainState, run: Run) -> bool:
    """Return whether IMQ moves the base; False after the run ended, or was given back since nothing has landed.

    The first request follows the verification of the members within one pass. After a kill or an error of GitHub, an
    author may have withdrawn a member meanwhile. Raises GitHubError.
    """
    left = any(state.entry_of(each) is None for each in run.members if each.landed_sha is None)
    outdated = any(each.needs_refetch for each in state.entries if each.number in run.numbers)
    if run.id in state.landing and not left and not outdated:
        return True
    tip = await state.engine.github.branch_tip(state.queue.repository, state.queue.base_branch)
    if await _has_landed(state, run, tip):
        await _land_members(state, run, cleaned=False)
        return False
    moved, since = tip is not None and tip.sha != state.memory.base_tip, run.github_failing_since
    if not moved and since is not None and state.now - since >= state.policy.outage_timeout:
        await stop_landing(state, run, "GitHub failed each time", refused=True)
    else:
        await _give_back(state, run, base_moved_to=tip.sha if tip is not None and moved else None)
    return False


async def _has_landed(state: TrainState, run: Run, tip: Branch | None) -> bool:
    """Return whether the base contains the candidate: somebody may have pushed onto it since. Raises GitHubError."""
    assert run.candidate is not None
    if tip is None or tip.sha == state.memory.base_tip:
        return False
    if tip.sha == run.candidate:
        return True
    queue = state.queue
    return (await state.engine.github.comparison(queue.repository, queue.base_branch, run.candidate)).head_landed


async def _move_base(state: TrainState, run: Run) -> bool | None:
    """Move the base to the candidate; whether that deleted its branches, None if unmoved. Raises GitHubError."""
    assert run.candidate is not None
    queue, memory = state.queue, state.memory
    move = BranchUpdate(queue.base_branch, before=memory.base_tip, after=run.candidate)
    gone = [BranchUpdate(branch, before=run.candidate, after=None) for branch in run.branches]
    refusal: str | None = None
    for updates in ([move, *gone], [move]):
        try:
            await state.engine.github.update_refs(queue.repository, updates)
        except (HeadConflict, MergeError, Forbidden, Invalid) as refused:
            # GitHub gives a moved tip and a rule one type: only the tip tells them apart.
            tip = await state.engine.github.branch_tip(queue.repository, queue.base_branch)
            if await _has_landed(state, run, tip):
                return False
            if tip is not None and tip.sha != memory.base_tip:
                await _give_back(state, run, base_moved_to=tip.sha)
                return None
            if isinstance(refused, Forbidden):
                await _not_permitted(state, run, refused.message)
                return None
            refusal = refused.message
            continue
        return len(updates) > 1
    await _refused(state, run, refusal or "")
    return None


async def _not_permitted(state: TrainState, run: Run, message: str) -> None:
    """Switch trains off, since IMQ lacks a permission: merges need the same one."""
    await _give_back(state, run)
    await state.load()
    await state.switch_off(Reason.CANDIDATES_REFUSED, message)


async def _refused(state: TrainState, run: Run, refusal: str) -> None:
    """Land by merges from now on, since IMQ may not move the base; where heads must contain the tip, not in trains.

    If GitHub only misses checks, the run waits before: reads show a check that passed a moment sooner, or somebody runs
    one again. It misses those for good that count from the members' heads. A candidate without checks of its own is
    built and tested again first.
    """
    github, queue = state.engine.github, state.queue
    rules = await github.branch_rules(queue.repository, queue.base_branch)
    passes = not pull_request_checks_of(state, run, rules) & rules.required_checks
    if passes and _may_count_later(run, refusal) and (waiting := _waits_on(state, run, _REPLICAS)) is not None:
        await _give_back(state, waiting)
        return
    await _give_back(state, run)
    _log.warning("base_not_moved", repository=state.queue.repository.full_name, message=refusal)
    if run.published_at is None and rules.required_checks:
        # Only its tree passed, on another commit: GitHub may miss the checks of this one, so IMQ has it tested.
        await state.load()
        key = await key_of(state, run)
        results = {each: good for each, good in state.memory.results.items() if each != key}
        memory = cancelled(replace(state.memory, results=results), run.id)
        await state.end(state.find(run.id or 0), memory, why="commit_untested")
    elif await github.refuses_outdated(queue.repository, queue.base_branch):
        await state.load()
        await state.switch_off(Reason.CANDIDATE_LANDING_REFUSED, refusal)
    else:
        await state.load()
        await state.remember(replace(state.memory, by_api=refusal))


async def _land_members(state: TrainState, run: Run, *, cleaned: bool) -> None:
    """Take the members out of the queue, one transaction each, then end the run."""
    reported = False
    for member in [each for each in run.members if each.landed_sha is None and state.entry_of(each) is not None]:
        async with state.engine.store.reading() as tx:
            entry = await tx.entries.get(member.entry_id)
        if entry is None:
            continue
        reported = reported or entry.needs_refetch
        assert member.commit is not None
        assert member.tree is not None
        commit = Commit(member.commit, member.tree, (entry.run.base_tip or "", member.head_sha))
        await land(state.engine, state.queue, entry, commit, state.policy)
    await _finish(state, run, run.candidate or "", moved=True, cleaned=cleaned, reported=reported)


async def _merge_members(state: TrainState, run: Run) -> datetime | None:
    """Merge the members that have not landed; returns when to try again, None once that ended, one way or another.

    Raises GitHubError, and StaleRecord if a member changed since it was read.
    """
    steps = steps_of(state)
    for _ in range(_STEPS):
        await state.load()
        run = state.find(run.id or 0)
        if state.queue.pause(Reason.TREE_MISMATCH) is not None:
            await state.end(run, base_moved(state.memory, _tip(run)), why="tree_mismatch")
            return None
        left = [each for each in run.members if each.landed_sha is None]
        if not left:
            await _finish(state, run, _tip(run))
            return None
        if not state.held() or state.queue.generation != state.generation:
            return state.now
        entry = state.entry_of(left[0])
        if (why := _obstacle(state, entry, left)) is not None:
            await stop_landing(state, run, why)
            return None
        assert entry is not None
        if not _has_begun(state, run, entry):
            await _give_back(state, run)
            return None
        if _tip(run) == state.memory.base_tip and (read := state.verified.pop((entry.id, entry.version), None)):
            steps.know(entry, read)
        with counted_on(entry), entry_trace(entry):
            due = await steps.step(entry)
        if (stopped := steps.stopped) is not None:
            refused = stopped.tip is None and stopped.reason is None
            await stop_landing(state, run, stopped.detail, tip=stopped.tip, refused=refused)
            if stopped.reason is not None and len(left) == len(run.members):
                await _leave_together(state, left, stopped.reason, stopped.detail)
            return None
        if due is not None:
            return due
    return state.now


async def _leave_together(state: TrainState, left: Sequence[RunMember], reason: Reason, detail: str) -> None:
    """Dequeue members of which none has landed: no run of theirs could land on this base. Raises StaleRecord."""
    await state.load()
    for member in left:
        if (entry := state.entry_of(member)) is not None:
            await state.updates.dequeue(entry, reason, Facts(), detail=detail)


def _obstacle(state: TrainState, entry: Entry | None, left: Sequence[RunMember]) -> str | None:
    """Return why this member, the first of those that have not landed, may not be merged now; None if it may.

    A merge that was requested is followed to its end, whatever stops the landing.
    """
    if entry is not None and entry.run.merge_requested_at is not None:
        return None
    gone = [each.number for each in left if state.entry_of(each) is None]
    if gone or entry is None:
        return f"#{gone[0]} left"
    if is_blocked(entry, state.now):
        return f"#{entry.number} waits for a permission"
    blockers = blockers_of(state.queue, state.policy, state.now)
    return next((each.reason.value.replace("_", " ") for each in blockers if not each.exempts(entry)), None)


def _has_begun(state: TrainState, run: Run, entry: Entry) -> bool:
    """Whether another pass began the landing, and requested nothing: then all is verified again."""
    landed_any = any(each.landed_sha is not None for each in run.members)
    return landed_any or run.id in state.landing or entry.run.merge_requested_at is not None


def _tip(run: Run) -> str:
    """Return the base's tip as this landing left it."""
    done = [each.landed_sha for each in run.members if each.landed_sha is not None]
    return done[-1] if done else run.merges_onto or run.base_tip or ""


async def _finish(
    state: TrainState,
    run: Run,
    tip: str,
    *,
    moved: bool = False,
    cleaned: bool = False,
    reported: bool = False,
) -> None:
    """Store that all members landed, and end the run.

    `moved`: by one move of the base; `reported`: webhooks said that some of them changed meanwhile.
    """
    await state.load()
    run = next((each for each in state.runs if each.id == run.id), run)
    planned = next((each for each in state.memory.trains.passed if each.id == run.id), None)
    memory = state.memory
    if planned is not None:
        memory = landed(memory, planned, tip, [each.landed_sha or each.commit or "" for each in run.members])
    async with state.change() as change:
        await state.end_within(change, run, memory, why="landed", kept=not cleaned)
        if moved:
            await schedule_close(
                change, run, [(each, each.commit) for each in run.members if each.commit], reported=reported
            )


async def _give_back(state: TrainState, run: Run, *, base_moved_to: str | None = None) -> None:
    """Return a run to those that passed, since nothing of it has landed."""
    async with state.change() as change:
        await change.tx.runs.save(replace(run, state=RunState.PASSED, merges_onto=None))
        await _forget_requests(change, run.members)
        if base_moved_to is not None:
            await state.keep(change, base_moved(state.memory, base_moved_to))


async def _forget_requests(change: Change, members: Sequence[RunMember]) -> None:
    """Forget the merge requests of the members that have not landed."""
    for member in members:
        entry = await change.tx.entries.get(member.entry_id) if member.landed_sha is None else None
        if entry is not None and entry.run.merge_requested_at is not None:
            await change.tx.entries.save(replace(entry, run=replace(entry.run, merge_requested_at=None)))
            await record_merge_request(change.tx, entry, None, change.now)


async def stop_landing(state: TrainState, run: Run, why: str, *, tip: str | None = None, refused: bool = False) -> None:
    """Stop a landing. If members have landed, the tip is tested before anything else.

    `tip` is the base's tip, if somebody else moved the base. `refused`: GitHub would refuse the next train, too.
    """
    await state.load()
    done = sum(each.landed_sha is not None for each in run.members)
    if not done and not refused:
        await _give_back(state, run, base_moved_to=tip)
        return
    tip = tip or _tip(run)
    async with state.change() as change:
        if done:
            await state.end_within(change, state.find(run.id or 0), base_moved(state.memory, tip), why="stopped")
        await _forget_requests(change, run.members)
        if done:
            detail = f"{done} of {len(run.members)} members landed, then IMQ stopped: {why}"
            untested = RedBase(detail, tip, change.now, 0, change.now + state.policy.ask_again.maximum, untested=True)
            await change.tx.red_bases.note(state.queue.id, untested)
    if not done:
        await state.switch_off(Reason.CANDIDATE_LANDING_REFUSED, why)
    _log.warning("landing_stopped", repository=state.queue.repository.full_name, message=why)


def _may_count_later(run: Run, message: str) -> bool:
    """Whether GitHub's message is about checks that it may count in a moment, unless a dispatch started them."""
    return misses_checks(message) and run.published_at is not None and run.trigger is not CandidateTrigger.DISPATCH


def _waits_on(state: TrainState, run: Run, limit: timedelta) -> Run | None:
    """Return the run as it waits to land after one more refusal; None once it has waited for too long (P5)."""
    refusals, since = run.merge_refusals + 1, run.refused_since or state.now
    if refusals > state.policy.merge_refusals and state.now - since >= limit:
        return None
    again = state.now + wait(state.policy.ask_again, refusals - 1, random=no_jitter)
    return replace(run, merge_refusals=refusals, refused_since=since, next_poll_at=again)


async def _still_passes(state: TrainState, run: Run) -> Run | None:
    """Return the run if its checks pass now, read unless this pass did; else it waits. Raises GitHubError."""
    if run.id in state.judged or run.published_at is None:
        return run
    verdict, proof = await read_again(state, run)
    if verdict.state is CheckState.PASSED:
        return replace(run, proof=proof)
    if (
        verdict.state is CheckState.PENDING
        and (waiting := _waits_on(state, run, state.policy.refusal_timeout)) is not None
    ):
        await state.save_run(waiting)
        return None
    _log.info("checks_changed", repository=state.queue.repository.full_name, run=run.id)
    await _test_again(state, run, verdict)
    return None


async def _test_again(state: TrainState, run: Run, verdict: CommitChecks) -> None:
    """Forget that the tree passed, so that another run tests it; after some times, count it as failed (P5)."""
    key, planned = await key_of(state, run), find_run(state.memory.trains, run.id)
    times = state.memory.cancelled.get(key, 0) + 1
    results = {each: good for each, good in state.memory.results.items() if each != key}
    memory = cancelled(replace(state.memory, results=results), run.id)
    memory = memory.with_cancelled(key)
    if times > MOST_CANCELLED and planned is not None:
        evidence = FailingChecks(run.id or 0, planned.content, kept(run, verdict.failed))
        memory = failed(memory, planned, key, evidence)
    await state.end(run, memory, why="checks_changed")


async def own_heads_pass(
    state: TrainState, run: Run, entries: Sequence[Entry], *, merges: bool
) -> tuple[CheckProof, ...] | None:
    """Return the checks that count from the members' own heads; None if one is missing.

    Then a member left, or the run waits.

    Those that judge the pull request count from there, and GitHub's `merges` need all others, too. Where none of these
    reports on any head, GitHub's answer to the first merge decides. Raises GitHubError.
    """
    github, repository = state.engine.github, state.queue.repository
    rules = await github.branch_rules(repository, state.queue.base_branch)
    judging = pull_request_checks_of(state, run, rules)
    required = judging | (rules.required_checks if merges else frozenset())
    if not required:
        return ()
    optional = not run_checks(rules, state.policy)
    verdicts, proofs = list[tuple[Entry, CommitChecks]](), list[CheckProof]()
    for entry in entries:
        reports = await github.check_reports(repository, entry.head_sha, required)
        if others := sorted({each.name for each in reports if _by_another_app(each, judging)}):
            # Their check of that name may test the tree, and the candidate did without it.
            await state.switch_off(Reason.CI_UNPROVEN_ON_CANDIDATES, few(tuple(others)))
            return None
        # Where nothing is required, a head may lack a check that others have.
        wanted = required - set(absent_checks(required, reports)) if optional else required
        verdicts += [(entry, judge(wanted, reports))] if wanted else []
        proofs += check_proofs(entry.head_sha, counted(judging, reports) if judging else (), ProofKind.PULL_REQUEST)
    if not judging and not any(each.reported for _, each in verdicts):
        return ()
    waiting = _waits_on(state, run, state.policy.refusal_timeout)
    for entry, verdict in verdicts:
        if verdict.state is CheckState.FAILED:
            names = names_of(verdict.failed)
            of_pull_request = {each.name for each in judging}.issuperset(names)
            failure = FailingCheckFacts(entry.head_sha, names, judge_pull_request=of_pull_request)
            await state.updates.dequeue(
                entry, Reason.CHECKS_FAILED, Facts(), detail=None, checks=verdict.failed, failure=failure
            )
            return None
        if verdict.state is CheckState.PENDING and await leaves_for_absent(state, entry):
            return None
        if verdict.state is CheckState.PENDING and waiting is None:
            detail = few(verdict.pending_names)
            await state.updates.dequeue(entry, Reason.CHECKS_TIMED_OUT, Facts(), detail=detail)
            return None
    if waiting is not None and any(each.state is CheckState.PENDING for _, each in verdicts):
        await state.save_run(waiting)
        return None
    return tuple(proofs)


def _by_another_app(report: CheckReport, judging: Collection[RequiredCheck]) -> bool:
    """Return whether an App other than Actions reports one of these checks, which any App may report."""
    of_actions = report.by_actions or report.app_id == GITHUB_ACTIONS
    return RequiredCheck(report.name, None) in judging and not of_actions
