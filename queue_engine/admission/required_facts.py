"""Read what a base branch requires of a pull request, with reviews and signatures where they matter."""

from dataclasses import replace

from queue_engine.domain.facts import BranchRules, Snapshot
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Policy
from queue_engine.domain.port import GitHub
from queue_engine.effects.context import Engine
from queue_engine.rules.checks import head_checks, is_rerun_in_queue, judge
from queue_engine.rules.eligibility import RequiredFacts, unmet_by_rules, unmet_requirement, waits
from queue_engine.rules.failing_checks import failing_checks
from queue_engine.rules.merge_method import merge_method, needs_signed_commits
from queue_engine.rules.reviews import reviews_of


async def requirements_of(
    engine: Engine, repository: Repository, taken: Snapshot, policy: Policy, *, is_waiting: bool = False
) -> tuple[Snapshot, RequiredFacts]:
    """Read the requirements of the base branch, and whether they are met, with the snapshot to judge.

    A pull request that `is_waiting` already may lack approvals by cached rules: a webhook says when these change.
    Raises GitHubError.
    """
    pull = taken.pull
    if pull.head_repository == repository.full_name:
        guarded = await engine.github.is_guarded(repository, pull.head_branch, pull.default_branch)
        taken = replace(taken, head_guarded=guarded)
    rules = await engine.github.branch_rules(repository, pull.base_branch)
    requirements = await read_requirements(engine.github, repository, taken, rules, policy)
    unmet = unmet_requirement(pull, repository, requirements, policy) is not None
    if unmet or (not is_waiting and unmet_by_rules(pull, requirements)):
        # The rules may have changed since they were cached: IMQ rejects no pull request by cached rules alone.
        engine.github.forget_rules(repository.id)
        fresh = await engine.github.branch_rules(repository, pull.base_branch)
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
    return RequiredFacts(
        rules, reviews, unsigned, taken.decision, taken.open_conversations, taken.stack, taken.code_owners, failing
    )


async def _failing_checks(
    github: GitHub, repository: Repository, taken: Snapshot, rules: BranchRules, policy: Policy
) -> tuple[FailingCheck, ...]:
    """Return the required checks that failed on the head; their reports are read only where GitHub says that one did.

    A cancelled job of GitHub Actions is not among them where IMQ reruns it in the queue. IMQ itself may have cancelled
    it, when the pull request left. Raises GitHubError.
    """
    required = head_checks(rules, policy)
    if not (taken.failing and required and waits(policy)):
        return ()
    reports = await github.check_reports(repository, taken.pull.head_sha, required)
    failed = judge(required, reports).failed
    return failing_checks((each for each in failed if not is_rerun_in_queue(each, policy)), reports)
