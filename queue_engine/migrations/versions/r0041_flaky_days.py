"""The sums of the flaky checks and jobs of each day, which the statistics add up."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"

_SUMS = ("pulls", "reruns", "ci_seconds", "ci_known", "waited")
_DEPARTURES = sa.table(
    "departures",
    *(sa.column(name) for name in ("day", "repository_id", "base_branch")),
    sa.column("flaky", sa.JSON(none_as_null=True)),
)
_BATCH = 500


def upgrade() -> None:
    """Add the table of sums, with those of the departures so far."""
    added = op.create_table(
        "flaky_days",
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("repository_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("base_branch", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("pulls", "reruns")),
        sa.Column("ci_seconds", sa.Double(), nullable=False),
        sa.Column("ci_known", sa.Integer(), nullable=False),
        sa.Column("waited", sa.Double(), nullable=False),
    )
    op.create_index(
        "ix_flaky_days_repository_id_base_branch_day", "flaky_days", ["repository_id", "base_branch", "day"]
    )
    rows = list(_sums())
    for start in range(0, len(rows), _BATCH):
        op.bulk_insert(added, rows[start : start + _BATCH])


def _sums() -> Iterator[dict[str, Any]]:
    """Add up what departures store as JSON; each counts a name once."""
    sums: dict[tuple[Any, ...], dict[str, float]] = defaultdict(lambda: dict.fromkeys(_SUMS, 0))
    for row in op.get_bind().execute(sa.select(_DEPARTURES).where(_DEPARTURES.c.flaky.is_not(None))):
        names = set()
        for check in row.flaky:
            jobs = check["jobs"] or [check["name"]]
            for kind, name, parts in (("check", check["name"], 1), *(("job", job, len(jobs)) for job in jobs)):
                names.add((kind, name))
                _add(sums[row.day, row.repository_id, row.base_branch, kind, name], check, parts)
        for kind, name in names:
            sums[row.day, row.repository_id, row.base_branch, kind, name]["pulls"] += 1
    for (day, repository_id, base_branch, kind, name), of_day in sums.items():
        queue = {"repository_id": repository_id, "base_branch": base_branch}
        yield {"day": day, **queue, "kind": kind, "name": name, **of_day}


def _add(sums: dict[str, float], check: Mapping[str, Any], parts: int) -> None:
    sums["reruns"] += check["reruns"]
    sums["waited"] += check["waited"] / parts
    if check["ci_seconds"] is not None:
        sums["ci_seconds"] += check["ci_seconds"] / parts
        sums["ci_known"] += 1
