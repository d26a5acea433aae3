"""Render the replies to the commands of a comment. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from notifications.render.body import names_of, not_followed
from notifications.render.escape import MESSAGE_LIMIT, code, commit, duration, inert, instant, pull_request
from notifications.render.status import (
    Names,
    blocked_sentence,
    effect_sentence,
    reason_text,
    status_lines,
    unmet_sentence,
    with_facts,
)
from notifications.texts.reason_texts import REASONS
from queue_engine.commands.commands import CATALOGUE
from queue_engine.core.read_model import adapter
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import UnmetRequirement
from queue_engine.domain.notice import QUESTIONS, CommandReply, Notice, Reply, ReplyKind
from queue_engine.domain.reasons import Reason
from queue_engine.queries.pull_request_status import ReplyFacts
from queue_engine.queries.queue_status import QueueStatus
from queue_engine.rules.job_rates import JobFigures

DONE = "{command} by {by} ({time}):"
NOT_DONE = "{command} by {by} ({time}) was not executed:"

REPLIES: Mapping[ReplyKind, str] = {
    ReplyKind.QUEUED: "Queued for {base_branch} at position {position} of {depth}.",
    ReplyKind.ALREADY_QUEUED: "Already queued for {base_branch} at position {position} of {depth}.",
    ReplyKind.REQUEUED: "Requeued for {base_branch} with its current head at position {position} of {depth}.",
    ReplyKind.HELD: "The queue for {base_branch} is full. The pull request waits for room.",
    ReplyKind.NOT_READY: "{sentence} IMQ queues the pull request for {base_branch} as soon as it is ready. {next_step}",
    ReplyKind.REFUSED: "{sentence} {next_step}",
    ReplyKind.DELEGATED: "{author} may queue this pull request for {base_branch} once, by `/queue`, until {until}.",
    ReplyKind.UNDELEGATED: "The delegation to {author} is revoked.",
    ReplyKind.NOT_DELEGATED: "Nothing is delegated to {author} on this pull request for {base_branch}.",
    ReplyKind.TRYING: "IMQ tests {head} on {on}, without queueing it. The result will stand here.",
    ReplyKind.TRY_PASSED: "The test of {head} on {on} passed. It queued nothing.",
    ReplyKind.TRY_FAILED: "The test of {head} on {on} failed: {detail}.",
    ReplyKind.TRY_ENDED: "The test of {head} ended without a result: {detail}.",
    ReplyKind.TRY_REFUSED: "IMQ does not test it: {detail}.",
    ReplyKind.LEFT: "Dequeued from {base_branch}.",
    ReplyKind.LANDING: "The merge into {base_branch} has started. If GitHub refuses it, IMQ dequeues the pull request.",
    ReplyKind.NOT_QUEUED: "The pull request is not queued.",
    ReplyKind.CLOSED: "The pull request is closed. To land it, reopen it and comment `/queue`.",
    ReplyKind.REVERTED: "Opened #{revert}, the revert of this one, and queued it for {base_branch} as a hotfix.",
    ReplyKind.REVERT_OPENED: "Opened #{revert}, which reverts this pull request. IMQ did not queue it. {sentence}",
    ReplyKind.RELANDS: "Opened #{reland} with the same change. Queue it once it is ready for {base_branch}.",
    ReplyKind.NOT_LANDED: "The pull request has not landed, so there is nothing to revert.",
    ReplyKind.NOT_REVERTED: "No revert of this pull request by `/revert` has landed.",
    ReplyKind.PRIORITY: "Now at position {position} of {depth} for {base_branch}, with priority {priority}.",
    ReplyKind.PAUSED: "Paused the queue for {base_branch}. To resume it, comment `/resume`.",
    ReplyKind.FROZEN: "Froze the queue for {base_branch} until {until}. To end the freeze, comment `/resume`.",
    ReplyKind.RESUMED: "Resumed the queue for {base_branch}.",
    ReplyKind.NOT_PAUSED: "No one has paused the queue for {base_branch}.",
    ReplyKind.STATUS: "Queue for {base_branch}:",
    ReplyKind.HELP: "Begin a line of a comment with one of these commands:",
    ReplyKind.NOT_ALLOWED: "This needs the role {needs} on the repository; {by} has {has}.",
    ReplyKind.NOT_UNDERSTOOD: "{argument} is not valid. Usage: {usage}.",
    ReplyKind.CHANGED_SINCE: "The pull request changed after this comment. Review it, and comment again.",
    ReplyKind.TOO_MANY: "A comment can have at most {limit} commands. IMQ ignored this one and those after it.",
    ReplyKind.FAILED: "GitHub refused the request. Details: {detail}",
    ReplyKind.GAVE_UP: "IMQ gave up, as every attempt failed, and may have done a part of it. Comment again, or ask an "
    "operator of IMQ to retry it.",
}

MERGED = (
    "The pull request is merged, so this command has nothing to do. "
    "On merged ones `/revert`, `/reland`, `/pause`, `/freeze`, `/resume`, `/why`, `/queue status` and `/queue help` "
    "work."
)
PAUSED_AS_WELL = "It is also paused: the first `/resume` ends the pause, the second the freeze."
FROZEN_AFTERWARDS = "If you resume it before {until}, it stays frozen until then; a second `/resume` ends the freeze."
REASON_GIVEN = "Reason: {detail}."
ARGUMENT_AT_FAULT = "{argument} {fault}. Usage: {usage}."
ARGUMENT_MISSING = "An argument is missing. Usage: {usage}."
JOINS_WITH = "Its priority will be {priority}."
DELAYS = "Later now: {others}."
DELAYED = "{number} by about {delay}"
PREEMPTS = "It is tested before {number}, whose checks start over."
PREEMPTS_LOSING = "It is tested before {number}, whose checks start over. They had run for {lost}."
DELAYS_NONE = "No other pull request has to wait longer."
MORE = "{count} more follow."
OTHERS_HELD = "{held} more wait for room."
OTHERS_NOT_READY = "{not_ready} more wait outside the queue until they are ready."
EMPTY = "The queue is empty."
QUEUE_LINE = "{place}. {number}: {status} since {since}"
COMMAND = "{usage}: {help} Allowed: {right}."


_MOST_LISTED = 20
_MOST_SHOWN = 10
"""Entries in the reply to `/status`."""


def render_replies(replies: CommandReply, notice: Notice, facts: ReplyFacts | None = None) -> str | None:
    """Render the replies, with the `facts` that `/why` and `/status` ask for, as a quotation; None without replies."""
    blocks = ["\n\n".join(_reply(reply, replies, notice, facts)) for reply in replies.replies]
    lines = "\n\n".join(blocks).split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines) if blocks else None


def _reply(reply: Reply, answer: CommandReply, notice: Notice, asked_for: ReplyFacts | None) -> list[str]:
    """Render one reply; of a reply that another version of IMQ stored in another form, only the first paragraph."""
    opening = DONE if reply.accepted else NOT_DONE
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
        case ReplyKind.REVERT_OPENED:
            its = Names(notice.base_branch, notice.trigger_label)
            sentence = with_facts(its.fill(REASONS[Reason(facts["reason"])].sentence), None, facts.get("detail"))
            return [REPLIES[reply.code].format(revert=int(facts["revert"]), sentence=sentence)]
        case ReplyKind.HELP:
            return [REPLIES[reply.code], *_commands()]
        case ReplyKind.RESUMED | ReplyKind.NOT_PAUSED:
            return [
                _fill(reply, answer),
                *_blockers(adapter(tuple[Blocker, ...]).validate_python(facts.get("blockers") or ()), notice),
            ]
        case ReplyKind.HELD if "priority" in facts:
            return [f"{_fill(reply, answer)} {JOINS_WITH.format(priority=int(facts['priority']))}"]
        case ReplyKind.PRIORITY:
            return [_fill(reply, answer), _delayed(facts["overtakes"]), *_preempted(facts), *_effect(facts)]
        case ReplyKind.LEFT:
            return [" ".join((_fill(reply, answer), *_effect(facts)))]
        case ReplyKind.CLOSED if facts["merged"]:
            return [MERGED]
        case ReplyKind.NOT_UNDERSTOOD if not facts["argument"]:
            return [ARGUMENT_MISSING.format(usage=code(facts["usage"]))]
        case ReplyKind.NOT_UNDERSTOOD if facts.get("fault"):
            # The fault ends a sentence of IMQ's, and may quote foreign text.
            usage, argument = code(facts["usage"]), code(facts["argument"])
            return [ARGUMENT_AT_FAULT.format(argument=argument, fault=inert(facts["fault"]), usage=usage)]
        case ReplyKind.NOT_ALLOWED if facts.get("detail"):
            return [with_facts(_fill(reply, answer), None, facts["detail"])]
        case ReplyKind.PAUSED | ReplyKind.FROZEN:
            return [" ".join((_fill(reply, answer), *_pause_details(facts), *_effect(facts)))]
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
    return REPLIES[reply.code].format(**{"by": code(answer.by)} | shown)


def _format_fact(name: str, value: Any) -> str:
    match name, value:
        case "position", int():
            return str(value + 1)
        case "until", str():
            return _instant(value)
        case "head", str():
            return commit(value)
        case _, int():
            return str(value)
        case _:
            return code(str(value), MESSAGE_LIMIT)


def _instant(written: str) -> str:
    return instant(datetime.fromisoformat(written))


def _refused(facts: Mapping[str, Any], notice: Notice) -> str:
    text, its = REASONS[Reason(facts["reason"])], Names(notice.base_branch, facts["label"] or notice.trigger_label)
    sentence = with_facts(its.fill(text.sentence), None, facts.get("detail"))
    return REPLIES[ReplyKind.REFUSED].format(sentence=sentence, next_step=its.fill(text.next_step))


def _not_ready(reply: Reply, notice: Notice) -> str:
    facts, reason = reply.facts, Reason(reply.facts["reason"])
    its = Names(str(facts.get("base_branch") or notice.base_branch), notice.trigger_label)
    unmet = UnmetRequirement(reason, facts.get("detail"), FailingCheck.all_of(facts))
    step = its.fill(reason_text(reason, not_ready=True).next_step)
    shown = {"sentence": unmet_sentence(unmet, its), "next_step": step, "base_branch": code(its.base)}
    found = REPLIES[ReplyKind.NOT_READY].format(**shown)
    if "priority" in facts:
        found += f" {JOINS_WITH.format(priority=int(facts['priority']))}"
    return found


def _commands() -> list[str]:
    rows = (
        COMMAND.format(usage=code(command.usage), help=command.help, right=command.right.value)
        for command in CATALOGUE.values()
    )
    return ["\n".join(f"- {row}" for row in rows)]


def _pause_details(facts: Mapping[str, Any]) -> Iterator[str]:
    """Render the details of a pause or a freeze."""
    if facts["detail"]:
        yield REASON_GIVEN.format(detail=code(facts["detail"], MESSAGE_LIMIT))
    if facts.get("paused"):
        yield PAUSED_AS_WELL
    if facts.get("then"):
        yield FROZEN_AFTERWARDS.format(until=_instant(facts["then"]))


def _queue(found: QueueStatus | None) -> Iterator[str]:
    entries = () if found is None else found.entries[:_MOST_SHOWN]
    rows = [
        QUEUE_LINE.format(
            place=place,
            number=pull_request(view.entry.number),
            status=code(view.entry.status),
            since=instant(view.entry.status_since),
        )
        for place, view in enumerate(entries, start=1)
    ]
    yield "\n".join(rows) if rows else EMPTY
    if found is None:
        return
    if (more := found.depth - len(rows)) > 0:
        yield MORE.format(count=more)
    if found.held:
        yield OTHERS_HELD.format(held=found.held)
    if found.not_ready:
        yield OTHERS_NOT_READY.format(not_ready=found.not_ready)


def _blockers(blockers: Iterable[Blocker], notice: Notice) -> list[str]:
    """Render the queue's blockers, a line for each."""
    names = names_of(notice)
    return [blocked_sentence(each, names) for each in blockers]


def _delayed(overtakes: Sequence[Sequence[Any]]) -> str:
    others = [
        pull_request(int(number))
        if seconds is None
        else DELAYED.format(number=pull_request(int(number)), delay=duration(timedelta(seconds=seconds)))
        for number, seconds in overtakes[:_MOST_LISTED]
    ]
    return DELAYS.format(others=", ".join(others)) if others else DELAYS_NONE


def _effect(facts: Mapping[str, Any]) -> list[str]:
    """Say what the command did to runs, if it stopped or held some."""
    if not (effect := facts.get("effect")) or not effect["runs"]:
        return []
    jobs = JobFigures(**effect["jobs"])
    return [effect_sentence(effect["runs"], jobs, effect["delayed"], holds=effect["holds"])]


def _preempted(facts: Mapping[str, Any]) -> list[str]:
    """Name the preempted entry and the time that it loses, if there is one."""
    if facts.get("preempts") is None:
        return []
    number, lost = pull_request(int(facts["preempts"])), facts.get("lost")
    if lost is None:
        return [PREEMPTS.format(number=number)]
    return [PREEMPTS_LOSING.format(number=number, lost=duration(timedelta(seconds=lost)))]
