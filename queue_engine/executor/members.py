"""Verify members by one snapshot each, before they are merged onto a candidate, and before the candidate lands.

CI on a branch of the repository has its secrets, and runs the workflow files of that branch. So a label alone must not
put a fork's commits there, unless somebody with write access approved the very head. What may not go there is tested
alone, by its own head, as without trains: GitHub runs its workflows without secrets, and asks a maintainer where it
does so today.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from posixpath import basename, dirname, normpath

import structlog

from queue_engine.domain.consent import ConsentKind, HeadConsent
from queue_engine.domain.errors import Forbidden
from queue_engine.domain.facts import MergeMethod, PullRequest, ReviewState
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import TrainForks
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run, RunMember, RunState
from queue_engine.executor.entry_steps import counted_on
from queue_engine.executor.reads import judged, read_entry_fact, read_entry_snapshots, read_run_fact, workflow_texts
from queue_engine.executor.run_store import TrainState
from queue_engine.planner.absent_checks import judge_absent, leave_for_absent
from queue_engine.planner.actions import Absent, Block, Dequeue, FactKind, Facts, RunContext, Save, Unmet, Wait
from queue_engine.planner.member_rules import judge_member
from queue_engine.planner.merge_errors import await_permission, named
from queue_engine.planner.trains.memory import ForkEntry, ForkReason
from queue_engine.rules.checks import head_checks, judge, requires_own_check
from queue_engine.rules.reviews import newest

_log = structlog.get_logger("imq.trains")

_UP_TO_DATE = "GitHub merges only branches that are up to date"

_MOST_ASKED = 10
"""For how many people who approved IMQ asks GitHub for the permission."""

_OF_CI = (".github/workflows/", ".github/actions/")

_ABOVE = frozenset({".github", ".github/workflows", ".github/actions"})

_PATH = re.compile(r"\bpath[\"']?:\s*[\"']?([^\s\"'#,}\]]+)")
"""The folder into which a step checks a repository out, among other values of inputs with this name."""

_METADATA = frozenset({"action.yml", "action.yaml"})


async def read_members(state: TrainState, entries: Iterable[Entry]) -> None:
    """Read the entries not verified in this pass, in few requests. Raises GitHubError."""
    unread = [each for each in entries if (each.id, each.version) not in state.verified]
    found = await read_entry_snapshots(state.engine, unread, state.policy)
    state.verified |= {(each.id, each.version): found[each.id] for each in unread if each.id in found}


async def heads_that_fail(state: TrainState, entries: Iterable[Entry]) -> Mapping[int, bool]:
    """Return, where GitHub shows a failure, whether a required check of an entry's head failed. Raises GitHubError."""
    github, found = state.engine.github, dict[int, bool]()
    for entry in entries:
        snapshot = state.verified.get((entry.id, entry.version), Facts()).snapshot
        if snapshot is None or snapshot.failing is None:
            continue
        found[entry.number] = False
        if not snapshot.failing:
            continue
        rules = await github.branch_rules(state.queue.repository, state.queue.base_branch)
        if required := head_checks(rules, state.policy):
            reports = await github.check_reports(state.queue.repository, entry.head_sha, required)
            found[entry.number] = bool(judge(required, reports).failed)
    return found


async def lacks_required(state: TrainState, entries: Iterable[Entry]) -> bool:
    """Whether the head of an entry lacks a required check that others have: then it waits outside. Raises GitHubError.

    The reports are read where GitHub says that an up-to-date head is blocked: a required check that is absent does that
    (devantler-tech/platform #2704, strands-labs/robots #2914). CI may report some checks on candidates alone.
    """
    for entry in entries:
        snapshot = state.verified.get((entry.id, entry.version), Facts()).snapshot
        blocked = snapshot is not None and snapshot.pull.merge_state == "blocked" and snapshot.behind == 0
        if blocked and not state.memory.unreported and await leaves_for_absent(state, entry):
            return True
    return False


