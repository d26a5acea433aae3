"""What is given to a pull request while it waits outside of a full queue, and by whom, counts as in the queue."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.domain.model import Entry
from queue_engine.store.outbox.outbox import CommandReplies
from tests.acceptance.test_held import held
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

RULES = """\
on_push: requeue
priority:
  labels:
    urgent: 3
    hotfix: {priority: 1, hotfix: true, preempts: true}
    mends: {fixes_base: true}
freeze:
  exempt_labels: [allowed]
"""
SOON = timedelta(seconds=10)
PLAIN = (0, False, False, False, False)
GIVEN = {
    "urgent": (3, False, False, False, False),
    "hotfix": (1, True, True, False, False),
    "mends": (0, False, False, True, False),
    "allowed": (0, False, False, False, True),
}
PERMISSION = "GET /repos/{owner}/{repo}/collaborators/{username}/permission"
LABEL_OFF = "/repos/{owner}/{repo}/issues/{number}/labels/{name}"


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose queues have one place, which a pull request has; rules give labels their meaning."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        world.repository.push("main", {".github/imq.yml": RULES}, "Rules of the queue", by="rhea")
        await world.settle()
        world.open("front").label(LABEL, by="mona")
        await world.settle()
        yield world


async def outside(world: World, *labels: str) -> Any:
    """One more pull request, labelled by mona, that waits for the place."""
    pull = world.open("outside")
    for label in (*labels, LABEL):
        pull.label(label, by="mona")
    await world.settle()
    assert await held(world) == [pull.number]
    return pull


async def joined(world: World, pull: Any) -> Entry:
    """Its entry, once it has its place."""
    await world.until_status(pull, "checking")
    entry = await world.entry(pull)
    assert entry is not None
    return entry


def standing(entry: Entry) -> tuple[Any, ...]:
    """What an entry stands by."""
    return entry.priority, entry.hotfix, entry.preempts, entry.fixes_base, entry.freeze_exempt


async def say(world: World, pull: Any, text: str, *, by: str) -> Any:
    """A command in a comment, and time for it to be answered."""
    comment = pull.comment(text, by=by)
    await world.settle()
    return comment


async def answered(world: World, pull: Any) -> list[str]:
    """What became of the commands in the last comment that had any."""
    async with world.bot.engine.store.reading() as tx:
        answer = await tx.answers.find(pull.record.repository.id, pull.number)
    assert answer is not None
    return [reply.code.value for reply in answer.replies]


@pytest.mark.thorough
async def test_label_of_a_triager_gives_nothing_by_what_others_do_to_the_entry(full: World) -> None:
    """Another label by who may queue, or a push, speaks of itself and not of what a triager set before."""
    front = (await full.entries())[0].number
    pull = full.repository.pull(front)
    pull.label("hotfix", by="tria")
    pull.label("urgent", by="hubot")
    await full.settle()
    entry = await full.entry(pull)
    assert entry is not None
    assert standing(entry) == GIVEN["urgent"]
    pull.push({"more.py": "more\n"}, by="mona")
    await full.settle()
    entry = await full.entry(pull)
    assert entry is not None
    assert (entry.queued_head, standing(entry)) == (pull.head_sha, GIVEN["urgent"])
    pull.unlabel("urgent", by="hubot")
    await full.settle()
    entry = await full.entry(pull)
    assert entry is not None
    assert standing(entry) == PLAIN


@pytest.mark.thorough
async def test_trusted_label_counts_through_all_that_happens_to_the_entry(full: World) -> None:
    """It counts until a person who may queue removes it."""
    pull = await outside(full, "mends")
    await joined(full, pull)
    pull.push({"more.py": "more\n"}, by="mona")
    await full.settle()
    pull.label("allowed", by="hubot")
    await full.settle()
    assert standing(await joined(full, pull)) == (0, False, False, True, True)


async def test_priority_by_command_lasts_until_a_priority_is_given_by_label(full: World) -> None:
    """A permission beside it takes nothing away."""
    front = (await full.entries())[0].number
    pull = full.repository.pull(front)
    await say(full, pull, "/queue priority=high", by="rhea")
    pull.label("allowed", by="hubot")
    await full.settle()
    entry = await full.entry(pull)
    assert entry is not None
    assert standing(entry) == (10, False, False, False, True)
    pull.label("urgent", by="hubot")
    await full.settle()
    entry = await full.entry(pull)
    assert entry is not None
    assert standing(entry) == (3, False, False, False, True)


@pytest.mark.thorough
@pytest.mark.parametrize("label", ["urgent", "hotfix", "mends", "allowed"])
async def test_control_label_counts_after_the_wait_if_its_author_may_queue(full: World, label: str) -> None:
    """A triager's label controls nothing, wherever a pull request waits; it costs one question."""
    pull = await outside(full)
    asked = full.requests(PERMISSION)
    pull.label(label, by="tria")
    await full.settle()
    assert full.requests(PERMISSION) == asked + 1
    assert standing(await joined(full, pull)) == PLAIN

    other = full.open("other")
    other.label(LABEL, by="mona")
    await full.settle()
    other.label(label, by="hubot")
    await full.settle()
    assert standing(await joined(full, other)) == GIVEN[label]


