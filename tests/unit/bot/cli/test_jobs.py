"""`imq jobs`: dead letters from the command line."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from queue_engine.core.jobs.dead_letters import DeadLetter
from tests.support.unfinished_jobs import unfinished_jobs
from tests.unit.bot.cli.imq import Imq

FAILED = datetime(2026, 1, 5, 12, tzinfo=UTC)
DEAD_LETTER = DeadLetter(
    id="a" * 32,
    process_id="7:12",
    job_type="webhook",
    error_message="OSError: postgresql://imq:hunter2@db is away\nsecond line",
    payload={"number": 12, "title": "Ändern"},
    failed_at=FAILED,
    retryable=True,
    attempts=9,
    priority=0,
    created_at=FAILED - timedelta(hours=1),
    trace="00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
)


def add_dead_letters(imq: Imq, *dead_letters: DeadLetter) -> None:
    async def work(tx: object) -> None:
        for dead_letter in dead_letters:
            await tx.dead_letters.put(dead_letter)  # type: ignore[attr-defined]

    imq.within(work)


def left(imq: Imq) -> list[str]:
    """The first character of each id among the stored dead letters."""
    dead_letters = imq.within(lambda tx: tx.dead_letters.list(9))
    return sorted(dead_letter.id[0] for dead_letter in dead_letters)


def named(character: str) -> DeadLetter:
    return replace(DEAD_LETTER, id=character * 32)


def test_list_shows_a_line_for_each_the_latest_first(imq: Imq) -> None:
    """What it was, when, whether doing it again may help, and the error's first line without secrets."""
    assert imq("jobs", "list").stdout == "No dead letters.\n"
    later = replace(named("b"), failed_at=FAILED + timedelta(hours=1), job_type="outbox_item", retryable=False)
    add_dead_letters(imq, DEAD_LETTER, later)
    titles, first, second = imq("jobs", "list").stdout.splitlines()
    assert titles.split() == ["ID", "TYPE", "FAILED", "RETRYABLE", "ERROR"]
    assert first.split()[:5] == ["b" * 32, "outbox_item", "2026-01-05", "13:00:00Z", "no"]
    assert second.split()[:5] == ["a" * 32, "webhook", "2026-01-05", "12:00:00Z", "yes"]
    assert second.endswith("OSError: postgresql://imq:[secret]@db is away")


def test_text_of_strangers_cannot_control_the_terminal(imq: Imq) -> None:
    """An error quotes a branch, a payload has a title: both may hold what clears the screen."""
    add_dead_letters(
        imq, replace(DEAD_LETTER, error_message="no \x1b[2J\u202ebranch", payload={"title": "\x9b2Jx\u2066"})
    )
    for command in (("list",), ("show", DEAD_LETTER.id)):
        shown = imq("jobs", *command).stdout
        assert shown.replace("\n", "").isprintable(), shown
        assert r"no \u001b[2J\u202ebranch" in shown
    assert r"\u009b2Jx\u2066" in shown


def test_list_is_limited_and_filtered_and_says_what_it_leaves_out(imq: Imq) -> None:
    """A table of a thousand rows has no use on a terminal."""
    add_dead_letters(
        imq, DEAD_LETTER, replace(named("b"), job_type="outbox_item"), replace(named("c"), retryable=False)
    )
    result = imq("jobs", "list", "--limit", "1")
    assert (len(result.stdout.splitlines()), result.stderr) == (2, "2 more; raise --limit to see them.\n")
    assert "b" * 32 in imq("jobs", "list", "--type", "outbox_item").stdout
    assert "a" * 32 not in imq("jobs", "list", "--type", "outbox_item").stdout
    assert "c" * 32 not in imq("jobs", "list", "--retryable").stdout
    assert "c" * 32 in imq("jobs", "list", "--not-retryable").stdout


def test_show_prints_all_but_secrets(imq: Imq) -> None:
    """The output includes payload and trace id; the logs of that trace show the whole history."""
    add_dead_letters(imq, DEAD_LETTER)
    shown = imq("jobs", "show", DEAD_LETTER.id).stdout
    for expected in (DEAD_LETTER.trace or "", '"title": "Ändern"', "attempts:  9", "process:   7:12", "second line"):
        assert expected in shown
    assert "hunter2" not in shown


def test_retry_makes_one_a_job_again(imq: Imq) -> None:
    """Any running worker takes it."""
    add_dead_letters(imq, DEAD_LETTER, named("b"))
    assert imq("jobs", "retry", DEAD_LETTER.id).stdout == "Enqueued again: 1\n"
    assert left(imq) == ["b"]
    assert imq.within(lambda tx: unfinished_jobs(tx.jobs)) == 2, "and one to count it"


def test_retry_all_takes_the_retryable_ones(imq: Imq) -> None:
    """The others have to be named."""
    add_dead_letters(imq, DEAD_LETTER, named("b"), replace(named("c"), retryable=False))
    assert imq("jobs", "retry", "--all").stdout == "Enqueued again: 2\n"
    assert left(imq) == ["c"]
    assert imq("jobs", "retry", "c" * 32).stdout == "Enqueued again: 1\n"
    assert imq("jobs", "retry", "--all").stdout == "Enqueued again: 0\n"


@pytest.mark.parametrize("arguments", [[], ["a" * 32, "--all"]])
def test_retry_of_nothing_or_of_both_is_refused(imq: Imq, arguments: list[str]) -> None:
    """All is said on purpose, never by leaving something out."""
    add_dead_letters(imq, DEAD_LETTER)
    result = imq("jobs", "retry", *arguments)
    assert result.exit_code == 2
    assert "Give one ID or --all." in result.stderr
    assert left(imq) == ["a"]


def test_discard_deletes_one_for_good(imq: Imq) -> None:
    """The others stay."""
    add_dead_letters(imq, DEAD_LETTER, named("b"))
    assert imq("jobs", "discard", DEAD_LETTER.id).stdout == f"Discarded {DEAD_LETTER.id}.\n"
    assert left(imq) == ["b"]
    assert imq.within(lambda tx: unfinished_jobs(tx.jobs)) == 0


@pytest.mark.parametrize("command", ["show", "retry", "discard"])
def test_unknown_id_names_the_command_that_lists_the_known_ones(imq: Imq, command: str) -> None:
    """Exit code 1 and a sentence."""
    result = imq("jobs", command, "nobody")
    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        "Error: No dead letter has the id nobody. To list all, run `imq jobs list`.\n",
    )
