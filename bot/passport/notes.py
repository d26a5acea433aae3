"""Passports as git notes in `refs/notes/imq`, where clones find them without IMQ."""

import json
from collections.abc import Mapping
from datetime import timedelta

import structlog

from bot.passport.keys import line_of
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, NotFound, naming
from queue_engine.domain.facts import Commit
from queue_engine.domain.model import Repository
from queue_engine.domain.port import NOTES
from queue_engine.effects.context import EngineHandler
from queue_engine.executor.landing import NOTES_AFTER
from queue_engine.store.proof_marks import LandingProgress

_log = structlog.get_logger("imq.notes")

_AT_ONCE = 100
_ENOUGH = 3
"""So many landings cost one request each; fewer wait for others."""
_LONGEST = timedelta(hours=1)
_TRY_AGAIN = timedelta(days=1)


class PassportNotes(EngineHandler):
    """Writes the passports of landings as notes, those of several landings together."""

    async def write(self, job: Job) -> Hold | None:
        """Write the notes that a repository lacks, three requests for all; it may run twice.

        A hold while there are few, or GitHub refuses. Raises GitHubError.
        """
        now = self._engine.clock.now()
        async with self._engine.store.reading() as tx:
            repository = await tx.repositories.by_id(int(job.request["repository_id"]))
            assert repository is not None
            former = await tx.proof_marks.notes(repository.id)
            found = await tx.landings.since(None, _AT_ONCE, repository_id=repository.id, after=former.landing_id)
        if not found:
            return None
        if len(found) < _ENOUGH and now - found[0].at < _LONGEST:
            return Hold(NOTES_AFTER)
        notes = {each.sha: json.dumps(line_of(each)) + "\n" for each in found}
        try:
            with working(RequestPriority.BACKGROUND), naming(f"the notes of {repository.full_name}"):
                made = await self._write(repository, former, notes)
        except (Forbidden, Invalid, NotFound) as refusal:
            _log.warning("notes_refused", repository=repository.full_name, error=str(refusal))
            return Hold(_TRY_AGAIN)
        async with self._engine.change() as change:
            written = LandingProgress(found[-1].id, made.sha, made.tree)
            await change.tx.proof_marks.save_notes(repository.id, written)
        return Hold(NOTES_AFTER) if len(found) == _AT_ONCE else None

    async def _write(self, repository: Repository, former: LandingProgress, notes: Mapping[str, str]) -> Commit:
        """Write onto the notes as IMQ left them; where somebody else moved the ref, onto what is there."""
        github = self._engine.github
        onto = None if former.tip is None or former.tree is None else Commit(former.tip, former.tree, ())
        try:
            return await github.write_notes(repository, onto, notes)
        except (HeadConflict, Invalid):
            # Also where GitHub has forgotten the former notes.
            tip = await github.ref_target(repository, NOTES)
            there = None if tip is None else await github.commit(repository, tip)
            if there == onto:
                raise
            return await github.write_notes(repository, there, notes)
