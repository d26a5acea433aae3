"""Whether every queue of a campaign makes progress, and the content of the database when one does not."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import LiteralString

import psycopg

from tests.campaign.counted_time import CountedTime

_STORED = (
    "SELECT id, repository_id, base_branch, due_at, leased_until, wake_count, errors, invariant_broken, tree_mismatch,"
    " paused_by_hand, frozen FROM queues",
    "SELECT e.queue_id, number, state, e.next_poll_at, e.github_failures, e.github_failing_since, "
    "left(head_sha, 7) AS head FROM entries e LEFT JOIN runs r ON r.id = e.run_id",
    "SELECT kind, process_id, status, attempt, deaths, claims, not_before, owner, leased_until,"
    " left(error_message, 90) AS error FROM jobs ORDER BY seq LIMIT 60",
    "SELECT kind, repository_id, number, due_at, attempts, leased_until, left(error, 90) AS error"
    " FROM outbox WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 60",
    "SELECT job_type, process_id, attempts, left(error_message, 90) AS error FROM failed_jobs",
    "SELECT owner, kind, sum(amount) AS amount, max(at) AS last FROM pace_reservations"
    " WHERE at > now() - interval '75 seconds' GROUP BY owner, kind ORDER BY last",
)


_PUT_OFF = (
    "SELECT coalesce(max(extract(epoch FROM not_before - now())), 0) FROM jobs"
    " WHERE status = 'PENDING' AND kind IN ('webhook', 'sweep_pull_request')"
)
"""What queues wait for; what the sweep looks at beside them may wait."""


@dataclass
class Progress:
    """How long each queue has waited for its next pull request to land or leave."""

    time: CountedTime
    longest: float = 0.0
    """Seconds that counted, of the longest wait so far."""
    longest_by_the_clock: float = 0.0
    _moved: dict[Hashable, tuple[int, float, float]] = field(default_factory=dict)

    def note(self, queue: Hashable, waiting: int) -> float:
        """So many wait in this queue now; since when, in seconds that counted, no entry has landed or left."""
        before, since, by_the_clock = self._moved.get(queue, (0, self.time.seconds, self.time.wall))
        gap = self.time.seconds - since if before else 0.0
        if gap > self.longest:
            self.longest, self.longest_by_the_clock = gap, self.time.wall - by_the_clock
        if waiting == before:
            return gap
        self._moved[queue] = (waiting, self.time.seconds, self.time.wall)
        return 0.0


def put_off(url: str) -> float:
    """For how many seconds at most a job is put off that a queue may wait for; none while the database is away."""
    return _number(url, _PUT_OFF) or 0.0


def words_are_sent(url: str) -> bool:
    """Whether GitHub shows all that IMQ has to say."""
    return _number(url, "SELECT count(*) FROM outbox WHERE due_at IS NOT NULL") == 0


def _number(url: str, statement: LiteralString) -> float | None:
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            row = connection.execute(statement).fetchone()
    except psycopg.Error:
        return None
    return None if row is None else float(row[0])


def stored(url: str) -> str:
    """What the database holds, to find why a queue makes no progress."""
    lines: list[str] = []
    with psycopg.connect(url, connect_timeout=5) as connection:
        for statement in _STORED:
            cursor = connection.execute(statement)
            names = [column.name for column in cursor.description or ()]
            rows: list[Mapping[str, object]] = [dict(zip(names, row, strict=True)) for row in cursor]
            lines += [f"-- {statement}", *("  ".join(f"{n}={v}" for n, v in row.items()) for row in rows)]
    return "\n".join(lines)
