"""Read facts about entries from GitHub, with the labels of their pull requests that count."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from queue_engine.config.model import Policy
from queue_engine.domain.errors import Forbidden, NotFound
from queue_engine.domain.facts import CheckReport, CheckState, CommitFacts, PullRequest, Snapshot
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.port import Files, GitHub, MergeState, PendingMerge, SnapshotRequest
from queue_engine.domain.run import Run
from queue_engine.effects.context import Engine
from queue_engine.effects.labels import LabelStates, effective_labels, wanted_labels
from queue_engine.effects.renames import followed_login, is_somebody_else, named_by, remember_name
from queue_engine.known.own_writes import updated_by_imq
from queue_engine.planner.absent_checks import broken_runs, is_as_on_base
from queue_engine.planner.actions import OF_PULL, FactKind, Facts, ReadFact, RunContext
from queue_engine.planner.base_change import tips_to_compare
from queue_engine.rules.checks import (
    BaseChange,
    absent_checks,
    cancelled_jobs,
    former_checks,
    head_checks,
    judge,
    not_run,
    run_checks,
)
from queue_engine.rules.consent import needs_signature
from queue_engine.rules.job_rates import price_of
from queue_engine.rules.reviews import reviews_of, with_own_approvals

_T = TypeVar("_T")

NOT_MERGED = frozenset({MergeState.FAILED, MergeState.ENQUEUED})
"""GitHub's own queue would merge by its own rules, and was not asked for."""

_WITH_PULL = OF_PULL | {FactKind.FRESH_RULES}

_MOST_ACTIONS = 50
"""Local actions that are read. A workflow with others is unknown."""
_DEEPEST_ACTIONS = 10
"""Composite actions use each other to this depth."""


async def read_fact(github: GitHub, entry: Entry, fact: FactKind, facts: Facts, policy: Policy) -> Facts:
    """Read one fact about an entry or its run from GitHub, and return the facts with it."""
    repository = entry.repository
    match fact:
        case FactKind.PULL:
            return replace(facts, pull=await github.pull_request(repository, entry.number))
        case FactKind.SNAPSHOT:
            return await _snapshot(github, entry, facts, policy)
        case FactKind.COMPARISON:
            head = entry.run.new_head or entry.head_sha
            return replace(facts, comparison=await github.comparison(repository, entry.base_branch, head))
        case FactKind.BASE_CHANGE | FactKind.HEAD_PUSHES:
            return await _pushes(github, entry, fact, facts)
        case FactKind.FORMER_REPORTS:
            # All reports on that head count, so those of every source are read.
            reports = await github.check_reports(repository, entry.queued_head, frozenset())
            return replace(facts, former_reports=reports)
        case FactKind.LOST_UPDATE:
            assert facts.pull is not None
            return replace(facts, lost_update=await updated_by_imq(github, entry, facts.pull.head_sha))
        case FactKind.COMMIT_TEXTS:
            assert facts.pull is not None
            texts = await github.commit_texts(repository, entry.number, author=facts.pull.author)
            return replace(facts, commit_texts=texts)
        case FactKind.PERMISSION:
            return replace(facts, permission=await github.permission(repository, entry.queued_by))
        case FactKind.REVIEWS:
            assert facts.pull is not None
            assert facts.rules is not None
            reviews = await reviews_of(github, repository, facts.snapshot or Snapshot(facts.pull), facts.rules)
            return replace(facts, reviews=reviews or ())
        case FactKind.PENDING_MERGE:
            return await pending_merge(github, entry, facts)
    found = await read_run_fact(github, entry.run, RunContext.of(entry), fact, facts, policy)
    return await _snapshot(github, entry, found, policy) if fact is FactKind.FRESH_RULES else found


