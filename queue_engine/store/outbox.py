"""The outbox: what people are to read on GitHub, written in the transaction that made it true, sent later.

One row per pull request and kind holds the *desired state*; quick changes overwrite each other before they go out.
A row is due until the state of one version is known to stand on GitHub. A crash between sending and noting it is
told by `unsure`, set before anything is created: the next sender looks for what was created before it creates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Row, and_, case, delete, func, or_, select, type_coerce, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core import trace
from queue_engine.core.database import UtcDateTime, insert_into
from queue_engine.core.dead_letters import DeadLetter, DeadLetters
from queue_engine.model import Repository
from queue_engine.notice import Notice
from queue_engine.store.repositories import REPOSITORY_FIELDS, remember, repository_of
from queue_engine.store.tables import entries, outbox, repositories
from queue_engine.store.tables import held as held_table

LETTER_JOB = "letter"
"""Type of a letter's dead letter, and kind of the job that has the letter sent after all."""

_NAME = ("kind", "repository_id", "number")


class LetterKind(StrEnum):
    """What is written to GitHub."""

    COMMENT = "comment"
    CHECK_RUN = "check_run"
    LABEL_OFF = "label_off"


@dataclass(frozen=True, slots=True)
class Letter:
    """The desired state of one thing on GitHub, as claimed by one sender.

    `remote_id` is GitHub's id of the comment or check run once known, `remote_head` the commit that the check run is
    on. `unsure` says that something may have been created without our learning its id. `attempts` counts failures.
    """

    id: int
    kind: LetterKind
    repository: Repository
    number: int
    notice: Notice | None
    label: str | None
    remote_id: int | None
    remote_head: str | None
    unsure: bool
    version: int
    attempts: int
    owner: str
    trace: str | None
    """The W3C traceparent of what made it wanted last."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it takes off: `label` has one a line, which no label can contain."""
        return tuple(self.label.split("\n")) if self.label else ()


