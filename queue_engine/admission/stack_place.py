"""Find the place of a pull request in a stack, and follow the stack while the pull request waits.

A pull request above another open one waits for the branch on which the stack lands. It joins that queue once the one
below has landed and GitHub has changed its base branch. Only pull requests whose base is the head of another one cost
requests: the rules of that branch, and a list for each further level.
"""

from dataclasses import replace
from datetime import timedelta

from queue_engine.admission.case import EnqueueRequest
from queue_engine.domain.errors import StaleRead
from queue_engine.domain.facts import PullRequest, Snapshot, StackMember, StackPosition
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.effects.landings import is_landed_on, is_named_or_used
from queue_engine.rules.eligibility import Reject
from queue_engine.rules.stacks import (
    StackChange,
    aimed,
    awaited_member,
    is_ruled,
    is_stacked_above,
    lower_member,
    stack_change,
    waits_for_stack,
    with_bases,
)

_MOST_LEVELS = 10
"""The most levels of a stack that IMQ follows; the queue of a higher one is that of the level reached."""

_IN_ORDER = timedelta(seconds=30)
"""How long after a change of the base branch the webhook of the landing below may still come."""


async def placed(engine: Engine, request: EnqueueRequest, taken: Snapshot) -> tuple[EnqueueRequest, Snapshot]:
    """Return request and snapshot for the branch on which the stack lands, where it applies. Raises GitHubError."""
    place = await place_of(engine, request.case.repository, taken)
    if place is None or request.base_branch not in {None, place.own_base}:
        return request, taken
    return replace(request, base_branch=place.base_branch), aimed(taken, place)


async def place_of(engine: Engine, repository: Repository, taken: Snapshot) -> StackPosition | None:
    """Find the place in a stack; None if it lies above no other pull request. Raises GitHubError."""
    pull = taken.pull
    if pull.stack_base is None and not taken.below:
        return None
    lands = bool(taken.below) and await is_landed_on(engine, repository, pull.base_branch, pull.default_branch)
    below = lower_member(taken, lands=lands)
    if below is None and not is_stacked_above(pull):
        return None
    base = pull.stack_base or await _lands_on(engine, repository, pull, below)
    return StackPosition(None if below is None else below.number, pull.base_branch, base)


async def followed(engine: Engine, entry: Entry, taken: Snapshot) -> tuple[Entry, Snapshot] | Reject:
    """Return a waiting entry with the snapshot by which to judge it, or why its wait ends. Raises GitHubError.

    The entry is for the present base branch once that is known as one to land on: a maintainer may have named it.
    """
    number, pull = awaited_member(entry), taken.pull
    if number is None:
        place = await place_of(engine, entry.repository, taken) if waits_for_stack(entry) else None
        return entry, taken if place is None else aimed(taken, place)
    lower = await engine.github.pull_request(entry.repository, number)
    match stack_change(pull, lower, entry.base_branch):
        case StackChange.NONE:
            place = await place_of(engine, entry.repository, taken)
            if place is None and taken.below and pull.stack_base is None:
                return replace(entry, base_branch=pull.base_branch), taken
            return entry, aimed(taken, place or StackPosition(number, pull.base_branch, entry.base_branch))
        case StackChange.LANDED:
            return entry, aimed(taken, StackPosition(number, pull.base_branch, entry.base_branch, landed=True))
        case StackChange.RETARGETED:
            return entry, await _retargeted(engine, entry, taken, lower)
        case StackChange.ENDED:
            return Reject(Reason.STACK_ENDED, f"#{number}")
        case StackChange.BASE_CHANGED:
            _assert_in_order(engine, pull, lower)
            return Reject(Reason.BASE_CHANGED)


async def _retargeted(engine: Engine, entry: Entry, taken: Snapshot, lower: PullRequest) -> Snapshot:
    """Return the snapshot after GitHub changed the base branch: it may be the head of a further pull request."""
    bases = frozenset({lower.head_branch, taken.pull.base_branch})
    place = await place_of(engine, entry.repository, taken)
    if place is not None:
        return aimed(replace(taken, pull=with_bases(taken.pull, place.own_base, bases)), place)
    return replace(taken, pull=with_bases(taken.pull, taken.pull.base_branch, bases))


def _assert_in_order(engine: Engine, pull: PullRequest, lower: PullRequest) -> None:
    """Raise StaleRead if the one below may have landed, but the read and its webhook lag."""
    at = pull.updated_at
    if lower.open and pull.base_branch == lower.base_branch and at and engine.clock.now() - at < _IN_ORDER:
        raise StaleRead(f"pull request {lower.number} may have landed")


async def _lands_on(engine: Engine, repository: Repository, pull: PullRequest, below: StackMember | None) -> str:
    """Follow the pull requests below to the branch on which the lowest one lands."""
    branch = pull.base_branch if below is None else below.base_branch
    for _ in range(_MOST_LEVELS):
        if branch == pull.default_branch or is_ruled(await engine.github.branch_rules(repository, branch)):
            return branch
        members = await engine.github.stack_members(repository, branch)
        if not members or await is_named_or_used(engine, repository, branch):
            return branch
        branch = min(members, key=lambda each: each.number).base_branch
    return branch