async def leaves_for_absent(state: TrainState, entry: Entry) -> bool:
    """Have a member wait outside whose head lacks a check that may never come; whether so. Raises GitHubError."""
    github, policy = state.engine.github, state.policy
    run = Run(candidate=entry.head_sha, checks_since=entry.enqueued_at)
    of = RunContext(entry.repository, entry.base_branch, entry.enqueued_at, entry.fixes_base)
    facts = Facts()
    for fact in (FactKind.RULES, FactKind.CHECKS):
        facts = await read_run_fact(github, run, of, fact, facts, policy)
    verdict, facts = await judged(
        lambda facts: judge_absent(run, of, facts, policy, state.now),
        lambda fact, facts: read_run_fact(github, run, of, fact, facts, policy, heads_only=True),
        facts,
    )
    match verdict:
        case Absent() as lacks:
            match leave_for_absent(entry, lacks, policy):
                case Unmet(_, unmet):
                    await state.updates.unready(entry, unmet)
                case Dequeue(reason, detail):
                    await state.updates.dequeue(entry, reason, facts, detail=detail)
            return True
        case Wait(never=str(names)):
            await state.remember(replace(state.memory, unreported=names))
    return False


async def verify(state: TrainState, entry: Entry, *, mergeable: bool) -> MergeMethod | None:
    """Return how the entry lands; None if it left or changed, or trains are off. Raises GitHubError."""
    with counted_on(entry):
        answer, facts = await judged(
            lambda facts: judge_member(entry, facts, state.policy, state.now, mergeable=mergeable),
            lambda fact, facts: read_entry_fact(state.engine, entry, fact, facts, state.policy),
            state.verified.get((entry.id, entry.version)),
        )
    if isinstance(answer, MergeMethod):
        state.verified[entry.id, entry.version] = facts
        required = facts.rules is not None and requires_own_check(facts.rules, state.policy)
        if not required or any(each.state is RunState.LANDING for each in state.runs):
            return answer
        # IMQ's check passes on one head at a time: no candidate could land.
        await state.switch_off(Reason.CANDIDATE_LANDING_REFUSED, "the base branch requires IMQ's own check")
    elif isinstance(answer, Dequeue):
        await state.updates.dequeue(entry, answer.reason, facts, detail=answer.detail, checks=answer.checks)
    elif isinstance(answer, Unmet):
        await state.updates.unready(entry, answer.unmet)
    elif isinstance(answer, Save):
        await state.updates.save(entry, answer.entry, depth=state.depth)
    return None


def facts_of(state: TrainState, member: RunMember) -> Facts | None:
    """Return the facts of a member as this pass read them; None if it did not."""
    # Its entry may have another version since: the begin of a run, and of a landing, change it.
    read = [facts for (entry, _), facts in state.verified.items() if entry == member.entry_id]
    return next((each for each in read if each.pull is not None and each.pull.head_sha == member.head_sha), None)


async def merges_refused(state: TrainState, methods: Collection[MergeMethod]) -> bool:
    """Switch trains off where GitHub would refuse merges after the first one moved the base. Raises GitHubError."""
    if state.memory.by_api is None and all(each is MergeMethod.MERGE for each in methods):
        return False
    if not await state.engine.github.refuses_outdated(state.queue.repository, state.queue.base_branch):
        return False
    why = state.memory.by_api or f"trains land by {' and '.join(sorted(set(methods)))}"
    await state.switch_off(Reason.CANDIDATE_LANDING_REFUSED, f"{_UP_TO_DATE}, and {why}")
    return True


async def await_workflows_permission(state: TrainState, run: Run, member: RunMember, message: str) -> bool:
    """Set a member aside (P5) if GitHub's message says that IMQ may not merge its workflow files; whether it does."""
    if named(message) is not Reason.WORKFLOWS_PERMISSION or state.entry_of(member) is None:
        return False
    await state.cancel(run, why="permission_missing")
    if (entry := state.entry_of(member)) is None:
        return True
    match await_permission(entry, message, state.policy, state.now):
        case Block(changed, reason, detail):
            await state.updates.block(entry, changed, reason, detail)
        case Dequeue(reason, text):
            await state.updates.dequeue(entry, reason, Facts(), detail=text)
    return True