async def read_run_fact(
    github: GitHub, run: Run, of: RunContext, fact: FactKind, facts: Facts, policy: Policy, *, heads_only: bool = False
) -> Facts:
    """Read one fact about a run's checks, of other commits with `heads_only`; return the facts with it."""
    repository, tip = of.repository, run.base_tip or of.base_branch
    if fact is FactKind.RULES:
        rules = await github.branch_rules(repository, of.base_branch)
        return replace(facts, rules=with_own_approvals(rules, policy))
    if fact is FactKind.FRESH_RULES:
        github.forget_rules(repository.id)
        rules = await github.branch_rules(repository, of.base_branch)
        return replace(facts, rules=with_own_approvals(rules, policy), rules_fresh=True)
    required, candidate = run_checks(facts.rules, policy), run.candidate
    # Only a run with a candidate is tested.
    assert candidate is not None
    match fact:
        case FactKind.CHECKS:
            reports = await github.check_reports(repository, candidate, required)
            return replace(facts, reports=await _priced(github, repository, reports, policy))
        case FactKind.BASE_REPORTS:
            return replace(facts, base_reports=await github.check_reports(repository, tip, required))
        case FactKind.WORKFLOW_RUNS:
            return replace(facts, workflow_runs=await github.workflow_runs(repository, candidate))
        case FactKind.CANCELLED_FOR:
            jobs = [each.run_id for each in cancelled_jobs(facts.reports or (), required) if each.run_id is not None]
            return replace(facts, cancelled_for=await github.cancelled_for(repository, jobs[0]) if jobs else ())
        case FactKind.NOT_STARTED:
            failed = [each for each in facts.reports or () if each.state is CheckState.FAILED]
            job = not_run(judge(required, failed, policy.checks.ignored).failed)
            message = None if job is None or job.run_id is None else await github.not_started(repository, job.run_id)
            return replace(facts, not_started=message or "")
        case FactKind.SUITES:
            return replace(facts, suites=await github.check_suites(repository, candidate))
        case FactKind.RECENT_COMMITS:
            commit = await github.commit(repository, candidate)
            wanted = absent_checks(head_checks(facts.rules, policy) or former_checks(run), facts.reports or ())
            base = None if heads_only else of.base_branch
            reports = await github.reports_elsewhere(repository, base, commit.sha, wanted)
            return replace(facts, others=CommitFacts(commit.message, reports))
        case FactKind.BROKEN_ON_BASE:
            return replace(facts, broken_on_base=await _broken_on_base(github, repository, tip, candidate, facts))
    raise AssertionError(f"{fact} is no fact about the checks of a run")


async def _priced(
    github: GitHub, repository: Repository, reports: tuple[CheckReport, ...], policy: Policy
) -> tuple[CheckReport, ...]:
    """Return the reports with the prices of jobs, where the configuration asks for prices."""
    prices, jobs = policy.checks.prices, [each for each in reports if each.by_actions and not each.skipped]
    if prices is None or not jobs:
        return reports
    known = await github.job_labels(repository, jobs)
    return tuple(
        replace(each, price=price_of(known.labels[each.name], prices, public=known.public))
        if each.by_actions and each.name in known.labels
        else each
        for each in reports
    )


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


async def _broken_on_base(
    github: GitHub, repository: Repository, tip: str, candidate: str, facts: Facts
) -> frozenset[int]:
    """Return which workflows broke on the base's own account: they break there, too, or their files are as there.

    A file that works at the same event there is none of these. One may break at pull requests alone, while its pushes
    to the base pass (flipped-aurora/gin-vue-admin #2254).
    """
    runs = await github.workflow_runs(repository, tip)
    there = broken_runs(runs, await github.check_reports(repository, tip, frozenset()) if runs else ())
    works = {(run.workflow, run.event) for run in runs} - {(run.workflow, run.event) for run in there}
    broken = broken_runs(facts.workflow_runs or (), facts.reports or ())
    doubtful = [run for run in broken if (run.workflow, run.event) not in works]
    try:
        tested = await github.workflow_files(repository, candidate) if doubtful else {}
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


