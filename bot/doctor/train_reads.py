"""Read what decides whether trains run on a base branch: workflow files, and the rules of both kinds of branches."""

from collections.abc import AsyncIterator

from bot.doctor.facts import TrainFacts
from bot.gateway.doctor_reads import PushRules
from bot.gateway.gateway import Gateway
from queue_engine.config.model import Policy
from queue_engine.domain.errors import NotFound
from queue_engine.domain.facts import BranchRules
from queue_engine.domain.model import Repository
from queue_engine.executor.triggers import choice_at
from queue_engine.rules.checks import run_checks
from queue_engine.rules.new_heads import made_by
from queue_engine.workflows.event_context import CandidateContext

_MOST_BRANCHES = 20


async def read_trains(
    gateway: Gateway, repository: Repository, branch: str, rules: BranchRules, policy: Policy
) -> TrainFacts | None:
    """Read with seven requests, and one for each branch of a train; None without trains.

    `branch` is the default branch.
    """
    if not policy.trains.enabled:
        return None
    tip = await gateway.branch_tip(repository, branch)
    if tip is None:
        raise NotFound(f"no branch {branch}")
    published, built = f"imq/{branch}/0", f"imq-build/{branch}/0"
    candidate = CandidateContext(repository.full_name, branch, published, default_branch=branch)
    required = run_checks(rules, policy)
    choice = await choice_at(gateway, repository, tip.sha, required, candidate, policy.trains.candidates)
    both = [await gateway.doctor.push_rules(repository, each, classic=False) for each in (published, built)]
    return TrainFacts(
        choice=choice,
        candidates=PushRules(tuple(dict.fromkeys(rule for each in both for rule in each.rules))),
        base=await gateway.doctor.push_rules(repository, branch, classic=True),
        unproved=tuple([branch async for branch in _unproved(gateway, repository)]),
    )


async def _unproved(gateway: Gateway, repository: Repository) -> AsyncIterator[str]:
    for branch, tip in list((await gateway.candidate_branches(repository)).items())[:_MOST_BRANCHES]:
        if not made_by(await gateway.own_login(), await gateway.branch_pushes(repository, branch), tip):
            yield branch
