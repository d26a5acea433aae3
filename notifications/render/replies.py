"""Render the replies to the commands of a comment. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from notifications.render.body import names_of, not_followed
from notifications.render.escape import MESSAGE_LIMIT, code, inert
from notifications.render.failing import failing_sentence
from notifications.render.formats import duration, instant, pull_request
from notifications.render.status import Names, blocker_sentence, status_lines, with_facts
from notifications.texts import REASONS
from notifications.texts import replies as texts
from notifications.texts.not_ready import NOT_READY
from queue_engine.commands.table import CATALOGUE
from queue_engine.core.read_model import adapter
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.notice import QUESTIONS, CommandReply, Notice, Reply, ReplyKind
from queue_engine.domain.reasons import Reason
from queue_engine.queries.pull_request_status import ReplyFacts
from queue_engine.queries.queue_status import QueueStatus

_MOST_LISTED = 20
_MOST_SHOWN = 10
"""Entries in the reply to `/status`."""


def render_replies(replies: CommandReply, notice: Notice, facts: ReplyFacts | None = None) -> str | None:
    """Render the replies as a quotation, apart from IMQ's own notices; None without replies.

    `facts` are what `/why` and `/status` ask for.
    """
    blocks = ["\n\n".join(_reply(reply, replies, notice, facts)) for reply in replies.replies]
    lines = "\n\n".join(blocks).split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines) if blocks else None


def _reply(reply: Reply, answer: CommandReply, notice: Notice, asked_for: ReplyFacts | None) -> list[str]:
    """Render one reply; of a reply that another version of IMQ stored in another form, only the first paragraph."""
    opening = texts.DONE if reply.accepted else texts.NOT_DONE
    asked = opening.format(by=code(answer.by), command=code(f"/{reply.command}"), time=instant(answer.at))
    try:
        if reply.code in QUESTIONS:
            return [asked] if asked_for is None else [asked, *_status(reply, answer, notice, asked_for)]
        return [asked, *_sentences(reply, answer, notice)]
    except (KeyError, TypeError, ValueError):
        return [asked]


def _sentences(reply: Reply, answer: CommandReply, notice: Notice) -> list[str]:
    facts = reply.facts
    match reply.code:
        case ReplyKind.REFUSED:
            return [_refused(facts, notice)]
        case ReplyKind.NOT_READY:
            return [_not_ready(reply, notice)]
        case ReplyKind.HELP:
            return [texts.REPLIES[reply.code], *_commands()]
        case ReplyKind.RESUMED | ReplyKind.NOT_PAUSED:
            return [
                _fill(reply, answer),
                *_blockers(adapter(tuple[Blocker, ...]).validate_python(facts.get("blockers") or ()), notice),
            ]
        case ReplyKind.HELD if "priority" in facts:
            return [f"{_fill(reply, answer)} {texts.JOINS_WITH.format(priority=int(facts['priority']))}"]
        case ReplyKind.PRIORITY:
            return [_fill(reply, answer), _delayed(facts["overtakes"]), *_preempted(facts)]
        case ReplyKind.NOT_UNDERSTOOD if not facts["argument"]:
            return [texts.ARGUMENT_MISSING.format(usage=code(facts["usage"]))]
        case ReplyKind.NOT_UNDERSTOOD if facts.get("fault"):
            # The fault ends a sentence of IMQ's, and may quote foreign text.
            usage, argument = code(facts["usage"]), code(facts["argument"])
            return [texts.ARGUMENT_AT_FAULT.format(argument=argument, fault=inert(facts["fault"]), usage=usage)]
        case ReplyKind.NOT_ALLOWED if facts.get("detail"):
            return [with_facts(_fill(reply, answer), None, facts["detail"])]
        case ReplyKind.PAUSED | ReplyKind.FROZEN:
            return [" ".join((_fill(reply, answer), *_pause_details(facts)))]
        case _:
            return [_fill(reply, answer)]


def _status(reply: Reply, answer: CommandReply, notice: Notice, facts: ReplyFacts) -> list[str]:
    """Answer what a command asked, by what IMQ knows when it sends the reply."""
    if reply.code is ReplyKind.WHY:
        names = names_of(notice) if facts.policy is None else Names.of(notice.base_branch, facts.policy)
        limits = () if facts.policy is None else facts.policy.not_followed
        return [*(line.sentence for line in status_lines(facts.pull_request, names)), *not_followed(limits)]
    blockers = () if facts.queue is None else facts.queue.blockers
    return [_fill(reply, answer), *_queue(facts.queue), *_blockers(blockers, notice)]


def _fill(reply: Reply, answer: CommandReply) -> str:
    shown = {name: _format_fact(name, value) for name, value in reply.facts.items()}
    return texts.REPLIES[reply.code].format(**{"by": code(answer.by)} | shown)


def _format_fact(name: str, value: Any) -> str:
    match name, value:
        case "position", int():
            return str(value + 1)
        case "until", str():
            return _instant(value)
        case _, int():
            return str(value)
        case _:
            return code(str(value), MESSAGE_LIMIT)


def _instant(written: str) -> str:
    return instant(datetime.fromisoformat(written))


def _refused(facts: Mapping[str, Any], notice: Notice) -> str:
    text = REASONS[Reason(facts["reason"])]
    names = {"base": code(notice.base_branch), "label": code(facts["label"] or notice.trigger_label)}
    sentence = with_facts(text.sentence.format(**names), None, facts.get("detail"))
    return texts.REPLIES[ReplyKind.REFUSED].format(sentence=sentence, next_step=text.next_step.format(**names))


def _not_ready(reply: Reply, notice: Notice) -> str:
    facts = reply.facts
    text = NOT_READY[Reason(facts["reason"])]
    base = code(str(facts.get("base_branch") or notice.base_branch))
    sentence = text.sentence.format(base=base) + failing_sentence(map(FailingCheck.of_data, facts.get("failing") or ()))
    sentence = with_facts(sentence, None, facts.get("detail"))
    shown = {"sentence": sentence, "next_step": text.next_step.format(base=base), "base_branch": base}
    found = texts.REPLIES[ReplyKind.NOT_READY].format(**shown)
    if "priority" in facts:
        found += f" {texts.JOINS_WITH.format(priority=int(facts['priority']))}"
    return found


def _commands() -> list[str]:
    rows = (
        texts.COMMAND.format(usage=code(command.usage), help=command.help, right=command.right.value)
        for command in CATALOGUE.values()
    )
    return ["\n".join(f"- {row}" for row in rows)]


def _pause_details(facts: Mapping[str, Any]) -> Iterator[str]:
    """Render the details of a pause or a freeze."""
    if facts["detail"]:
        yield texts.REASON_GIVEN.format(detail=code(facts["detail"], MESSAGE_LIMIT))
    if facts.get("paused"):
        yield texts.PAUSED_AS_WELL
    if facts.get("then"):
        yield texts.FROZEN_AFTERWARDS.format(until=_instant(facts["then"]))


def _queue(found: QueueStatus | None) -> Iterator[str]:
    entries = () if found is None else found.entries[:_MOST_SHOWN]
    rows = [
        texts.QUEUE_LINE.format(
            place=place,
            number=pull_request(view.entry.number),
            status=code(view.entry.status),
            since=instant(view.entry.status_since),
        )
        for place, view in enumerate(entries, start=1)
    ]
    yield "\n".join(rows) if rows else texts.EMPTY
    if found is None:
        return
    if (more := found.depth - len(rows)) > 0:
        yield texts.MORE.format(count=more)
    if found.held:
        yield texts.OTHERS_HELD.format(held=found.held)
    if found.not_ready:
        yield texts.OTHERS_NOT_READY.format(not_ready=found.not_ready)


def _blockers(blockers: Iterable[Blocker], notice: Notice) -> list[str]:
    """Render the queue's blockers, a line for each."""
    names = names_of(notice)
    return [texts.QUEUE_BLOCKED.format(sentence=blocker_sentence(each, names)) for each in blockers]


def _delayed(overtakes: Sequence[Sequence[Any]]) -> str:
    others = [
        pull_request(int(number))
        if seconds is None
        else texts.DELAYED.format(number=pull_request(int(number)), delay=duration(timedelta(seconds=seconds)))
        for number, seconds in overtakes[:_MOST_LISTED]
    ]
    return texts.DELAYS.format(others=", ".join(others)) if others else texts.DELAYS_NONE


def _preempted(facts: Mapping[str, Any]) -> list[str]:
    """Name the preempted entry and the time that it loses, if there is one."""
    if facts.get("preempts") is None:
        return []
    number, lost = pull_request(int(facts["preempts"])), facts.get("lost")
    if lost is None:
        return [texts.PREEMPTS.format(number=number)]
    return [texts.PREEMPTS_LOSING.format(number=number, lost=duration(timedelta(seconds=lost)))]
