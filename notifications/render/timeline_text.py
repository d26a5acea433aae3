"""Render a pull request's history from the timeline, in lines with times. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from notifications.render.escape import MESSAGE_LIMIT, NAME_LIMIT, code, duration, instant
from notifications.texts import history as texts
from queue_engine.domain.model import WHOLE_QUEUE, TimelineEvent

MOST_LINES = 30
"""The number of events shown, the latest."""

Events = Sequence[TimelineEvent]
Word = Callable[[str, int], str]
"""Formats what others chose, such as the name of a branch, in at most so many characters."""

_JOINS = frozenset({"queued", "held"})
_ASKS = _JOINS | {"not_ready"}
_LEAVES = frozenset({"landed", "failed", "cancelled", "refused"})
_SHORT_SHA = 7
_NAMED = 10


def details_block(events: Events, *, before: Sequence[str] = ()) -> str | None:
    """Return a folded block of these paragraphs and the history; None if there is nothing to show."""
    parts = [*before, "\n".join(history_lines(events))]
    shown = "\n\n".join(part for part in parts if part)
    if not shown:
        return None
    return "\n".join(["<details>", f"<summary>{texts.SUMMARY}</summary>", "", shown, "", "</details>"])


def history_lines(events: Events) -> list[str]:
    """Return the lines of a list, oldest first, with the queue's events while the pull request was in it."""
    lines = [
        f"- {instant(event.at)}: {event_text(event, _number(events))}"
        for event in _relevant(events)
        if event.event in texts.HISTORY
    ]
    return lines if len(lines) <= MOST_LINES else [f"- {texts.EARLIER}", *lines[-MOST_LINES:]]


def rerun_checks(events: Events) -> tuple[str, ...]:
    """Return the checks that are being rerun since the pull request was queued."""
    found: tuple[str, ...] = ()
    for event in _since_queued(events):
        found = _checks(event) if event.event == "rerun" else found if event.number == WHOLE_QUEUE else ()
    return found


def listed_until(events: Events) -> dict[str, str]:
    """Return the last day of each check that the configuration listed as flaky when it was rerun."""
    found: dict[str, str] = {}
    for event in _since_queued(events):
        listed = event.data.get("listed") if event.event == "rerun" else None
        found |= {str(name): str(until) for name, until in listed.items()} if isinstance(listed, dict) else {}
    return found


def flaky(events: Events) -> tuple[str, ...]:
    """Return the checks that failed and then passed on the same commit since the pull request was queued."""
    found = (name for event in _since_queued(events) if event.event == "flaky" for name in _checks(event))
    return tuple(dict.fromkeys(found))


def time_in_ci(events: Events) -> timedelta | None:
    """Return how long the checks of a landed pull request took; None without checks."""
    landed = next((event for event in reversed(_since_queued(events)) if event.event == "landed"), None)
    seconds = landed.data.get("checks") if landed is not None else None
    return timedelta(seconds=seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def moved_since(events: Events, at: datetime) -> bool:
    """Whether the pull request was queued, held, or left after that instant."""
    return any(event.at > at for event in events if event.event in _ASKS | _LEAVES)


def without_itself(event: TimelineEvent, number: int | None) -> TimelineEvent:
    """Return an event whose members are the others that were tested with this pull request."""
    members = event.data.get("members")
    if not isinstance(members, list) or number is None:
        return event
    return replace(event, data={**event.data, "members": [each for each in members if each != number]})


def _number(events: Events) -> int | None:
    return next((event.number for event in events if event.number != WHOLE_QUEUE), None)


def _relevant(events: Events) -> list[TimelineEvent]:
    found, inside = [], False
    number = _number(events)
    for event in events:
        if event.number == WHOLE_QUEUE and not (inside and _concerns(event, number)):
            continue
        inside = event.event in _JOINS or (inside and event.event not in _LEAVES)
        found.append(event)
    return found


def _concerns(event: TimelineEvent, number: int | None) -> bool:
    """Whether an event of the queue concerns this pull request: a run of a train concerns its members alone."""
    members = event.data.get("members")
    return not isinstance(members, list) or number in members


def _since_queued(events: Events) -> Events:
    """Return the events since the pull request was last queued."""
    begin = max((place for place, event in enumerate(events) if event.event == "queued"), default=0)
    return events[begin:]


def _checks(event: TimelineEvent) -> tuple[str, ...]:
    found = event.data.get("checks")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def event_text(event: TimelineEvent, number: int | None, word: Word = code) -> str:
    """Return what happened, in a sentence without its full stop, in the history of pull request `number`."""
    event = without_itself(event, number)
    text = texts.HISTORY.get(event.event)
    if text is None:
        return event.event
    sentence = text.sentence.format(base=word(event.base_branch, NAME_LIMIT))
    for name, addition in text.also.items():
        if (shown := _format_fact(name, event.data.get(name), word)) is not None:
            sentence += addition.format(**{name: shown})
    if event.reason is None or not text.with_reason:
        return sentence
    detail = first_line(event) if text.with_detail else ""
    return f"{sentence}: {event.reason.value.replace('_', ' ')}" + (
        f" ({word(detail, MESSAGE_LIMIT)})" if detail else ""
    )


def first_line(event: TimelineEvent) -> str:
    """Return the first line of the details of an event."""
    return str(event.data.get("detail") or "").strip().partition("\n")[0]


def _format_fact(name: str, value: Any, word: Word) -> str | None:
    """Format a fact of an event; None if it is missing or invalid."""
    match name, value:
        case _, None | "" | []:
            return None
        case "position", int():
            return str(value + 1)
        case "yields_to", int():
            return word(f"#{value}", NAME_LIMIT)
        case "checks" | "delay", int() | float():
            return duration(timedelta(seconds=value))
        case _, int():
            return str(value)
        case "outcome", str():
            return texts.RUN_OUTCOMES.get(value) or word(value.replace("_", " "), NAME_LIMIT)
        case "members" | "conflicts" | "delays", list():
            shown = _several([f"#{number}" for number in value if isinstance(number, int)], word)
            return texts.ONE_OF.format(numbers=shown) if name == "conflicts" and len(value) > 1 else shown
        case _, list():
            return _several([str(each) for each in value], word)
        case "until", str():
            return _read_instant(value)
        case "head" | "sha", str():
            return word(value[:_SHORT_SHA], NAME_LIMIT)
        case _, str():
            return word(value, NAME_LIMIT)
    return None


def _several(found: list[str], word: Word) -> str:
    more = len(found) - _NAMED
    return ", ".join(word(each, NAME_LIMIT) for each in found[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _read_instant(written: str) -> str | None:
    try:
        return instant(datetime.fromisoformat(written))
    except ValueError:
        return None
