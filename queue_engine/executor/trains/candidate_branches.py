"""Publish a candidate: one push of its branch, and what else starts CI on it."""

from dataclasses import replace
from pathlib import PurePosixPath

from queue_engine.config.model import Policy
from queue_engine.domain.candidate_run import CandidateRun, CandidateState, CandidateTrigger
from queue_engine.domain.errors import Invalid, NotFound
from queue_engine.domain.facts import BranchRules, RequiredCheck
from queue_engine.domain.reasons import Reason
from queue_engine.executor.trains.state import TrainState
from queue_engine.executor.trains.triggers import lines, read_choice, trigger_failed
from queue_engine.planner.actions import Facts
from queue_engine.planner.trains.outcomes import failed_before, find_run, known_result, passed, result_key
from queue_engine.rules.checks import run_checks
from queue_engine.workflows.trigger_choice import GITHUB_ACTIONS

EXISTS = "already exists"
"""Part of GitHub's message when it refuses to create a branch that exists ("Reference already exists")."""


_NOT_CREATED = "reference update failed"
"""GitHub's whole message where a branch has the name of a folder of the new one (microsoft/
vscode-remote-repositories-github #122), and where it hides which rule refuses (release-plz/action #518)."""


async def explain_refused_branch(state: TrainState, run: CandidateRun, message: str) -> str:
    """Return GitHub's message, and the branch that is in the way of the run's branches if there is one."""
    if _NOT_CREATED not in message.lower():
        return message
    above = [parent.as_posix() for branch in run.branches for parent in PurePosixPath(branch).parents]
    for name in dict.fromkeys(each for each in reversed(above) if each != "."):
        if await state.engine.github.branch_tip(state.queue.repository, name) is not None:
            return f"{message}: the branch {name} is in the way"
    return message


async def tested_before(state: TrainState, run: CandidateRun) -> bool:
    """Apply the result of a run with the same tree, if there was one: CI tests none twice. Raises GitHubError.

    A failure of one member alone is tested again where the plan asks for it: it may have flaked.
    """
    tree = run.members[-1].tree
    assert tree is not None
    key = await key_of(state, run)
    planned = find_run(state.memory.trains, run.id)
    if planned is None or (known := known_result(state.memory, planned, key)) is None:
        return False
    if known:
        memory = passed(state.memory, planned, key, state.seconds)
        await state.save_run(replace(run, state=CandidateState.PASSED), memory)
    else:
        await state.end(run, failed_before(state.memory, planned, key), why="failed_before")
    return True


async def key_of(state: TrainState, run: CandidateRun) -> str:
    """Name the result of this run: its tree, and the checks required of it. Raises GitHubError."""
    rules = await state.engine.github.branch_rules(state.queue.repository, state.queue.base_branch)
    required = run_checks(rules, state.policy) - pull_request_checks_of(state, run, rules)
    return result_key(run.members[-1].tree or "", required)


async def learn_of_workflows(state: TrainState, run: CandidateRun) -> CandidateRun | None:
    """Judge the candidate's own workflows: a member may have changed those by which the trigger was chosen.

    Keep which checks judge the pull request by these, too. Where the run's trigger may start no test of the candidate,
    it is what these workflows need; None if there is none: trains are off then. GitHub takes the files from
    the commit or ref of the event (docs, "Triggering a workflow"; github/docs #44323). Raises GitHubError.
    """
    if str(run.id) in state.memory.pull_request_checks_in_runs:
        return run
    assert run.candidate is not None
    # `pull_request_target` takes its files from the default branch, whose own were judged before.
    choice = await read_choice(state, run.candidate, run.base_branch)
    found = set() if choice is None else {each.name for each in choice.pull_request_checks}
    names = tuple(each for each in state.memory.pull_request_checks if each in found)
    # Files that GitHub does not show prove no push; a draft starts what the members' own pull requests start.
    usable = choice is None and run.trigger is CandidateTrigger.PULL_REQUEST
    for each in choice.answers if choice is not None else ():
        usable |= each.trigger is run.trigger and (bool(each.runs) or each.can_be_tried)
    trigger = (
        choice.trigger if choice is not None and not (usable and names == state.memory.pull_request_checks) else None
    )
    if not usable and trigger is None:
        await state.switch_off(Reason.CI_UNPROVEN_ON_CANDIDATES, lines(choice))
        return None
    in_runs = {**state.memory.pull_request_checks_in_runs, str(run.id): names}
    memory = replace(state.memory, pull_request_checks_in_runs=in_runs)
    return await state.save_run(replace(run, trigger=trigger or run.trigger), memory)


