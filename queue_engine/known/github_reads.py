"""The one port through which IMQ reads GitHub: it compares each answer with known facts.

An answer that contradicts them raises `StaleRead`: IMQ neither uses nor caches it, and the caller reads again. While
GitHub lags, reads that would show a former state raise `ReadLagError`, and nothing is sent. Facts of IMQ's own writes
are stored here, facts of webhooks with the delivery (`queue_engine.handlers.inbox`).

Configuration is read at the known tip of its branch. Rules that just changed are not cached for a minute. Without lag a
comparison costs no request. A test asserts that wiring hands out no other port.

Where no read was outdated, IMQ reads at once. After an outdated read, the next reads of that kind in that repository
wait until the newest fact is as old as it was when GitHub showed it. That saves the reads at 0 and 1 seconds, and costs
no time, because IMQ would have repeated them. The lag is in memory: each process measures it.

A kind waits at most 8 s, for a quarter of an hour after a stale read. `ReadLagError` is handled like a rate limit: it
holds a job, and is no failure of an entry. IMQ does not read the state after its own merge at all: the pass verifies
the commit in GitHub's answer, and webhooks meanwhile cause no reads.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import structlog

from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Invalid, NotFound, ReadLagError, StaleRead
from queue_engine.domain.facts import (
    Branch,
    BranchRules,
    CheckReport,
    Commit,
    Comparison,
    PullRequest,
    RequiredCheck,
    Review,
    Snapshot,
)
from queue_engine.domain.known_facts import (
    DEFAULT_BRANCH,
    KEPT,
    NAMED,
    RULES,
    SHARED_RULES,
    CheckResult,
    CommitStatus,
    Consent,
    ConversationChange,
    Known,
    KnownName,
    MergeResult,
    OwnLabel,
    PullRequestState,
    Push,
    ReviewChange,
    of_branch,
    of_comment,
    of_commit,
    of_pull,
)
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHubPorts, SnapshotRequest
from queue_engine.known.own_writes import KnownFacts, OwnWrites, remembered_answers
from queue_engine.known.pulls import (
    corrected,
    exists,
    outdated_pull,
    outdated_reports,
    outdated_reviews,
    outdated_snapshot,
    outdated_tip,
    pushes,
    webhooks_since,
)
from queue_engine.store import Store

LONGEST = OUTDATED.maximum
"""The longest wait of a read."""

REMEMBERED = KEPT
"""How long after an outdated read further ones wait. The next read then shows whether GitHub still lags."""

_AWAITED = 1000
"""How many reads may wait before those whose callers never returned are dropped."""

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class ReadKind:
    """Reads with the same lag, and the facts that an outdated one would lack."""

    name: str
    shows: tuple[type, ...]


PULL = ReadKind("pull request", (PullRequestState, OwnLabel, MergeResult))
SNAPSHOT = ReadKind("snapshot", (PullRequestState, OwnLabel, MergeResult, ReviewChange, ConversationChange))
REVIEWS = ReadKind("reviews", (ReviewChange,))
BRANCH_TIP = ReadKind("branch tip", (Push,))
COMPARISON = ReadKind("comparison", (Push,))
COMMIT = ReadKind("commit", (KnownName,))
CHECKS = ReadKind("checks", (CheckResult, CommitStatus))

_Read = tuple[int, ReadKind, str]
"""A repository's id, what is read, and its subject."""


class ReadLag:
    """How far each kind of read lags in each repository, and which reads wait for that."""

    def __init__(self) -> None:
        self._lags: dict[tuple[int, ReadKind], tuple[timedelta, datetime]] = {}
        self._outdated: set[_Read] = set()
        self._awaited: dict[_Read, datetime] = {}

    def of(self, repository_id: int, kind: ReadKind, now: datetime) -> timedelta:
        """Return the known lag of these reads; zero where none was outdated recently."""
        lag, measured_at = self._lags.get((repository_id, kind), (_NONE, now))
        if now - measured_at < REMEMBERED:
            return lag
        del self._lags[repository_id, kind]
        return _NONE

    def wait(
        self, repository_id: int, kind: ReadKind, subject: str, known: Sequence[Known], now: datetime
    ) -> timedelta:
        """Return how long this read has to wait; zero: now. After its wait, newer facts delay it no more."""
        read = (repository_id, kind, subject)
        if (until := self._awaited.get(read)) is None:
            reported_at = _reported_at(kind, known)
            until = now if reported_at is None else reported_at + self.of(repository_id, kind, now)
            if until > now:
                self._record_awaited(read, until, now)
        if until > now:
            return until - now
        self._awaited.pop(read, None)
        return _NONE

    def outdated(self, repository_id: int, kind: ReadKind, subject: str) -> None:
        """Record that this read was outdated."""
        self._outdated.add((repository_id, kind, subject))

    def current(self, repository_id: int, kind: ReadKind, subject: str, known: Sequence[Known], now: datetime) -> None:
        """Record that this read showed all known facts: if it was outdated before, this bounds the lag."""
        if (read := (repository_id, kind, subject)) not in self._outdated:
            return
        self._outdated.discard(read)
        if (reported_at := _reported_at(kind, known)) is not None:
            lag = max(min(now - reported_at, LONGEST), self.of(repository_id, kind, now))
            self._lags[repository_id, kind] = lag, now

    def _record_awaited(self, read: _Read, until: datetime, now: datetime) -> None:
        if len(self._awaited) >= _AWAITED:
            self._awaited = {each: due for each, due in self._awaited.items() if due > now}
            self._outdated.clear()
        self._awaited[read] = until


