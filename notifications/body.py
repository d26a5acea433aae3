"""The paragraphs that the sticky comment and the check run share: a notice put into words. Pure.

Everything in a notice that somebody else wrote passes through `notifications.escape`.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from notifications import texts
from notifications.escape import MESSAGE_LIMIT, code, link, mention
from queue_engine.facts import CheckReport
from queue_engine.notice import Notice, NoticeKind
from queue_engine.reasons import REASONS, Move, Reason

CHECKS_SHOWN = 50
CHECKS_BUDGET = 30_000
"""Characters for the list of checks: well inside GitHub's 65,536 for a comment and 65,535 for a summary."""

WAITING = frozenset(
    {
        NoticeKind.QUEUED,
        NoticeKind.UPDATING,
        NoticeKind.CHECKING,
        NoticeKind.READY,
        NoticeKind.HELD,
        NoticeKind.PAUSED,
    }
)
"""Kinds of notice after which the pull request still stands in line, or for a place in it."""


def headline(notice: Notice) -> str:
    """One line: where the pull request stands. The position is as of joining: it is not edited at every landing."""
    line = _filled(texts.KINDS[notice.kind].headline, notice)
    if notice.kind is NoticeKind.QUEUED and notice.position is not None:
        template = texts.PLACE_OF_JOINING_ALONE if notice.depth is None else texts.PLACE_OF_JOINING
        line += template.format(place=notice.position + 1, depth=notice.depth)
    if notice.kind is NoticeKind.LANDED and notice.landed_sha is not None:
        line += texts.LANDED_AS.format(commit=commit(notice.landed_sha))
    return line


def paragraphs(notice: Notice, *, mentions: bool) -> list[str]:
    """What follows the headline. `mentions` allows mentions; the reason must also ask people to act."""
    found = [*_waiting(notice), *_reason(notice), *_checks(notice), *_times(notice), *_move(notice, mentions)]
    if notice.kind in WAITING:
        found.append(_filled(texts.HOW_TO_LEAVE, notice))
    return found


def commit(sha: str) -> str:
    """A commit: its whole SHA, which GitHub itself shortens and links, or a code span if it is none."""
    return sha if re.fullmatch(r"[0-9a-f]{40}", sha) else code(sha, 12)


def duration(length: timedelta) -> str:
    """A length of time for people, in its two largest units; seconds only below a minute; a negative one is none."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
    units = [(days, "d"), (hours, "h"), (minutes, "min")]
    while not units[0][0]:
        units.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in units[:2] if count)


def _filled(template: str, notice: Notice) -> str:
    return template.format(base=code(notice.base_branch), label=code(notice.trigger_label))


def _waiting(notice: Notice) -> Iterable[str]:
    match notice.kind:
        case NoticeKind.QUEUED if notice.position is not None:
            yield texts.WAITS_IN_LINE if notice.position > 0 else texts.WAITS_AT_FRONT
        case NoticeKind.UPDATING:
            yield _filled(texts.WAITS_FOR_UPDATE, notice)
        case NoticeKind.CHECKING if notice.progress is not None:
            done, total = notice.progress
            yield texts.CHECKS_HAVE_REPORTED.format(done=done, total=total)
        case NoticeKind.CHECKING if not notice.checks:
            yield texts.WAITS_FOR_FIRST_CHECK
        case NoticeKind.READY:
            yield texts.WAITS_FOR_MERGE


def _reason(notice: Notice) -> Iterable[str]:
    if notice.reason is not None:
        yield _filled(texts.REASONS[notice.reason].sentence, notice)
    if notice.kind is NoticeKind.HELD and notice.position is not None:
        yield texts.HELD_BEHIND.get(notice.position, texts.HELD_BEHIND_MANY).format(count=notice.position)
    if notice.reason is Reason.LABEL_WITHOUT_RIGHT and notice.queued_by is not None:
        yield texts.SET_BY.format(person=code(notice.queued_by))
    if notice.detail:
        yield texts.DETAIL.format(detail=code(notice.detail, MESSAGE_LIMIT))
    if notice.kind is NoticeKind.PAUSED:
        yield texts.KEEPS_ITS_PLACE


def _checks(notice: Notice) -> Iterable[str]:
    if not notice.checks or notice.kind is NoticeKind.LANDED:
        return
    title = texts.WAITS_FOR_CHECKS if notice.kind is NoticeKind.CHECKING else texts.CHECKS_TO_LOOK_AT
    lines: list[str] = []
    for check in notice.checks[:CHECKS_SHOWN]:
        line = _check_line(check)
        if sum(map(len, lines)) + len(line) > CHECKS_BUDGET:
            break
        lines.append(line)
    if more := len(notice.checks) - len(lines):
        lines.append(f"- {texts.AND_MORE.format(count=more)}")
    yield "\n".join([title, "", *lines])


def _check_line(check: CheckReport) -> str:
    state = _word(check.conclusion) if check.conclusion else texts.CHECK_NOT_STARTED
    if check.completed_at is not None:
        state += texts.CHECK_FINISHED.format(time=_time(check.completed_at))
    elif check.started_at is not None:
        state += texts.CHECK_SINCE.format(time=_time(check.started_at))
    return f"- {link(check.name, check.url)}: {state}"


def _word(conclusion: str) -> str:
    """GitHub's word for a check's state, readable; anything that is no such word is foreign text."""
    return conclusion.replace("_", " ") if re.fullmatch(r"[a-z_]{1,30}", conclusion) else code(conclusion, 30)


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _times(notice: Notice) -> Iterable[str]:
    if notice.kind is not NoticeKind.LANDED or notice.enqueued_at is None:
        return
    total = duration(notice.at - notice.enqueued_at)
    if notice.started_at is None:
        yield texts.TIME_IN_QUEUE.format(total=total)
    else:
        yield texts.TIME_AT_FRONT.format(total=total, front=duration(notice.at - notice.started_at))


def _move(notice: Notice, mentions: bool) -> Iterable[str]:
    if notice.reason is None or notice.kind is NoticeKind.LANDED:
        return
    move = REASONS[notice.reason].move
    who = texts.MOVES[move]
    called = [login for person in dict.fromkeys(notice.people) if (login := mention(person)) is not None]
    if move is Move.AUTHOR and notice.kind not in WAITING and mentions and called:
        who = texts.YOUR_MOVE.format(people=" ".join(called))
    yield f"**{who}** {_filled(texts.REASONS[notice.reason].next_step, notice)}"
