"""Compare the tip of a branch with the known pushes. Pure functions.

Deliveries come in any order, so that no fact lowers another: each push says that its `before` was left for its `after`.
"""

from collections.abc import Sequence
from datetime import datetime

from queue_engine.domain.known_facts import KEPT, NO_COMMIT, Known, Push


def pushes(known: Sequence[Known], now: datetime) -> list[Push]:
    """The pushes among these facts, without those that happened long ago and were only delivered again."""
    return [
        one.statement for one in known if isinstance(one.statement, Push) and (one.statement.at or one.at) > now - KEPT
    ]


def superseded(tip: str, pushed: Sequence[Push]) -> bool:
    """Whether a branch is known to have moved on from this tip, and not to have come back to it.

    A forced push may bring a branch back to an older commit: then the later of the two pushes counts, by GitHub's
    time. Where that is not told, or the same second, nothing is certain, and the tip is believed.
    """
    left = [push for push in pushed if push.before == tip]
    if not left:
        return False
    if tip not in _reached_from({push.after for push in left}, pushed):
        return True
    times = [[push.at for push in those] for those in (left, [push for push in pushed if push.after == tip])]
    left_at, came_at = ([at for at in each if at is not None] for each in times)
    return bool(left_at and came_at) and max(left_at) > max(came_at)


def outdated_tip(branch: str, tip: str, known: Sequence[Known], now: datetime) -> str | None:
    """Why a tip that was read is older than what is known; None if nothing speaks against it."""
    gone = superseded(tip, pushes(known, now))
    return f"the branch {branch} is known to have moved on from {tip}" if gone else None


def current_tip(pushed: Sequence[Push]) -> str | None:
    """The one tip that no push is known to have left; None if there is no such, or the branch was deleted."""
    tips = {push.after for push in pushed} - {push.before for push in pushed}
    return tips.pop() if len(tips) == 1 and NO_COMMIT not in tips else None


def exists(pushed: Sequence[Push]) -> bool:
    """Whether a branch is known to be there, because nothing says that it was deleted since it was pushed to."""
    return any(push.after != NO_COMMIT for push in pushed) and all(push.after != NO_COMMIT for push in pushed)


def _reached_from(tips: set[str], pushed: Sequence[Push]) -> set[str]:
    """The tips that pushes lead to from these, themselves included."""
    reached, more = set[str](), set(tips)
    while more:
        reached |= more
        more = {push.after for push in pushed if push.before in more} - reached
    return reached
