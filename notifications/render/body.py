"""Render the paragraphs that the comment and the check run share. Pure.

All foreign text of a notice passes through `notifications.render.escape`.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from notifications.render import failing_checks, timeline_text, train_text
from notifications.render.escape import (
    GHOST,
    MESSAGE_LIMIT,
    clock,
    code,
    commit,
    duration,
    inert,
    instant,
    link,
    mention,
    names,
    pull_requests,
)
from notifications.render.status import (
    Names,
    ahead_sentence,
    fact_sentences,
    failing_list,
    hold_sentence,
    left_text,
    outage_sentence,
    reason_text,
    with_facts,
)
from notifications.texts import headlines, reason_texts, waiting
from notifications.texts.headlines import BLOCKED_BY, WHY
from notifications.texts.reason_texts import ReasonText
from queue_engine.config.merge_commit import filled
from queue_engine.domain.departure import may_judge_pull_request
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.notice import WAITING, Notice, NoticeKind
from queue_engine.domain.reasons import REASONS, SENDER_REASONS, Reason, ReasonActor
from queue_engine.queries.pull_request_status import status_reason

CHECKS_SHOWN = 50
CHECKS_BUDGET = 30_000
"""Characters for the list of checks: well inside GitHub's 65,536 for a comment and 65,535 for a summary."""

_IN_PROGRESS = frozenset({NoticeKind.QUEUED, NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.READY})

_JOIN_TIME = timedelta(seconds=1)


def opening(notice: Notice) -> str:
    """Render the first paragraph: the headline in bold, or the repository's own text."""
    if notice.text is not None:
        position = None if notice.position is None else notice.position + 1
        return custom_text(notice.text, base=notice.base_branch, label=notice.trigger_label, position=position)
    return f"**{headline(notice)}**"


def headline(notice: Notice) -> str:
    """Render the status in one line. A position has its time, because it is not edited at every landing."""
    line = fill(kind_text(notice).headline, notice) + position_text(notice)
    if notice.kind is NoticeKind.LANDED and notice.landed_sha is not None:
        line += waiting.LANDED_AS.format(commit=commit(notice.landed_sha))
    return line


def kind_text(notice: Notice) -> headlines.KindText:
    """Return the headline and title of a notice's kind."""
    if is_mismatch(notice):
        return headlines.MISMATCH
    text = train_text.kind_text(notice) or headlines.KINDS[notice.kind]
    if notice.reason is None or notice.kind is NoticeKind.NOT_READY:
        return text
    if notice.failure is not None and notice.failure.is_together and notice.reason is Reason.CHECKS_FAILED:
        return failing_checks.TOGETHER
    if notice.reason is Reason.RUNNERS_BUSY:
        return headlines.WAITS_FOR_RUNNER
    if notice.kind is NoticeKind.PAUSED:
        return BLOCKED_BY.get(notice.reason, text)
    return replace(text, headline=text.headline + WHY.get(notice.reason, ""))


def is_mismatch(notice: Notice) -> bool:
    """Whether it landed, and the landed tree is not the tested one (P1)."""
    return notice.kind is NoticeKind.LANDED and notice.reason is Reason.TREE_MISMATCH


def paragraphs(notice: Notice, *, mentions: bool, events: timeline_text.Events = ()) -> list[str]:
    """Render the paragraphs after the opening. `mentions` allows mentions, if the reason asks people to act."""
    found = [
        *_waiting(notice),
        *_reason(notice),
        *train_text.member_paragraph(notice),
        *_nothing_to_do(notice),
        *_next_step(notice, mentions),
        *_other_blockers(notice),
        *failing_list(notice.failing),
        *_checks(notice),
        *failing_checks.after_update(notice.failure),
        *_flaky(notice, events),
        *_landing(notice, events),
        *train_text.landing_paragraph(notice),
        *not_followed(notice.not_followed),
    ]
    if notice.kind in WAITING:
        in_queue = notice.kind is not NoticeKind.NOT_READY
        found += [waiting.LATER.format(numbers=pull_requests(notice.later))] if notice.later else []
        found += [] if in_queue else [reason_texts.JOINS_BY_ITSELF]
        found.append(fill(waiting.HOW_TO_DEQUEUE if in_queue else reason_texts.HOW_TO_END, notice))
    return found


