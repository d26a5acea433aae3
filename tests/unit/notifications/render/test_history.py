"""The history: every event that concerns people has a line, and no value in it adds markup or mentions."""

import ast
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import queue_engine
from notifications.render.comment import render_comment
from notifications.render.timeline_text import MOST_LINES, details_block, flaky, history_lines, rerun_checks, time_in_ci
from notifications.texts.history import HISTORY
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.notice import MARKER, NoticeKind
from queue_engine.domain.reasons import Reason
from tests.unit.notifications.hostile import NASTY, mentions, skeleton
from tests.unit.notifications.notices import FLAKY_EVENTS, LANDED_EVENTS, event, of_kind

ROOT = Path(queue_engine.__file__).parent.parent


def words_written() -> set[str]:
    """Every event word that the engine writes into the timeline: as an entry's status, or as a word in its sources.

    A word stands as the first argument of `Change.record`, the third of `_record`, the second of `_note`, or as a key
    of `events` there.
    """
    found = {status.value for status in EntryStatus}
    for path in Path(queue_engine.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            place: ast.expr | None = None
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                argument = {"record": 0, "_record": 2, "_note": 1}.get(name, len(node.args))
                place = node.args[argument] if argument < len(node.args) else None
            elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "events":
                place = node.slice
            if isinstance(place, ast.Constant) and isinstance(place.value, str):
                found.add(place.value)
            elif isinstance(place, ast.Name) and place.id.isupper():
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                found |= {getattr(import_module(module), place.id)} & set(HISTORY)
    return found


@pytest.mark.thorough
def test_history_has_a_sentence_for_every_event() -> None:
    """Each event that the engine records has a sentence, and each sentence has such an event."""
    assert words_written() == set(HISTORY)


def test_history_sentence_needs_its_own_facts_only() -> None:
    """A sentence needs the base branch at most; each addition only the fact that it is for."""
    for word in HISTORY:
        HISTORY[word].sentence.format(base="`main`")
        for name, addition in HISTORY[word].also.items():
            assert addition.format(**{name: "x"}), word


def test_history_is_a_details_block_with_a_time_for_each_line() -> None:
    """It takes one line until somebody unfolds it."""
    text = details_block(LANDED_EVENTS)
    assert text is not None
    assert text.startswith("<details>\n<summary>History</summary>\n\n- 2026-03-14 14:04 UTC: ")
    assert text.endswith("\n\n</details>")
    assert details_block(()) is None


def test_history_has_events_of_the_queue_while_the_pull_request_was_in_it() -> None:
    """Pauses before it came and after it went do not concern it."""
    paused = [event("paused", minutes, number=0, reason=Reason.FROZEN) for minutes in (90, 50, 1)]
    lines = history_lines(
        [paused[0], event("queued", 60), paused[1], event("failed", 30, reason=Reason.CONFLICT), paused[2]]
    )
    assert [line.partition("UTC: ")[2] for line in lines] == [
        "Queued for `main`",
        "Queue for `main` paused: frozen",
        "Removed from the queue for `main`: conflict",
    ]


@pytest.mark.parametrize("word", ["queued", "priority"])
def test_history_of_a_precedence_shows_whom_it_delays_and_by_how_much(word: str) -> None:
    """A hotfix by label reads like one by command; without past durations the line names no delay."""
    line = history_lines((event("queued", 9), event(word, 3, delays=[4, 7], delay=720)))[-1]
    assert line.endswith(", ahead of `#4`, `#7` (about 12 min later each)")
    unknown = history_lines((event("queued", 9), event(word, 3, delays=[*range(4, 16)], delay=None)))[-1]
    assert unknown.endswith("`#12`, `#13` and 2 more")


def test_history_that_is_long_shows_its_end() -> None:
    """At most thirty lines, and one that says that there were more."""
    lines = history_lines(
        [event("queued", 5000, position=0), *(event("updating", 4000 - minute) for minute in range(40))]
    )
    assert len(lines) == MOST_LINES + 1
    assert lines[0] == "- Earlier events are not shown"


def test_history_of_another_version_of_imq_shows_the_known_events() -> None:
    """Unknown words are left out, and so are facts of another form."""
    assert history_lines([event("teleported", 9), event("queued", 8, position={"first": 1}, by=None, until=3)]) == [
        "- 2026-03-14 15:01 UTC: Queued for `main`"
    ]


def test_history_has_flaky_checks_and_time_in_ci_of_this_entry_only() -> None:
    """A check that ran again shows until it passes; a flaky check shows once the pull request landed."""
    assert rerun_checks(FLAKY_EVENTS[:6]) == ("build",)
    assert rerun_checks(FLAKY_EVENTS) == ()
    assert flaky(LANDED_EVENTS) == ("build",)
    assert time_in_ci(LANDED_EVENTS) == timedelta(minutes=24)
    again = (*LANDED_EVENTS, event("queued", 0))
    assert (rerun_checks(again), flaky(again), time_in_ci(again)) == ((), (), None)


@given(word=st.sampled_from(sorted(HISTORY)), base=NASTY, foreign=NASTY, data=st.none() | st.just({"checks": ["x"]}))
@settings(max_examples=80, deadline=None)
def test_history_hostile_facts_change_nothing_but_code_spans(
    word: str, base: str, foreign: str, data: dict[str, list[str]] | None
) -> None:
    """Check names, logins and branches in the timeline add no markup and no mention."""

    def rendered(name: str, base_branch: str) -> str:
        facts: dict[str, Any] = {fact: [name] if fact == "checks" else f"x{name}" for fact in HISTORY[word].also}
        happened = event(word, 3, **(data or {}) | facts)
        joined = event("queued", 4)
        events = [
            joined,
            type(happened)(**{f: getattr(happened, f) for f in happened.__slots__} | {"base_branch": base_branch}),
        ]
        return render_comment(of_kind(NoticeKind.LANDED), events=events)

    text = rendered(foreign, base)
    assert skeleton(text) == skeleton(rendered("build", "main"))
    assert mentions(text) == set()
    assert text.count("<!--") == text.count(MARKER) == 1


def test_history_has_the_runs_of_trains_with_this_pull_request_alone() -> None:
    """Runs of others, which the queue's events have as well, are no part of its history."""
    lines = history_lines(
        [
            event("queued", 60),
            event("run_started", 50, number=0, run=7, members=[41, 42], tested=[41, 42]),
            event("run_started", 45, number=0, run=8, members=[9], tested=[9]),
            event("run_ended", 40, number=0, run=7, members=[41, 42], tested=[41, 42], outcome="failed"),
            event("trains_off", 30, number=0, reason=Reason.CI_SILENT_ON_CANDIDATES, detail="`test`\nadd lines"),
        ]
    )
    assert [line.split(": ", 1)[1] for line in lines] == [
        "Queued for `main`",
        "Joined a train, run 7, with `#41`",
        "End of the train, run 7: its checks failed",
        "IMQ tests one pull request after the other for `main`: ci silent on candidates (`` `test` ``)",
    ]
