"""Land what GitHub merged: compare the landed tree with the tested tree, and pause the queue on a mismatch (P1).

GitHub may also land in the background what IMQ requested, after the entry of the pull request has left its queue. No
call stops such a merge, and an entry waits for it no longer than its time limit (P5). Others may have landed meanwhile,
so that the merge made an untested tree. A webhook reports the landing, or a sweep finds it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.jobs.job import Job
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError, NotFound
from queue_engine.domain.facts import Commit, PullRequest
from queue_engine.domain.known_facts import Fact, Push, of_branch
from queue_engine.domain.landing_record import is_proved
from queue_engine.domain.model import Entry, EntryStatus, Queue, RedBase, Repository
from queue_engine.domain.port import NO_BRANCH, BranchUpdate, GitHub, PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import remove_testing_label
from queue_engine.effects.landings import record_landing
from queue_engine.effects.notices import announce_landed
from queue_engine.executor.cleanup import schedule_branch_deletion
from queue_engine.known.pulls import pushes
from queue_engine.planner.actions import Facts
from queue_engine.rules.check_progress import figures_of
from queue_engine.rules.checks import need_no_test
from queue_engine.rules.departure_facts import is_requested_merge
from queue_engine.rules.job_rates import figures_of_run
from queue_engine.rules.proof import is_marked
from queue_engine.rules.transitions import check_transition

_log = structlog.get_logger("imq.landing")

NOTES_JOB = "write_notes"
"""Kind of the job that writes the passports of a repository's landings as notes."""

NOTES_AFTER = timedelta(minutes=10)
"""How long landings are collected, so that their notes share requests."""

GREEN_JOB = "move_green_branch"
"""Kind of the job that moves a base's green branch to a commit that was proved."""

_MOST_LATEST = 50
"""Among so many landings is the newest one that is proved: no train has more members."""


@dataclass(frozen=True, slots=True)
class _LandingCommit:
    """The commit that landed an entry, and the branch that it landed on."""

    commit: Commit
    branch: str
    untested: tuple[str, ...] = ()
    """The files in which its tree differs from the tested one, if these need no test; empty for any other trees."""


async def _landing_commit(
    github: GitHub, entry: Entry, sha: str | None, facts: Facts, policy: Policy
) -> _LandingCommit:
    """Read the commit that landed the entry: the base's tip if `sha` is None."""
    if sha is None:
        sha = (await github.comparison(entry.repository, entry.base_branch, entry.head_sha)).base_tip
    commit = await github.commit(entry.repository, sha)
    untested = await _untested(github, entry, commit, policy)
    return _LandingCommit(commit, await landed_on(github, entry, commit, facts, tested=bool(untested)), untested)


async def _untested(github: GitHub, entry: Entry, landed: Commit, policy: Policy) -> tuple[str, ...]:
    """Return the files in which the trees differ, if none of them needs a test: the base moved after the test."""
    tested = entry.run.tested_tree
    if not policy.checks.untested_paths or tested is None or landed.tree == tested:
        return ()
    paths = await github.differing_paths(entry.repository, tested, landed)
    return tuple(sorted(paths)) if paths and need_no_test(paths, policy) else ()


async def landed_on(github: GitHub, entry: Entry, landed: Commit, facts: Facts, *, tested: bool = False) -> str:
    """Return the branch that the entry was merged into: its author may change the base branch until GitHub merges.

    GitHub's merge takes the head as a condition, and not the base (docs, "Merge a pull request": `sha`;
    InterCooperative-Network/icn #2659). A merged pull request keeps its base branch (go-github #3456). So IMQ reads the
    pull request, unless the landed commit has the tested tree (or one that is as good: `tested`) on the tested base.
    """
    pull = facts.pull
    if pull is None or not pull.merged:
        if (tested or landed.tree == entry.run.tested_tree) and entry.run.base_tip in landed.parents:
            return entry.base_branch
        try:
            pull = await github.pull_request(entry.repository, entry.number)
        except (Forbidden, NotFound):
            # The mismatch of the trees has to be reported in any case.
            return entry.base_branch
    return pull.base_branch if pull.merged else entry.base_branch


