"""Render the paragraphs that the sticky comment and the check run share. Pure.

Everything in a notice that somebody else wrote passes through `notifications.render.escape`.
"""

import re
from collections.abc import Iterable
from datetime import timedelta

from notifications import texts
from notifications.render import history
from notifications.render.custom_text import custom_text
from notifications.render.escape import MESSAGE_LIMIT, code, link, mention
from notifications.render.formats import commit, duration, instant, names, pull_requests
from notifications.texts import waiting
from queue_engine.domain.facts import CheckReport
from queue_engine.domain.notice import WAITING, Notice, NoticeKind
from queue_engine.domain.reasons import REASONS, Reason, ReasonActor

CHECKS_SHOWN = 50
CHECKS_BUDGET = 30_000
"""Characters for the list of checks: well inside GitHub's 65,536 for a comment and 65,535 for a summary."""

_UNDER_WAY = frozenset({NoticeKind.QUEUED, NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.READY})

_AT_ONCE = timedelta(seconds=1)


def opening(notice: Notice) -> str:
    """The first paragraph: where the pull request stands, in one bold line, or what the repository says instead."""
    if notice.text is not None:
        position = None if notice.position is None else notice.position + 1
        return custom_text(notice.text, base=notice.base_branch, label=notice.trigger_label, position=position)
    return f"**{headline(notice)}**"


def headline(notice: Notice) -> str:
    """One line: where the pull request stands. A position has its time: it is not edited at every landing."""
    line = _filled(kind_text(notice).headline, notice) + place(notice)
    if notice.kind is NoticeKind.LANDED and notice.landed_sha is not None:
        line += waiting.LANDED_AS.format(commit=commit(notice.landed_sha))
    return line


def kind_text(notice: Notice) -> texts.KindText:
    """What this kind of notice is called."""
    return texts.MISMATCH if is_mismatch(notice) else texts.KINDS[notice.kind]


def is_mismatch(notice: Notice) -> bool:
    """Whether it landed, and the landed tree is not the tested one (P1)."""
    return notice.kind is NoticeKind.LANDED and notice.reason is Reason.TREE_MISMATCH


def paragraphs(notice: Notice, *, mentions: bool, events: history.Events = ()) -> list[str]:
    """What follows the opening. `mentions` allows mentions; the reason must also ask people to act."""
    found = [
        *_retrying(notice),
        *_waiting(notice),
        *_likely(notice),
        *_reason(notice),
        *_next_step(notice, mentions),
        *_other_blockers(notice),
        *_checks(notice),
        *_flaky(notice, events),
        *_landing(notice, events),
        *not_followed(notice.not_followed),
    ]
    if notice.kind in WAITING:
        found.append(_filled(waiting.HOW_TO_LEAVE, notice))
    return found


def not_followed(sentences: Iterable[str]) -> Iterable[str]:
    """What of the organisation's shared configuration does not count, as a list; nothing where all of it does."""
    if lines := [f"- {code(sentence, MESSAGE_LIMIT)}" for sentence in sentences]:
        yield "\n".join([waiting.NOT_FOLLOWED, "", *lines])


def _filled(template: str, notice: Notice) -> str:
    fix = " or ".join(code(label) for label in notice.fix_labels) or texts.NO_FIX_LABEL
    return template.format(base=code(notice.base_branch), label=code(notice.trigger_label), fix=fix)


def place(notice: Notice) -> str:
    """What a headline says of the position in the queue; it continues the headline, and nothing foreign is in it."""
    if notice.kind is not NoticeKind.QUEUED or notice.position is None:
        return ""
    shown = str(notice.position + 1)
    if notice.depth is not None:
        shown = waiting.OF_DEPTH.format(place=shown, depth=notice.depth)
    template = waiting.PLACE_WHEN_IT_JOINED if _just_joined(notice) else waiting.PLACE_AS_OF
    return template.format(place=shown, time=instant(notice.at))


