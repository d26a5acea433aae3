"""Delete rows that have expired, with the first sweep of each hour, and have jobs delete refs that have.

The timeline, the departures and the records of landings are deleted by age, a thousand in one transaction: no other
transaction waits long for one. The events that a decision needs stay (`Timeline.purge`).
"""

from datetime import timedelta

import structlog

from queue_engine.admission.throttle import KEPT as THROTTLE_KEPT
from queue_engine.core.jobs.job import Job
from queue_engine.domain.known_facts import KEPT as FACTS_KEPT
from queue_engine.effects.context import Engine
from queue_engine.executor.proof_marks import schedule_expiry
from queue_engine.store.outbox.outbox import KEPT
from queue_engine.store.request_records import KEPT as REQUESTS_KEPT

PURGE_JOB = "purge"
"""Kind of the job that deletes old rows. It is a separate job, because it needs no request to GitHub."""

PURGED_EVERY = timedelta(hours=1)
"""A sweep comes every ten minutes, and hardly any row expires meanwhile."""

SHADOW_KEPT = timedelta(days=90)
"""How long IMQ keeps what it would have done, from the last change on."""
OUTBOX_KEPT = timedelta(days=30)
PENDING_MERGES_KEPT = timedelta(days=7)
"""GitHub forgets a merge in the background a day after its end."""
_HOUR = timedelta(hours=1)
"""Tokens of installations expire after an hour, and cached configuration files expire sooner."""

_BATCH = 1000
_MOST_BATCHES = 50
"""Of one job: the next one continues, so that the first purge of a large timeline does not occupy a worker."""

_log = structlog.get_logger("imq.purge")


class TableLimits:
    """Handles the job that deletes old rows."""

    def __init__(
        self, engine: Engine, *, timeline_kept: timedelta | None, landings_kept: timedelta | None = None
    ) -> None:
        """Ages at which events of the timeline and actions, or records of landings, are deleted; None: never."""
        self._engine = engine
        self._timeline_kept, self._landings_kept = timeline_kept, landings_kept

    async def purge(self, job: Job) -> None:
        """Delete what is expired or old, then complete the departures of events that have none."""
        async with self._engine.change() as change:
            await change.tx.keys.purge(change.now)
            await change.tx.outbox.purge(change.now - OUTBOX_KEPT)
            await change.tx.answers.purge(change.now - KEPT)
            await change.tx.known.purge(change.now - FACTS_KEPT)
            await change.tx.shadow.purge(change.now - SHADOW_KEPT)
            await change.tx.consents.purge(change.now - SHADOW_KEPT)
            await change.tx.throttles.purge(change.now - THROTTLE_KEPT)
            await change.tx.sessions.purge(change.now)
            await change.tx.installation_tokens.purge(change.now - _HOUR)
            await change.tx.configuration_files.purge(change.now - _HOUR)
            await change.tx.requests.purge(change.now - REQUESTS_KEPT)
            await change.tx.pending_merges.purge(change.now - PENDING_MERGES_KEPT)
            await schedule_expiry(change)
        if self._timeline_kept is not None:
            async with self._engine.change() as change:
                await change.tx.actions.purge(change.now - self._timeline_kept)
            await self._purge_timeline(self._timeline_kept)
        if self._landings_kept is not None:
            await self._purge_landings(self._landings_kept)

    async def _purge_timeline(self, kept: timedelta) -> None:
        before, deleted = self._engine.clock.now() - kept, 0
        for _ in range(_MOST_BATCHES):
            async with self._engine.change() as change:
                of_batch = await change.tx.timeline.purge(before, at_most=_BATCH)
                departures = await change.tx.departures.purge(before, at_most=_BATCH)
            deleted += of_batch
            if max(of_batch, departures) < _BATCH:
                break
        if deleted:
            _log.info("timeline_purged", events=deleted, before=before.isoformat())

    async def _purge_landings(self, kept: timedelta) -> None:
        before = self._engine.clock.now() - kept
        for _ in range(_MOST_BATCHES):
            async with self._engine.change() as change:
                if await change.tx.landings.purge(before, at_most=_BATCH) < _BATCH:
                    return
