"""Build candidates: merge the members of a run onto its build branch, then publish the result once, and start CI on it.

Each commit is stored before the next request, so that a pass after a kill reads the build branch, and continues. A
merge is IMQ's own if its parents are the commit before and the member's head; anything else on the branch is somebody
else's, and the run is cancelled.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

import structlog

from queue_engine.config.merge_commit import needs_commits
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError, NotFound, StaleRead
from queue_engine.domain.facts import Commit, MergeMethod
from queue_engine.domain.landing_record import LandingProof, ProofKind
from queue_engine.domain.model import Entry
from queue_engine.domain.port import BranchUpdate
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.executor.members import (
    await_workflows_permission,
    facts_of,
    heads_that_fail,
    lacks_required,
    merges_refused,
    read_members,
    sets_aside,
    verify,
)
from queue_engine.executor.run_store import TrainState, measured_before
from queue_engine.executor.triggers import key_of, lines, read_choice, trigger_failed, trigger_for
from queue_engine.planner.actions import Facts
from queue_engine.planner.trains.built import begun_on, history_of, merge_message
from queue_engine.planner.trains.memory import (
    Memory,
    base_moved,
    cancelled,
    failed_before,
    find_run,
    heads_judged,
    known_result,
    later_ones,
    passed,
    removed_member,
    started,
    without_member,
)
from queue_engine.planner.trains.model import NewRun
from queue_engine.rules.reviews import approved_by

_log = structlog.get_logger("imq.trains")

_LAGGING = 4
"""How often IMQ reads the build branch again, before it believes that somebody moved it back."""

EXISTS = "already exists"
"""Part of GitHub's message when it refuses to create a branch that exists ("Reference already exists")."""

_NOT_CREATED = "reference update failed"
"""GitHub's whole message where a branch has the name of a folder of the new one (microsoft/
vscode-remote-repositories-github #122), and where it hides which rule refuses (release-plz/action #518)."""


async def begin(state: TrainState, new: NewRun, memory: Memory) -> bool:
    """Verify the members of a new run, and store the run; False if the pass has to plan again. Raises GitHubError."""
    entries = {each.number: each for each in state.entries}
    methods, tip = list[MergeMethod](), memory.base_tip
    await read_members(state, [entries[number] for number in new.content])
    if await sets_aside(state, [entries[number] for number in new.content], memory.base_tip):
        return False
    read = {number for number in new.content if (entries[number].id, entries[number].version) in state.verified}
    tested = [entries[number] for number in sorted(new.tested)]
    if await lacks_required(state, tested) or not await _heads_as_planned(state, tested, memory):
        return False
    for entry in (entries[number] for number in new.content):
        if (method := await verify(state, entry, mergeable=True)) is None:
            return False
        methods.append(method)
        snapshot = state.verified[entry.id, entry.version].snapshot
        tip = (snapshot and snapshot.base_tip) or tip
    # One request for several answers for none of them at times, and for no single one: these were read since.
    if await sets_aside(state, [entries[number] for number in new.content if number not in read], memory.base_tip):
        return False
    if tip is None or tip != memory.base_tip:
        # The pass plans again on the tip that the snapshot shows; a move of the base compares it in any case.
        await state.remember(memory if tip is None else base_moved(memory, tip))
        return False
    trigger = None if await merges_refused(state, methods) else await trigger_for(state, tip)
    if trigger is None:
        return False
    memory = replace(memory, pull_request_checks=state.memory.pull_request_checks)
    members = tuple(
        RunMember(number, entries[number].id, entries[number].head_sha, method)
        for number, method in zip(new.content, methods, strict=True)
    )
    run = Run(
        id=None,
        queue_id=state.queue.id,
        base_branch=state.queue.base_branch,
        base_tip=tip,
        members=_begun(state, members, memory, tip),
        tested=new.tested,
        trigger=trigger,
        state=RunState.BUILDING,
        started_at=state.now,
    )
    async with state.change() as change:
        measured = await measured_before(change.tx, state.queue.repository.id, run.base_branch)
        stored = await change.tx.runs.add(replace(run, **measured))
        assert stored.id is not None
        await state.keep(change, started(memory, stored.id, new, state.seconds))
        data = {"run": stored.id, "members": list(stored.numbers), "tested": sorted(stored.tested)}
        data["slots"] = memory.trains.slots
        await change.record("run_started", state.queue, data=data)
    _log.info("run_started", repository=state.queue.repository.full_name, **data)
    state.begun.add(stored.id)
    return True