async def land_merged(
    engine: Engine, queue: Queue, entry: Entry, sha: str | None, facts: Facts, policy: Policy, *, squashed: bool = False
) -> None:
    """Remove an entry that GitHub merged, as this commit if it is known. Raises GitHubError, and StaleRecord."""
    landed = await _landing_commit(engine.github, entry, sha, facts, policy)
    if landed.branch != entry.base_branch:
        await _land_elsewhere(engine, entry, landed.commit, landed.branch, policy)
        return
    await land(engine, queue, entry, landed.commit, policy, squashed=squashed, untested=landed.untested)


async def land(
    engine: Engine,
    queue: Queue,
    entry: Entry,
    landed: Commit,
    policy: Policy,
    *,
    squashed: bool = False,
    untested: Sequence[str] = (),
    departed: bool = False,
) -> None:
    """Remove a merged entry, in one transaction with all effects of its landing.

    The trees also agree if they differ only in files that need no test, which `untested` names. `squashed`: GitHub
    merged by the method squash. False for other methods, and if the method is not known. All other entries now lack the
    landed commit, so that the next front is updated without a read. If the entry `departed` before, its landing is an
    event of the queue, and counts in no statistics. Raises StaleRecord if the entry changed since it was read.
    """
    check_transition(entry.status, EntryStatus.LANDED)
    mismatch = _mismatch_of(entry, landed, untested)
    async with engine.change() as change:
        tx, now, run = change.tx, change.now, None
        pended = await tx.pending_merges.remove(entry.repository.id, entry.number)
        if not departed:
            if entry.run.has_branch and entry.run.id is not None:
                run = await tx.runs.note_landed(entry.run.id, entry.number, landed.sha)
            await tx.entries.remove(entry)
        elif not pended:
            return
        await tx.rejections.clear(entry.repository.id, entry.number)
        proved = await record_landing(change, entry, landed, policy, run, untested=untested)
        await announce_landed(change, entry, landed.sha, policy, mismatch=mismatch, untested=untested)
        trees = {"sha": landed.sha, "tree": landed.tree, "tested_tree": entry.run.tested_tree, "head": entry.head_sha}
        if departed:
            await change.record(EntryStatus.LANDED.value, queue, number=entry.number, data=trees)
        else:
            await remove_testing_label(change, entry, policy)
            events = await tx.timeline.of_pull_request(entry.repository.id, entry.number)
            data = trees | figures_of(entry, events, now) | _spared(entry, policy, now)
            await change.record(EntryStatus.LANDED.value, entry, delivery=entry.delivery, data=data)
            for other in await tx.entries.of_queue(queue.id, most=policy.depth or None):
                await tx.entries.save(replace(other, newer_tip=landed.sha))
        await record.note_set_landed(change, entry, landed.sha)
        await tx.known.record(entry.repository.id, moves(entry, landed), now)
        await _schedule_notes(change, entry.repository, policy)
        await tx.queues.wake(queue.id, now)
        if mismatch is not None:
            # Until a maintainer resumes it, or the checks of the landed tip if these can explain it.
            await record.pause(change, queue, Reason.TREE_MISMATCH, mismatch)
            await _record_untested_tip(change, queue, entry, landed, policy, squashed=squashed)
        else:
            if not departed:
                # The base has a tree whose checks passed.
                await tx.red_bases.note(queue.id, None)
            if proved:
                await schedule_green(change, queue.id, landed.sha, policy)
            await schedule_branch_deletion(tx, entry, policy, now)
    if mismatch is None:
        _log.info("landed", repository=entry.repository.full_name, number=entry.number, sha=landed.sha)
    else:
        _log.critical("tree_mismatch", repository=entry.repository.full_name, detail=mismatch)


