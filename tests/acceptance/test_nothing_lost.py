"""P2: lost webhooks, lost answers and sudden deaths; every green pull request lands once, with one comment."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from github_emulator import Fault, FaultKind
from queue_engine.store.tables import entries, outbox, sweeps
from tests.acceptance.naming import naming
from tests.acceptance.world import CI_TIME, LABEL, LAG, World

MERGE = "/repos/{owner}/{repo}/pulls/{number}/merge"
UPDATE = "/repos/{owner}/{repo}/pulls/{number}/update-branch"
COMMENTS = "/repos/{owner}/{repo}/issues/{number}/comments"
LOST_ANSWERS: tuple[FaultKind, ...] = ("fail", "apply_then_fail", "reset", "apply_then_reset", "bad_json")


def copy(source: Path, target: Path) -> None:
    """Back up a SQLite database, or restore one, as `sqlite3 imq.db ".backup imq-backup.db"` does."""
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as written:
        read.backup(written)


@pytest.mark.thorough
@pytest.mark.parametrize("template", [MERGE, UPDATE])
async def test_lost_answer_to_a_write_is_found_out_and_carried_on(world: World, template: str) -> None:
    """A failed call may have happened: GitHub is read before anything is decided."""
    for kind in LOST_ANSWERS:
        await lands_once_after(world, kind, "PUT", template, status=500)


@pytest.mark.parametrize("lag", [LAG], ids=["lagging"])
async def test_lost_answer_to_a_write_is_found_out_although_reads_do_not_show_it_yet(world: World) -> None:
    """What happened shows seconds later; until then nothing is done twice."""
    for template in (MERGE, UPDATE):
        await lands_once_after(world, "apply_then_fail", "PUT", template, status=500)


@pytest.mark.thorough
async def test_lost_answer_to_a_comment_leaves_one_comment(world: World) -> None:
    """P6: the hidden marker finds the comment whose answer was lost."""
    for kind in LOST_ANSWERS[:4]:
        pull = await lands_once_after(world, kind, "POST", COMMENTS, status=502)
        await world.pass_time(timedelta(minutes=5))
        assert (kind, world.spoken(pull)) == (kind, 1)
        assert "anded" in world.comment(pull), kind


async def lands_once_after(world: World, kind: FaultKind, method: str, template: str, *, status: int) -> Any:
    """Land a pull request that is behind its base although the answer to one request is lost in this way."""
    case = f"{method} {template}: {kind}"
    pull = await world.behind(f"add-{kind}-{template.rpartition('/')[2]}")
    fault = world.server.faults.add(Fault(kind=kind, method=method, route=template, status=status))
    pull.label(LABEL, by="mona")
    with naming(case):
        await world.until(lambda: bool(world.spoken(pull)) and "anded" in world.comment(pull))
    assert pull.merged, case
    assert (case, fault.hits, world.landed().count(pull.number)) == (case, 1, 1)
    return pull


@pytest.mark.thorough
@pytest.mark.lagging
async def test_label_set_while_the_bot_was_down_is_found_by_the_sweep(world: World) -> None:
    """The sweep at start finds labels whose webhooks were lost."""
    pull = await world.behind("add")
    await world.kill()
    pull.label(LABEL, by="mona")
    await world.github.schedule.run_due()
    await world.restart()
    await world.until(lambda: pull.merged)
    assert world.spoken(pull) == 1


async def test_every_webhook_lost_still_lands(world: World) -> None:
    """Webhooks are hints: without a single one the sweep and the slow looks carry a pull request to its end."""
    pull = await world.behind("add")
    world.app.webhook_url = "http://127.0.0.1:9/webhook"
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(hours=3))
    assert world.spoken(pull) == 1


@pytest.mark.thorough
@pytest.mark.lagging
async def test_ambiguous_comment_and_restart_speak_once(world: World) -> None:
    """Killed and restarted in each waiting status, the bot carries on where it was."""
    for status in ("updating", "checking"):
        pull = world.repository.open_pull_request(status, head=status, by="mona", files={f"{status}.py": "x\n"})
        await world.pass_time(CI_TIME * 2)
        world.repository.push("main", {f"moved-{status}.py": "y\n"}, "Move", by="rhea")
        await world.settle()
        pull.label(LABEL, by="mona")
        await world.until_status(pull, status)
        await world.kill()
        await world.restart()
        await world.until_status(pull, None)
        assert pull.merged
        await world.settle()
        assert world.spoken(pull) == 1


async def test_comment_of_an_earlier_database_is_taken_over_by_an_empty_one(world: World) -> None:
    """P6: IMQ finds by its marker what it wrote before, so that there is one comment, and it says what is true now."""
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.until(lambda: world.spoken(pull) == 1)
    pull.unlabel(LABEL, by="mona")
    await world.settle()
    async with world.bot.engine.store.transaction() as tx:
        await tx.connection.execute(delete(outbox))
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert world.spoken(pull) == 1
    assert "Landed" in world.comment(pull)


async def test_comment_of_an_entry_that_a_lost_database_had_is_corrected(world: World) -> None:
    """P6: a comment that says Queued without an entry is corrected; one that says Landed stays as it is."""
    landed, pull = world.open("landed"), world.open("add")
    landed.label(LABEL, by="mona")
    await world.until(lambda: landed.merged)
    pull.label(LABEL, by="mona")
    await world.until(lambda: world.spoken(pull) == 1 and any(run.name == "IMQ" for run in pull.check_runs))
    pull.unlabel(LABEL, by="mona", webhook=False)
    async with world.bot.engine.store.transaction() as tx:
        for table in (entries, outbox, sweeps):
            await tx.connection.execute(delete(table))
    before = world.comment(landed)
    await world.pass_time(timedelta(minutes=25))
    assert "no longer queued" in world.comment(pull)
    ends = [[run.conclusion for run in each.check_runs if run.name == "IMQ"] for each in (pull, landed)]
    assert ends == [["neutral"], ["success"]]
    assert (world.spoken(pull), world.spoken(landed), world.comment(landed)) == (1, 1, before)


@pytest.mark.thorough
@pytest.mark.parametrize("letter_due", [False, True])
async def test_backup_of_a_few_minutes_ago_changes_nothing_that_landed_since(
    world: World, tmp_path: Path, letter_due: bool
) -> None:
    """P6: each pull request is read before it is updated. A comment that was due at the backup edits no "Landed"."""
    first, second = await world.behind("add"), world.open("second")
    for pull in (first, second):
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(first, "checking")
    if not letter_due:
        await world.pass_time(timedelta(minutes=1))
    async with world.bot.engine.store.transaction() as tx:
        # The base moved in the very moment of the backup.
        await tx.connection.execute(update(entries).values(newer_tip="moved"))
        for queue in await tx.queues.all():
            await tx.queues.wake(queue.id, world.clock.now())
        due = await tx.outbox.next_due()
        assert (due is not None and due < world.clock.now() + timedelta(seconds=5)) is letter_due
    copy(tmp_path / "imq.db", tmp_path / "backup.db")
    await world.until(lambda: second.merged)
    await world.settle()
    await world.kill()
    world.clock.set(world.clock.now() + timedelta(minutes=2))
    copy(tmp_path / "backup.db", tmp_path / "imq.db")
    comments = [world.comment(pull) for pull in (first, second)]
    world.server.requests.clear()
    await world.restart()
    # The loops of a process run side by side: a letter and a pass may be earlier than the sweep.
    await world.bot.dispatcher.run_due()
    await world.bot.scheduler.run_due()
    await world.pass_time(timedelta(minutes=30))
    written = [request.path for request in world.server.requests if request.method in {"PUT", "PATCH", "POST"}]
    assert not [path for path in written if "comments" in path or "update-branch" in path]
    assert [world.comment(pull) for pull in (first, second)] == comments
    assert not await world.entries()
