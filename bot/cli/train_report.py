"""Say which trigger would start CI on trains of one base branch, why, and which lines of workflows are missing."""

from collections.abc import Iterable, Sequence

from queue_engine.config.model import Policy, TrainRules
from queue_engine.domain.facts import BranchRules, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHub
from queue_engine.domain.run import CandidateTrigger
from queue_engine.executor.triggers import choice_at
from queue_engine.rules.checks import run_checks
from queue_engine.workflows.event_context import CandidateContext
from queue_engine.workflows.trigger_choice import TriggerChoice, TriggerReport

_TRIGGERS = {
    CandidateTrigger.PUSH: "a push of its branch",
    CandidateTrigger.PULL_REQUEST: "a draft pull request, which costs notifications",
    CandidateTrigger.DISPATCH: "a dispatch of each workflow",
}


async def train_report(
    github: GitHub, repository: Repository, pull: PullRequest, rules: BranchRules, policy: Policy
) -> tuple[str, ...]:
    """Return the lines about trains; none where the configuration has no trains. Raises GitHubError."""
    if not policy.trains.enabled:
        return ()
    comparison = await github.comparison(repository, pull.base_branch, pull.head_sha)
    candidate = CandidateContext(
        repository.full_name, pull.base_branch, f"imq/{pull.base_branch}/1", pull.default_branch or pull.base_branch
    )
    required, wanted = run_checks(rules, policy), policy.trains.candidates
    choice = await choice_at(github, repository, comparison.base_tip, required, candidate, wanted)
    found = (*_trigger(choice), *_pull_request_checks(choice), *_reasons(choice), *_lines(choice), *_on_builds(choice))
    return (_size(policy.trains), *found)


def _size(trains: TrainRules) -> str:
    runs = "as many CI runs as CI starts" if trains.runs is None else f"{trains.runs} CI runs"
    runs = "one CI run" if trains.runs == 1 else runs
    return f"IMQ would test up to {trains.max_size} pull requests together, with {runs} at once"


def _trigger(choice: TriggerChoice) -> Iterable[str]:
    if choice.trigger is None:
        yield "no trigger surely tests every required check, so IMQ would test one pull request after the other"
        return
    yield f"CI of a train would start by {_TRIGGERS[choice.trigger]}"
    if not choice.proven:
        yield "the workflow files do not prove that every required check runs then: the first train would show it"
    elif choice.trigger is CandidateTrigger.DISPATCH:
        yield f"IMQ would dispatch {', '.join(choice.workflows)}"


def _pull_request_checks(choice: TriggerChoice) -> Iterable[str]:
    if choice.pull_request_checks:
        names = ", ".join(f"`{each.name}`" for each in choice.pull_request_checks)
        yield f"from the head of each pull request, since they judge it and not the tree, IMQ would take: {names}"


def _reasons(choice: TriggerChoice) -> Iterable[str]:
    """Say why each trigger before the chosen one, and an unproven one, is not better."""
    for each in _considered(choice):
        if not each.runs:
            word = "no" if each.runs is False else "perhaps"
            yield f"by {each.trigger.value}: {word}; {'; '.join(each.reasons)}"


def _considered(choice: TriggerChoice) -> Sequence[TriggerReport]:
    if choice.trigger is None or not choice.proven:
        return choice.answers
    order = [each.trigger for each in choice.answers]
    return choice.answers[: order.index(choice.trigger)]


def _lines(choice: TriggerChoice) -> Iterable[str]:
    """Return what to change, so that a push runs every required check."""
    if choice.proven and choice.trigger is CandidateTrigger.PUSH:
        return
    for each in choice.lines:
        lines = "".join(f"\n    {line}" for line in each.lines)
        yield f"so that a push runs its checks, {each.path} needs:{lines}"


def _on_builds(choice: TriggerChoice) -> Iterable[str]:
    """Return what to change, so that building a train starts no CI run for each of its pull requests."""
    for each in choice.on_builds:
        lines = "".join(f"\n    {line}" for line in each.lines)
        yield f"so that CI does not run for each pull request while IMQ builds a train, {each.path} needs:{lines}"
