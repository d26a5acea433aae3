"""Land the members of a run by GitHub's merge calls, in order, each with its head as a condition.

Each step is stored before it is done, and each landed tree is compared with the tree that the run has after that
member. Between the first step and the last the base has trees that no run tested by itself; nothing else lands then.
"""

from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine.core.timing.backoff import no_jitter, wait
from queue_engine.domain.candidate_run import CandidateMember, CandidateRun
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError
from queue_engine.domain.facts import MergeMethod, PullRequest
from queue_engine.domain.known_facts import KEPT, of_branch
from queue_engine.domain.model import Entry, RedBase
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.executor.landing import land
from queue_engine.executor.trains.member_facts import pull_of, verify
from queue_engine.executor.trains.state import TrainState
from queue_engine.known.branches import current_tip, pushes, superseded
from queue_engine.known.own_merges import answered_merge, record_merge_request
from queue_engine.planner.trains.commits import names_co_authors
from queue_engine.planner.trains.members import base_moved
from queue_engine.planner.trains.outcomes import landed
from queue_engine.rules.merge_method import commit_message

_log = structlog.get_logger("imq.trains")


async def merge_members(state: TrainState, run: CandidateRun) -> datetime | None:
    """Merge the members that have not landed; returns when to try again, None once all landed, or the run ended.

    Raises GitHubError.
    """
    if run.test.next_poll_at is not None and run.test.merge_refusals and run.test.next_poll_at > state.now:
        return run.test.next_poll_at
    for number in run.numbers:
        if not state.held():
            return state.now
        member = next(each for each in run.members if each.number == number)
        async with state.engine.store.reading() as tx:
            entry = await tx.entries.get(member.entry_id)
            answered = None if entry is None else await answered_merge(tx, entry, state.now)
        if entry is None and member.landed_sha is None:
            await stop_landing(state, run, f"#{number} left")
            return None
        if entry is None:
            continue
        sha = member.landed_sha or answered or await _merge(state, run, member, entry)
        if not isinstance(sha, str):
            return sha
        if member.landed_sha is None:
            run = await _with_commit(state, run, number, sha)
        if not await _land(state, run, member, entry, sha):
            return None
    await _finish(state, run)
    return None


async def _with_commit(state: TrainState, run: CandidateRun, number: int, sha: str) -> CandidateRun:
    """Store the commit that landed a member, before the member leaves the queue."""
    members = tuple(replace(each, landed_sha=sha) if each.number == number else each for each in run.members)
    test = replace(run.test, merge_refusals=0, refused_since=None)
    return await state.save_run(replace(run, members=members, test=test))


async def _merge(state: TrainState, run: CandidateRun, member: CandidateMember, entry: Entry) -> str | datetime | None:
    """Merge one member; returns the commit, when to try again, or None if the landing stopped."""
    github, repository = state.engine.github, state.queue.repository
    pull = pull_of(state, member) if run.id in state.landing else None
    if pull is None:
        # A former pass may have merged it.
        pull = await github.pull_request(repository, member.number)
    if pull.merged and pull.merge_sha is not None:
        return pull.merge_sha
    if (tip := await _foreign_tip(state, run)) is not None:
        await stop_landing(state, run, f"somebody pushed to {run.base_branch}", tip=tip)
        return None
    if run.id not in state.landing and await verify(state, entry, mergeable=False) is None:
        # Time has passed since the members were verified.
        await state.load()
        if state.entry_of(member) is not None:
            return state.now
        await stop_landing(state, run, f"#{member.number} may not land any more")
        return None
    title, body = await _message(state, member, pull)
    try:
        return await github.merge(repository, member.number, member.head, member.method, title=title, body=body)
    except (MergeError, HeadConflict, Invalid, Forbidden) as refusal:
        refusals = run.test.merge_refusals + 1
        since = run.test.refused_since or state.now
        late = state.now - since >= state.policy.refusal_timeout
        if isinstance(refusal, Forbidden) or (refusals > state.policy.merge_refusals and late):
            await stop_landing(state, run, refusal.message)
            return None
        again = state.now + wait(state.policy.ask_again, refusals - 1, random=no_jitter)
        test = replace(run.test, merge_refusals=refusals, refused_since=since, next_poll_at=again)
        await state.save_run(replace(run, test=test))
        return again


