"""Find the runs of GitHub Actions that IMQ caused, and that are outdated: by its update of a branch, or its label.

An update is outdated when its entry was dequeued, or when a newer update replaced it. These functions are pure, except
that one stores the job; `queue_engine.handlers.inbox` does the job.
"""

from collections.abc import Iterable
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.facts import WorkflowRun
from queue_engine.domain.model import PROCESSING, Entry
from queue_engine.effects.context import Change

CANCEL_RUNS_JOB = "cancel_runs"
"""Kind of the job that cancels the runs on one outdated update."""

MOST_RUNS = 20
"""How many runs of one update are cancelled at most."""

_CAUSED_BY_A_PUSH = frozenset({"push", "pull_request", "pull_request_target"})


def updates_of(entry: Entry) -> tuple[str, ...]:
    """Return the entry's heads that are IMQ's own updates, proved or not; never the queued head."""
    heads = [entry.head_sha] if entry.updated_from is not None else []
    if entry.run.new_head is not None and entry.run.new_head_is_ours:
        heads.append(entry.run.new_head)
    return tuple(head for head in heads if head != entry.queued_head)


def tested_heads(entry: Entry, policy: Policy) -> tuple[str, ...]:
    """Return the heads on which IMQ caused runs: its updates, and a head whose queue-only checks its label started."""
    labeled = policy.checks.queue_only and entry.status in PROCESSING and entry.run.candidate == entry.head_sha
    return tuple(dict.fromkeys((*updates_of(entry), *((entry.head_sha,) if labeled else ()))))


def to_cancel(runs: Iterable[WorkflowRun], head_sha: str, own_login: str, left: datetime) -> tuple[int, ...]:
    """Return the runs under way on this head that IMQ's push or label began, and no person reran (docs:
    `triggering_actor`).

    A run that a label or comment of IMQ began later is not among them: after `left`, only `push` runs count.
    """
    found = (
        run.id
        for run in runs
        if run.head_sha == head_sha
        and not run.ended
        and run.begun_by == own_login
        and run.last_run_by == own_login
        and run.event in _CAUSED_BY_A_PUSH
        and (run.created_at <= left or run.event == "push")
    )
    return tuple(found)[:MOST_RUNS]


async def cancel_later(change: Change, entry: Entry, policy: Policy) -> None:
    """Enqueue the jobs that cancel the runs on the entry's updates, if the configuration asks for that."""
    if not policy.checks.cancel_outdated:
        return
    repository, now = entry.repository, change.now
    await change.tx.jobs.enqueue_all(
        kind=CANCEL_RUNS_JOB,
        requests=[
            (
                f"{CANCEL_RUNS_JOB}:{repository.id}:{head}",
                {"queue_id": entry.queue_id, "number": entry.number, "head": head, "left": now.isoformat()},
            )
            for head in tested_heads(entry, policy)
        ],
        now=now,
    )