def not_followed(sentences: Iterable[str]) -> Iterable[str]:
    """Render the ignored parts of the organisation's shared configuration as a list, if there are any."""
    if lines := [f"- {code(sentence, MESSAGE_LIMIT)}" for sentence in sentences]:
        yield "\n".join([waiting.NOT_FOLLOWED, "", *lines])


def fill(template: str, notice: Notice) -> str:
    return names_of(notice).fill(template)


def names_of(notice: Notice) -> Names:
    return Names(notice.base_branch, notice.trigger_label, notice.fix_labels)


def position_text(notice: Notice) -> str:
    """Render the position in the queue as the end of a headline, without foreign text."""
    if notice.kind is not NoticeKind.QUEUED or notice.position is None:
        return ""
    shown = str(notice.position + 1)
    if notice.depth is not None:
        shown = waiting.OF_DEPTH.format(position=shown, depth=notice.depth)
    template = waiting.POSITION_WHEN_QUEUED if _just_joined(notice) else waiting.POSITION_AS_OF
    return template.format(position=shown, time=instant(notice.at))


def _just_joined(notice: Notice) -> bool:
    """Whether the notice was made when the pull request was queued; later positions are shown with their time."""
    return notice.enqueued_at is None or notice.at - notice.enqueued_at < _JOIN_TIME


def _waiting(notice: Notice) -> Iterable[str]:
    """Say what it waits for: who is ahead, how many checks have reported, or the sentence of its status."""
    if notice.retrying_since is not None:
        yield outage_sentence(notice.retrying_since, notice.next_try)
    match notice.kind:
        case NoticeKind.QUEUED if notice.ahead:
            when = waiting.WHEN_QUEUED if _just_joined(notice) else waiting.AS_OF.format(time=instant(notice.at))
            yield ahead_sentence(notice.ahead, notice.position or 0, when)
        case NoticeKind.CHECKING if notice.progress is not None:
            done, total = notice.progress
            yield waiting.CHECKS_HAVE_REPORTED.format(done=done, total=total)
        case NoticeKind.QUEUED if notice.position is None:
            pass
        case NoticeKind.CHECKING if notice.checks:
            pass
        case _ if notice.kind in _IN_PROGRESS and notice.train is None:
            yield fill(reason_text(status_reason(notice.kind, notice.position or 0)).sentence, notice)


def _nothing_to_do(notice: Notice) -> Iterable[str]:
    """Say that people have nothing to do, with the likely time of landing or the position that is kept."""
    if notice.kind is NoticeKind.PAUSED:
        place, at = waiting.ITS_POSITION, clock(notice.at, notice.at)
        if notice.position is not None:
            place = waiting.POSITION.format(position=notice.position + 1, time=at)
        continues = ""
        if notice.reason is not None and REASONS[notice.reason].next_actor is ReasonActor.NONE:
            continues = f" {fill(_text_of(notice, notice.reason).next_step, notice)}"
        yield waiting.NOTHING_FOR_YOU.format(place=place) + continues
    elif is_mismatch(notice):
        yield waiting.LANDED_ANYWAY
    elif notice.kind in _IN_PROGRESS and notice.reason is None:
        yield waiting.NOTHING_TO_DO.format(likely=_likely(notice))


def _likely(notice: Notice) -> str:
    if notice.eta is None:
        return ""
    low, high = notice.eta
    template = waiting.LIKELY_BEFORE if low <= notice.at else waiting.LIKELY_BETWEEN
    first, last, time = (clock(each, notice.at) for each in (low, high, notice.at))
    return template.format(low=first.removesuffix(" UTC"), high=last, time=time)


def _reason(notice: Notice) -> Iterable[str]:
    if notice.reason is not None and (notice.kind is NoticeKind.PAUSED or notice.reason is Reason.RUNNERS_BUSY):
        if notice.text is None:
            yield hold_sentence(notice, names_of(notice))
        if notice.kind is NoticeKind.BLOCKED:
            yield waiting.QUEUE_CONTINUES
        return
    if notice.reason is not None and notice.text is None:
        known = left_text(notice, names_of(notice))
        yield fill(_text_of(notice, notice.reason).sentence, notice) if known is None else known.sentence
    if notice.kind is NoticeKind.HELD and notice.position is not None:
        yield waiting.HELD_BEHIND.get(notice.position, waiting.HELD_BEHIND_MANY).format(count=notice.position)
    if notice.reason in SENDER_REASONS and notice.queued_by is not None:
        yield waiting.SET_BY.format(person=code(notice.queued_by))
        if notice.queued_by.endswith("[bot]"):
            yield waiting.BOT_MAY_QUEUE.format(person=code(notice.queued_by))
    yield from fact_sentences(notice.until, notice.detail)
    if notice.kind is NoticeKind.BLOCKED:
        yield waiting.QUEUE_CONTINUES


