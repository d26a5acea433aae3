"""Choose what starts CI on candidates of a base branch, and which checks then count for them."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from posixpath import dirname
from typing import TYPE_CHECKING

from queue_engine.config.model import Policy
from queue_engine.domain.errors import Forbidden
from queue_engine.domain.facts import GITHUB_ACTIONS, BranchRules, RequiredCheck
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Candidates
from queue_engine.domain.port import Files
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import UNPROVEN, CandidateTrigger, Run
from queue_engine.executor.reads import workflow_texts
from queue_engine.executor.run_store import TrainState
from queue_engine.planner.actions import Facts
from queue_engine.planner.trains.memory import result_key
from queue_engine.rules.checks import queue_only_names, run_checks

if TYPE_CHECKING:
    from queue_engine.workflows.event_context import CandidateContext
    from queue_engine.workflows.repository_scripts import RepositoryFiles
    from queue_engine.workflows.trigger_choice import TriggerChoice

# What reads workflows is imported where it is used: a process without trains does without it, and is 1 MB smaller.

_MOST_SCRIPTS = 500
"""A step that names or loads more files than these is unknown."""
_MOST_AT_ONCE = 100
"""Files in one query."""
_DEEPEST_SCRIPTS = 8
"""Scripts that name each other are read to this depth: one request for each."""


async def trigger_for(state: TrainState, tip: str) -> CandidateTrigger | None:
    """Return what is to start CI on the next candidate; None if trains are off now. Raises GitHubError.

    A trigger that has worked is used again, without a read. `tip` is that of the base, whose workflows count. Where a
    check may pass without its test, no try shows that: such a trigger is not used, even if the configuration names it.
    """
    memory, wanted = state.memory, state.trains.candidates
    allowed = [each for each in UNPROVEN if wanted in (Candidates.AUTO, each.value)]
    if memory.trigger in allowed:
        return memory.trigger
    left = [each for each in allowed if each not in memory.silent]
    choice = await read_choice(state, tip)
    answers, found = ((), ()) if choice is None else (choice.answers, choice.pull_request_checks)
    # No head outside the queue has a queue-only check.
    names = tuple(each.name for each in found if each.name not in queue_only_names(state.policy))
    await state.remember(replace(memory, pull_request_checks=names))
    # A draft starts what the members' own pull requests start, so it needs no proof from files that nobody shows.
    usable = {each.trigger for each in answers if each.can_be_tried}
    tried = {CandidateTrigger.PULL_REQUEST} if choice is None else usable
    proved = [each.trigger for each in answers if each.runs and each.trigger in left]
    left = proved or [each for each in left if each in tried]
    if left:
        return left[0]
    doubtful = {each.trigger for each in answers if each.doubtful and each.trigger in allowed}
    unshown = choice is None or not doubtful <= set(memory.silent)
    reason = Reason.CI_UNPROVEN_ON_CANDIDATES if unshown else Reason.CI_SILENT_ON_CANDIDATES
    await state.switch_off(reason, lines(choice))
    return None


async def read_choice(state: TrainState, tip: str, default_branch: str = "") -> "TriggerChoice | None":
    """Judge the workflow files at a commit; None where GitHub does not show them. Raises GitHubError."""
    from queue_engine.workflows.event_context import CandidateContext

    github, queue = state.engine.github, state.queue
    rules = await github.branch_rules(queue.repository, queue.base_branch)
    base = queue.base_branch
    read = (facts.pull for facts in state.verified.values())
    default = default_branch or next((pull.default_branch for pull in read if pull is not None), "")
    context = CandidateContext(queue.repository.full_name, base, f"imq/{base}/1", default)
    required = run_checks(rules, state.policy)
    try:
        return await choice_at(github, queue.repository, tip, required, context, state.trains.candidates)
    except Forbidden:
        return None


async def choice_at(
    github: Files,
    repository: Repository,
    commit: str,
    required: Iterable[RequiredCheck],
    candidate: "CandidateContext",
    wanted: Candidates,
) -> "TriggerChoice":
    """Read the workflows and the local actions that they use at a commit, and choose. Raises GitHubError."""
    from queue_engine.workflows.trigger_choice import choose_trigger

    texts = await workflow_texts(github, repository, commit)
    # Large files take seconds to parse and to judge.
    choice = await asyncio.to_thread(choose_trigger, texts, required, candidate, wanted)
    if not any(each.rests_on_scripts for each in choice.answers):
        return choice
    from queue_engine.workflows.repository_scripts import RepositoryFiles

    listed = RepositoryFiles(await github.paths(repository, commit))
    paths = {path for each in choice.answers if each.rests_on_scripts for path in each.workflows}
    scripts = await _script_texts(github, repository, commit, texts, paths, listed)
    return await asyncio.to_thread(choose_trigger, texts | scripts, required, candidate, wanted, listed)


async def _script_texts(
    github: Files,
    repository: Repository,
    commit: str,
    texts: Mapping[str, str],
    paths: Collection[str],
    listed: "RepositoryFiles",
) -> dict[str, str]:
    """Read the scripts that these workflows name, also those that scripts name; those beyond a bound are left out."""
    scripts = dict[str, str]()
    for _ in range(_DEEPEST_SCRIPTS):
        named = await asyncio.to_thread(_named, texts, paths, scripts, listed)
        new = [each for each in dict.fromkeys(named) if each not in scripts and each not in texts]
        if not new or len(scripts) + len(new) > _MOST_SCRIPTS:
            break
        for start in range(0, len(new), _MOST_AT_ONCE):
            scripts |= await github.texts(repository, commit, new[start : start + _MOST_AT_ONCE])
        scripts |= {each: "" for each in new if each not in scripts}
    return scripts


def _named(
    texts: Mapping[str, str], paths: Collection[str], scripts: Mapping[str, str], listed: "RepositoryFiles"
) -> list[str]:
    """Return what these workflows name, those that they call, all local actions, and what the scripts name."""
    from queue_engine.workflows.repository_scripts import SUBMODULES, RepositoryScripts, folders_of
    from queue_engine.workflows.step_proof import ACTION_FILES

    paths = {*paths, *(path for path in texts if path.endswith(ACTION_FILES))}
    while called := {path for path in texts if path not in paths and any(f"/{path}" in texts[each] for each in paths)}:
        paths |= called
    folders = folders_of({**texts, **scripts})
    named_by = "\n".join((*texts.values(), *scripts.values()))
    beside = {path: [dirname(path) or "."] if path.endswith(ACTION_FILES) else [] for path in paths}
    named = [each for path in sorted(paths) for each in listed.named(texts[path], (*folders, *beside[path]))]
    reached = RepositoryScripts(scripts, folders, listed)
    named += [each for path in scripts for each in reached.reached(path, named_by)]
    return [*listed.named(SUBMODULES, (".",)), *named]


async def trigger_failed(state: TrainState, trigger: CandidateTrigger, reason: Reason, detail: str) -> None:
    """Remember that a trigger does not start every required check; without another one, switch trains off."""
    wanted = state.trains.candidates
    silent = tuple(dict.fromkeys((*state.memory.silent, trigger)))
    works = None if state.memory.trigger is trigger else state.memory.trigger
    await state.remember(replace(state.memory, silent=silent, trigger=works))
    if not [each for each in UNPROVEN if wanted in (Candidates.AUTO, each.value) and each not in silent]:
        await state.switch_off(reason, detail)


def lines(choice: "TriggerChoice | None") -> str:
    """Return the lines to add, and why no trigger starts every required check."""
    if choice is None:
        return ""
    reasons = dict.fromkeys(reason for each in choice.answers for reason in each.reasons)
    wanted = (f"add to {each.path}: {' / '.join(map(str.strip, each.lines))}" for each in choice.lines)
    return "; ".join((*wanted, *reasons))[:1000]


async def key_of(state: TrainState, run: Run) -> str:
    """Name the result of this run: its tree, and the checks required of it. Raises GitHubError."""
    rules = await state.engine.github.branch_rules(state.queue.repository, state.queue.base_branch)
    required = run_checks(rules, state.policy) - pull_request_checks_of(state, run, rules)
    return result_key(run.members[-1].tree or "", required)


def pull_request_checks_of(state: TrainState, run: Run, rules: BranchRules) -> frozenset[RequiredCheck]:
    """Return the checks that judge the pull request: they count from the heads of the members, not on the candidate."""
    names = state.memory.pull_request_checks_in_runs.get(str(run.id), ())
    required = run_checks(rules, state.policy) or {RequiredCheck(each, None) for each in names}
    return frozenset(each for each in required if each.name in names and each.app_id in (None, GITHUB_ACTIONS))


def of_tree(state: TrainState, run: Run, facts: Facts) -> tuple[Facts, Policy]:
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
