"""Store what webhooks and IMQ's own writes prove: both are newer than any read.

The head of the last merge request is a fact of its own: GitHub may carry out a request after its process was killed and
another process read the pull request as open. That merge is IMQ's nevertheless.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any

from queue_engine.core.jobs.job import Job
from queue_engine.core.read_model import adapter
from queue_engine.core.timing.backoff import Backoff, no_jitter, wait
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import RequestOrderError
from queue_engine.domain.known_facts import (
    KEPT,
    NAMED,
    Fact,
    Known,
    KnownName,
    MergeRequest,
    MergeResult,
    OwnLabel,
    Statement,
    of_commit,
    of_pull,
)
from queue_engine.domain.model import Entry, EntryStatus, Repository
from queue_engine.domain.port import Comments, Files, GitHub, GitHubPorts, MergeState, PendingMerge, Reads, Writes
from queue_engine.domain.webhooks import WEBHOOK_JOB, CommandEvent, WebhookEvent
from queue_engine.known.pulls import current_tip, exists, merged_as, pushes, requested_merge
from queue_engine.store import Store, Transaction


def _handed_on(name: str) -> Callable[..., Any]:
    """Make the method that calls the same of the next port."""

    def hand_on(self: "Forwarding", /, *arguments: Any, **named: Any) -> Any:
        return getattr(self._github, name)(*arguments, **named)

    return hand_on


class Forwarding(GitHubPorts):
    """All three ports, as another implementation answers them."""

    def __init__(self, github: GitHubPorts) -> None:
        self._github = github


for _port in (Files, Reads, Writes, Comments):
    for _name in vars(_port):
        if not _name.startswith("_"):
            setattr(Forwarding, _name, _handed_on(_name))


class KnownFacts:
    """The facts of the last quarter of an hour; each call is a transaction of its own."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def about(self, repository_id: int, subjects: Collection[str]) -> dict[str, list[Known]]:
        """Load the known facts of each of these subjects, in the order in which IMQ received them."""
        async with self._store.reading() as tx:
            return await tx.known.about(repository_id, subjects, since=self._clock.now() - KEPT)

    async def tip(self, repository_id: int, subject: str) -> str | None:
        """Return the known tip of a branch, if there is one."""
        known = (await self.about(repository_id, {subject})).get(subject, ())
        return current_tip(pushes(known, self._clock.now()))

    async def names_new(self, repository_id: int, subjects: Collection[str]) -> bool:
        """Return whether GitHub named one of these so recently that a replica may not show it yet."""
        now = self._clock.now()
        known = await self.about(repository_id, subjects)
        for those in known.values():
            lately = [one for one in those if now - one.at < NAMED]
            pushed = pushes(lately, now)
            if len(lately) > len(pushed) or exists(pushed):
                return True
        return False

    async def record(self, repository_id: int, statements: Mapping[str, Statement]) -> None:
        """Store GitHub's answers to a write, by subject."""
        facts = [Fact(subject=subject, statement=each) for subject, each in statements.items()]
        await self._store.write(lambda tx: tx.known.record(repository_id, facts, self._clock.now()))


class OwnWrites(Forwarding):
    """Merges and labels. Part of `GitHubReads`."""

    def __init__(self, github: GitHubPorts, facts: KnownFacts) -> None:
        super().__init__(github)
        self._facts = facts

    async def merge(self, repository: Repository, number: int, *how: Any, **message: Any) -> str:
        """Merge, and store GitHub's answer as a fact."""
        landed = await self._github.merge(repository, number, *how, **message)
        await self._record_landed(repository, number, landed)
        return landed

    async def merge_in_background(self, repository: Repository, number: int, *how: Any, **message: Any) -> PendingMerge:
        """Request a merge, and store the commit if GitHub has merged already."""
        pending = await self._github.merge_in_background(repository, number, *how, **message)
        return await self._with_landed(repository, number, pending)

    async def pending_merge(self, repository: Repository, number: int, uuid: str) -> PendingMerge:
        """Read a merge, and store the commit once GitHub has merged."""
        return await self._with_landed(repository, number, await self._github.pending_merge(repository, number, uuid))

    async def _with_landed(self, repository: Repository, number: int, pending: PendingMerge) -> PendingMerge:
        if pending.state is MergeState.MERGED and pending.sha is not None:
            await self._record_landed(repository, number, pending.sha)
        return pending

    async def _record_landed(self, repository: Repository, number: int, landed: str) -> None:
        await self._facts.record(
            repository.id, {of_pull(number): MergeResult(sha=landed), of_commit(landed): KnownName()}
        )

    async def add_label(self, repository: Repository, number: int, label: str) -> None:
        """Set a label, and store that as a fact."""
        await self._github.add_label(repository, number, label)
        await self._facts.record(repository.id, {of_pull(number): OwnLabel(label=label, label_set=True)})

    async def remove_label(self, repository: Repository, number: int, label: str) -> None:
        """Remove a label, and store that as a fact."""
        await self._github.remove_label(repository, number, label)
        await self._facts.record(repository.id, {of_pull(number): OwnLabel(label=label, label_set=False)})


