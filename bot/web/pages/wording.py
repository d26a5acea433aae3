"""Sentences and words for pages: reasons, states, events. Plain text, or text with code; never markup from others."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from notifications.render import status, timeline_text
from notifications.render.culprit_text import culprit_sentence
from notifications.render.escape import one_line
from notifications.render.status import Names, answer_text, status_lines
from notifications.texts.history import RUN_OUTCOMES
from notifications.texts.waiting import ACTORS as WHO_ACTS
from notifications.texts.waiting import AHEAD_OF_IT, BLOCKED, CHECKS, LAST, NEXT, SET_ASIDE, STATE
from queue_engine.config.model import Policy
from queue_engine.domain.culprit import CulpritRecord
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import EntryStatus, TimelineEvent
from queue_engine.domain.reasons import PullRequestActor, Reason, WaitReason, few
from queue_engine.queries.check_view import CheckStatus
from queue_engine.queries.control_effect import ControlEffect
from queue_engine.queries.pull_request_history import RunRecord
from queue_engine.queries.pull_request_status import (
    HELD,
    NOT_QUEUED,
    NOT_READY,
    PullRequestStatus,
    QueueHistory,
    last_outcome,
    whose_move,
)
from queue_engine.rules.check_progress import safe_link

Pieces = tuple[tuple[str, bool], ...]
"""Pieces of a sentence, and whether each is code. Templates escape every piece."""


def effect_sentence(effect: ControlEffect) -> str:
    """Say what a control costs."""
    return status.effect_sentence(effect.runs, effect.jobs, len(effect.delayed), holds=effect.holds)


TONES: Mapping[str, str] = {
    EntryStatus.PENDING: "plain",
    EntryStatus.UPDATING: "busy",
    EntryStatus.CHECKING: "busy",
    EntryStatus.READY: "good",
    EntryStatus.LANDED: "good",
    EntryStatus.FAILED: "bad",
    EntryStatus.CANCELLED: "plain",
    HELD: "warn",
    NOT_READY: "warn",
    NOT_QUEUED: "plain",
    CheckStatus.WAITING: "plain",
    CheckStatus.RUNNING: "busy",
    CheckStatus.PASSED: "good",
    CheckStatus.REPORTED: "busy",
}
"""The colour beside a word, which only repeats the word."""

STATES: Mapping[str, str] = {
    EntryStatus.PENDING: "waiting",
    EntryStatus.UPDATING: "updating the branch",
    EntryStatus.CHECKING: "checks run",
    EntryStatus.READY: "merging",
    EntryStatus.LANDED: "landed",
    EntryStatus.FAILED: "ejected",
    EntryStatus.CANCELLED: "dequeued",
    "refused": "refused",
    HELD: "waits for room",
    NOT_READY: "waits until it is ready",
    NOT_QUEUED: "not queued",
}

RESULTS: Mapping[str, str] = {
    EntryStatus.READY: "passed",
    EntryStatus.FAILED: "ejected",
    EntryStatus.CANCELLED: "dequeued",
    EntryStatus.UPDATING: "started over, since the base moved",
    EntryStatus.PENDING: "ended, and not landed",
    "blocked": "set aside",
}
"""How a test ended, by the event that ended it."""

_PREEMPTED = "preempted by another pull request"

ACTORS: Mapping[str, str] = {
    PullRequestActor.AUTHOR: "The author has to act.",
    PullRequestActor.MAINTAINER: "A maintainer has to act.",
    PullRequestActor.OPERATOR: "The operator of IMQ has to act.",
    PullRequestActor.CI: "No action needed: CI is at work.",
    PullRequestActor.GITHUB: "No action needed: GitHub is at work.",
    PullRequestActor.IMQ: "No action needed: IMQ is at work.",
    PullRequestActor.NONE: "No action needed.",
}
"""Who has to act next."""

_SHOWN_APART = frozenset({STATE, AHEAD_OF_IT, CHECKS, NEXT, LAST})
"""Headings of what the page of a pull request shows by itself."""

_SHORT_SHA = 7


def reason_text(
    reason: Reason | WaitReason,
    base: str,
    policy: Policy | None,
    *,
    not_ready: bool = False,
    left: QueueHistory | None = None,
    part: Literal["sentence", "next_step"] = "sentence",
) -> Pieces:
    """Return the sentence about a reason, or the next step, as the API has it; `left`: how it left for it."""
    text = answer_text(reason, base=base or None, policy=policy, not_ready=not_ready, left=left)
    return _pieces(getattr(text, part))


next_text = partial(reason_text, part="next_step")


def culprit_text(search: CulpritRecord, base: str) -> Pieces:
    """Return what the search for the culprit found, as the API has it."""
    return _pieces(culprit_sentence(search, base))


def left_text(event: TimelineEvent | None, reason: Reason, base: str, policy: Policy | None) -> Pieces:
    """Return in few words why a pull request left: for one that was green alone, what landed since."""
    left = None if event is None else last_outcome([event])
    if left is None or left.failure is None or not left.failure.is_together:
        return reason_text(reason, base, policy)
    landed = few([f"#{number}" for number in left.failure.landed or ()])
    return _pieces(f"Fails together with {landed or 'what landed since'}" + (", landed since." if landed else "."))


def state_text(found: PullRequestStatus) -> str:
    if found.entry is not None and found.entry.rests:
        return "checks ended, the queue is blocked"
    state = found.outcome or found.state
    return STATES.get(state, state)


def actor(reason: Reason | WaitReason) -> str:
    """Return who has to act, for a narrow column."""
    return WHO_ACTS[whose_move(reason)]


def status_rows(found: PullRequestStatus, policy: Policy | None) -> tuple[tuple[str, Pieces], ...]:
    """Return what a pull request waits for as `/why` says it, with headings; the reason is the page's headline."""
    lines = [each for each in status_lines(found, Names.of(None, policy)) if each.heading not in _SHOWN_APART]
    shown = next((each for each in lines if each.heading in (BLOCKED, SET_ASIDE)), None)
    return tuple((each.heading, _pieces(each.sentence)) for each in lines if each is not shown)


def result_text(run: RunRecord) -> str:
    """Return how a test ended."""
    ended = RUN_OUTCOMES.get(run.outcome or "") if run.event == EntryStatus.PENDING else None
    result = _PREEMPTED if run.preempted else ended or RESULTS.get(run.event, run.event)
    return result if run.reason is None else f"{result}: {run.reason.value.replace('_', ' ')}"


def event_text(event: TimelineEvent, number: int | None = None) -> str:
    """Return what happened, in a sentence without its full stop, in the history of pull request `number`."""
    return timeline_text.event_text(event, number, one_line)


def _pieces(sentence: str) -> Pieces:
    """Split a sentence at its code."""
    return tuple((part, index % 2 == 1) for index, part in enumerate(sentence.split("`")) if part)


def failing_of(event: TimelineEvent | None) -> tuple[FailingCheck, ...]:
    return safe_links(() if event is None else FailingCheck.all_of(event.data))


def safe_links(failing: Iterable[FailingCheck]) -> tuple[FailingCheck, ...]:
    """Return failing checks with links of the web only: Apps choose the links."""
    return tuple(replace(each, url=safe_link(each.url)) for each in failing)