def _spared(entry: Entry, policy: Policy, now: datetime) -> dict[str, Any]:
    """Return, as data of an event, what jobs a ref of the tested tree spares on the base; members share one ref."""
    checks = policy.merge.tested_refs
    if not is_marked(entry.run.proof, checks):
        return {}
    names = {each.name for each in checks}
    run = replace(entry.run, timings=tuple(each for each in entry.run.timings if each.name in names))
    spent, reruns = figures_of_run(run, now)
    once = (spent + reruns.times(-1)).times(1 / max(1, len(run.members)))
    return {"spared_jobs": asdict(once)} if once.minutes else {}


def _mismatch_of(entry: Entry, landed: Commit, untested: Sequence[str]) -> str | None:
    """Say how the landed tree differs from the tested one; None if they agree, but for files that need no test."""
    if entry.run.tested_tree == landed.tree or untested:
        return None
    return f"#{entry.number} landed as {landed.sha} with tree {landed.tree}; tested was {entry.run.tested_tree}"


async def _land_elsewhere(engine: Engine, entry: Entry, landed: Commit, branch: str, policy: Policy) -> None:
    """Dequeue an entry that GitHub merged into another branch than its base branch.

    The base branch did not move, so its queue proceeds. Raises StaleRecord if the entry changed since it was read.
    """
    reason, detail = Reason.BASE_CHANGED_AT_MERGE, f"merged into {branch} as {landed.sha}"
    await engine.write(lambda change: record.dequeue(change, entry, DequeueReason(reason, detail), policy))
    _log.critical(reason.value, repository=entry.repository.full_name, number=entry.number, detail=detail)


async def _record_untested_tip(
    change: Change, queue: Queue, entry: Entry, landed: Commit, policy: Policy, *, squashed: bool
) -> None:
    """Have the checks of the new tip polled, if a push by hand explains the mismatch: they may resume the queue."""
    known = await change.tx.known.lately(entry.repository.id, of_branch(entry.base_branch), change.now)
    pushed = pushes(known, change.now)
    if _pushed_by_hand(entry, landed, pushed, squashed=squashed):
        next_poll_at = change.now + policy.ask_again.maximum
        untested = RedBase("", landed.sha, change.now, 0, next_poll_at, untested=True)
        await change.tx.red_bases.note(queue.id, untested)


def _pushed_by_hand(entry: Entry, landed: Commit, pushed: Iterable[Push], *, squashed: bool) -> bool:
    """Whether the trees differ because somebody pushed to the base between the last read and the merge.

    Then the checks of the new tip decide; any other mismatch needs a person. The parents of a merge commit, and of a
    squashed one (docs, "About pull request merges"), show the tip that GitHub merged into. The parent of any other
    commit may be an earlier commit of the same rebase: then only a push that a webhook reported counts.
    """
    if entry.run.base_tip is None or entry.run.base_tip in landed.parents:
        return False
    if squashed or len(landed.parents) > 1:
        return True
    return any(push.before == entry.run.base_tip and push.after != landed.sha for push in pushed)


def moves(entry: Entry, landed: Commit) -> list[Fact]:
    """Return the base's moves: from the tested tip, and from the landed commit's parent, to the landed commit."""
    left = dict.fromkeys((entry.run.base_tip, *landed.parents[:1]))
    moves = [Push(before=tip, after=landed.sha) for tip in left if tip is not None and tip != landed.sha]
    return [Fact(subject=of_branch(entry.base_branch), statement=move) for move in moves]


async def settle_pending_merge(engine: Engine, repository: Repository, number: int) -> None:
    """Compare the trees if GitHub carried out IMQ's merge after the entry had left. Raises GitHubError."""
    async with engine.store.reading() as tx:
        entry = await tx.pending_merges.find(repository.id, number)
        if entry is None or await tx.entries.is_queued(repository.id, number):
            return
        queue = await tx.queues.get(entry.queue_id)
    assert queue is not None
    pull = await engine.github.pull_request(entry.repository, number)
    if pull.open:
        return
    policy = await engine.policies.of(entry.repository, entry.base_branch)
    landed = await _landed(engine, entry, pull, policy)
    if landed is None or landed.branch != entry.base_branch:
        await engine.write(lambda change: change.tx.pending_merges.remove(repository.id, number))
        _log.info("pending_merge_ended", repository=repository.full_name, number=number, merged=pull.merged)
        return
    await land(engine, queue, entry, landed.commit, policy, untested=landed.untested, departed=True)


