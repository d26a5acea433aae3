"""Say why a pull request waits, and who has to act: the one text of comments, pages, programs and commands. Pure.

Names and words of others are code spans of Markdown; `plain` is for readers without Markdown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from notifications.render.culprit_text import RELAND, REVERT, REVERTED
from notifications.render.escape import (
    MESSAGE_LIMIT,
    code,
    duration,
    instant,
    link,
    names,
    pull_request,
    pull_requests,
)
from notifications.render.failing_checks import failure_sentences, next_step
from notifications.render.train_text import train_text
from notifications.texts import headlines, reason_texts, waiting
from notifications.texts.reason_texts import NOT_READY, ReasonText
from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.departure import Cause, NewCommits
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import UnmetRequirement
from queue_engine.domain.notice import BlockerFacts, Notice
from queue_engine.domain.reasons import Reason, WaitReason
from queue_engine.queries.pull_request_status import PullRequestStatus, QueueHistory
from queue_engine.queries.queue_status import EntryView
from queue_engine.rules.job_rates import JobFigures
from queue_engine.rules.priority import FairShare

_SHOWN = 10
_SHORT_SHA = 7
_RUNNERS = re.compile(r"(?P<runner>.*): (?P<busy>\d+ of \d+ busy)", re.DOTALL)
"""The details of `RUNNERS_BUSY`, as the engine writes them."""


def failing_list(failing: Iterable[FailingCheck]) -> Iterable[str]:
    """Render the checks as a list with their links, if there are any."""
    if lines := [f"- {each}" for each in _each(failing)]:
        yield "\n".join([reason_texts.FAILING, "", *lines])


def failing_sentence(failing: Iterable[FailingCheck]) -> str:
    """Render the checks as a sentence with their links; empty without any."""
    found = ", ".join(_each(failing))
    return f" {reason_texts.FAILING} {found}." if found else ""


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
    return f"{shown} {reason_texts.FAILED_JOBS.format(jobs=names(failing.jobs))}"


UNKNOWN_BASE = "its base branch"
UNKNOWN_LABEL = "of the queue"
"""After "the label", where the caller has no policy."""

_LINK = re.compile(r"\[(`[^\]]*`)\]\(([^)\s]*)\)")


@dataclass(frozen=True, slots=True)
class Names:
    """The base branch and the labels that a text names."""

    base: str
    label: str
    fix_labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, base: str | None, policy: Policy | None) -> "Names":
        """Return the names of a queue, as far as its policy is known."""
        known = policy or Policy()
        return cls(base or UNKNOWN_BASE, UNKNOWN_LABEL if policy is None else known.trigger_label, known.fix_labels)

    def fill(self, template: str, **facts: object) -> str:
        """Fill in a text; further facts are escaped already."""
        fix = " or ".join(map(code, self.fix_labels)) or headlines.NO_FIX_LABEL
        return template.format(base=code(self.base), label=code(self.label), fix=fix, **facts)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing about a pull request: a sentence, and its heading in a list."""

    heading: str
    sentence: str


def status_lines(found: PullRequestStatus, known: Names) -> tuple[Line, ...]:
    """Say where a pull request is, what it waits for, and who acts next and how."""
    left = None if found.previous is None else found.previous.base_branch
    its = replace(known, base=found.base_branch or left or known.base)
    text = left_text(found.previous, its) or reason_text(found.reason, not_ready=bool(found.unmet))
    step = waiting.WHOSE_MOVE.format(actor=waiting.ACTORS[found.whose_move], step=its.fill(text.next_step))
    return (*_lines(found, its), Line(waiting.NEXT, step))


def _lines(found: PullRequestStatus, its: Names) -> Iterator[Line]:
    if found.entry is not None:
        yield from _entry(found.entry, its)
    elif found.unmet:
        yield Line(
            waiting.STATE, its.fill(waiting.OUTSIDE, unmet=" ".join(unmet_sentence(each, its) for each in found.unmet))
        )
    elif found.is_queued:
        yield Line(waiting.STATE, its.fill(waiting.HELD, depth=found.depth, ahead=found.held_behind))
        yield from _share(found.fair_share)
    elif found.previous is None or found.previous.reason is not None:
        yield Line(waiting.STATE, waiting.NOT_QUEUED)
    if found.previous is not None:
        yield Line(waiting.LAST, _previous(found.previous, its))


