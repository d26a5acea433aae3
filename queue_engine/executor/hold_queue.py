"""Store blockers that a pass finds: the base is red, no check starts. Store that GitHub refused a merge."""

from dataclasses import dataclass, replace
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.facts import CheckReport
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.model import NOWHERE, Entry, Queue, RedBase, Stall
from queue_engine.effects.context import Engine
from queue_engine.known.own_merges import record_merge_request
from queue_engine.planner.check_limits import few, waits_for_start


async def hold_for_base(
    engine: Engine, queue: Queue, policy: Policy, check: CheckReport, tip: str, failing: tuple[FailingCheck, ...]
) -> datetime:
    """Store that the base itself fails its check, and `failing`: only fixes of the base land until it passes."""
    now = engine.clock.now()
    async with engine.change() as change:
        # The first poll, at once, reruns a failed job of GitHub Actions.
        later = now if check.by_actions and policy.checks.reruns else now + policy.ask_again.maximum
        red = RedBase(check.name, tip, now, 0, later, check.app_id, failing=failing)
        # Only a move of the base sets the polls of a broken workflow file back to none.
        await change.tx.red_bases.note(queue.id, replace(red, polls=1) if red.is_workflow else red)
    return now


@dataclass(frozen=True, slots=True)
class StallFacts:
    """The checks that did not start for the front, and those that no commit has."""

    here: tuple[str, ...] = ()
    anywhere: str | None = None


async def record_stall(
    engine: Engine, queue: Queue, stall: Stall | None, entry: Entry, found: StallFacts
) -> datetime | None:
    """Store that no check starts for the front. The pass then announces the blocker, or its end, at once."""
    now = engine.clock.now()
    if found.anywhere is not None and (stall is None or not stall.never):
        new = Stall(now, NOWHERE, found.anywhere)
    elif stall is not None:
        return None if stall.never or waits_for_start(entry, stall.head) else now
    elif found.here and entry.run.candidate is not None:
        new = Stall(now, entry.run.candidate, few(found.here))
    else:
        return None
    async with engine.change() as change:
        await change.tx.stalls.note(queue.id, new)
    return now


async def record_refused_merge(engine: Engine, entry: Entry) -> None:
    """Record that GitHub refused to merge; in its own transaction, since a webhook may have changed the entry since."""
    async with engine.store.transaction() as tx:
        await record_merge_request(tx, entry, None, engine.clock.now())