class Outbox:
    """The outbox, on one connection.

    Of a sender whose lease ended `done`, `retry` and `dead` change nothing, while facts about GitHub (`created`,
    `lost`) are always noted.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        due: Callable[[], None] = lambda: None,
        *,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        """`due` is called for every letter that is wanted."""
        self._connection = connection
        self._due = due
        self._dead_letters = dead_letters or DeadLetters(connection)

    async def want(
        self,
        kind: LetterKind,
        repository: Repository,
        number: int,
        *,
        due: datetime,
        notice: Notice | None = None,
        label: str | None = None,
    ) -> None:
        """Replace the desired state, to be sent at `due`, or sooner if an older state was to be sent sooner.

        A dead letter gets a new life; what is known of GitHub is kept.
        """
        await remember(self._connection, repository)
        state = {
            "notice": None if notice is None else notice.model_dump(mode="json"),
            "label": label,
            "attempts": 0,
            "error": None,
            "dead": False,
            "updated_at": due,
            "trace": trace.current(),
        }
        later = type_coerce(due, UtcDateTime)
        waits_already = and_(outbox.c.lease_owner.is_(None), outbox.c.due_at < later)
        await self._connection.execute(
            insert_into(self._connection, outbox)
            .values(kind=kind, repository_id=repository.id, number=number, unsure=False, version=1, due_at=due, **state)
            .on_conflict_do_update(
                index_elements=["kind", "repository_id", "number"],
                set_={
                    **state,
                    "due_at": case((waits_already, outbox.c.due_at), else_=later),
                    "version": outbox.c.version + 1,
                },
            )
        )
        await self._dead_letters.discard(_dead_id(kind, repository.id, number))
        self._due()

    async def again(self, kind: LetterKind, repository_id: int, number: int, *, due: datetime) -> bool:
        """Have what was wanted last sent once more at `due`, or sooner if it is to go out sooner: what it is made of
        beside the notice has changed. False if nothing was ever wanted."""
        its_own = (outbox.c.kind == kind, outbox.c.repository_id == repository_id, outbox.c.number == number)
        later = type_coerce(due, UtcDateTime)
        waits_already = and_(outbox.c.lease_owner.is_(None), outbox.c.due_at < later)
        found = await self._connection.execute(
            update(outbox)
            .where(*its_own, outbox.c.notice.is_not(None))
            .values(due_at=case((waits_already, outbox.c.due_at), else_=later), version=outbox.c.version + 1)
        )
        self._due()
        return found.rowcount == 1

    async def withdraw(self, kind: LetterKind, repository_id: int, number: int) -> None:
        """Drop a letter that must not go out any more, such as a label removal after the label was set again."""
        its_own = (outbox.c.kind == kind, outbox.c.repository_id == repository_id, outbox.c.number == number)
        await self._connection.execute(delete(outbox).where(*its_own))
        await self._dead_letters.discard(_dead_id(kind, repository_id, number))

    async def wanted(self, kind: LetterKind, repository_id: int, number: int) -> Notice | None:
        """What was last wanted to stand on GitHub, sent or not; None if nothing was."""
        its_own = (outbox.c.kind == kind, outbox.c.repository_id == repository_id, outbox.c.number == number)
        found = (await self._connection.execute(select(outbox.c.notice).where(*its_own))).scalar_one_or_none()
        return None if found is None else Notice.model_validate(found)

    async def stands(self, kind: LetterKind, repository_id: int, number: int) -> bool:
        """Whether something of this kind is on GitHub, unfinished, or on its way there."""
        its_own = (outbox.c.kind == kind, outbox.c.repository_id == repository_id, outbox.c.number == number)
        begun = or_(outbox.c.remote_id.is_not(None), outbox.c.unsure, outbox.c.due_at.is_not(None))
        found = select(func.count()).select_from(outbox).where(*its_own, begun)
        return bool((await self._connection.execute(found)).scalar_one())

    async def claim(self, *, owner: str, now: datetime, lease: timedelta) -> Letter | None:
        """Take the letter that is due longest and in nobody's hands, until `now + lease`; None if there is none."""
        due = and_(outbox.c.due_at <= now, or_(outbox.c.leased_until.is_(None), outbox.c.leased_until <= now))
        first = select(outbox.c.id).where(due).order_by(outbox.c.due_at, outbox.c.id).limit(1)
        claimed = await self._connection.execute(
            update(outbox)
            .where(outbox.c.id == first.with_for_update(skip_locked=True).scalar_subquery())
            .values(lease_owner=owner, leased_until=now + lease)
            .returning(outbox.c.id)
        )
        letter_id = claimed.scalar_one_or_none()
        if letter_id is None:
            return None
        its_own = select(outbox, *REPOSITORY_FIELDS[1:]).join(repositories).where(outbox.c.id == letter_id)
        row = (await self._connection.execute(its_own)).one()
        try:
            return _letter(row)
        except ValidationError as error:
            # Written by another version of IMQ: it must not stand before all others for ever.
            values = {**_ended(str(error), row.attempts, now), "lease_owner": None, "leased_until": None}
            await self._connection.execute(update(outbox).where(outbox.c.id == letter_id).values(values))
            await self._dead_letters.keep(_dead_letter(row, str(error), now, attempts=row.attempts, retryable=False))
            return await self.claim(owner=owner, now=now, lease=lease)

    async def mark_unsure(self, letter: Letter) -> None:
        """Something is about to be created: commit this before the request goes out."""
        await self._note(letter, unsure=True)

    async def created(self, letter: Letter, remote_id: int, remote_head: str | None = None) -> None:
        """It was created, or found, and this is its id (and the commit that a check run is on)."""
        await self._note(letter, unsure=False, remote_id=remote_id, remote_head=remote_head)

    async def lost(self, letter: Letter) -> None:
        """What we had written is gone from GitHub: forget its id, so that it is created anew."""
        await self._note(letter, unsure=False, remote_id=None, remote_head=None)

    async def done(self, letter: Letter, now: datetime) -> None:
        """The claimed version stands on GitHub: nothing is due any more, unless another was wanted meanwhile."""
        if letter.kind is LetterKind.LABEL_OFF:
            sent = and_(_held(letter), outbox.c.version == letter.version)
            await self._connection.execute(delete(outbox).where(sent))
        await self._settle(letter, due_at=None, attempts=0, error=None, updated_at=now)

    async def retry(self, letter: Letter, *, at: datetime, error: str) -> None:
        """It failed for a reason that may pass: due again at `at`; counts an attempt."""
        await self._settle(letter, due_at=at, attempts=letter.attempts + 1, error=error)

    async def hold(self, letter: Letter, *, at: datetime) -> None:
        """It cannot be sent yet, through no fault of its own: due again at `at`, and no attempt."""
        await self._settle(letter, due_at=at)

    async def dead(self, letter: Letter, error: str, now: datetime, *, retryable: bool) -> None:
        """It failed for good: not due any more, and among the dead letters unless something newer is wanted."""
        attempts = letter.attempts + 1
        row = await self._settle(letter, **_ended(error, attempts, now))
        if row is not None and row.version == letter.version:
            await self._dead_letters.keep(_dead_letter(row, error, now, attempts=attempts, retryable=retryable))

    async def revive(self, its_name: Mapping[str, Any], now: datetime) -> bool:
        """Make a dead letter due again, known by the payload of its dead letter. False if it is not dead any more."""
        kind, repository_id, number = (its_name[part] for part in _NAME)
        its_own = (outbox.c.kind == kind, outbox.c.repository_id == repository_id, outbox.c.number == number)
        again = {"due_at": now, "dead": False, "attempts": 0, "error": None, "updated_at": now}
        revived = await self._connection.execute(update(outbox).where(*its_own, outbox.c.dead).values(again))
        # It may have died once more between being wanted again and this.
        await self._dead_letters.discard(_dead_id(kind, repository_id, number))
        self._due()
        return revived.rowcount == 1

    async def next_due(self) -> datetime | None:
        """When the next letter can be claimed: an instant that may be past; None if nothing waits."""
        claimable = case((outbox.c.leased_until > outbox.c.due_at, outbox.c.leased_until), else_=outbox.c.due_at)
        return (await self._connection.execute(select(type_coerce(func.min(claimable), UtcDateTime)))).scalar_one()

    async def release_all(self) -> None:
        """Drop every lease: for the start of the only process on this database. What was due is due."""
        leased = outbox.c.lease_owner.is_not(None)
        await self._connection.execute(update(outbox).where(leased).values(lease_owner=None, leased_until=None))

    async def purge(self, before: datetime) -> int:
        """Forget letters that were finished before then, of pull requests that stand nowhere.

        With them goes the id of the comment: choose a time after which nobody queues a pull request again.
        Returns how many.
        """
        standing = or_(
            *(
                select(table.c.number)
                .where(table.c.repository_id == outbox.c.repository_id, table.c.number == outbox.c.number)
                .exists()
                for table in (entries, held_table)
            )
        )
        finished = and_(outbox.c.due_at.is_(None), outbox.c.updated_at < before, ~standing)
        return (await self._connection.execute(delete(outbox).where(finished))).rowcount

    async def _note(self, letter: Letter, **facts: object) -> None:
        await self._connection.execute(update(outbox).where(outbox.c.id == letter.id).values(**facts))

    async def _settle(self, letter: Letter, **values: object) -> Row[Any] | None:
        """Free the lease. `values` are for the claimed version; one wanted meanwhile keeps its due time and count.

        Returns the row as it is now, None if the lease was lost.
        """
        newer = outbox.c.version != letter.version
        kept = {name: case((newer, outbox.c[name]), else_=_typed(name, value)) for name, value in values.items()}
        settled = await self._connection.execute(
            update(outbox).where(_held(letter)).values(lease_owner=None, leased_until=None, **kept).returning(outbox)
        )
        row: Row[Any] | None = settled.one_or_none()
        return row