def _entry(view: EntryView, its: Names) -> Iterator[Line]:
    entry, ahead = view.entry, view.position.ahead
    states = waiting.STATES if view.train is None else {**waiting.STATES, **waiting.TRAIN_STATES}
    times = {name: instant(getattr(entry, name)) for name in ("enqueued_at", "status_since")}
    place = {"position": entry.position + 1, "depth": view.position.depth}
    state = waiting.RESTING if view.rests else states[entry.status]
    yield Line(waiting.STATE, its.fill(state, queued_by=code(entry.queued_by), **times, **place))
    if ahead:
        yield Line(waiting.AHEAD_OF_IT, ahead_sentence(ahead, entry.position))
    yield from _share(view.fair_share)
    if view.pending_checks:
        yield Line(waiting.CHECKS, waiting.PENDING_CHECKS.format(checks=names(view.pending_checks)))
    if entry.hotfix or entry.priority:
        yield Line(waiting.ORDER, waiting.HOTFIX if entry.hotfix else waiting.PRIORITY.format(priority=entry.priority))
    if view.outage is not None:
        yield Line(waiting.GITHUB, outage_sentence(view.outage.since, view.outage.next_try))
    if view.train is not None and not view.rests:
        yield Line(waiting.TRAIN, " ".join(train_text(view.train, entry.number, entry.base_branch)))
    if view.deferral is not None:
        held = view.deferral
        sentence = hold_sentence(Blocker(held.reason, held.detail or "", held.until, since=held.since), its)
        yield Line(waiting.SET_ASIDE, f"{sentence} {waiting.QUEUE_CONTINUES}")
    for blocker in view.blockers:
        yield Line(waiting.BLOCKED, blocked_sentence(blocker, its))


def _share(share: FairShare | None) -> Iterable[Line]:
    if share is not None:
        sentence = waiting.SHARE.format(author=code(share.author), count=share.pulls) if share.pulls else waiting.SHARED
        yield Line(waiting.ORDER, sentence)


def job_text(figures: JobFigures) -> str:
    """Say how many minutes of CI were billed, and their price if it is known."""
    minutes = round(figures.minutes)
    text = "1 minute of CI" if minutes == 1 else f"{minutes:,} minutes of CI"
    if figures.cost is None:
        return text
    return f"{text} ({'under $0.01' if 0 < figures.cost < 0.005 else f'${figures.cost:,.2f}'})"


def effect_sentence(runs: int, jobs: JobFigures, delayed: int, *, holds: bool = False) -> str:
    """Say what a control does: the runs that it stops with their known minutes, and how many it delays."""
    delays = "delays 1 pull request" if delayed == 1 else f"delays {delayed or 'no'} pull requests"
    count = "1 run" if runs == 1 else f"{runs} runs"
    if not runs:
        return f"It stops no run, and {delays}."
    if holds:
        spent = f" ({job_text(jobs)})" if jobs.minutes else ""
        return f"It stops no run, and {delays}. Until it ends, {count} under way{spent} cannot land."
    return f"It stops {count}, {job_text(jobs)}, and {delays}." if jobs.minutes else f"It stops {count}, and {delays}."


def ahead_sentence(ahead: Sequence[int], position: int, when: str = "") -> str:
    """Name the pull requests ahead, the first of them by number; `when` says as of when, in a text that stays."""
    numbers, more = pull_requests(ahead), position - len(ahead)
    if more > 0:
        numbers += f" {waiting.AND_MORE.format(count=more)}"
    return waiting.AHEAD.format(when=when, numbers=numbers)


def outage_sentence(since: datetime, next_try: datetime | None) -> str:
    """Say since when GitHub fails, and when IMQ tries again, if that is known."""
    known = "" if next_try is None else waiting.NEXT_TRY.format(time=instant(next_try))
    return waiting.OUTAGE.format(since=instant(since), next_try=known)