async def _landed(engine: Engine, entry: Entry, pull: PullRequest, policy: Policy) -> _LandingCommit | None:
    """Return the commit by which GitHub landed the entry as IMQ requested; None if it did not."""
    if not pull.merged:
        return None
    github, is_shown = engine.github, pull.merged_by is not None and pull.merge_sha is not None
    pending = None if is_shown else await _pending(github, entry)
    if not is_requested_merge(pull, await github.own_login(), pending):
        return None
    sha = pull.merge_sha or (pending.sha if pending else None)
    return await _landing_commit(github, entry, sha, Facts(pull=pull), policy)


async def _pending(github: GitHub, entry: Entry) -> PendingMerge | None:
    """Read how far the requested merge is; None if GitHub no longer knows it."""
    try:
        return await github.pending_merge(entry.repository, entry.number, entry.run.merge_uuid or "")
    except NotFound:
        return None


async def _schedule_notes(change: Change, repository: Repository, policy: Policy) -> None:
    """Have the landing's passport written as a note, where the configuration asks for that."""
    if policy.merge.notes:
        request, at = {"repository_id": repository.id}, change.now + NOTES_AFTER
        await change.enqueue(NOTES_JOB, request, repository.id, at=at, priority=-1, once=True)


async def schedule_green(change: Change, queue_id: int, sha: str, policy: Policy) -> None:
    """Have the green branch moved to a commit that was proved, where the configuration names such a branch."""
    if policy.merge.green_branch is not None:
        await change.enqueue(GREEN_JOB, {"queue_id": queue_id, "sha": sha}, queue_id, sha)


async def move_green(engine: Engine, job: Job) -> None:
    """Move the green branch to the proved commit of this job, by one request where IMQ alone moves it.

    A later landing that is proved has a job of its own: then this one sends nothing. Raises GitHubError.
    """
    sha = str(job.request["sha"])
    async with engine.store.reading() as tx:
        queue = await tx.queues.get(int(job.request["queue_id"]))
        assert queue is not None
        latest = await tx.landings.latest(queue.repository.id, _MOST_LATEST, base_branch=queue.base_branch)
        before = await tx.queues.green_tip(queue.id)
    policy = await engine.policies.of(queue.repository, queue.base_branch)
    newest = next((each.sha for each in latest if is_proved(each.record)), sha)
    of_landing = any(each.sha == sha for each in latest)
    if policy.merge.green_branch is None or before == sha or (of_landing and newest != sha):
        return
    name = policy.merge.green_branch.replace("{base}", queue.base_branch)
    try:
        await _move_green(engine.github, queue.repository, name, before, sha)
    except (Forbidden, Invalid, HeadConflict, MergeError) as refused:
        _log.warning("green_branch_refused", repository=queue.repository.full_name, branch=name, error=str(refused))
        return
    await engine.write(lambda change: change.tx.queues.note_green(queue.id, sha))
    _log.info("green_branch_moved", repository=queue.repository.full_name, branch=name, sha=sha)


async def _move_green(github: GitHub, repository: Repository, name: str, before: str | None, sha: str) -> None:
    """Move the branch by compare-and-swap; where it is elsewhere than IMQ left it, from there, and only forward."""
    try:
        await github.update_refs(repository, [BranchUpdate(name, before=before or NO_BRANCH, after=sha)])
    except (HeadConflict, MergeError):
        found = await github.branch_tip(repository, name)
        if found is not None and found.sha == sha:
            return
        if found is not None and (await github.comparison(repository, name, sha)).merge_base != found.sha:
            raise
        start = NO_BRANCH if found is None else found.sha
        await github.update_refs(repository, [BranchUpdate(name, before=start, after=sha)])
