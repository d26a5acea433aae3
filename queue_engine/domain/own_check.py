"""Checks of IMQ itself: its own check run, which the rules of a base branch may require so that only IMQ merges.

That check run passes for the tested head right before IMQ merges that head, and at no other time before the landing.
"""

from collections.abc import Iterable

from queue_engine.domain.facts import RequiredCheck

OWN_CHECK = "IMQ"
"""The name of IMQ's own check run, which shows the state of the pull request and ends when the entry leaves."""


def is_own_check(check: RequiredCheck, own_app: int | None) -> bool:
    """Whether IMQ itself reports this required check: no entry waits for it."""
    return check.name == OWN_CHECK and check.app_id in {None, own_app}


def unreported_check(required: Iterable[RequiredCheck], own_app: int | None) -> str | None:
    """Find a required check of IMQ's App that IMQ never reports, since it has another name than IMQ's own check."""
    for check in sorted(required, key=lambda each: each.name):
        if check.app_id is not None and check.app_id == own_app and not is_own_check(check, own_app):
            return check.name
    return None
