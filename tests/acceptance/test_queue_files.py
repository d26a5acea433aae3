"""Queues in flight move to another database: `imq export` and `imq import`."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.core.database.database import Database
from queue_engine.domain.consent import ConsentKind, HeadConsent
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change
from queue_engine.handlers.restored import import_queues
from queue_engine.store import EntryConflict, Store
from queue_engine.store.queue_file import QueueFile, file_lines, read_queues
from tests.acceptance.commenting import ready, say
from tests.acceptance.test_consent import MERGE
from tests.acceptance.test_lost_databases import front, label_in_order
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.support.databases import MakeUrl


async def exported(world: World) -> QueueFile:
    """The file of the world's queues, as it is read from disk."""
    async with world.bot.engine.store.reading() as tx:
        file = await read_queues(tx.connection, world.clock.now())
        lines = [line async for line in file_lines(tx.connection, file)]
    return QueueFile.model_validate_json("\n".join(lines))


async def imported(world: World, url: str, file: QueueFile) -> bool:
    """Import into the database at this address."""
    database = Database(url)
    try:
        async with Store(database).transaction() as tx:
            return await import_queues(Change(tx, world.clock.now()), file)
    finally:
        await database.close()


async def move(world: World, url: str) -> QueueFile:
    """Stop IMQ, export its queues, import them into another database, and start IMQ there."""
    file = await exported(world)
    await world.kill()
    assert await imported(world, url, file)
    world.environment["DATABASE_URL"] = url
    await world.restart()
    return file


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def other_url(request: pytest.FixtureRequest) -> str:
    """The URL of another, empty database."""
    make: MakeUrl = request.getfixturevalue(f"make_{request.param}_url")
    return make()


async def test_queue_in_flight_lands_in_its_order_on_another_database(world: World, other_url: str) -> None:
    """P2, P3, P6: the check of the front counts, priority and order stay, and each has one comment."""
    first = await front(world)
    pulls = [world.open(name) for name in ("second", "third", "fourth")]
    await label_in_order(world, *pulls)
    pulls[2].comment("/queue priority=high", by="rhea")
    await world.settle()
    before = [(entry.number, entry.status, entry.head_sha, entry.queued_by) for entry in await world.entries()]
    await move(world, other_url)
    after = await world.entries()
    assert [(entry.number, entry.status, entry.head_sha, entry.queued_by) for entry in after] == before
    await world.until(lambda: all(pull.merged for pull in (first, *pulls)), within=timedelta(hours=1))
    await world.settle()
    assert world.landed() == [number for number, *_ in before]
    assert [world.spoken(pull) for pull in (first, *pulls)] == [1, 1, 1, 1]
    assert all(LABEL not in pull.labels for pull in (first, *pulls))


