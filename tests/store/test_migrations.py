"""Migrations make the tables of the code, on both databases, and carry older databases over.

Covers `queue_engine/store/tables.py` and `queue_engine/store/operations/tables.py`.
"""

import hashlib
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Boolean, Table, TableClause, column, insert, text
from sqlalchemy import table as lightweight

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.idempotency import KEPT, Keys
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.domain.blocker import BlockerNotice, BlockerNotices
from queue_engine.domain.entry_order import EntryOrder
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import EntryStatus, Pause, RedBase
from queue_engine.domain.reasons import Reason
from queue_engine.migrations import HEAD, current, migrate
from queue_engine.store import Store
from queue_engine.store.operations.tables import api_tokens
from queue_engine.store.operations.tokens import TokenPolicy
from queue_engine.store.outbox.outbox import OutboxKind
from queue_engine.store.tables import entries, queues, repositories, runs
from tests.store.examples import stand
from tests.store.migration_examples import MINUTE, NOON, NOW, differences
from tests.support.claims import claim_one
from tests.support.unfinished_jobs import unfinished_jobs

OLDER = (
    "INSERT INTO deliveries (guid, event, received_at) VALUES ('guid-1', 'push', '2026-01-01 00:00:00.000000')",
    *(
        "INSERT INTO jobs (id, process_id, kind, request, status, error_message, attempt, priority, not_before,"
        f" created_at, updated_at, claims) VALUES ('{name}', 'p', 'k', '{{\"a\": 1}}', '{status}', 'broke', 0, 0,"
        " '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000', 0)"
        for name, status in (("a", "PENDING"), ("b", "FAILED"))
    ),
)


FIELD_TERMS = {
    "pending_checks": "awaited_checks",
    "completed_checks": "reported_checks",
    "needs_refetch": "suspect",
    "new_head_is_ours": "candidate_is_ours",
    "github_failures": "trouble",
    "merge_refusals": "refusals",
    "polls": "recheck",
    "wake_count": "wakes",
}
"""Columns that revision 0022 renamed, and their names before it."""

FROZEN_AND_RED = (
    "INSERT INTO queues (id, repository_id, base_branch, paused_reason, paused_detail, paused_since, paused_until,"
    " paused_by, red_check, red_tip, red_since, red_looks, red_look_at, wakes, created_at) VALUES (2, 7, 'next',"
    " 'frozen', 'fair', '2026-01-01 12:00:00.000000', '2026-01-03 12:00:00.000000', 'mona', 'ci', 'base-1',"
    " '2026-01-01 12:00:00.000000', 2, '2026-01-01 12:01:00.000000', 0, '2026-01-01 12:00:00.000000')"
)
"""A queue that was frozen for a time, on a red base, as revision 0021 stores it."""


def before_field_terms(table: Table, *parts: Table) -> TableClause:
    """The table as the revisions before 0022 name its columns, with those that are in other tables by now."""
    columns = {each.name: each.type for part in (*parts, table) for each in part.columns}
    columns["known_behind"] = Boolean()
    return lightweight(table.name, *(column(FIELD_TERMS.get(name, name), kind) for name, kind in columns.items()))


async def test_migrations_of_an_empty_database_make_exactly_the_tables_of_the_code(empty_database: Database) -> None:
    """A changed table without a migration fails."""
    assert await current(empty_database) is None
    await migrate(empty_database)
    assert await current(empty_database) == HEAD
    async with empty_database.reading() as connection:
        assert await connection.run_sync(differences) == []


async def test_migrations_of_an_older_database_keep_what_is_in_it(empty_database: Database) -> None:
    """An update of IMQ finds the deliveries that the old version stored."""
    await migrate(empty_database, "0003")
    async with empty_database.transaction() as connection:
        for statement in OLDER:
            await connection.execute(text(statement))
    await migrate(empty_database)
    async with empty_database.reading() as connection:
        assert await unfinished_jobs(Jobs(connection)) == 1
        assert await Keys(connection).known("webhook", "guid-1", NOW)
        [dead] = await connection.execute(text("SELECT id, job_type, error_message FROM failed_jobs"))
        assert tuple(dead) == ("b", "k", "broke")
        assert await connection.run_sync(differences) == []
    async with empty_database.transaction() as connection:
        job = await claim_one(Jobs(connection), owner="w", now=NOW + timedelta(days=1), lease=timedelta(seconds=30))
        assert job is not None
        assert job.request == {"a": 1}
        assert await Keys(connection).purge(NOW + KEPT - timedelta(seconds=1)) == 0
        assert await Keys(connection).purge(NOW + KEPT) == 1