def _reported_at(kind: ReadKind, known: Sequence[Known]) -> datetime | None:
    """Return when IMQ received the newest fact that this read has to show."""
    return max((one.at for one in known if isinstance(one.statement, kind.shows)), default=None)


_log = structlog.get_logger("imq.known")

T = TypeVar("T")

Contradiction = Callable[[T, Sequence[Known], datetime], str | None]
"""Says why an answer is older than these facts; None if it is not."""


class GitHubReads(OwnWrites):
    """The ports to GitHub, for every part of IMQ but the gateway itself."""

    def __init__(self, github: GitHubPorts, store: Store, clock: Clock, *, meter: Meter | None = None) -> None:
        super().__init__(github, KnownFacts(store, clock))
        self._store = store
        self._clock = clock
        self._meter = meter or NullMeter()
        self._lag = ReadLag()

    async def pull_request(self, repository: Repository, number: int) -> PullRequest:
        """Compare state, head and labels, and add the recent webhooks."""
        ask, subject = partial(self._github.pull_request, repository, number), of_pull(number)
        pull, known = await self._with_facts(repository, subject, ask, outdated_pull, PULL)
        return replace(pull, reported=await self._webhooks_since(known.get(subject, ())))

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        """Compare the pull request's state, head, labels and reviews, and the tip of its base."""
        ask = partial(self._github.snapshot, repository, number, login=login, head_sha=head_sha)
        taken, known = await self._with_facts(repository, of_pull(number), ask, outdated_snapshot, SNAPSHOT, also=_base)
        return await self._with_webhooks(repository, taken, known)

    async def snapshots(self, repository: Repository, requests: Sequence[SnapshotRequest]) -> Mapping[int, Snapshot]:
        """Compare each as `snapshot` does, and leave out those that are outdated, or would be."""
        asked = [one for one in requests if not await self._early(repository, SNAPSHOT, of_pull(one.number))]
        current: dict[int, Snapshot] = {}
        for number, taken in (await self._github.snapshots(repository, asked)).items():
            subject = of_pull(number)
            facts, now = await self._facts.about(repository.id, {subject, _base(taken)}), self._clock.now()
            known = facts.get(subject, ())
            if why := outdated_snapshot(taken, known, now):
                self._outdated(repository, subject, why, SNAPSHOT)
                continue
            self._lag.current(repository.id, SNAPSHOT, subject, known, now)
            with suppress(StaleRead):
                current[number] = await self._with_webhooks(repository, taken, facts)
        return current

    async def latest_pull_requests(self, repository: Repository) -> tuple[PullRequest, ...]:
        """Correct outdated pull requests, and leave out those that are known to be closed."""
        listed = await self._github.latest_pull_requests(repository)
        subjects = {of_pull(pull.number) for pull in listed}
        known, now = await self._facts.about(repository.id, subjects), self._clock.now()
        pulls = (corrected(pull, known.get(of_pull(pull.number), ()), now) for pull in listed)
        return tuple(pull for pull in pulls if pull is not None)

    async def comparison(self, repository: Repository, base_branch: str, head_sha: str) -> Comparison:
        ask = partial(self._github.comparison, repository, base_branch, head_sha)
        return await self._compared(
            repository,
            of_branch(base_branch),
            ask,
            lambda answer, known, now: outdated_tip(base_branch, answer.base_tip, known, now),
            COMPARISON,
            named=(of_branch(base_branch), of_commit(head_sha)),
        )

    async def changed_paths(self, repository: Repository, base: str, before: str, after: str) -> frozenset[str] | None:
        """Read what never changes; a new tip may be missing."""
        ask = partial(self._github.changed_paths, repository, base, before, after)
        return await self._compared(repository, of_branch(base), ask, _never)

    async def paths_of_head(self, repository: Repository, base: str, tip: str, head_sha: str) -> frozenset[str] | None:
        """Read what never changes; a new tip, or head, may be missing."""
        ask = partial(self._github.paths_of_head, repository, base, tip, head_sha)
        return await self._compared(repository, of_branch(base), ask, _never)

    async def differing_paths(self, repository: Repository, tree: str, landed: Commit) -> frozenset[str] | None:
        """Read what never changes; the tree of a new commit may be missing."""
        ask = partial(self._github.differing_paths, repository, tree, landed)
        return await self._compared(repository, of_commit(landed.sha), ask, _never)

    async def branch_tip(self, repository: Repository, branch: str) -> Branch | None:
        """Compare the branch's tip; no tip is outdated if the branch was just pushed to."""

        def outdated(answer: Branch | None, known: Sequence[Known], now: datetime) -> str | None:
            if answer is not None:
                return outdated_tip(branch, answer.sha, known, now)
            pushed = pushes([one for one in known if now - one.at < NAMED], now)
            return f"the branch {branch} is known to exist" if exists(pushed) else None

        ask = partial(self._github.branch_tip, repository, branch)
        return await self._compared(repository, of_branch(branch), ask, outdated, BRANCH_TIP)

    async def commit(self, repository: Repository, sha: str) -> Commit:
        """Read a commit, which never changes; a new one may be missing."""
        ask = partial(self._github.commit, repository, sha)
        return await self._compared(repository, of_commit(sha), ask, _never, COMMIT)

    async def branch_rules(self, repository: Repository, base_branch: str, *, kept: bool = False) -> BranchRules:
        """Read rules; soon after they changed, what was read is `kept` for seconds, as nothing in it shows a lag."""
        changed = (await self._facts.about(repository.id, {RULES})).get(RULES, ())
        lag = any(self._clock.now() - one.at < NAMED for one in changed)
        if lag and not kept:
            self._github.forget_rules(repository.id)
        ask = partial(self._github.branch_rules, repository, base_branch)
        rules = await self._compared(repository, of_branch(base_branch), ask, _never)
        if lag:
            self._github.expire_rules(repository.id)
        return rules

    async def check_reports(
        self, repository: Repository, sha: str, required: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """Compare the known results of checks."""
        ask = partial(self._github.check_reports, repository, sha, required)
        return await self._compared(
            repository,
            of_commit(sha),
            ask,
            lambda answer, known, now: outdated_reports(answer, required, known, now),
            CHECKS,
        )

    async def reviews(self, repository: Repository, number: int) -> tuple[Review, ...]:
        """Compare the reviews of the last seconds."""
        ask = partial(self._github.reviews, repository, number)
        return await self._compared(repository, of_pull(number), ask, outdated_reviews, REVIEWS)

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        """Read at the known tip of the branch, of which no replica has another version."""
        subject = DEFAULT_BRANCH if base_branch is None else of_branch(base_branch)
        tip = await self._facts.tip(repository.id, subject)
        ask = partial(self._github.configuration, repository, tip or base_branch)
        try:
            return await self._compared(repository, subject, ask, _never)
        except NotFound:
            # There is no such branch.
            return None

    async def configurations(
        self, repositories: Sequence[Repository], tips: Mapping[int, str] = MappingProxyType({})
    ) -> Mapping[int, str | None]:
        """Read at the known tips: a replica that lacks one shows no file."""
        known = {each.id: await self._facts.tip(each.id, DEFAULT_BRANCH) for each in repositories}
        tips = {each: tip for each, tip in known.items() if tip is not None}
        return await self._github.configurations(repositories, tips)

    async def organisation_configuration(self, repository: Repository, commit: str | None = None) -> str | None:
        """Read at the known tip of the owner's repository `.github`, if IMQ knows that repository."""
        shared = await self._store.read(lambda tx: tx.repositories.named(repository.owner, SHARED_RULES))
        if shared is None:
            return await self._github.organisation_configuration(repository, commit)
        tip = commit or await self._facts.tip(shared.id, DEFAULT_BRANCH)
        ask = partial(self._github.organisation_configuration, repository, tip)
        try:
            return await self._compared(shared, DEFAULT_BRANCH, ask, _never)
        except NotFound:
            return None

    async def react(self, repository: Repository, comment_id: int, content: str) -> None:
        """React to a comment; a new comment may be missing."""
        ask = partial(self._github.react, repository, comment_id, content)
        await self._compared(repository, of_comment(comment_id), ask, _never)

    async def _compared(
        self,
        repository: Repository,
        subject: str,
        ask: Callable[[], Awaitable[T]],
        outdated: Contradiction[T],
        kind: ReadKind | None = None,
        *,
        named: Collection[str] = (),
    ) -> T:
        """Read, and compare the answer with known facts. Raises what `_with_facts` does."""
        answer, _ = await self._with_facts(repository, subject, ask, outdated, kind, named=named)
        return answer

    async def _with_facts(
        self,
        repository: Repository,
        subject: str,
        ask: Callable[[], Awaitable[T]],
        outdated: Contradiction[T],
        kind: ReadKind | None = None,
        *,
        named: Collection[str] = (),
        also: Callable[[T], str] | None = None,
    ) -> tuple[T, Mapping[str, Sequence[Known]]]:
        """Read, compare the answer with known facts, and return these, too.

        `named` are further subjects that a 404 may be about; `also` names another one of which facts are loaded. Raises
        StaleRead for a contradiction, and ReadLagError where reads of this kind lag so far that there would be one.
        """
        if kind is not None and (wait := await self._early(repository, kind, subject)):
            raise ReadLagError(f"GitHub does not show yet what a webhook reported of {subject}", retry_after=wait)
        names_new = partial(self._facts.names_new, repository.id, {*named, subject})
        with remembered_answers(names_new) as answers:
            try:
                answer = await ask()
            except (NotFound, Invalid) as missing:
                if _is_missing(missing) and await names_new():
                    words = f"just named, not found: {missing.message}"
                    raise self._outdated(repository, subject, words, kind) from missing
                raise
        if outdated is _never and kind is None:
            return answer, {}
        subjects = {subject} if also is None else {subject, also(answer)}
        facts, now = await self._facts.about(repository.id, subjects), self._clock.now()
        known = facts.get(subject, ())
        why = outdated(answer, known, now)
        if why is None:
            if kind is not None:
                self._lag.current(repository.id, kind, subject, known, now)
            return answer, facts
        for forget in answers:
            forget()
        raise self._outdated(repository, subject, why, kind)

    async def _webhooks_since(self, known: Sequence[Known]) -> tuple[PullRequestState | Consent, ...]:
        """Return the webhooks' facts of a pull request until now, without IMQ's own removals of labels."""
        states = webhooks_since(known, self._clock.now())
        removals = [one for one in states if isinstance(one, PullRequestState) and one.removed_label is not None]
        if not removals:
            return states
        own = await self._github.own_login()
        return tuple(one for one in states if not (one in removals and one.by == own))

    async def _with_webhooks(
        self, repository: Repository, taken: Snapshot, known: Mapping[str, Sequence[Known]]
    ) -> Snapshot:
        """Add the recent webhooks. Raises StaleRead for an older tip of the base branch than a known one."""
        pull, tip, base, now = taken.pull, taken.base_tip, _base(taken), self._clock.now()
        if tip is not None and (why := outdated_tip(pull.base_branch, tip, known.get(base, ()), now)):
            raise self._outdated(repository, base, why)
        reported = await self._webhooks_since(known.get(of_pull(pull.number), ()))
        return replace(taken, pull=replace(pull, reported=reported))

    async def _early(self, repository: Repository, kind: ReadKind, subject: str) -> timedelta:
        """Return how long GitHub would still show a former state, by its recent lag."""
        now = self._clock.now()
        if not self._lag.of(repository.id, kind, now):
            return timedelta(0)
        known = (await self._facts.about(repository.id, {subject})).get(subject, ())
        return self._lag.wait(repository.id, kind, subject, known, now)

    def _outdated(self, repository: Repository, subject: str, why: str, kind: ReadKind | None = None) -> StaleRead:
        if kind is not None:
            self._lag.outdated(repository.id, kind, subject)
        _log.info("outdated_read", repository=repository.full_name, subject=subject, why=why)
        self._meter.count("outdated_reads", of=subject.partition(" ")[0])
        return StaleRead(f"GitHub's answer is older than a known fact: {why}")


def _base(taken: Snapshot) -> str:
    return of_branch(taken.pull.base_branch)


def _never(answer: object, known: Sequence[Known], now: datetime) -> None:
    """Find no contradiction: no known fact concerns this answer."""


def _is_missing(refusal: NotFound | Invalid) -> bool:
    """Return whether GitHub does not know the object: for a commit it answers 422 (homu #141)."""
    return isinstance(refusal, NotFound) or refusal.message.startswith("No commit found for SHA")
