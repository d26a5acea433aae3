"""Compare the tip of a branch with the known pushes. Pure functions.

Deliveries come in any order, so no fact replaces another: each push states that a branch left `before` for `after`.
"""

from collections.abc import Sequence
from datetime import datetime

from queue_engine.domain.known_facts import KEPT, NO_COMMIT, Known, Push


def pushes(known: Sequence[Known], now: datetime) -> list[Push]:
    """Return the pushes among these facts, without old pushes that were only redelivered."""
    return [
        one.statement for one in known if isinstance(one.statement, Push) and (one.statement.at or one.at) > now - KEPT
    ]


def superseded(tip: str, pushed: Sequence[Push]) -> bool:
    """Return whether a branch is known to have left this tip, and not to have returned to it.

    A forced push may return a branch to an older commit: then the later of the two pushes counts, by GitHub's time. If
    the times are missing or in the same second, the tip counts as current.
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
    """Say why a tip that was read is older than known facts; None if it is not."""
    gone = superseded(tip, pushes(known, now))
    return f"the branch {branch} is known to have moved on from {tip}" if gone else None


def current_tip(pushed: Sequence[Push]) -> str | None:
    """Return the one tip that no known push has left; None if there is none, or the branch was deleted."""
    tips = {push.after for push in pushed} - {push.before for push in pushed}
    return tips.pop() if len(tips) == 1 and NO_COMMIT not in tips else None


def exists(pushed: Sequence[Push]) -> bool:
    """Return whether a branch is known to exist: it was pushed to, and no fact reports a deletion."""
    return any(push.after != NO_COMMIT for push in pushed) and all(push.after != NO_COMMIT for push in pushed)


def _reached_from(tips: set[str], pushed: Sequence[Push]) -> set[str]:
    """Return the tips that pushes reach from these, and these."""
    reached, more = set[str](), set(tips)
    while more:
        reached |= more
        more = {push.after for push in pushed if push.before in more} - reached
    return reached
