"""Send the requests for the front entry: read facts, update, merge, rerun.

A refusal that depends on the pull request becomes a fact for `decide`; every other error is raised.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from queue_engine.config.model import Policy
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError, NotFound, Refused
from queue_engine.domain.facts import CheckReport, Commit, MergeMethod, Snapshot
from queue_engine.domain.model import Entry
from queue_engine.domain.port import GitHub, PendingMerge, SnapshotRequest
from queue_engine.domain.reasons import Reason
from queue_engine.domain.workflow_runs import CommitFacts
from queue_engine.executor.stack_requests import merge_stacked, merge_unknown_stack, pending_merge, update_stacked
from queue_engine.planner.absent_checks import broken_runs, is_as_on_base
from queue_engine.planner.actions import FactKind, Facts, Merge, ReadFact
from queue_engine.planner.base_change import tips_to_compare
from queue_engine.planner.github_outage import out_of_order, settled
from queue_engine.planner.merge_errors import named, refused_merge
from queue_engine.rules.base_change import BaseChange, need_no_test
from queue_engine.rules.checks import absent_checks, cancelled_jobs, former_checks, head_checks, run_checks
from queue_engine.rules.new_heads import needs_signature
from queue_engine.rules.reviews import reviews_of

_FORBIDDEN = 403
_T = TypeVar("_T")


async def read_fact(
    github: GitHub, entry: Entry, fact: FactKind, facts: Facts, policy: Policy, *, heads_only: bool = False
) -> Facts:
    """Read one fact from GitHub, and return the facts with it.

    `heads_only`: of other commits, only heads of pull requests count.
    """
    repository, base = entry.repository, entry.base_branch
    required = run_checks(facts.rules, policy)
    match fact:
        case FactKind.PULL:
            return replace(facts, pull=await github.pull_request(repository, entry.number))
        case FactKind.SNAPSHOT:
            return await _snapshot(github, entry, facts, policy)
        case FactKind.FRESH_RULES:
            github.forget_rules(repository.id)
            rules = await github.branch_rules(repository, base)
            return await _snapshot(github, entry, replace(facts, rules=rules, rules_fresh=True), policy)
        case FactKind.COMPARISON:
            head = entry.run.new_head or entry.head
            return replace(facts, comparison=await github.comparison(repository, base, head))
        case FactKind.BASE_CHANGE | FactKind.HEAD_PUSHES:
            return await _pushes(github, entry, fact, facts)
        case FactKind.CHECKS:
            return replace(facts, reports=await github.check_reports(repository, _candidate(entry), required))
        case FactKind.BASE_REPORTS:
            reports = await github.check_reports(repository, entry.run.base_tip or base, required)
            return replace(facts, base_reports=reports)
        case FactKind.WORKFLOW_RUNS:
            return replace(facts, workflow_runs=await github.workflow_runs(repository, _candidate(entry)))
        case FactKind.FORMER_REPORTS:
            # All reports on that head count, so those of every source are read.
            reports = await github.check_reports(repository, entry.queued_head, frozenset())
            return replace(facts, former_reports=reports)
        case FactKind.CANCELLED_FOR:
            jobs = [each.run_id for each in cancelled_jobs(facts.reports or (), required) if each.run_id is not None]
            return replace(facts, cancelled_for=await github.cancelled_for(repository, jobs[0]) if jobs else ())
        case FactKind.SUITES:
            return replace(facts, suites=await github.check_suites(repository, _candidate(entry)))
        case FactKind.RECENT_COMMITS:
            return replace(facts, others=await _recent_commits(github, entry, facts, policy, heads_only))
        case FactKind.BROKEN_ON_BASE:
            return replace(facts, broken_on_base=await _broken_on_base(github, entry, facts))
        case FactKind.CO_AUTHORS:
            assert facts.pull is not None
            authors = await github.co_authors(repository, entry.number, author=facts.pull.author)
            return replace(facts, co_authors=authors)
        case FactKind.PERMISSION:
            return replace(facts, permission=await github.permission(repository, entry.queued_by))
        case FactKind.REVIEWS:
            assert facts.pull is not None
            assert facts.rules is not None
            reviews = await reviews_of(github, repository, facts.snapshot or Snapshot(facts.pull), facts.rules)
            return replace(facts, reviews=reviews or ())
        case FactKind.RULES:
            return replace(facts, rules=await github.branch_rules(repository, base))
        case FactKind.PENDING_MERGE:
            return await pending_merge(github, entry, facts)


async def judged(
    judge: Callable[[Facts], _T],
    read: Callable[[FactKind, Facts], Awaitable[Facts | None]],
    facts: Facts | None = None,
) -> tuple[_T | None, Facts]:
    """Judge, and read missing facts, until there is an answer; None if a read ends that. Raises GitHubError."""
    facts = facts or Facts()
    for _ in range(len(FactKind) + 4):
        answer = judge(facts)
        if not isinstance(answer, ReadFact):
            return answer, facts
        if (found := await read(answer.fact, facts)) is None:
            return None, facts
        facts = found
    raise AssertionError("more facts than there are")


async def _recent_commits(github: GitHub, entry: Entry, facts: Facts, policy: Policy, heads_only: bool) -> CommitFacts:
    commit = await github.commit(entry.repository, _candidate(entry))
    wanted = absent_checks(head_checks(facts.rules, policy) or former_checks(entry.run), facts.reports or ())
    base = None if heads_only else entry.base_branch
    reports = await github.reports_elsewhere(entry.repository, base, commit.sha, wanted)
    return CommitFacts(commit.message, reports)


async def _broken_on_base(github: GitHub, entry: Entry, facts: Facts) -> frozenset[int]:
    """Return which workflows broke on the base's own account: they break there, too, or their files are as there.

    A file that works at the same event there is none of these. One may break at pull requests alone, while its pushes
    to the base pass (flipped-aurora/gin-vue-admin #2254).
    """
    repository, tip = entry.repository, entry.run.base_tip or entry.base_branch
    runs = await github.workflow_runs(repository, tip)
    there = broken_runs(runs, await github.check_reports(repository, tip, frozenset()) if runs else ())
    works = {(run.workflow, run.event) for run in runs} - {(run.workflow, run.event) for run in there}
    broken = broken_runs(facts.workflow_runs or (), facts.reports or ())
    doubtful = [run for run in broken if (run.workflow, run.event) not in works]
    try:
        tested = await github.workflow_files(repository, _candidate(entry)) if doubtful else {}
        on_base = await github.workflow_files(repository, tip) if doubtful else {}
    except (Forbidden, NotFound):
        tested = on_base = {}
    same = {run.workflow for run in doubtful if is_as_on_base(run.path, tested, on_base)}
    return frozenset(same | {run.workflow for run in there})


async def _pushes(github: GitHub, entry: Entry, fact: FactKind, facts: Facts) -> Facts:
    """Read what was pushed to the base, or to the head branch."""
    if fact is FactKind.HEAD_PUSHES:
        assert facts.pull is not None
        return replace(facts, head_pushes=await github.head_pushes(entry.repository, facts.pull))
    tips = tips_to_compare(entry, facts)
    assert tips is not None
    paths = await github.changed_paths(entry.repository, entry.base_branch, *tips)
    return replace(facts, base_change=BaseChange(*tips, paths))


def _candidate(entry: Entry) -> str:
    """Return the commit whose checks count: only an entry with a bound candidate is checked."""
    assert entry.run.candidate is not None
    return entry.run.candidate


async def read_snapshots(github: GitHub, entries: Sequence[Entry], policy: Policy) -> dict[str, Facts]:
    """Read the snapshots of entries of one repository in few requests; returns facts by the entries' ids.

    The entries that GitHub did not show are missing.
    """
    if not entries:
        return {}
    requests = [SnapshotRequest(each.number, each.queued_by, each.head) for each in entries]
    found = await github.snapshots(entries[0].repository, requests)
    return {
        each.id: with_snapshot(Facts(), _usable(found[each.number], each, policy))
        for each in entries
        if each.number in found
    }


async def _snapshot(github: GitHub, entry: Entry, facts: Facts, policy: Policy) -> Facts:
    snapshot = await github.snapshot(entry.repository, entry.number, login=entry.queued_by, head_sha=entry.head)
    return with_snapshot(facts, _usable(snapshot, entry, policy))


def _usable(snapshot: Snapshot, entry: Entry, policy: Policy) -> Snapshot:
    """Return the snapshot, without a comparison that cannot prove the head."""
    if not entry.head_proved and needs_signature(policy):
        # GraphQL names no bot as a commit's author; REST shows whether IMQ made the commit.
        return replace(snapshot, comparison=None)
    return snapshot


def with_snapshot(facts: Facts, snapshot: Snapshot) -> Facts:
    """Return the facts with those of a snapshot; if the snapshot lacks the comparison, IMQ reads it separately."""
    return replace(
        facts, pull=snapshot.pull, permission=snapshot.permission, comparison=snapshot.comparison, snapshot=snapshot
    )


async def update(github: GitHub, entry: Entry, now: datetime) -> Facts:
    """Request the update of the entry's branch; return GitHub's refusal as a fact, or no facts.

    IMQ may bypass rules of a branch that hold for people with write permission. With a pull request from `main` to
    their own branch, they would have IMQ merge that branch into `main` ("merged dev into master": react-boilerplate
    #2585).
    """
    if entry.shared_head is not None:
        tip = await github.branch_tip(entry.repository, entry.shared_head)
        if tip is not None and tip.protected:
            return Facts(update_refused=entry.shared_head, head_protected=True)
    try:
        await github.update_branch(entry.repository, entry.number, entry.head)
    except (Forbidden, Invalid, Refused) as refusal:
        if named(refusal.message) is Reason.STACKED:
            return await update_stacked(github, entry, refusal.message)
        lasting = settled(entry, out_of_order(refusal), now)
        if isinstance(lasting, Refused) and not await _closed_fork(github, entry, lasting):
            raise lasting from refusal
        return Facts(update_refused=refusal.message, update_forbidden=not isinstance(lasting, Invalid))
    return Facts()


async def _closed_fork(github: GitHub, entry: Entry, refusal: Refused) -> bool:
    """Whether GitHub refuses an update because a fork's author does not let maintainers push to the branch."""
    if refusal.status != _FORBIDDEN or refusal.disorder is not None:
        return False
    pull = await github.pull_request(entry.repository, entry.number)
    return pull.head_repository != entry.repository.full_name and not pull.maintainer_can_modify


async def merge(
    github: GitHub, entry: Entry, how: Merge, refused: frozenset[MergeMethod], now: datetime
) -> str | PendingMerge | Facts:
    """Merge the entry's head; return the commit that landed, GitHub's merge in the background, or its refusal.

    `refused` are the methods that GitHub refused before; a refusal that names this method adds it.
    """
    try:
        if how.in_background:
            return await merge_stacked(github, entry, how, refused)
        return await github.merge(
            entry.repository, entry.number, entry.head, how.method, title=how.title, body=how.body
        )
    except (MergeError, HeadConflict, Forbidden, Refused, Invalid) as refusal:
        lasting = settled(entry, out_of_order(refusal), now)
        if isinstance(lasting, Refused):
            raise lasting from refusal
        if named(refusal.message) is Reason.STACKED and not how.in_background:
            return await merge_unknown_stack(github, entry, how, refusal.message, refused)
        if isinstance(lasting, Forbidden):
            return Facts(merge_refused=refusal.message, merge_denied=Reason.PERMISSION_MISSING)
        github.forget_rules(entry.repository.id)
        return refused_merge(refusal.message, how.method, refused)


@dataclass(frozen=True, slots=True)
class LandingCommit:
    """The commit that landed an entry, and the branch that it landed on."""

    commit: Commit
    branch: str
    untested: tuple[str, ...] = ()
    """The files in which its tree differs from the tested one, if these need no test; empty for any other trees."""


async def landed(github: GitHub, entry: Entry, sha: str | None, facts: Facts, policy: Policy) -> LandingCommit:
    """Read the commit that landed the entry: the base's tip if `sha` is None."""
    if sha is None:
        sha = (await github.comparison(entry.repository, entry.base_branch, entry.head)).base_tip
    commit = await github.commit(entry.repository, sha)
    untested = await _untested(github, entry, commit, policy)
    return LandingCommit(commit, await landed_on(github, entry, commit, facts, tested=bool(untested)), untested)


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


async def rerun(github: GitHub, entry: Entry, failed: Iterable[CheckReport], now: datetime) -> str | None:
    """Rerun these jobs of GitHub Actions, each workflow run once; return GitHub's message if it refuses one."""
    for run in dict.fromkeys(check.actions_run for check in failed if check.actions_run is not None):
        try:
            await github.rerun(entry.repository, run)
        except (Forbidden, NotFound, Invalid, Refused) as refusal:
            if isinstance(settled(entry, refusal, now), Refused):
                raise
            return refusal.message
    return None