async def test_migrations_keep_who_stands_in_a_queue_in_order_and_before_who_comes(empty_database: Database) -> None:
    """P3: those who joined under the version before keep their order, and are overtaken by hotfixes only."""
    await migrate(empty_database, "0005")
    async with empty_database.transaction() as connection:
        await connection.execute(insert(repositories).values(id=1, owner="acme", name="engine", installation_id=1))
        queue_row = {"id": 1, "repository_id": 1, "base_branch": "main", "wakes": 0, "created_at": NOW}
        await connection.execute(insert(before_field_terms(queues)).values(queue_row))
        for number in (7, 3):
            fixed = {
                "title": "t",
                "author": "mona",
                "queued_by": "rhea",
                "priority": 0,
                "queued_head": "h",
                "head": "h",
            }
            flags = {"head_proved": True, "candidate_is_ours": False, "suspect": False}
            counts = {"trouble": 0, "refusals": 0, "recheck": 0, "version": 1}
            lists: dict[str, list[str]] = {"awaited_checks": [], "reported_checks": []}
            await connection.execute(
                insert(before_field_terms(entries, runs)).values(
                    id=f"e{number}",
                    queue_id=1,
                    repository_id=1,
                    number=number,
                    status=EntryStatus.PENDING,
                    known_behind=False,
                    enqueued_at=NOW,
                    status_since=NOW,
                    **fixed,
                    **flags,
                    **counts,
                    **lists,
                )
            )
    await migrate(empty_database)
    async with Store(empty_database).transaction() as tx:
        queue = await tx.queues.get(1)
        assert queue is not None
        await stand(tx, queue, 8, priority=1000)
        await stand(tx, queue, 9, hotfix=True)
        assert [entry.number for entry in await tx.entries.of_queue(1)] == [9, 7, 3, 8]
        moved = await tx.entries.get("e3")
        assert moved is not None
        placed = await tx.entries.reprioritise(moved, EntryOrder(priority=10), timedelta(hours=1))
        assert (placed.position, placed.run.rerun_checks, placed.trusted_labels) == (1, (), ())


async def test_migrations_keep_who_waits_for_a_place_and_what_was_answered(empty_database: Database) -> None:
    """Who waits keeps the place and has nothing else; the answer of the version before is that of its comment."""
    await migrate(empty_database, "0006")
    instant = "2026-01-01 00:00:00.000000+00:00" if empty_database.dialect == "postgresql" else "2026-01-01 00:00:00.0"
    async with empty_database.transaction() as connection:
        await connection.execute(insert(repositories).values(id=1, owner="acme", name="engine", installation_id=1))
        queue_row = {"id": 1, "repository_id": 1, "base_branch": "main", "wakes": 0, "created_at": NOW}
        await connection.execute(insert(before_field_terms(queues)).values(queue_row))
        for statement in (
            "INSERT INTO held (queue_id, repository_id, number, head_sha, queued_by, at, delivery)"
            f" VALUES (1, 1, 7, 'abc', 'rhea', '{instant}', 'guid')",
            "INSERT INTO answers (repository_id, number, comment_id, by, replies, at)"
            f""" VALUES (1, 7, 70, 'mona', '[{{"command": "why", "accepted": true, "code": "help"}}]', '{instant}')""",
        ):
            await connection.exec_driver_sql(statement)
    await migrate(empty_database)
    async with Store(empty_database).transaction() as tx:
        waiting = await tx.entries.find(1, 7)
        assert waiting is not None
        assert (waiting.queued_head, waiting.queued_by, waiting.held_since) == ("abc", "rhea", NOW)
        assert (waiting.delivery, waiting.trusted_labels, waiting.priority) == ("guid", (), 0)
        answer = await tx.answers.find(1, 7, comment_id=70)
        assert answer is not None
        assert (answer.by, answer.at, [reply.command for reply in answer.replies]) == ("mona", NOW, ["why"])
        await tx.answers.put(1, 7, 71, answer.model_copy(update={"by": "rhea"}))
        await tx.answers.put(1, 7, 71, answer)
        assert await tx.answers.find(1, 7, comment_id=70) == await tx.answers.find(1, 7, comment_id=71) == answer
    async with empty_database.reading() as connection:
        assert await connection.run_sync(differences) == []