def _typed(name: str, value: object) -> ColumnElement[Any]:
    return type_coerce(value, outbox.c[name].type)


def _held(letter: Letter) -> ColumnElement[bool]:
    return and_(outbox.c.id == letter.id, outbox.c.lease_owner == letter.owner)


def _ended(error: str, attempts: int, now: datetime) -> dict[str, Any]:
    return {"due_at": None, "dead": True, "attempts": attempts, "error": error, "updated_at": now}


def _dead_id(kind: str, repository_id: int, number: int) -> str:
    """The id of a letter's dead letter: one for each row that the outbox can have, so that what revives it finds it."""
    return sha256(f"{LETTER_JOB}:{kind}:{repository_id}:{number}".encode()).hexdigest()[:32]


def _dead_letter(row: Row[Any], error: str, now: datetime, *, attempts: int, retryable: bool) -> DeadLetter:
    return DeadLetter(
        id=_dead_id(row.kind, row.repository_id, row.number),
        process_id=f"{row.repository_id}:{row.number}",
        job_type=LETTER_JOB,
        error_message=error,
        payload={name: row._mapping[name] for name in _NAME},
        failed_at=now,
        retryable=retryable,
        attempts=attempts,
        priority=0,
        created_at=now,
        trace=row.trace,
    )


def _letter(row: Row[Any]) -> Letter:
    return Letter(
        id=row.id,
        kind=LetterKind(row.kind),
        repository=repository_of(row),
        number=row.number,
        notice=None if row.notice is None else Notice.model_validate(row.notice),
        label=row.label,
        remote_id=row.remote_id,
        remote_head=row.remote_head,
        unsure=row.unsure,
        version=row.version,
        attempts=row.attempts,
        owner=row.lease_owner,
        trace=row.trace,
    )