def _other_blockers(notice: Notice) -> Iterable[str]:
    """Render the queue's blockers beside the reason as a list, if there are any."""
    lines = []
    for blocker in notice.other_blockers:
        text = _text_of(notice, blocker.reason)
        if notice.kind is NoticeKind.NOT_READY:
            line = f"- {with_facts(fill(text.sentence, notice), blocker.until, blocker.detail)}"
        else:
            line = f"- {hold_sentence(blocker, names_of(notice))}"
        actor = REASONS[blocker.reason].next_actor
        if actor is not ReasonActor.NONE:
            line += f" **{headlines.NEXT_STEP_FOR[actor]}** {fill(text.next_step, notice)}"
        lines.append(line)
    if lines:
        heading = reason_texts.LACKS_ALSO if notice.kind is NoticeKind.NOT_READY else waiting.OTHER_BLOCKERS
        yield "\n".join([fill(heading, notice), "", *lines])


def _text_of(notice: Notice, reason: Reason) -> ReasonText:
    """Return the text of a reason; while the pull request waits for what it lacks, no one has to queue it again."""
    return reason_text(reason, not_ready=notice.kind is NoticeKind.NOT_READY)


def _checks(notice: Notice) -> Iterable[str]:
    if not notice.checks or notice.kind is NoticeKind.LANDED:
        return
    title = waiting.WAITS_FOR_CHECKS if notice.kind is NoticeKind.CHECKING else waiting.AFFECTED_CHECKS
    lines: list[str] = []
    for check in notice.checks[:CHECKS_SHOWN]:
        line = _check_line(check)
        if sum(map(len, lines)) + len(line) > CHECKS_BUDGET:
            break
        lines.append(line)
    if more := len(notice.checks) - len(lines):
        lines.append(f"- {waiting.AND_MORE.format(count=more)}")
    yield "\n".join([title, "", *lines])


def _check_line(check: CheckReport) -> str:
    state = _state_text(check.conclusion) if check.conclusion else waiting.CHECK_NOT_STARTED
    if check.completed_at is not None:
        state += waiting.CHECK_FINISHED.format(time=instant(check.completed_at))
    elif check.started_at is not None:
        state += waiting.CHECK_SINCE.format(time=instant(check.started_at))
    if check.app is not None and check.state is CheckState.FAILED:
        state += waiting.CHECK_REPORTED_BY.format(app=code(check.app))
    return f"- {link(check.name, check.url)}: {state}"


def _state_text(conclusion: str) -> str:
    """Render the state of a check; a state that GitHub does not document is foreign text."""
    return conclusion.replace("_", " ") if re.fullmatch(r"[a-z_]{1,30}", conclusion) else code(conclusion, 30)


def _flaky(notice: Notice, events: timeline_text.Events) -> Iterable[str]:
    """Render the checks that are rerun or turned out flaky."""
    if notice.kind is NoticeKind.CHECKING and (rerun := timeline_text.rerun_checks(events)):
        sentence = (waiting.RERUN if len(rerun) == 1 else waiting.RERUN_MANY).format(checks=names(rerun))
        listed = timeline_text.listed_until(events)
        days = [waiting.LISTED.format(checks=code(name), until=code(listed[name])) for name in rerun if name in listed]
        yield " ".join((sentence, *days))
    if notice.kind is NoticeKind.LANDED and (passed := timeline_text.flaky(events)):
        yield (waiting.WAS_FLAKY if len(passed) == 1 else waiting.WERE_FLAKY).format(checks=names(passed))


