"""Render the required checks that fail on the head of a pull request, while it waits outside the queue. Pure."""

from collections.abc import Iterable

from notifications.render.escape import link
from notifications.render.formats import names
from notifications.texts import not_ready, waiting
from queue_engine.domain.facts import FailingCheck

_SHOWN = 10


def failing_list(failing: Iterable[FailingCheck]) -> Iterable[str]:
    """Render the checks as a list with their links, if there are any."""
    if lines := [f"- {each}" for each in _each(failing)]:
        yield "\n".join([not_ready.FAILING, "", *lines])


def failing_sentence(failing: Iterable[FailingCheck]) -> str:
    """Render the checks as a sentence with their links; empty without any."""
    found = ", ".join(_each(failing))
    return f" {not_ready.FAILING} {found}." if found else ""


def _each(failing: Iterable[FailingCheck]) -> list[str]:
    every = tuple(failing)
    found = [_one(each) for each in every[:_SHOWN]]
    if more := len(every) - len(found):
        found.append(waiting.AND_MORE.format(count=more))
    return found


def _one(failing: FailingCheck) -> str:
    """Render a check, with the failed jobs of its workflow run, if there are others."""
    shown = link(failing.check, failing.url)
    if failing.jobs in {(), (failing.check,)}:
        return shown
    return f"{shown} {not_ready.FAILED_JOBS.format(jobs=names(failing.jobs))}"