async def _heads_as_planned(state: TrainState, entries: Sequence[Entry], memory: Memory) -> bool:
    """Return whether the plan knew which heads fail a required check: a member with one is tested alone."""
    judged = heads_judged(memory, await heads_that_fail(state, entries))
    if judged == memory:
        return True
    await state.remember(judged)
    return False


def _begun(state: TrainState, members: tuple[RunMember, ...], memory: Memory, tip: str) -> tuple[RunMember, ...]:
    """Return the members with the commits that IMQ made for runs under way, or for those that ended."""
    histories = (*map(history_of, state.runs), *memory.built)
    return begun_on(members, histories, tip, {*memory.candidates, *(each.candidate for each in state.runs)})


async def build(state: TrainState, run: Run) -> None:
    """Merge the members that are not merged yet, and publish the candidate. Raises GitHubError."""
    assert run.id is not None
    try:
        if run.candidate is None:
            built = await _merge_members(state, run)
            if built is None:
                return
            run = built
        learnt = await learn_of_workflows(state, run)
        if learnt is None:
            return
        run = learnt
        if not await _tested_before(state, run):
            await publish(state, run)
    except (Forbidden, Invalid, MergeError, NotFound) as refusal:
        reuses = bool(state.memory.built) and any(each.reused for each in run.members)
        if reuses and not isinstance(refusal, Forbidden):
            # GitHub may have dropped commits that no branch has: IMQ merges their members again.
            await state.cancel(run, why="commits_gone")
            await state.remember(replace(state.memory, built=(), candidates=()))
            return
        if isinstance(refusal, NotFound):
            raise
        await state.switch_off(Reason.CANDIDATES_REFUSED, await _explain_refused_branch(state, run, refusal.message))


async def _merge_members(state: TrainState, run: Run) -> Run | None:
    """Merge all members; None if the run ended, or is to be built again without one of them."""
    left = [each for each in run.members if each.commit is None]
    on_branch = await _branch(state, run) if left else _tip(run)
    for member in left:
        if not state.held():
            return None
        before = _tip(run)
        merged = await _merge(state, run, member, before, on_branch)
        if merged is None:
            return None
        run = merged
        on_branch = _tip(run)
    return await state.save_run(replace(run, candidate=_tip(run)))


def _tip(run: Run) -> str:
    """Return the last commit that is built."""
    assert run.base_tip is not None
    return next((each.commit for each in reversed(run.members) if each.commit is not None), run.base_tip)


async def _branch(state: TrainState, run: Run) -> str:
    """Create the build branch, or return its tip if it exists."""
    github, repository, tip = state.engine.github, state.queue.repository, _tip(run)
    assert run.id is not None
    if run.id in state.on_tip:
        return tip
    found = None if run.id in state.begun else await github.branch_tip(repository, run.build_branch)
    if found is None:
        try:
            await github.create_branch(repository, run.build_branch, tip)
        except Invalid as refusal:
            if EXISTS not in refusal.message.lower():
                raise
            state.begun.discard(run.id)
            raise StaleRead("the build branch exists, and reads do not show it yet") from refusal
    elif found.sha != tip:
        former = {run.base_tip, *(each.commit for each in run.members)}
        if found.sha in former and run.github_failures < _LAGGING:
            raise StaleRead("the build branch has moved on from what a read shows")
        return found.sha
    state.on_tip.add(run.id)
    return tip


async def _merge(state: TrainState, run: Run, member: RunMember, before: str, on_branch: str) -> Run | None:
    """Merge one member, and store its commit; None if the run has to be looked at again."""
    github, repository = state.engine.github, state.queue.repository
    if on_branch != before:
        # A former pass merged it, or somebody pushed.
        commit: Commit | None = await github.commit(repository, on_branch)
    else:
        try:
            commit = await github.merge_into(
                repository, run.build_branch, member.head_sha, await _message(state, member)
            )
        except HeadConflict:
            await _leave_out(state, run, member)
            return None
        except Forbidden as refusal:
            if not await await_workflows_permission(state, run, member, refusal.message):
                raise
            return None
    if commit is None:
        return await _contained(state, run, member, before)
    if commit.parents != (before, member.head_sha):
        await state.cancel(run, why="branch_changed")
        return None
    if member.method is MergeMethod.SQUASH:
        return await _squash(state, run, member, before, commit)
    return await _store(state, run, replace(member, commit=commit.sha, tree=commit.tree))