async def test_reverted_change_relands_after_the_move(world: World, make_sqlite_url: MakeUrl) -> None:
    """P2: the file knows which pull request reverts which."""
    pull = world.open("pull")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    pull.comment("/revert", by="mona")
    await world.until(lambda: any(each.title.startswith("Revert") for each in world.repository.log("main")))
    await front(world)
    await move(world, make_sqlite_url())
    pull.comment("/reland", by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert "Reland: pull" in {each.title for each in world.repository.record.pulls.values()}


async def test_delegation_and_queue_alone_hold_after_the_move(tmp_path: Path, other_url: str) -> None:
    """P4: who consented, and by what; a delegation that was used or revoked is not there again."""
    async with a_world(tmp_path, repository={"private": False}) as world:
        pulls = [await ready(world, name, by=None, fork_of="fern") for name in ("used", "revoked", "left", "open")]
        alone = await ready(world, "alone")
        await say(world, alone, "/pause", by="rhea")
        await say(world, alone, "/queue alone", by="hubot")
        for pull in pulls:
            await say(world, pull, "/delegate", by="mona")
        await say(world, pulls[0], "/queue", by="fern")
        await say(world, pulls[0], "/unqueue", by="fern")
        await say(world, pulls[1], "/undelegate", by="mona")
        before = await ledger(world, alone)
        assert [each.source for each in before] == [ConsentKind.COMMAND_ALONE]
        await move(world, other_url)
        assert await ledger(world, alone) == before
        for pull in (*pulls[:2], pulls[3]):
            await say(world, pull, "/queue", by="fern")
        assert [each.number for each in await world.entries()] == [alone.number, pulls[3].number]
        await say(world, alone, "/resume", by="rhea")
        await world.until(lambda: pulls[3].merged and alone.merged)


async def test_queue_that_has_nothing_but_a_delegation_is_exported(tmp_path: Path, make_sqlite_url: MakeUrl) -> None:
    """The author may queue after the move, and only once."""
    async with a_world(tmp_path, repository={"private": False}) as world:
        pull = await ready(world, "patch", by=None, fork_of="fern")
        await say(world, pull, "/delegate", by="mona")
        url = make_sqlite_url()
        file = await move(world, url)
        await say(world, pull, "/pause", by="rhea")
        await say(world, pull, "/queue", by="fern")
        assert len(await world.entries()) == 1
        await say(world, pull, "/unqueue", by="fern")
        await imported(world, url, file)
        await say(world, pull, "/queue", by="fern")
        assert await world.entries() == ()


async def ledger(world: World, pull: Any) -> tuple[HeadConsent, ...]:
    """The consents of a queued pull request."""
    entry = await world.entry(pull)
    assert entry is not None
    async with world.bot.engine.store.reading() as tx:
        return await tx.consents.of(entry)


async def test_file_with_a_consent_to_another_pull_request_is_refused(world: World, make_sqlite_url: MakeUrl) -> None:
    """P4: nothing is imported."""
    await front(world)
    file = (await exported(world)).model_dump(mode="json", exclude_unset=True)
    file["consents"][0]["number"] += 1
    with pytest.raises(EntryConflict, match="contradicts itself"):
        await imported(world, make_sqlite_url(), QueueFile.model_validate(file))


@pytest.mark.thorough
async def test_update_that_was_proved_before_the_export_lands(world: World, make_sqlite_url: MakeUrl) -> None:
    """P4: the file has the consent to IMQ's update of the queued head, too; GitHub refuses the merge meanwhile."""
    pull = await world.behind("pull")
    world.server.faults.add(Fault(kind="fail", method="PUT", route=MERGE, status=405))
    pull.label(LABEL, by="mona")
    await world.until(lambda: world.requests("PUT " + MERGE) > 0)
    await world.settle()
    (entry,) = await world.entries()
    assert entry.head_proved
    assert entry.head_sha != entry.queued_head
    await move(world, make_sqlite_url())
    world.server.faults.clear()
    await world.until(lambda: pull.merged, within=timedelta(hours=1))
    assert await world.reasons(pull) == []


@pytest.mark.thorough
async def test_push_between_export_and_import_ends_the_consent(world: World, other_url: str) -> None:
    """P4: the head in the file is the one that somebody consented to, and no other lands."""
    first = await front(world)
    pulls = [world.open(name) for name in ("second", "third")]
    await label_in_order(world, *pulls)
    file = await exported(world)
    await world.kill()
    pulls[0].push({"unseen.py": "unseen\n"}, by="hubot", webhook=False)
    assert await imported(world, other_url, file)
    world.environment["DATABASE_URL"] = other_url
    await world.restart()
    await world.until(lambda: first.merged and pulls[1].merged, within=timedelta(hours=1))
    assert not pulls[0].merged
    assert Reason.HEAD_CHANGED.value in await world.reasons(pulls[0])


@pytest.mark.thorough
async def test_landed_since_the_export_is_not_landed_again(world: World, make_sqlite_url: MakeUrl) -> None:
    """P1, P2: IMQ went on after the export, by mistake; the import finds that on GitHub."""
    other_url = make_sqlite_url()
    first = await front(world)
    second = world.open("second")
    await label_in_order(world, second)
    file = await exported(world)
    await world.until(lambda: first.merged, within=timedelta(hours=1))
    await world.kill()
    assert await imported(world, other_url, file)
    world.environment["DATABASE_URL"] = other_url
    await world.restart()
    await world.until(lambda: second.merged, within=timedelta(hours=1))
    await world.settle()
    assert world.landed() == [first.number, second.number]
    assert [world.spoken(pull) for pull in (first, second)] == [1, 1]
    assert "Landed" in world.comment(first)


@pytest.mark.thorough
async def test_pause_moves_with_its_queue_and_a_second_import_changes_nothing(
    world: World, make_sqlite_url: MakeUrl
) -> None:
    """An operator who repeats the command does no harm, also after entries have left."""
    other_url = make_sqlite_url()
    pull = world.open("pull")
    pull.comment("/pause release", by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.settle()
    file = await move(world, other_url)
    assert await world.paused() == Reason.PAUSED_BY_HAND.value
    assert not await imported(world, other_url, file)
    pull.comment("/resume", by="rhea")
    await world.until(lambda: pull.merged, within=timedelta(hours=1))
    assert not await imported(world, other_url, file)
    assert await world.entries() == ()


async def test_import_into_a_queue_with_entries_is_refused_and_stores_nothing(
    world: World, make_sqlite_url: MakeUrl
) -> None:
    """All or nothing: another queue of the file is not stored either."""
    other_url = make_sqlite_url()
    world.repository.create_branch("dev", "main")
    first = await front(world)
    other = world.open("other", base="dev")
    other.label(LABEL, by="mona")
    await world.settle()
    file = await exported(world)
    assert sorted(row.base_branch for row in file.queues) == ["dev", "main"]
    content = json.loads(file.model_dump_json(exclude_unset=True))
    only = [entry for entry in content["entries"] if entry["number"] == first.number]
    content |= {"entries": [{**only[0], "id": "0" * 32}], "timeline": []}
    assert await imported(world, other_url, QueueFile.model_validate(content))
    with pytest.raises(EntryConflict, match=r"the queue for main in repository .* has 1 entries"):
        await imported(world, other_url, file)
    database = Database(other_url)
    async with Store(database).reading() as tx:
        assert [entry.number for entry in await tx.entries.of_repository(file.repositories[0].id)] == [first.number]
    await database.close()
