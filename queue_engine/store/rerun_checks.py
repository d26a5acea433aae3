"""Add up the flaky checks and jobs of a departure for its day."""

from collections import defaultdict
from typing import Any, Literal

from queue_engine.core.database.database import Upsert
from queue_engine.domain.departure import Departure, RerunCheck
from queue_engine.store.departure_tables import flaky_days

FlakyKind = Literal["check", "job"]

FLAKY_SUMS = ("pulls", "reruns", "ci_seconds", "ci_known", "waited")
_NOTHING: dict[str, float] = dict.fromkeys(FLAKY_SUMS, 0)
ADD_FLAKY = Upsert(
    flaky_days,
    lambda insert: insert.on_conflict_do_update(
        index_elements=[each.name for each in flaky_days.primary_key],
        set_={name: flaky_days.c[name] + insert.excluded[name] for name in FLAKY_SUMS},
    ),
)


def flaky_sums(departure: Departure, day: int) -> list[dict[str, Any]]:
    """Return what a departure adds: a row for each of its flaky checks, and for each job."""
    of_queue = {"day": day, "repository_id": departure.repository_id, "base_branch": departure.base_branch}
    added: dict[tuple[FlakyKind, str], dict[str, float]] = defaultdict(lambda: {**_NOTHING, "pulls": 1})
    for check in departure.flaky:
        _add(added["check", check.name], check, 1)
        for job in check.job_names:
            _add(added["job", job], check, len(check.job_names))
    return [{**of_queue, "kind": kind, "name": name, **sums} for (kind, name), sums in sorted(added.items())]


def _add(sums: dict[str, float], check: RerunCheck, jobs: int) -> None:
    """Add a check's cost, divided among its jobs."""
    sums["reruns"] += check.reruns
    sums["waited"] += check.waited / jobs
    if check.ci_seconds is not None:
        sums["ci_seconds"] += check.ci_seconds / jobs
        sums["ci_known"] += 1
