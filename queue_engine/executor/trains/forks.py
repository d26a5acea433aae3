"""Keep a fork's commits off branches of IMQ's, unless somebody with write access approved the very head.

CI on a branch of the repository has its secrets, and runs the workflow files of that branch. So a label alone must not
put a fork's commits there. What may not go there is tested alone, by its own head, as without trains: GitHub runs its
workflows without secrets, and asks a maintainer where it does so today.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from posixpath import basename, dirname, normpath

import structlog

from queue_engine.domain.errors import Forbidden
from queue_engine.domain.facts import PullRequest, ReviewState
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import TrainForks
from queue_engine.executor.trains.state import TrainState
from queue_engine.executor.trains.triggers import workflow_texts
from queue_engine.planner.actions import Facts
from queue_engine.planner.trains.memory import ForkEntry, ForkReason
from queue_engine.rules.reviews import newest
from queue_engine.workflows.step_proof import local_actions

_MOST_ASKED = 10
"""For how many people who approved IMQ asks GitHub for the permission."""
_OF_CI = (".github/workflows/", ".github/actions/")
_ABOVE = frozenset({".github", ".github/workflows", ".github/actions"})
_PATH = re.compile(r"\bpath[\"']?:\s*[\"']?([^\s\"'#,}\]]+)")
"""The folder into which a step checks a repository out, among other values of inputs with this name."""
_METADATA = frozenset({"action.yml", "action.yaml"})

_log = structlog.get_logger("imq.trains")


async def sets_forks_aside(state: TrainState, entries: Sequence[Entry], tip: str | None) -> bool:
    """Have entries of forks tested alone whose commits no branch of IMQ's may get; whether there are any.

    The entries were read. `tip` is that of the base. Raises GitHubError.
    """
    found: dict[int, ForkEntry] = {}
    for entry in entries:
        pull = state.verified.get((entry.id, entry.version), Facts()).pull
        if (
            pull is not None
            and _is_of_fork(entry, pull)
            and (why := await _why_alone(state, entry, pull, tip)) is not None
        ):
            found[entry.number] = ForkEntry(entry.id, entry.queued_head, why)
            _log.info("tested_alone", repository=entry.repository.full_name, number=entry.number, why=why.value)
    if found:
        await state.remember(replace(state.memory, tested_alone={**state.memory.tested_alone, **found}))
    return bool(found)


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


async def _why_alone(state: TrainState, entry: Entry, pull: PullRequest, tip: str | None) -> ForkReason | None:
    """Return why a fork's pull request is tested alone; None if a train may test it. Raises GitHubError."""
    if state.trains.forks is TrainForks.OFF:
        return ForkReason.OFF
    repository = entry.repository
    paths = await state.engine.github.paths_of_head(repository, entry.base_branch, tip or entry.base_branch, entry.head)
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
    heads = {entry.queued_head, entry.head}
    reviews = newest(await github.reviews(entry.repository, entry.number))
    approvals = [each for each in reviews if each.state is ReviewState.APPROVED and each.commit in heads]
    for each in sorted(approvals, key=lambda review: not review.by_writer)[:_MOST_ASKED]:
        if (await github.permission(entry.repository, each.author or "")).may_merge:
            return True
    return False
