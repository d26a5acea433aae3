"""Choose what starts CI on candidates of a base branch, and remember what did not."""

from dataclasses import replace

from queue_engine.domain.candidate_run import CandidateTrigger
from queue_engine.domain.errors import Forbidden
from queue_engine.domain.reasons import Reason
from queue_engine.domain.train_policy import Candidates
from queue_engine.executor.trains.state import TrainState
from queue_engine.rules.checks import run_checks
from queue_engine.workflows.event_context import CandidateContext
from queue_engine.workflows.trigger_choice import TriggerChoice, choose_trigger

_ORDER = (CandidateTrigger.PUSH, CandidateTrigger.PULL_REQUEST, CandidateTrigger.DISPATCH)


async def trigger_for(state: TrainState, tip: str) -> CandidateTrigger | None:
    """Return what is to start CI on the next candidate; None if trains are off now. Raises GitHubError.

    A trigger that has worked is used again, without a read. `tip` is that of the base, whose workflows count.
    """
    memory, wanted = state.memory, state.trains.candidates
    allowed = [each for each in _ORDER if wanted in (Candidates.AUTO, each.value)]
    if memory.trigger in allowed:
        return memory.trigger
    left = [each for each in allowed if each not in memory.silent]
    choice = await read_choice(state, tip)
    if choice is not None and choice.answers:
        impossible = {each.trigger for each in choice.answers if each.runs is False}
        proved = [each.trigger for each in choice.answers if each.runs and each.trigger in left]
        left = proved or [each for each in left if each not in impossible]
    if not left:
        await state.switch_off(Reason.CI_SILENT_ON_CANDIDATES, _lines(choice))
        return None
    return left[0]


async def read_choice(state: TrainState, tip: str) -> TriggerChoice | None:
    """Judge the workflow files at the base's tip; None where GitHub does not show them. Raises GitHubError."""
    github, queue = state.engine.github, state.queue
    rules = await github.branch_rules(queue.repository, queue.base_branch)
    try:
        texts = await github.workflow_files(queue.repository, tip)
    except Forbidden:
        return None
    base = queue.base_branch
    read = (facts.pull for facts in state.verified.values())
    default = next((pull.default_branch for pull in read if pull is not None), "")
    context = CandidateContext(queue.repository.full_name, base, f"imq/{base}/1", default)
    return choose_trigger(texts, run_checks(rules, state.policy), context, state.trains.candidates)


async def trigger_failed(state: TrainState, trigger: CandidateTrigger, reason: Reason, detail: str) -> None:
    """Remember that a trigger does not start every required check; without another one, switch trains off."""
    wanted = state.trains.candidates
    silent = tuple(dict.fromkeys((*state.memory.silent, trigger)))
    works = None if state.memory.trigger is trigger else state.memory.trigger
    await state.remember(replace(state.memory, silent=silent, trigger=works))
    if not [each for each in _ORDER if wanted in (Candidates.AUTO, each.value) and each not in silent]:
        await state.switch_off(reason, detail)


def _lines(choice: TriggerChoice | None) -> str:
    """Return the lines to add, and why no trigger starts every required check."""
    if choice is None:
        return ""
    reasons = dict.fromkeys(reason for each in choice.answers for reason in each.reasons)
    wanted = (f"add to {each.path}: {' / '.join(map(str.strip, each.lines))}" for each in choice.lines)
    return "; ".join((*wanted, *reasons))[:1000]