async def _squash(state: TrainState, run: Run, member: RunMember, before: str, merged: Commit) -> Run:
    """Replace the merge by one commit with its tree, as GitHub's squash makes it."""
    github, repository = state.engine.github, state.queue.repository
    commit = await github.create_commit(repository, merged.tree, [before], await _message(state, member))
    move = BranchUpdate(run.build_branch, before=merged.sha, after=commit.sha, force=True)
    await github.update_refs(repository, [move])
    return await _store(state, run, replace(member, commit=commit.sha, tree=commit.tree))


async def _store(state: TrainState, run: Run, built: RunMember) -> Run:
    assert run.id is not None
    state.on_tip.add(run.id)
    members = tuple(built if each.number == built.number else each for each in run.members)
    return await state.save_run(replace(run, members=members))


async def _contained(state: TrainState, run: Run, member: RunMember, before: str) -> Run | None:
    """Handle a head that the branch contains: it is part of a member before it, or the base has it already."""
    if before == run.base_tip:
        await state.end(run, removed_member(cancelled(state.memory, run.id), member.number), why="landed_elsewhere")
        if (entry := state.entry_of(member)) is not None:
            await state.updates.dequeue(entry, Reason.MERGED_ELSEWHERE, Facts(), detail=None)
        return None
    commit = await state.engine.github.commit(state.queue.repository, before)
    return await _store(state, run, replace(member, commit=before, tree=commit.tree))


async def _leave_out(state: TrainState, run: Run, member: RunMember) -> None:
    """Leave out a member that does not merge: onto the base, it leaves the queue; onto others, it waits for them."""
    assert run.id is not None
    others = run.numbers[: run.numbers.index(member.number)]
    if not others:
        await state.end(run, removed_member(cancelled(state.memory, run.id), member.number), why="conflict")
        if (entry := state.entry_of(member)) is not None:
            await state.updates.dequeue(entry, Reason.CONFLICT, Facts(), detail=None)
        return
    memory = without_member(state.memory, run.id, member.number, others)
    # The build branch exists, also where all other members were merged for another run.
    gone = later_ones(state.memory.trains, member.number)
    members = tuple(replace(each, reused=False) for each in run.members if each.number not in gone)
    if not run.tested - gone:
        # Nothing is left that the run was to test.
        await state.end(run, cancelled(memory, run.id), why="conflict")
        return
    async with state.change() as change:
        await change.tx.runs.save(replace(run, members=members, tested=run.tested - gone))
        await state.keep(change, memory)
        if (entry := state.entry_of(member)) is not None:
            await change.record("held_back", entry, data={"conflicts": list(others)})
    names = ", ".join(f"#{each}" for each in others)
    _log.info("held_back", repository=state.queue.repository.full_name, number=member.number, others=names)


async def _message(state: TrainState, member: RunMember) -> str:
    """Return the message of the commit that merges this member."""
    github, repository, facts = state.engine.github, state.queue.repository, facts_of(state, member)
    pull = None if facts is None else facts.pull
    if pull is None:
        pull = await github.pull_request(repository, member.number)
    texts = None
    if member.method is MergeMethod.MERGE and needs_commits(state.policy.merge.body):
        texts = await github.commit_texts(repository, member.number, author=pull.author)
    entry, reviewers = state.entry_of(member), approved_by(None if facts is None else facts.snapshot)
    queued_by = "" if entry is None else entry.queued_by
    return merge_message(pull, state.policy, member.method, queued_by, texts=texts, reviewers=reviewers)


async def _explain_refused_branch(state: TrainState, run: Run, message: str) -> str:
    """Return GitHub's message, and the branch that is in the way of the run's branches if there is one."""
    if _NOT_CREATED not in message.lower():
        return message
    above = [parent.as_posix() for branch in run.branches for parent in PurePosixPath(branch).parents]
    for name in dict.fromkeys(each for each in reversed(above) if each != "."):
        if await state.engine.github.branch_tip(state.queue.repository, name) is not None:
            return f"{message}: the branch {name} is in the way"
    return message


async def _tested_before(state: TrainState, run: Run) -> bool:
    """Apply the result of a run with the same tree, unless it may have flaked. Raises GitHubError."""
    tree = run.members[-1].tree
    assert tree is not None
    key = await key_of(state, run)
    planned = find_run(state.memory.trains, run.id)
    if planned is None or (known := known_result(state.memory, planned, key)) is None:
        return False
    if known:
        memory = passed(state.memory, planned, key, state.seconds)
        await state.save_run(
            replace(run, state=RunState.PASSED, proof=_taken_over(state.memory.proofs.get(key))), memory
        )
    else:
        await state.end(run, failed_before(state.memory, planned, key), why="failed_before")
    return True