def blocked_sentence(blocker: Blocker, its: Names) -> str:
    """Say that a queue is blocked, by what and until when, and its details."""
    return waiting.QUEUE_BLOCKED.format(sentence=hold_sentence(blocker, its))


def hold_sentence(hold: Blocker | BlockerFacts | Notice, its: Names) -> str:
    """Say what blocks a queue: who or what, since when, until when, and why."""
    assert hold.reason is not None
    if hold.reason is Reason.RUNNERS_BUSY and (found := _RUNNERS.fullmatch(hold.detail or "")):
        return waiting.RUNNERS_BUSY.format(runner=code(found["runner"]), busy=found["busy"])
    template, detail = _HOLDS.get(hold.reason), code(hold.detail, MESSAGE_LIMIT) if hold.detail else None
    if template is None or (detail is None and "{detail}" in template):
        return with_facts(its.fill(reason_texts.REASONS[hold.reason].sentence), hold.until, hold.detail)
    if hold.reason is Reason.FROZEN and hold.by is None:
        template = waiting.FROZEN
    since, until = (None if time is None else instant(time) for time in (hold.since, hold.until))
    return its.fill(
        template,
        who=waiting.A_MAINTAINER if hold.by is None else code(hold.by),
        at="" if since is None else waiting.AT.format(time=since),
        since="" if since is None else waiting.SINCE.format(time=since),
        until="" if until is None else waiting.UNTIL_THEN.format(time=until),
        why="" if detail is None else waiting.BECAUSE.format(detail=detail),
        detail=detail,
    )


_HOLDS: Mapping[Reason, str] = {
    Reason.PAUSED_BY_HAND: waiting.PAUSED_BY,
    Reason.FROZEN: waiting.FROZEN_BY,
    Reason.BASE_RED: waiting.BASE_RED,
    Reason.CHECK_NEVER_REPORTED: waiting.NEVER_REPORTED,
}
"""The sentences about blockers of which more is known than the reason."""


def with_facts(sentence: str, until: datetime | None, detail: str | None) -> str:
    """Return a sentence with its end and its details, where there are any."""
    return " ".join((sentence, *fact_sentences(until, detail)))


def fact_sentences(until: datetime | None, detail: str | None) -> Iterator[str]:
    """Say when something ends, and its details, where there are any."""
    if until is not None:
        yield waiting.UNTIL.format(time=instant(until))
    if detail:
        yield waiting.DETAIL.format(detail=code(detail, MESSAGE_LIMIT))


def unmet_sentence(unmet: UnmetRequirement, its: Names) -> str:
    """Say what a pull request lacks, with the checks that fail and the details."""
    sentence = its.fill(reason_text(unmet.reason, not_ready=True).sentence)
    return with_facts(sentence + failing_sentence(unmet.failing), None, unmet.detail)


def _previous(previous: QueueHistory, its: Names) -> str:
    time, reason = instant(previous.at), previous.reason
    text = left_text(previous, its)
    if reason is None:
        landed = waiting.LANDED.format(time=time)
        return landed if text is None or previous.blamed is None else f"{landed} {text.sentence}"
    sentence = its.fill(reason_texts.REASONS[reason].sentence) if text is None else text.sentence
    return waiting.LAST_TIME.format(time=time, sentence=with_facts(sentence, None, previous.detail))


def caused_sentence(reason: Reason, cause: Cause | None, base: str) -> str | None:
    """Render who caused a departure, and how long after IMQ's update; None if that is not known."""
    if cause is None or reason not in reason_texts.CAUSED:
        return None
    after = None if cause.after_update is None else duration(timedelta(seconds=cause.after_update))
    when = "" if after is None else reason_texts.AFTER_UPDATE.format(time=after)
    return reason_texts.CAUSED[reason].format(who=_who(cause), when=when, base=code(base))