def pull_request_checks_of(state: TrainState, run: CandidateRun, rules: BranchRules) -> frozenset[RequiredCheck]:
    """Return the checks that judge the pull request: they count from the heads of the members, not on the candidate."""
    names = state.memory.pull_request_checks_in_runs.get(str(run.id), ())
    required = run_checks(rules, state.policy) or {RequiredCheck(each, None) for each in names}
    return frozenset(each for each in required if each.name in names and each.app_id in (None, GITHUB_ACTIONS))


def of_tree(state: TrainState, run: CandidateRun, facts: Facts) -> tuple[Facts, Policy]:
    """Return facts and policy without those checks, as the candidate is judged."""
    names = state.memory.pull_request_checks_in_runs.get(str(run.id), ())
    if not names:
        return facts, state.policy
    left_out = pull_request_checks_of(state, run, facts.rules) if facts.rules is not None else frozenset()
    checks = state.policy.checks
    policy = replace(state.policy, checks=replace(checks, required=checks.required - left_out))
    if facts.rules is not None:
        facts = replace(facts, rules=replace(facts.rules, required_checks=facts.rules.required_checks - left_out))
    if facts.reports is not None:
        reports = tuple(each for each in facts.reports if each.name not in names or not each.by_actions)
        facts = replace(facts, reports=reports)
    return facts, policy


async def publish(state: TrainState, run: CandidateRun) -> None:
    """Push the candidate's branch, start CI on it, and store that. Raises GitHubError."""
    assert run.candidate is not None
    github, repository = state.engine.github, state.queue.repository
    try:
        await github.create_branch(repository, run.branch, run.candidate)
    except Invalid as refusal:
        if EXISTS not in refusal.message.lower():
            raise
        # A former pass pushed it, and was killed; its id names no other branch.
        found = await github.branch_tip(repository, run.branch)
        if found is not None and found.sha != run.candidate:
            await state.cancel(run, why="branch_changed")
            return
    number = run.pull_request
    if run.trigger is CandidateTrigger.PULL_REQUEST and number is None:
        number = await _open(state, run)
    if run.trigger is CandidateTrigger.DISPATCH and not await _dispatch(state, run):
        return
    now = state.now
    test = replace(run.test.without_failures(), candidate=run.candidate, polls=0, next_poll_at=None)
    if run.completed_checks:
        test = replace(test, next_poll_at=now)
    else:
        test = replace(test, next_poll_at=now + state.policy.check_poll.base)
    await state.save_run(
        replace(run, state=CandidateState.TESTING, published_at=now, checks_since=now, pull_request=number, test=test)
    )


async def _dispatch(state: TrainState, run: CandidateRun) -> bool:
    """Dispatch each workflow with a required check; False if GitHub does not know one, which ends the run.

    GitHub answers 404 for a workflow that the default branch has not (cli/cli #9781), and 422 for one without the
    trigger (benc-uk/workflow-dispatch #46).
    """
    choice = await read_choice(state, run.base_tip)
    dispatched = [each for each in choice.answers if each.trigger is CandidateTrigger.DISPATCH] if choice else []
    for path in dict.fromkeys(path for each in dispatched for path in each.workflows):
        try:
            await state.engine.github.dispatch_workflow(state.queue.repository, path, run.branch, {})
        except (Invalid, NotFound) as refusal:
            await state.cancel(run, why="untested")
            detail = f"GitHub does not dispatch {path}: {refusal.message}"
            await trigger_failed(state, run.trigger, Reason.CI_SILENT_ON_CANDIDATES, detail)
            return False
    return True


async def _open(state: TrainState, run: CandidateRun) -> int:
    """Open the draft pull request of a candidate; its members are code, so that none is linked or closed by it."""
    members = ", ".join(f"`{number}`" for number in run.numbers)
    one = len(run.numbers) == 1
    title = f"Candidate of IMQ for {run.base_branch}: {len(run.numbers)} pull request{'' if one else 's'}"
    tested = f"this pull request: {members}" if one else f"these pull requests together: {members}"
    body = f"IMQ tests {tested}. IMQ closes this draft itself; merge nothing here."
    return await state.engine.github.open_draft(state.queue.repository, run.branch, run.base_branch, title, body)