async def _foreign_tip(state: TrainState, run: CandidateRun) -> str | None:
    """Return the base's tip if a webhook reported a push by somebody else onto the last landed member."""
    landed_shas = [each.landed_sha for each in run.members if each.landed_sha is not None]
    if not landed_shas:
        return None
    subject = of_branch(run.base_branch)
    async with state.engine.store.reading() as tx:
        known = await tx.known.about(state.queue.repository.id, [subject], since=state.now - KEPT)
    pushed = pushes(known.get(subject, ()), state.now)
    return (current_tip(pushed) or landed_shas[-1]) if superseded(landed_shas[-1], pushed) else None


async def _message(state: TrainState, member: CandidateMember, pull: PullRequest) -> tuple[str | None, str | None]:
    authors: tuple[str, ...] = ()
    if names_co_authors(member.method, state.policy):
        repository = state.queue.repository
        authors = await state.engine.github.co_authors(repository, member.number, author=pull.author)
    return commit_message(pull, member.method, state.policy, authors)


async def _land(state: TrainState, run: CandidateRun, member: CandidateMember, entry: Entry, sha: str) -> bool:
    """Compare the landed tree, and take the member out of the queue; False if the trees differ, which pauses it."""
    commit = await state.engine.github.commit(state.queue.repository, sha)
    earlier = run.members[: run.numbers.index(member.number)]
    before = next((each.landed_sha for each in reversed(earlier) if each.landed_sha is not None), None)
    base = before or state.memory.base_tip
    tested = replace(entry, run=replace(entry.run, tested_tree=member.tree, base_tip=base))
    squashed = member.method is MergeMethod.SQUASH
    if await land(state.engine, state.queue, tested, commit, state.policy, squashed=squashed):
        return True
    await _release(state, run)
    await state.load()
    await state.end(state.find(run.id or 0), base_moved(state.memory, sha), why="tree_mismatch")
    return False


async def _finish(state: TrainState, run: CandidateRun) -> None:
    await state.load()
    planned = next((each for each in state.memory.trains.passed if each.id == run.id), None)
    commits = [each.landed_sha for each in run.members if each.landed_sha is not None]
    memory = state.memory
    if planned is not None and commits:
        memory = landed(memory, planned, commits[-1], commits)
    await state.end(state.find(run.id or 0), memory, why="landed")


async def _release(state: TrainState, run: CandidateRun) -> None:
    """Forget the merge requests of the members that have not landed."""
    async with state.engine.change() as change:
        for member in run.members:
            entry = await change.tx.entries.get(member.entry_id) if member.landed_sha is None else None
            if entry is not None and entry.run.merge_requested_at is not None:
                await change.tx.entries.save(replace(entry, run=replace(entry.run, merge_requested_at=None)))
                await record_merge_request(change.tx, entry, None, change.now)


async def stop_landing(state: TrainState, run: CandidateRun, why: str, *, tip: str | None = None) -> None:
    """Stop a landing. If members have landed, the tip is tested before anything else.

    `tip` is the base's tip, if that is not the commit of the last member that landed.
    """
    await _release(state, run)
    done = [each.landed_sha for each in run.members if each.landed_sha is not None]
    await state.load()
    if not done:
        await state.switch_off(Reason.CANDIDATE_LANDING_REFUSED, why)
        return
    tip = tip or done[-1]
    memory = base_moved(state.memory, tip)
    async with state.engine.change() as change:
        await state.end_within(change, state.find(run.id or 0), memory, why="stopped")
        detail = f"{len(done)} of {len(run.members)} members landed, then IMQ stopped: {why}"
        await record.pause(change, state.queue, Reason.TREE_MISMATCH, detail)
        later = change.now + state.policy.ask_again.maximum
        await change.tx.red_bases.note(state.queue.id, RedBase("", tip, change.now, 0, later, untested=True))
    _log.warning("landing_stopped", repository=state.queue.repository.full_name, message=why)
