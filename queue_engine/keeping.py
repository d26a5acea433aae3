"""What becomes of the front, stored: each change of it with all that follows from it, in one transaction (P2)."""

from dataclasses import dataclass

import structlog

from queue_engine import journal
from queue_engine.engine import Engine
from queue_engine.facts import CheckReport, PullRequest
from queue_engine.invariants import check_transition
from queue_engine.model import Entry, EntryStatus
from queue_engine.notice import NoticeKind
from queue_engine.policy import Policy
from queue_engine.reasons import Reason
from queue_engine.tally import progress

_log = structlog.get_logger("imq.advance")

_TOLD = {EntryStatus.UPDATING: NoticeKind.UPDATING, EntryStatus.CHECKING: NoticeKind.CHECKING}

Checks = tuple[CheckReport, ...]


@dataclass(frozen=True, slots=True)
class Keeper:
    """Stores what becomes of the front of one queue."""

    engine: Engine
    policy: Policy

    async def save(self, entry: Entry, changed: Entry, *, depth: int, tell: bool = False, checks: Checks = ()) -> Entry:
        """Store a changed entry, `checks` being the reports under way; returns it as stored.

        Raises StaleVersion if it changed since it was read, InvariantBroken for a status that cannot follow.
        """
        moved = changed.status is not entry.status
        if moved:
            check_transition(entry.status, changed.status)
        async with self.engine.change() as change:
            saved = await change.tx.entries.save(changed)
            if (moved or tell) and (kind := _TOLD.get(saved.status)):
                await journal.tell_progress(
                    change.tx,
                    saved,
                    kind,
                    self.policy,
                    change.now,
                    depth=depth,
                    checks=checks,
                    # Once the run says what is awaited, further reports are progress: told by its own, rarer letters.
                    check_run=moved or not entry.awaited_checks,
                )
            if (event := progress(entry, saved)) is not None:
                change.progress.append(event)
            if moved:
                data = {"head": saved.head, "base_tip": saved.base_tip}
                change.happenings.append(
                    await journal.note(
                        change.tx,
                        change.now,
                        saved.status.value,
                        saved.repository,
                        saved.base_branch,
                        saved.number,
                        entry_id=saved.id,
                        delivery=saved.delivery,
                        data=data,
                    )
                )
        if moved:
            _log.info(saved.status.value, repository=saved.repository.full_name, number=saved.number, **data)
        return saved

    async def dismiss(
        self, entry: Entry, reason: Reason, pull: PullRequest | None, *, detail: str | None, checks: Checks = ()
    ) -> None:
        """The entry leaves its queue without landing. `pull` is the pull request, if it was read in this pass."""
        check_transition(entry.status, journal.status_of(reason))
        people = (entry.author, *(pull.assignees if pull else ()))
        async with self.engine.change() as change:
            change.happenings.append(
                await journal.dismiss(
                    change.tx,
                    entry,
                    reason,
                    self.policy,
                    change.now,
                    detail=detail,
                    checks=checks,
                    people=tuple(dict.fromkeys(people)),
                    delivery=entry.delivery,
                )
            )
        _log.info("left", repository=entry.repository.full_name, number=entry.number, reason=reason.value)