def _taken_over(proof: LandingProof | None) -> LandingProof | None:
    """Return what another candidate with the same tree was tested by."""
    if proof is None:
        return None
    return replace(proof, checks=tuple(replace(each, kind=each.kind or ProofKind.SAME_TREE) for each in proof.checks))


async def learn_of_workflows(state: TrainState, run: Run) -> Run | None:
    """Judge the candidate's own workflows: a member may have changed those by which the trigger was chosen.

    Keep which checks judge the pull request by these, too. Where the run's trigger may start no test of the candidate,
    it is what these workflows need; None if there is none: trains are off then. GitHub takes the files from
    the commit or ref of the event (docs, "Triggering a workflow"; github/docs #44323). Raises GitHubError.
    """
    if str(run.id) in state.memory.pull_request_checks_in_runs:
        return run
    assert run.candidate is not None
    # `pull_request_target` takes its files from the default branch, whose own were judged before.
    choice = await read_choice(state, run.candidate, run.base_branch)
    found = set() if choice is None else {each.name for each in choice.pull_request_checks}
    names = tuple(each for each in state.memory.pull_request_checks if each in found)
    # Files that GitHub does not show prove no push; a draft starts what the members' own pull requests start.
    usable = choice is None and run.trigger is CandidateTrigger.PULL_REQUEST
    for each in choice.answers if choice is not None else ():
        usable |= each.trigger is run.trigger and (bool(each.runs) or each.can_be_tried)
    trigger = (
        choice.trigger if choice is not None and not (usable and names == state.memory.pull_request_checks) else None
    )
    if not usable and trigger is None:
        await state.switch_off(Reason.CI_UNPROVEN_ON_CANDIDATES, lines(choice))
        return None
    in_runs = {**state.memory.pull_request_checks_in_runs, str(run.id): names}
    memory = replace(state.memory, pull_request_checks_in_runs=in_runs)
    return await state.save_run(replace(run, trigger=trigger or run.trigger), memory)


async def publish(state: TrainState, run: Run) -> None:
    """Push the candidate's branch, start CI on it, and store that. Raises GitHubError."""
    assert run.candidate is not None
    github, repository = state.engine.github, state.queue.repository
    try:
        await github.create_branch(repository, run.branch, run.candidate)
    except Invalid as refusal:
        if EXISTS not in refusal.message.lower():
            raise
        # A former pass pushed it, and was killed; its id names no other branch.
        found = await github.branch_tip(repository, run.branch)
        if found is not None and found.sha != run.candidate:
            await state.cancel(run, why="branch_changed")
            return
    number = run.pull_request
    if run.trigger is CandidateTrigger.PULL_REQUEST and number is None:
        number = await _open(state, run)
    if run.trigger is CandidateTrigger.DISPATCH and not await _dispatch(state, run):
        return
    now = state.now
    due = now if run.completed_checks else now + state.policy.check_poll.base
    published = replace(run.without_failures(), state=RunState.TESTING, published_at=now, pull_request=number)
    await state.save_run(replace(published, checks_since=now, polls=0, next_poll_at=due))


async def _dispatch(state: TrainState, run: Run) -> bool:
    """Dispatch each workflow with a required check; False if GitHub does not know one, which ends the run.

    GitHub answers 404 for a workflow that the default branch has not (cli/cli #9781), and 422 for one without the
    trigger (benc-uk/workflow-dispatch #46).
    """
    assert run.base_tip is not None
    choice = await read_choice(state, run.base_tip)
    dispatched = [each for each in choice.answers if each.trigger is CandidateTrigger.DISPATCH] if choice else []
    for path in dict.fromkeys(path for each in dispatched for path in each.workflows):
        try:
            await state.engine.github.dispatch_workflow(state.queue.repository, path, run.branch, {})
        except (Invalid, NotFound) as refusal:
            await state.cancel(run, why="untested")
            detail = f"GitHub does not dispatch {path}: {refusal.message}"
            await trigger_failed(state, CandidateTrigger.DISPATCH, Reason.CI_SILENT_ON_CANDIDATES, detail)
            return False
    return True


async def _open(state: TrainState, run: Run) -> int:
    """Open the draft pull request of a candidate; its members are code, so that none is linked or closed by it."""
    members = ", ".join(f"`{number}`" for number in run.numbers)
    one = len(run.numbers) == 1
    title = f"Candidate of IMQ for {run.base_branch}: {len(run.numbers)} pull request{'' if one else 's'}"
    tested = f"this pull request: {members}" if one else f"these pull requests together: {members}"
    body = f"IMQ tests {tested}. IMQ closes this draft itself; merge nothing here."
    return await state.engine.github.open_draft(state.queue.repository, run.branch, run.base_branch, title, body)