async def answered_merge(tx: Transaction, entry: Entry, now: datetime) -> str | None:
    """Return the commit in GitHub's answer to this entry's merge; None while none is known."""
    if entry.run.merge_requested_at is None:
        return None
    return merged_as(await tx.known.lately(entry.repository.id, of_pull(entry.number), now))


async def record_merge_request(tx: Transaction, entry: Entry, head_sha: str | None, now: datetime) -> None:
    """Store that IMQ requests the merge of this head, or None.

    Raises InvariantError without consent, and RequestOrderError while a command may withdraw it.
    """
    if head_sha is not None:
        await tx.consents.verify(entry)
        await await_withdrawals(tx, entry)
    await tx.known.record(
        entry.repository.id, [Fact(subject=of_pull(entry.number), statement=MergeRequest(head_sha=head_sha))], now
    )


AWAITED = "landing"
"""The reason of a hold, which the job of a command counts, while a landing waits for it."""

_AGAIN = Backoff(base=timedelta(seconds=1), maximum=timedelta(seconds=30), jitter=0, tries=6)
"""When a landing asks again whether a command is judged: 1, 2, 4, 8, 16, 30 s. Then it waits no more (P5)."""

_MOST_STRANGERS = 3
"""How many people without a known right to withdraw a landing waits for."""


async def await_withdrawals(tx: Transaction, entry: Entry) -> None:
    """Raise RequestOrderError while a stored command may withdraw this entry, or pause its queue, and is not judged.

    IMQ judges a label or a push by its webhook alone (`queue_engine.rules.consent`), but a command by the rights of its
    person, which GitHub may fail to answer. The landing waits for a minute, and the command is tried again meanwhile.
    Of a person only the first such command counts, until it is judged or its tries are used up, about an hour later.
    """
    awaited, strangers = dict[tuple[str, str], Job](), 0
    for job in await tx.jobs.unfinished_naming("withdraws", WEBHOOK_JOB, f"{entry.repository.id}:"):
        command = adapter(WebhookEvent).validate_python(job.request)
        assert isinstance(command, CommandEvent)
        person = command.sender.casefold(), str(command.withdraws)
        if person in awaited or (command.withdraws == "pull_request" and command.number != entry.number):
            continue
        strangers += command.by_stranger
        if not command.by_stranger or strangers <= _MOST_STRANGERS:
            awaited[person] = job
    waits = {each.id: each.holds.get(AWAITED, 0) for each in awaited.values()}
    waits = {job: times for job, times in waits.items() if not _AGAIN.exhausted(times)}
    if waits:
        again = min(wait(_AGAIN, times, random=no_jitter) for times in waits.values())
        raise RequestOrderError(
            f"a command that may withdraw #{entry.number} is judged first", retry_after=again, jobs=tuple(waits)
        )


async def merged_by_imq(tx: Transaction, entry: Entry, now: datetime) -> bool:
    """Return whether IMQ requested the merge that GitHub shows, at any time within the last quarter of an hour.

    GitHub may carry out the request of a killed process after another process has read the pull request as open.
    """
    if entry.status is not EntryStatus.READY:
        return False
    return requested_merge(await tx.known.lately(entry.repository.id, of_pull(entry.number), now)) == entry.head_sha


Forget = Callable[[], object]
NamesNew = Callable[[], Awaitable[bool]]

_used: ContextVar[list[Forget] | None] = ContextVar("remembered_answers", default=None)
_names_new: ContextVar[NamesNew | None] = ContextVar("names_new", default=None)


@contextmanager
def remembered_answers(names_new: NamesNew | None = None) -> Iterator[list[Forget]]:
    """Collect the cached answers that the reads inside use; calling one of them discards that answer.

    `names_new` returns whether GitHub named what they read so recently that a replica may answer with 404.
    """
    used: list[Forget] = []
    tokens = _used.set(used), _names_new.set(names_new)
    try:
        yield used
    finally:
        _used.reset(tokens[0])
        _names_new.reset(tokens[1])


async def expects_lag() -> bool:
    """Return whether the caller of this read asks again after a 404, whatever the cause of that is."""
    return (names_new := _names_new.get()) is not None and await names_new()


def remembered(forget: Forget) -> None:
    """Report a cached answer that was just used or stored; `forget` discards it."""
    if (used := _used.get()) is not None:
        used.append(forget)


_MOST_UPDATES = 10
"""How many updates of IMQ's since a backup are followed."""


async def updated_by_imq(github: GitHub, entry: Entry, sha: str) -> bool:
    """Return whether this head is IMQ's update of the known one, or of another such update. Raises GitHubError."""
    for _ in range(_MOST_UPDATES):
        compared = await github.comparison(entry.repository, entry.base_branch, sha)
        if not compared.is_signed_update:
            return False
        if (sha := compared.head.parents[0]) == entry.head_sha:
            return True
    return False
