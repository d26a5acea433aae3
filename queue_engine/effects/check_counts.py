"""Record flakes, and count how often each check ran on trees that passed in the end.

A flake is a failure of a check on a tree on which the same check passes later: in a rerun, or in another run. The sums
by check are those of such trees alone, so that a failure of a bad change is no flake.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from queue_engine.domain.model import Entry, Queue
from queue_engine.domain.run import Run
from queue_engine.effects.context import Change
from queue_engine.rules.checks import rerun_counts
from queue_engine.store.departures import CheckCount, day_of

FLAKE_EVENT = "flake_seen"
"""The timeline's event of a queue, once for each tree; its `members` were tested together."""

FLAKE_JOB = "flake_tests"
"""Kind of the job that reads which tests failed."""

MOST_READ = 5
"""How many failed checks of one flake are read."""


async def record_passed(
    change: Change, of: Entry | Queue, run: Run, members: Sequence[int], earlier: Sequence[str] = ()
) -> None:
    """Count a run's passed checks, and record flakes; `earlier`: failed runs on the same tree, `id:name` each."""
    failed = (*earlier, *run.rerun_checks)
    failures = Counter(key.partition(":")[2] for key in earlier) + rerun_counts(run)
    passed = {timing.name for timing in run.timings if timing.passed}
    sums = [CheckCount(name, int(name in passed) + failures[name], failures[name]) for name in {*passed, *failures}]
    await change.tx.statistics.count_checks(of.repository.id, of.base_branch, day_of(change.now), sums)
    queue = of if isinstance(of, Queue) else await change.tx.queues.get(of.queue_id) if failures else None
    if not failures or queue is None:
        return
    data: dict[str, Any] = {
        "checks": sorted(failures),
        "failures": dict(failures),
        "sha": run.candidate,
        "members": [*members],
    }
    if run.has_branch:
        data["run"] = run.id
    await change.record(FLAKE_EVENT, queue, data=data)
    ids = [key.partition(":")[0] for key in failed if key.partition(":")[0].isdigit()]
    if ids:
        request = {"queue_id": queue.id, "checks": ids[:MOST_READ], "pulls": len(members), "day": day_of(change.now)}
        await change.enqueue(FLAKE_JOB, request, queue.repository.id, ids[0])
