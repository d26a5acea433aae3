"""IMQ's own check run ends only after the merge, so no rule may require it."""

from collections.abc import Iterable

from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.policy import Policy

OWN_CHECK = "IMQ"
"""The name of IMQ's own check run, which shows the state of the pull request and ends when the entry leaves."""


def own_check(required: Iterable[RequiredCheck], policy: Policy) -> str | None:
    """Find a required check that IMQ itself would have to report: no merge can wait for it."""
    for check in sorted(required, key=lambda each: each.name):
        if check.name == OWN_CHECK if check.app_id is None else check.app_id == policy.own_app:
            return check.name
    return None