async def sets_aside(state: TrainState, entries: Sequence[Entry], tip: str | None) -> bool:
    """Have entries tested alone that somebody queued so, or whose commits of a fork no branch of IMQ's may get.

    Returns whether there are any.

    One that this pass has not read is not judged. `tip` is that of the base. Raises GitHubError.
    """
    async with state.engine.store.reading() as tx:
        asked = [each.number for each in entries if _asked_alone(await tx.consents.of(each))]
    found: dict[int, ForkEntry] = {}
    for entry in entries:
        pull = state.verified.get((entry.id, entry.version), Facts()).pull
        why = ForkReason.ASKED if entry.number in asked else None
        if why is None and pull is not None and _is_of_fork(entry, pull):
            why = await _why_alone(state, entry, tip)
        if why is not None:
            found[entry.number] = ForkEntry(entry.id, entry.queued_head, why)
            _log.info("tested_alone", repository=entry.repository.full_name, number=entry.number, why=why.value)
    if found:
        await state.remember(replace(state.memory, tested_alone={**state.memory.tested_alone, **found}))
    return bool(found)


def _asked_alone(ledger: Iterable[HeadConsent]) -> bool:
    """Whether the pull request was queued by `/queue alone`."""
    return any(each.source is ConsentKind.COMMAND_ALONE for each in ledger)


async def still_alone(state: TrainState, entry: Entry) -> bool:
    """Whether this entry is still to be tested alone: a review may have come since. Raises GitHubError."""
    alone = state.memory.tested_alone[entry.number]
    if alone.why is not ForkReason.UNREVIEWED or not await _is_approved(state, entry):
        return True
    others = {number: each for number, each in state.memory.tested_alone.items() if number != entry.number}
    await state.remember(replace(state.memory, tested_alone=others))
    return False


def _is_of_fork(entry: Entry, pull: PullRequest) -> bool:
    """Whether the head is in another repository. A fork that is gone has none; GitHub may still merge its commits."""
    base = pull.base_repository or entry.repository.full_name
    return pull.head_repository is None or pull.head_repository.casefold() != base.casefold()


async def _why_alone(state: TrainState, entry: Entry, tip: str | None) -> ForkReason | None:
    """Return why a fork's pull request is tested alone; None if a train may test it. Raises GitHubError."""
    if state.trains.forks is TrainForks.OFF:
        return ForkReason.OFF
    repository = entry.repository
    paths = await state.engine.github.paths_of_head(
        repository, entry.base_branch, tip or entry.base_branch, entry.head_sha
    )
    if paths is None:
        return ForkReason.UNKNOWN
    try:
        texts = await workflow_texts(state.engine.github, repository, tip or entry.base_branch)
    except Forbidden:
        return ForkReason.UNKNOWN
    if not all(texts.values()):  # of a file too large for GitHub to show it, or of an empty one
        return ForkReason.UNKNOWN
    folders = _folders_of_actions(texts.values())
    if any(_is_of_ci(path, folders) for path in paths):
        return ForkReason.WORKFLOWS
    if state.trains.forks is TrainForks.REVIEWED and not await _is_approved(state, entry):
        return ForkReason.UNREVIEWED
    return None


def _folders_of_actions(texts: Collection[str]) -> set[str]:
    """Return the folders of the local actions, also of those that a workflow uses in a checkout with a `path`."""
    from queue_engine.workflows.step_proof import local_actions

    folders = {dirname(each) for each in local_actions(texts)}
    checkouts = {normpath(found[1]) for text in texts for found in _PATH.finditer(text)}
    return folders | {
        each.removeprefix(within).removeprefix("/")
        for each in folders
        for within in checkouts
        if f"{each}/".startswith(f"{within}/")
    }


def _is_of_ci(path: str, folders: Collection[str]) -> bool:
    """Whether a file belongs to a workflow or to a local action, those in `folders` among them.

    The path of a symbolic link or a submodule is the folder's own, or one above it.
    """
    of_action = any(
        not folder or path.startswith(f"{folder}/") or f"{folder}/".startswith(f"{path}/") for folder in folders
    )
    return path.startswith(_OF_CI) or path in _ABOVE or basename(path) in _METADATA or of_action


async def _is_approved(state: TrainState, entry: Entry) -> bool:
    """Whether the newest review of somebody with write access approves the queued head, or IMQ's own update of it.

    GitHub's word on who belongs to the project is not enough: members of an organisation may have read access alone.
    """
    github = state.engine.github
    heads = {entry.queued_head, entry.head_sha}
    reviews = newest(await github.reviews(entry.repository, entry.number))
    approvals = [each for each in reviews if each.state is ReviewState.APPROVED and each.commit in heads]
    for each in sorted(approvals, key=lambda review: not review.by_writer)[:_MOST_ASKED]:
        if (await github.permission(entry.repository, each.author or "")).may_merge:
            return True
    return False