def _landing(notice: Notice, events: timeline_text.Events) -> Iterable[str]:
    if notice.kind is not NoticeKind.LANDED:
        return
    if notice.text is not None and notice.landed_sha is not None:
        yield waiting.COMMIT.format(commit=commit(notice.landed_sha))
    if notice.untested_paths:
        yield waiting.KEPT_RESULT.format(base=code(notice.base_branch), paths=_paths(notice))
    if notice.enqueued_at is None:
        return
    total, checks = duration(notice.at - notice.enqueued_at), timeline_text.time_in_ci(events)
    if notice.started_at is None:
        yield waiting.TIME_IN_QUEUE.format(total=total)
    elif checks is None:
        yield waiting.TIME_AT_FRONT.format(total=total, front=duration(notice.at - notice.started_at))
    else:
        front = duration(notice.at - notice.started_at)
        yield waiting.TIME_IN_CI.format(total=total, front=front, checks=duration(checks))


def _paths(notice: Notice) -> str:
    """Render the files that changed after the test, with the number of those left out."""
    shown = ", ".join(code(path) for path in notice.untested_paths)
    return f"{shown} {waiting.AND_MORE.format(count=notice.more_paths)}" if notice.more_paths else shown


def _next_step(notice: Notice, mentions: bool) -> Iterable[str]:
    if notice.reason is None or notice.kind is NoticeKind.ANSWERED:
        return
    if notice.kind is NoticeKind.LANDED and not is_mismatch(notice):
        return
    facts = REASONS[notice.reason]
    if notice.kind is NoticeKind.PAUSED and facts.next_actor is ReasonActor.NONE:
        return
    who = headlines.NEXT_STEP_FOR[facts.next_actor]
    people: dict[str, str] = {}
    for person in _asked(notice):
        people.setdefault(person.casefold(), person)
    mentioned = [login for person in people.values() if (login := mention(person)) is not None]
    if facts.mentions_author and notice.kind not in WAITING and mentions and mentioned:
        author_alone = facts.next_actor is ReasonActor.AUTHOR
        words = headlines.NEXT_STEP_FOR_PEOPLE if author_alone else headlines.NEXT_STEP_FOR_PEOPLE_OR_MAINTAINER
        who = words.format(people=" ".join(mentioned))
    step = (left_text(notice, names_of(notice)) or _text_of(notice, notice.reason)).next_step
    if notice.kind is NoticeKind.NOT_READY and any(may_judge_pull_request(each.check) for each in notice.failing):
        step += failing_checks.OF_PULL_REQUEST
    yield f"**{who}** {fill(step, notice)}{_ask_queuer(notice) if '{label}' in step else ''}"


def _asked(notice: Notice) -> tuple[str, ...]:
    """Return the people who have to act: in place of an author whose account is deleted, who queued it."""
    asked = tuple(person for person in notice.people if person != GHOST)
    return asked if asked or not notice.people or notice.queued_by is None else (notice.queued_by,)


def _ask_queuer(notice: Notice) -> str:
    """Name a person whom the author can ask: authors of forks cannot set a label."""
    if notice.reason is None or REASONS[notice.reason].next_actor is not ReasonActor.AUTHOR or notice.queued_by is None:
        return ""
    if notice.queued_by.casefold() in {person.casefold() for person in _asked(notice)[:1]}:
        return ""
    # The person who labeled a rejected pull request may have no right to queue it.
    ask = headlines.ASK_SOMEBODY if notice.kind is NoticeKind.REFUSED else headlines.ASK
    return ask.format(queued_by=code(notice.queued_by))


_CUSTOM_LIMIT = 1_000

_FENCE = re.compile(r"`{3,}|~{3,}")
_APART = re.compile(r"(?<=[<@])|(?<=#)(?=[\d{])|(?<=\bGH-)(?=[\d{])", re.IGNORECASE)
_INVISIBLE = "\u200b"


def custom_text(template: str, *, base: str, label: str, position: int | None = None) -> str:
    """Render a repository's own text instead of IMQ's headline, with base branch, trigger label and position from one.

    The text is Markdown by the maintainers, with emphasis, lists and links. HTML (such as IMQ's hidden marker), code
    fences, mentions and references to other issues are broken up. Values are escaped. Without a position, as after an
    outcome, there is a dash.
    """
    lines = [
        _APART.sub(_INVISIBLE, _FENCE.sub("", "".join(c if c.isprintable() else " " for c in line))).rstrip()
        for line in template[:_CUSTOM_LIMIT].splitlines()
    ]
    values = {
        "base": inert(base),
        "label": inert(label),
        "position": "-" if position is None else str(position),
    }
    return filled("\n".join(lines).strip("\n"), values)
