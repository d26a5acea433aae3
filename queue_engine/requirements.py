"""What a base branch requires of a pull request, read of GitHub, with reviews and signatures where they matter."""

from dataclasses import replace

from queue_engine.approvals import reviews_of
from queue_engine.door import Demands, unmet
from queue_engine.engine import Engine
from queue_engine.facts import BranchRules, Snapshot
from queue_engine.merging import merge_method, needs_signed_commits
from queue_engine.model import Repository
from queue_engine.policy import Policy
from queue_engine.port import GitHub


async def demands_on(
    engine: Engine, repository: Repository, taken: Snapshot, policy: Policy
) -> tuple[Snapshot, Demands]:
    """What its base branch demands of a pull request, and how that is met, with the snapshot to judge it by.

    Raises GitHubError.
    """
    pull = taken.pull
    rules = await engine.github.branch_rules(repository, pull.base_branch)
    demands = await read_demands(engine.github, repository, taken, rules, policy)
    if unmet(pull, repository, demands, policy) is None:
        return taken, demands
    # Somebody may have changed them since they were read: nobody is refused over rules that are only remembered.
    engine.github.forget_rules(repository.id)
    fresh = await engine.github.branch_rules(repository, pull.base_branch)
    if merge_method(pull, fresh, policy) is None:
        allowed = (await engine.github.snapshot(repository, pull.number, login=None)).pull.methods
        taken = replace(taken, pull=replace(pull, methods=allowed))
    if fresh == rules and taken.pull == pull:
        return taken, demands
    return taken, await read_demands(engine.github, repository, taken, fresh, policy)


async def read_demands(
    github: GitHub, repository: Repository, taken: Snapshot, rules: BranchRules, policy: Policy
) -> Demands:
    """These rules, with reviews and signatures where they matter. Raises GitHubError."""
    pull = taken.pull
    signed = needs_signed_commits(pull, rules, policy)
    unsigned = await github.unsigned_commits(repository, pull.number) if signed else ()
    reviews = await reviews_of(github, repository, taken, rules)
    return Demands(rules, reviews, unsigned, taken.decision, taken.resolved)