def _landed_text(left: QueueHistory, its: Names) -> ReasonText | None:
    """Return what is known of a landing that broke its base branch, or that IMQ reverts; None if nothing is."""
    if left.blamed is None and left.revert is None:
        return None
    sentence = its.fill(waiting.WAITS[WaitReason.LANDED].sentence)
    if left.blamed is not None:
        sentence = its.fill(waiting.BROKE, probability=int(left.blamed * 100))
    if left.revert is None:
        return ReasonText(sentence, REVERT)
    return ReasonText(sentence, f"{REVERTED.format(revert=pull_request(left.revert))} {RELAND}")


def left_text(left: QueueHistory | Notice | None, its: Names) -> ReasonText | None:
    """Return what is known of a departure beyond its reason, with what to do; None if nothing is.

    The label is left to be filled in by the step alone.
    """
    if isinstance(left, QueueHistory) and left.reason is None:
        return _landed_text(left, its)
    if left is None or left.reason is None:
        return None
    if left.failure is not None:
        sentences, text = failure_sentences(left.failure, its.base), reason_texts.REASONS[left.reason]
        if left.reason is Reason.CHECKS_FAILED:
            return ReasonText(" ".join(sentences), next_step(left.failure, its.base))
        return ReasonText(" ".join((its.fill(text.sentence), *sentences)), text.next_step)
    if left.new_commits is not None:
        return ReasonText(_new_commits(left.new_commits, left.cause), reason_texts.REASONS[left.reason].next_step)
    caused = caused_sentence(left.reason, left.cause, its.base)
    return None if caused is None else ReasonText(caused, reason_texts.REASONS[left.reason].next_step)


def _new_commits(found: NewCommits, cause: Cause | None) -> str:
    pushed = reason_texts.SOME_COMMITS if found.pushed is None else code(found.pushed[:_SHORT_SHA])
    after = None if cause is None or cause.after_update is None else timedelta(seconds=cause.after_update)
    sentence = reason_texts.UNPROVED_COMMITS if found.by_imq else reason_texts.NEW_COMMITS
    return sentence.format(
        who=reason_texts.SOMEBODY if cause is None else _who(cause),
        pushed=pushed,
        queued_by=code(found.queued_by),
        queued=code(found.queued[:_SHORT_SHA]),
        when="" if after is None else f" ({reason_texts.AFTER_UPDATE.format(time=duration(after)).strip()})",
    )


def _who(cause: Cause) -> str:
    return (reason_texts.BOT if cause.bot else reason_texts.WHO).format(login=code(cause.by))


def reason_text(reason: Reason | WaitReason, *, not_ready: bool = False) -> ReasonText:
    """Return the text of a reason; `not_ready`: the pull request waits outside the queue until it has what it lacks."""
    if not isinstance(reason, Reason):
        return waiting.WAITS[reason]
    return (NOT_READY.get(reason) if not_ready else None) or reason_texts.REASONS[reason]


def plain(sentence: str) -> str:
    """Return a text for readers without Markdown."""
    return _LINK.sub(r"\1 (\2)", sentence).replace("`", "")


def answer_text(
    reason: Reason | WaitReason,
    *,
    base: str | None = None,
    label: str | None = None,
    policy: Policy | None = None,
    not_ready: bool = False,
    left: QueueHistory | None = None,
) -> ReasonText:
    """Return what happened and the next step, with commands and commits as code; `left`: how it left for it."""
    known_text = left_text(left, Names.of(base, policy))
    text, known = known_text or reason_text(reason, not_ready=not_ready), policy or Policy()
    fix = " or ".join(f"`{name}`" for name in known.fix_labels) or headlines.NO_FIX_LABEL
    named = label or (None if policy is None else policy.trigger_label)
    shown = {"base": base or UNKNOWN_BASE, "label": f"`{named}`" if named else UNKNOWN_LABEL, "fix": fix}
    sentence, step = text.sentence if known_text else text.sentence.format(**shown), text.next_step.format(**shown)
    begins_with_name = known_text is None and base is not None and text.sentence.startswith("{base}")
    return ReasonText(sentence if begins_with_name else sentence[:1].upper() + sentence[1:], step)