async def _read_snapshots(github: GitHub, entries: Sequence[Entry], policy: Policy) -> dict[str, Facts]:
    """Read snapshots of a repository's entries in few requests, by entry id; those not shown are missing."""
    if not entries:
        return {}
    requests = [SnapshotRequest(each.number, each.queued_by, each.head_sha) for each in entries]
    found = await github.snapshots(entries[0].repository, requests)
    return {
        each.id: with_snapshot(Facts(), _usable(found[each.number], each, policy))
        for each in entries
        if each.number in found
    }


async def _snapshot(github: GitHub, entry: Entry, facts: Facts, policy: Policy) -> Facts:
    snapshot = await github.snapshot(entry.repository, entry.number, login=entry.queued_by, head_sha=entry.head_sha)
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


async def pending_merge(github: GitHub, entry: Entry, facts: Facts) -> Facts:
    """Read the merge in the background; its failure is a refusal, and a merge that GitHub does not know is none."""
    assert entry.run.merge_uuid is not None
    try:
        pending = await github.pending_merge(entry.repository, entry.number, entry.run.merge_uuid)
    except NotFound as missing:
        pending = PendingMerge(MergeState.PENDING, missing.message)
    if pending.state not in NOT_MERGED:
        return replace(facts, pending_merge=pending)
    github.forget_rules(entry.repository.id)
    return replace(facts, pending_merge=pending, merge_refused=pending.message)


async def read_entry_fact(engine: Engine, entry: Entry, fact: FactKind, facts: Facts, policy: Policy) -> Facts | None:
    """Read a fact, and return the facts with it; None if the repository has another name. Raises GitHubError."""
    before = (await wanted_labels(engine.store, entry))[entry.id] if fact in _WITH_PULL else None
    read = await read_fact(engine.github, entry, fact, facts, policy)
    if fact is FactKind.HEAD_PUSHES:
        async with engine.store.reading() as tx:
            read = replace(read, ledger=await tx.consents.of(entry))
    if read.pull is None or read.pull is facts.pull:
        return read
    if (named := named_by(read.pull, entry.repository)) != entry.repository:
        await remember_name(engine, named)
        return None
    if fact is not FactKind.PULL and await followed_login(engine, entry, read.snapshot) is not None:
        return None
    return await _with_labels(engine, entry, read, read.pull, policy, before)


async def read_entry_snapshots(engine: Engine, entries: Sequence[Entry], policy: Policy) -> dict[str, Facts]:
    """Read entries in few requests; return facts by entry id, as far as shown. Raises GitHubError."""
    before = await wanted_labels(engine.store, *entries)
    read = await _read_snapshots(engine.github, entries, policy)
    found = dict[str, Facts]()
    for entry in entries:
        facts = read.get(entry.id)
        if facts is None or facts.pull is None or named_by(facts.pull, entry.repository) != entry.repository:
            continue
        if facts.snapshot is not None and is_somebody_else(entry, facts.snapshot):
            continue
        found[entry.id] = await _with_labels(engine, entry, facts, facts.pull, policy, before[entry.id])
    return found


async def _with_labels(
    engine: Engine, entry: Entry, read: Facts, pull: PullRequest, policy: Policy, before: LabelStates | None
) -> Facts:
    trusted = entry.trusted_labels
    pull = await effective_labels(engine.store, entry.repository, pull, trusted, policy, before=before)
    return replace(read, pull=pull)


async def workflow_texts(github: Files, repository: Repository, commit: str) -> dict[str, str]:
    """Read the workflows at a commit, and the local actions that they use. Raises GitHubError."""
    from queue_engine.workflows.step_proof import local_actions

    texts = dict(await github.workflow_files(repository, commit))
    asked: set[str] = set()
    for _ in range(_DEEPEST_ACTIONS):
        paths = [each for each in local_actions(texts.values()) if each not in asked]
        paths = paths[: 2 * _MOST_ACTIONS - len(asked)]
        if not paths:
            break
        asked.update(paths)
        texts |= await github.texts(repository, commit, paths)
    return texts