async def test_migrations_carry_a_database_over_to_the_terms_of_the_field(tmp_path: Path) -> None:
    """`database_0021.sql` was written by the last commit before the columns were renamed."""
    database = Database(f"sqlite:///{tmp_path / 'imq.db'}")
    await migrate(database, "0021")
    async with database.transaction() as connection:
        for statement in Path(__file__).with_name("database_0021.sql").read_text().splitlines():
            await connection.exec_driver_sql(statement)
        await connection.exec_driver_sql(FROZEN_AND_RED)
    await migrate(database)
    async with Store(database).transaction() as tx:
        frozen = await tx.queues.get(2)
        assert frozen is not None
        assert frozen.pauses == (Pause(Reason.FROZEN, "fair", NOON, NOON + timedelta(days=2), "mona"),)
        assert frozen.red == RedBase("ci", "base-1", NOON, 2, NOON + MINUTE)
        queue = await tx.queues.get(1)
        assert queue is not None
        pause, freeze = queue.pauses
        assert pause == Pause(Reason.PAUSED_BY_HAND, "wait", NOON, None, "rhea")
        assert freeze == Pause(Reason.FROZEN, "release", NOON, NOON + timedelta(days=1), "rhea")
        announced = BlockerNotices.from_json(queue.announced)
        assert announced == BlockerNotices((BlockerNotice(pause.reason, "wait", None, True, NOON),), 2)
        assert queue.wake_count == 1
        checking, hotfix, pending, waiting = await tx.entries.of_queue(1)
        assert [each.number for each in (checking, hotfix, pending)] == [1, 2, 3]
        assert (hotfix.hotfix, hotfix.preempts, checking.hotfix, checking.preempts) == (True, True, False, False)
        assert (checking.run.pending_checks, checking.run.completed_checks) == (("ci", "lint"), ("ci",))
        assert (checking.needs_refetch, pending.needs_refetch) == (True, False)
        assert (checking.run.github_failures, checking.run.merge_refusals, checking.run.polls) == (2, 3, 4)
        assert (checking.trusted_labels, checking.run.next_poll_at) == (("merge-queue",), checking.enqueued_at + MINUTE)
        assert checking.run.github_failing_since == checking.enqueued_at
        assert (waiting.number, waiting.trusted_labels) == (4, ("merge-queue", "urgent"))
        item = await tx.outbox.claim(owner="w", now=NOW + timedelta(days=1), lease=timedelta(seconds=30))
        assert item is not None
        assert (item.kind, item.maybe_created) == (OutboxKind.COMMENT, True)
        assert [event.event for event in await tx.timeline.of_pull_request(7, 1)] == ["queued", "turn_taken"]
    await database.close()


async def test_migrations_make_one_row_of_each_label_that_was_to_be_removed(empty_database: Database) -> None:
    """P4: a removal that was not delivered stays known, and one that had failed for good is tried again."""
    await migrate(empty_database, "0023")
    instant = "2026-01-01 00:00:00.000000+00:00" if empty_database.dialect == "postgresql" else "2026-01-01 00:00:00.0"
    letter = hashlib.sha256(b"letter:label_off:1:8").hexdigest()[:32]
    async with empty_database.transaction() as connection:
        await connection.execute(insert(repositories).values(id=1, owner="acme", name="engine", installation_id=1))
        for number, kind, label, due, is_dead in (
            (7, "label_off", "'merge-queue\nship'", f"'{instant}'", "FALSE"),
            (8, "label_off", "'merge-queue'", "NULL", "TRUE"),
            (7, "check_run", "NULL", f"'{instant}'", "FALSE"),
        ):
            await connection.exec_driver_sql(
                "INSERT INTO outbox (kind, repository_id, number, label, maybe_created, version, attempts, due_at,"
                f" dead, updated_at) VALUES ('{kind}', 1, {number}, {label}, FALSE, 3, 5, {due}, {is_dead},"
                f" '{instant}')"
            )
        await connection.exec_driver_sql(
            "INSERT INTO failed_jobs (id, process_id, job_type, error_message, payload, failed_at, retryable, attempts,"
            f" priority, created_at) VALUES ('{letter}', '1:8', 'letter', 'locked', '{{}}', '{instant}', TRUE, 1, 0,"
            f" '{instant}')"
        )
    await migrate(empty_database)
    async with Store(empty_database).transaction() as tx:
        assert await tx.outbox.wanted_labels(1, 7) == {"merge-queue": False, "ship": False}
        assert await tx.outbox.wanted_labels(1, 8) == {"merge-queue": False}
        assert await tx.dead_letters.count() == 0
        claimed = [await tx.outbox.claim(owner="w", now=NOW, lease=timedelta(seconds=30)) for _ in range(4)]
        assert [(item.number, item.label, item.kind.value) for item in claimed if item is not None] == [
            (7, "", "check_run"),
            (7, "merge-queue", "label"),
            (7, "ship", "label"),
            (8, "merge-queue", "label"),
        ]
    async with empty_database.reading() as connection:
        assert await connection.run_sync(differences) == []


async def test_migrations_keep_tokens_valid_with_all_that_they_could_do(empty_database: Database) -> None:
    """Made before tokens had a scope, a checksum, a person's id and an end."""
    await migrate(empty_database, "0014")
    secret = "imq_" + "aZ0-_" * 8 + "abc"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    async with empty_database.transaction() as connection:
        row = {"id": "t", "name": "ops", "token_hash": digest, "login": "mona", "operator": True, "created_at": NOW}
        await connection.execute(insert(api_tokens).values(row))
    await migrate(empty_database)
    async with Store(empty_database).reading() as tx:
        token = await tx.tokens.find(secret, NOW)
    assert token is not None
    assert token.grant == TokenPolicy(login="mona", operator=True, access=Permission.MAINTAIN)
