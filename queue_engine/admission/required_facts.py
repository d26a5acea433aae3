"""Read what a base branch requires of a pull request, with reviews and signatures where they matter."""

from collections.abc import Collection
from dataclasses import replace

from queue_engine.admission.required_landings import landings_before
from queue_engine.config.model import Policy
from queue_engine.domain.facts import BranchRules, CheckReport, FailingCheck, PullRequest, RequiredCheck, Snapshot
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.port import GitHub
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.rules.checks import (
    absent_checks,
    failing_checks,
    head_checks,
    is_red,
    is_rerun_in_queue,
    judge,
    report_on_base,
    reports_since,
)
from queue_engine.rules.eligibility import (
    Answer,
    RequiredFacts,
    reads_files,
    unmet_by_rules,
    unmet_requirement,
    waits,
)
from queue_engine.rules.merge_method import merge_method, needs_signed_commits
from queue_engine.rules.priority import precedence_of
from queue_engine.rules.readiness import FOR_REPORTS, judge_readiness
from queue_engine.rules.reviews import missing_approval, reviews_of, with_own_approvals


async def requirements_of(
    engine: Engine,
    repository: Repository,
    taken: Snapshot,
    policy: Policy,
    *,
    by: str | None = None,
    waiting: Entry | None = None,
) -> tuple[Snapshot, RequiredFacts]:
    """Read the requirements of the base branch, and whether they are met, with the snapshot to judge.

    `by` queued it. A pull request that is `waiting` already may lack approvals by cached rules: a webhook says when
    these change. Raises GitHubError.
    """
    taken, requirements = await _requirements_of(engine, repository, taken, policy, is_waiting=waiting is not None)
    requirements = replace(requirements, landings=await landings_before(engine, repository, taken.pull, by))
    lacked = next((each for each in waiting.unmet if each.reason in FOR_REPORTS), None) if waiting else None
    if waiting is None or lacked is None or waiting.head_sha != taken.pull.head_sha:
        return taken, requirements
    required = head_checks(requirements.rules, policy)
    old = lacked.reason is Reason.TESTED_ON_ANOTHER_BASE
    reports = await engine.github.check_reports(repository, waiting.head_sha, required) if required or old else ()
    counted = reports
    if taken.base_changed_at is not None:
        suites = await engine.github.check_suites(repository, waiting.head_sha)
        counted = reports_since(reports, suites, taken.base_changed_at)
    # Where nothing is required, whatever reports counts.
    absent = lacked if absent_checks(required, counted) or (old and not counted) else None
    failing = requirements.failing or failing_checks(judge(required, reports).failed, reports)
    return taken, replace(requirements, absent=absent, failing=failing)


async def _requirements_of(
    engine: Engine, repository: Repository, taken: Snapshot, policy: Policy, *, is_waiting: bool
) -> tuple[Snapshot, RequiredFacts]:
    pull = taken.pull
    if pull.head_repository == repository.full_name:
        guarded = await engine.github.is_guarded(repository, pull.head_branch, pull.default_branch)
        taken = replace(taken, head_guarded=guarded)
    rules = with_own_approvals(await engine.github.branch_rules(repository, pull.base_branch, kept=True), policy)
    requirements = await read_requirements(engine.github, repository, taken, rules, policy)
    unmet = unmet_requirement(pull, repository, requirements, policy) is not None
    if unmet or (not is_waiting and unmet_by_rules(pull, requirements, policy)):
        # The rules may have changed since they were cached: IMQ rejects no pull request by cached rules alone. One that
        # waits is judged again, so that rules of the last seconds do.
        drop = engine.github.forget_rules if unmet else engine.github.expire_rules
        drop(repository.id)
        fresh = with_own_approvals(await engine.github.branch_rules(repository, pull.base_branch, kept=True), policy)
        if merge_method(pull, fresh, policy) is None:
            allowed = (await engine.github.snapshot(repository, pull.number, login=None)).pull.methods
            taken = replace(taken, pull=replace(pull, methods=allowed))
        if fresh != rules or taken.pull != pull:
            requirements = await read_requirements(engine.github, repository, taken, fresh, policy)
    return taken, requirements