def _just_joined(notice: Notice) -> bool:
    """Whether a position is that of joining; a later one has its time, because others leave and hotfixes come."""
    return notice.enqueued_at is None or notice.at - notice.enqueued_at < _AT_ONCE


def _waiting(notice: Notice) -> Iterable[str]:
    match notice.kind:
        case NoticeKind.QUEUED if notice.position is not None:
            yield _queued(notice, notice.position)
        case NoticeKind.UPDATING:
            yield _filled(waiting.WAITS_FOR_UPDATE, notice)
        case NoticeKind.CHECKING if notice.progress is not None:
            done, total = notice.progress
            yield waiting.CHECKS_HAVE_REPORTED.format(done=done, total=total)
        case NoticeKind.CHECKING if not notice.checks:
            yield waiting.WAITS_FOR_FIRST_CHECK
        case NoticeKind.READY:
            yield waiting.WAITS_FOR_MERGE


def _queued(notice: Notice, position: int) -> str:
    """Which pull requests are ahead of it, or that there are some or none."""
    if not notice.ahead:
        return waiting.WAITS_IN_LINE if position > 0 else waiting.WAITS_AT_FRONT
    template = waiting.AHEAD if _just_joined(notice) else waiting.AHEAD_AS_OF
    return template.format(time=instant(notice.at), numbers=_ahead(notice))


def _retrying(notice: Notice) -> Iterable[str]:
    if notice.retrying_since is not None and notice.next_try is not None:
        yield waiting.RETRYING.format(since=instant(notice.retrying_since), next_try=instant(notice.next_try))


def _ahead(notice: Notice) -> str:
    numbers = pull_requests(notice.ahead)
    more = (notice.position or 0) - len(notice.ahead)
    return waiting.AHEAD_AND_MORE.format(numbers=numbers, count=more) if more > 0 else numbers


def _likely(notice: Notice) -> Iterable[str]:
    """When it lands, as far as anybody can tell."""
    if notice.eta is None or notice.kind not in _UNDER_WAY:
        return
    low, high = (end - notice.at for end in notice.eta)
    template = waiting.LIKELY_WITHIN if low <= timedelta(0) else waiting.LIKELY_BETWEEN
    yield template.format(low=duration(low), high=duration(high), time=instant(notice.at))


def _reason(notice: Notice) -> Iterable[str]:
    if notice.reason is not None and notice.text is None:
        yield _filled(texts.REASONS[notice.reason].sentence, notice)
    if notice.kind is NoticeKind.HELD and notice.position is not None:
        yield waiting.HELD_BEHIND.get(notice.position, waiting.HELD_BEHIND_MANY).format(count=notice.position)
    if notice.reason is Reason.LABEL_WITHOUT_RIGHT and notice.queued_by is not None:
        yield waiting.SET_BY.format(person=code(notice.queued_by))
    if notice.detail:
        yield waiting.DETAIL.format(detail=code(notice.detail, MESSAGE_LIMIT))
    if notice.until is not None:
        yield waiting.UNTIL.format(time=instant(notice.until))
    if notice.kind is NoticeKind.PAUSED:
        yield waiting.KEEPS_ITS_PLACE
    if notice.kind is NoticeKind.BLOCKED:
        yield waiting.OTHERS_GO_ON


def _other_blockers(notice: Notice) -> Iterable[str]:
    """What else blocks the queue, as a list; nothing where the reason is all."""
    lines = []
    for blocker in notice.other_blockers:
        line = f"- {_filled(texts.REASONS[blocker.reason].sentence, notice)}"
        if blocker.until is not None:
            line += " " + waiting.UNTIL.format(time=instant(blocker.until))
        if blocker.detail:
            line += " " + waiting.DETAIL.format(detail=code(blocker.detail, MESSAGE_LIMIT)) + "."
        move = REASONS[blocker.reason].move
        if move is not ReasonActor.NOBODY:
            line += f" **{texts.MOVES[move]}** {_filled(texts.REASONS[blocker.reason].next_step, notice)}"
        lines.append(line)
    if lines:
        yield "\n".join([_filled(waiting.OTHER_BLOCKERS, notice), "", *lines])


