"""A database with held pull requests, as revision 0023 stores them, migrates in their order."""

from sqlalchemy import insert

from queue_engine.core.database.database import Database
from queue_engine.domain.model import EntryStatus
from queue_engine.migrations import migrate
from queue_engine.store import Store
from queue_engine.store.tables import repositories
from tests.store.examples import stand
from tests.store.migration_examples import MINUTE, NOON, differences

HELD = (
    "INSERT INTO queues (id, repository_id, base_branch, red_looks, red_untested, errors, wake_count, created_at)"
    " VALUES (1, 7, 'main', 0, FALSE, 0, 0, '{at}')",
    "INSERT INTO entries (id, queue_id, repository_id, number, title, author, queued_by, priority, status, queued_head,"
    " head, head_proved, candidate_is_ours, known_behind, pending_checks, completed_checks, needs_refetch,"
    " github_failures, merge_refusals, polls, enqueued_at, status_since, version, arrived, rank) VALUES ('e', 1, 7, 1,"
    " 't', 'ada', 'max', 0, 'checking', 'h', 'h', TRUE, FALSE, FALSE, '[]', '[]', FALSE, 0, 0, 0, '{at}', '{at}', 1,"
    " 1767268800001, 1767268800001)",
    *(
        "INSERT INTO held (queue_id, repository_id, number, head_sha, queued_by, at, trace, delivery, trusted_labels,"
        f" priority) VALUES (1, 7, {number}, 'head-{number}', 'max', '{{at}}', '00-ab-cd-01', 'guid-{number}',"
        f" '[\"merge-queue\"]', {priority})"
        for number, priority in ((4, "NULL"), (2, "NULL"), (3, "10"))
    ),
    *(
        "INSERT INTO jobs (id, process_id, kind, request_json, status, attempt, deaths, priority, not_before,"
        f" created_at, updated_at, claims) VALUES ('{kind}', 'p', '{kind}', '{{{{}}}}', 'PENDING', 0, 0, 0, '{{at}}',"
        " '{at}', '{at}', 0)"
        for kind in ("held", "admit_waiting", "place", "webhook")
    ),
    "INSERT INTO failed_jobs (id, process_id, job_type, error_message, payload, failed_at, retryable, attempts,"
    " priority, created_at) VALUES ('d', 'p', 'held', 'broke', '{{}}', '{at}', TRUE, 1, 0, '{at}')",
)
"""A full queue with three held pull requests and their jobs, as revision 0023 stores them."""


async def test_migrations_make_held_pull_requests_entries_in_their_order(empty_database: Database) -> None:
    """P2, P3: they keep their consent and wait behind the entries, by the priority that a command gave them."""
    await migrate(empty_database, "0023")
    at = "2026-01-01 12:00:00.000000" + ("+00:00" if empty_database.dialect == "postgresql" else "")
    async with empty_database.transaction() as connection:
        await connection.execute(insert(repositories).values(id=7, owner="acme", name="engine", installation_id=1))
        for statement in HELD:
            await connection.exec_driver_sql(statement.format(at=at))
    await migrate(empty_database)
    async with Store(empty_database).transaction() as tx:
        entries = await tx.entries.of_queue(1)
        assert [each.number for each in entries] == [1, 3, 4, 2]
        _, third, fourth, last = entries
        assert (fourth.queued_head, fourth.head, fourth.queued_by) == ("head-4", "head-4", "max")
        assert (fourth.trace, fourth.delivery, fourth.trusted_labels) == ("00-ab-cd-01", "guid-4", ("merge-queue",))
        assert {each.held_since for each in (third, fourth, last)} == {fourth.enqueued_at} == {NOON}
        assert (third.priority, fourth.priority, fourth.status) == (10, 0, EntryStatus.PENDING)
        assert fourth.arrived == last.arrived == 1767268800001
        joined = await stand(tx, await tx.queues.find_or_create(fourth.repository, "main", NOON), 5)
        assert joined.position == 4
        queue = await tx.queues.get(1)
        assert queue is not None
        assert queue.due_at == NOON
        jobs = await tx.jobs.claim_some(9, owner="w", now=NOON, lease=MINUTE)
        assert [job.kind for job in jobs] == ["webhook"]
        assert await tx.dead_letters.count() == 0
    async with empty_database.reading() as connection:
        assert await connection.run_sync(differences) == []