async def read_requirements(
    github: GitHub, repository: Repository, taken: Snapshot, rules: BranchRules, policy: Policy
) -> RequiredFacts:
    """Read reviews, signatures and failed checks where these rules require them. Raises GitHubError."""
    pull = taken.pull
    signed = needs_signed_commits(pull, rules, policy)
    unsigned = await github.unsigned_commits(repository, pull.number) if signed else ()
    reviews = await reviews_of(github, repository, taken, rules)
    failing = await _failing_checks(github, repository, taken, rules, policy)
    tip = taken.base_tip or pull.base_branch
    files = (
        await github.paths_of_head(repository, pull.base_branch, tip, pull.head_sha) if reads_files(policy) else None
    )
    return RequiredFacts(
        rules,
        reviews,
        unsigned,
        taken.decision,
        taken.open_conversations,
        taken.stack,
        taken.code_owners,
        failing,
        files=files,
        review_requests=taken.review_requests,
    )


async def _failing_checks(
    github: GitHub, repository: Repository, taken: Snapshot, rules: BranchRules, policy: Policy
) -> tuple[FailingCheck, ...]:
    """Return the required checks that failed on the head; their reports are read only where GitHub says that one did.

    A job of GitHub Actions that broke down is not among them where IMQ reruns it in the queue. IMQ itself may have
    cancelled it, when the pull request left. A check that fails on the base branch, too, is not among them either: the
    queue pauses for that, and IMQ tests the pull request again on the repaired base. Raises GitHubError.
    """
    required = head_checks(rules, policy)
    if not (taken.failing and required and waits(policy)):
        return ()
    reports = await github.check_reports(repository, taken.pull.head_sha, required)
    failed = [each for each in judge(required, reports).failed if not is_rerun_in_queue(each, policy)]
    if failed and not precedence_of(taken.pull.labels, policy).fixes_base:
        on_base = await _reports_on_base(github, repository, taken, required, {each.name for each in failed})
        failed = [each for each in failed if not is_red(report_on_base(each, on_base))]
    return failing_checks(failed, reports)


async def _reports_on_base(
    github: GitHub, repository: Repository, taken: Snapshot, required: Collection[RequiredCheck], names: Collection[str]
) -> tuple[CheckReport, ...]:
    """Read the reports of these checks on the tip of the base branch. Raises GitHubError."""
    tip = taken.base_tip or taken.pull.base_branch
    return await github.check_reports(repository, tip, frozenset(each for each in required if each.name in names))


async def withdrawn_approval(
    engine: Engine, entry: Entry, rules: BranchRules
) -> tuple[PullRequest, tuple[Reason, str] | None]:
    """Read whether the rules require an approval that a queued pull request lacks now. Raises GitHubError."""
    taken = await engine.github.snapshot(entry.repository, entry.number, login=None)
    reviews = await reviews_of(engine.github, entry.repository, taken, rules)
    missing = None if reviews is None else missing_approval(reviews, rules, taken.decision, taken.code_owners)
    return taken.pull, missing


async def readiness_of(
    engine: Engine, entry: Entry, before: Entry, taken: Snapshot, policy: Policy
) -> tuple[Snapshot, RequiredFacts, Answer]:
    """Judge whether an entry that waits is ready; `before` is of its former head. Raises GitHubError."""
    taken, requirements = await requirements_of(
        engine, entry.repository, taken, policy, by=entry.queued_by, waiting=before
    )
    if taken.permission is None:
        taken = replace(taken, permission=await engine.github.permission(entry.repository, entry.queued_by))
    return taken, requirements, judge_readiness(entry, taken, requirements, policy)