def _checks(notice: Notice) -> Iterable[str]:
    if not notice.checks or notice.kind is NoticeKind.LANDED:
        return
    title = waiting.WAITS_FOR_CHECKS if notice.kind is NoticeKind.CHECKING else waiting.CHECKS_TO_LOOK_AT
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
    state = _word(check.conclusion) if check.conclusion else waiting.CHECK_NOT_STARTED
    if check.completed_at is not None:
        state += waiting.CHECK_FINISHED.format(time=instant(check.completed_at))
    elif check.started_at is not None:
        state += waiting.CHECK_SINCE.format(time=instant(check.started_at))
    return f"- {link(check.name, check.url)}: {state}"


def _word(conclusion: str) -> str:
    """GitHub's word for a check's state, readable; anything that is no such word is foreign text."""
    return conclusion.replace("_", " ") if re.fullmatch(r"[a-z_]{1,30}", conclusion) else code(conclusion, 30)


def _flaky(notice: Notice, events: history.Events) -> Iterable[str]:
    """What failed once, told so that nobody need wonder."""
    if notice.kind is NoticeKind.CHECKING and (again := history.run_again(events)):
        yield (waiting.RUN_AGAIN if len(again) == 1 else waiting.RUN_AGAIN_MANY).format(checks=names(again))
    if notice.kind is NoticeKind.LANDED and (passed := history.flaky(events)):
        yield (waiting.WAS_FLAKY if len(passed) == 1 else waiting.WERE_FLAKY).format(checks=names(passed))


def _landing(notice: Notice, events: history.Events) -> Iterable[str]:
    if notice.kind is not NoticeKind.LANDED:
        return
    if notice.text is not None and notice.landed_sha is not None:
        yield waiting.COMMIT.format(commit=commit(notice.landed_sha))
    if notice.enqueued_at is None:
        return
    total, checks = duration(notice.at - notice.enqueued_at), history.time_in_ci(events)
    if notice.started_at is None:
        yield waiting.TIME_IN_QUEUE.format(total=total)
    elif checks is None:
        yield waiting.TIME_AT_FRONT.format(total=total, front=duration(notice.at - notice.started_at))
    else:
        front = duration(notice.at - notice.started_at)
        yield waiting.TIME_IN_CI.format(total=total, front=front, checks=duration(checks))


def _next_step(notice: Notice, mentions: bool) -> Iterable[str]:
    if notice.reason is None or notice.kind is NoticeKind.ANSWERED:
        return
    if notice.kind is NoticeKind.LANDED and not is_mismatch(notice):
        return
    move = REASONS[notice.reason].move
    who = texts.MOVES[move]
    called = [login for person in dict.fromkeys(notice.people) if (login := mention(person)) is not None]
    if move is ReasonActor.AUTHOR and notice.kind not in WAITING and mentions and called:
        who = texts.YOUR_MOVE.format(people=" ".join(called))
    step = texts.REASONS[notice.reason].next_step
    yield f"**{who}** {_filled(step, notice)}{_whom_to_ask(notice) if '{label}' in step else ''}"


def _whom_to_ask(notice: Notice) -> str:
    """For authors who did not queue it themselves: those of forks cannot set a label."""
    if notice.reason is None or REASONS[notice.reason].move is not ReasonActor.AUTHOR or notice.queued_by is None:
        return ""
    if notice.queued_by.casefold() in {person.casefold() for person in notice.people[:1]}:
        return ""
    # The person who labelled a refused pull request may have had no right to.
    ask = texts.ASK_SOMEBODY if notice.kind is NoticeKind.REFUSED else texts.ASK
    return ask.format(queued_by=code(notice.queued_by))