@pytest.mark.thorough
async def test_control_label_that_was_present_at_the_request_counts_while_it_is_present(full: World) -> None:
    """The requester vouches for the present labels, by any sender; one that is gone at a later change gives nothing."""
    pull = full.open("outside")
    for label in ("hotfix", "allowed", "mends"):
        pull.label(label, by="tria")
    pull.label(LABEL, by="mona")
    await full.settle()
    pull.unlabel("hotfix", by="tria")
    pull.unlabel("allowed", by="hubot")
    await full.settle()
    pull.label("hotfix", by="tria")
    pull.label("allowed", by="tria")
    await full.settle()
    # A person who may queue removed one of them, while another one was gone: what a triager sets again gives nothing.
    assert standing(await joined(full, pull)) == (1, False, False, True, False)


@pytest.mark.thorough
async def test_push_while_waiting_vouches_for_no_label(full: World) -> None:
    """A push consents to commits only: a triager's label set meanwhile gives nothing, what counted still does."""
    pull = await outside(full, "urgent")
    pull.label("hotfix", by="tria")
    await full.settle()
    pull.push({"more.py": "more\n"}, by="mona")
    await full.settle()
    assert await held(full) == [pull.number]
    pushed = pull.head_sha
    entry = await joined(full, pull)
    assert (entry.queued_head, standing(entry)) == (pushed, GIVEN["urgent"])


async def test_priority_by_command_is_kept_for_the_place_and_the_answer_says_so(full: World) -> None:
    """It waits in order, and keeps its priority when it gets room; a later label by who may queue replaces it."""
    pull = await outside(full, "urgent")
    await say(full, pull, "/queue priority=high", by="rhea")
    assert await answered(full, pull) == ["held"]
    await full.pass_time(SOON)
    assert "is full. The pull request waits for room. Its priority will be 10." in full.comment(pull)
    assert standing(await joined(full, pull)) == (10, False, False, False, False)

    other = full.open("other")
    other.label(LABEL, by="mona")
    await full.settle()
    await say(full, other, "/queue priority=low", by="rhea")
    other.label("allowed", by="hubot")
    await full.settle()
    waiting = await full.entry(other)
    assert waiting is not None
    assert (waiting.priority, set(waiting.trusted_labels)) == (-10, {"allowed", LABEL})
    other.label("urgent", by="hubot")
    await full.settle()
    assert standing(await joined(full, other)) == (3, False, False, False, True)


@pytest.mark.thorough
async def test_unqueue_of_one_that_waits_is_done_once_although_its_answer_was_lost(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: it leaves the line with its answer or not at all, and who takes over says what was done."""
    pull = await outside(full)
    put, failures = CommandReplies.put, iter([OSError("killed")])

    async def fails_once(self: CommandReplies, *given: Any) -> None:
        for failure in failures:
            raise failure
        await put(self, *given)

    monkeypatch.setattr(CommandReplies, "put", fails_once)
    pull.comment("/unqueue", by="hubot")
    await full.pass_time(SOON)
    assert await answered(full, pull) == ["left"]
    assert (await held(full), pull.labels) == ([], [])
    assert await full.reasons(pull) == ["queue_full", "unqueued"]


@pytest.mark.thorough
async def test_label_that_is_still_there_after_unqueue_queues_nothing(full: World) -> None:
    """GitHub fails for a while: sweeps and other hints find the label, and queue nothing by it."""
    pull = await outside(full)
    fault = full.server.faults.add(Fault(kind="fail", method="DELETE", route=LABEL_OFF, status=502, times=None))
    await say(full, pull, "/unqueue", by="hubot")
    pull.edit_title("Another title", by="mona")
    await full.pass_time(timedelta(minutes=12))
    assert fault.hits
    assert LABEL in pull.labels
    assert await held(full) == []
    assert await full.entry(pull) is None
    full.server.faults.clear()
    await full.until(lambda: LABEL not in pull.labels)
    await full.pass_time(CI_TIME)
    assert not pull.merged
    pull.label(LABEL, by="mona")
    await full.until(lambda: bool(pull.merged))
