"""The check run of IMQ itself: it ends only after the merge, so no rule may require it."""

from collections.abc import Iterable

from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.policy import Policy

OWN_CHECK = "IMQ"
"""The name of IMQ's own check run, which tells where the pull request stands and ends when that does."""


def own_check(required: Iterable[RequiredCheck], policy: Policy) -> str | None:
    """The name of one of these checks that IMQ itself would have to report: it never ends before the merge."""
    for check in sorted(required, key=lambda each: each.name):
        if check.name == OWN_CHECK if check.app_id is None else check.app_id == policy.own_app:
            return check.name
    return None
