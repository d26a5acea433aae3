"""Find the runs of GitHub Actions that an outdated update by IMQ caused.

An update is left behind when its entry leaves the queue without landing, or when a newer update replaces it. Pure but
for storing the job; `queue_engine.handlers.workflow_runs` does it.
"""

from collections.abc import Iterable
from datetime import datetime

from queue_engine.domain.model import Entry
from queue_engine.domain.policy import Policy
from queue_engine.domain.workflow_runs import WorkflowRun
from queue_engine.store import Transaction

CANCEL_RUNS_JOB = "cancel_runs"
"""Kind of the job that cancels the runs on one outdated update."""

MOST_RUNS = 20
"""How many runs of one update are cancelled at most."""

_CAUSED_BY_A_PUSH = frozenset({"push", "pull_request", "pull_request_target"})


def updates_of(entry: Entry) -> tuple[str, ...]:
    """The entry's heads that are updates of IMQ's own, or were announced as such; never the head that was queued."""
    heads = [entry.head] if entry.updated_from is not None else []
    if entry.run.new_head is not None and entry.run.new_head_is_ours:
        heads.append(entry.run.new_head)
    return tuple(head for head in heads if head != entry.queued_head)


def to_cancel(runs: Iterable[WorkflowRun], head: str, own_login: str, left: datetime) -> tuple[int, ...]:
    """The runs under way on this head that IMQ's own push began, and nobody ran again (docs: `triggering_actor`).

    What IMQ's later label or comment began is none of them: only a push can begin a `push` run after `left`.
    """
    found = (
        run.id
        for run in runs
        if run.head_sha == head
        and not run.ended
        and run.begun_by == own_login
        and run.last_run_by == own_login
        and run.event in _CAUSED_BY_A_PUSH
        and (run.created_at <= left or run.event == "push")
    )
    return tuple(found)[:MOST_RUNS]


async def cancel_later(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> None:
    """Have the runs on the entry's updates cancelled after this transaction, if its repository wants that."""
    if not policy.cancel_outdated:
        return
    repository = entry.repository
    await tx.jobs.enqueue_all(
        kind=CANCEL_RUNS_JOB,
        requests=[
            (
                f"{CANCEL_RUNS_JOB}:{repository.id}:{head}",
                {"queue_id": entry.queue_id, "number": entry.number, "head": head, "left": now.isoformat()},
            )
            for head in updates_of(entry)
        ],
        now=now,
    )
