"""The one port through which IMQ reads GitHub: it compares each answer with known facts.

An answer that contradicts it raises `StaleRead`: it is neither judged nor remembered, and the caller asks again.
While GitHub is seen to lag, reads that would show what was there before raise `ReadLagError`, and nothing is sent. What
IMQ's own writes tell is stored here. What webhooks tell is stored with the delivery (`queue_engine.handlers.inbox`).

Configuration is read at the commit that is known to be its branch's tip. Rules that just changed are not remembered
for a minute. Where nothing lags, comparing costs no request. A test holds that wiring hands out no other port.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import structlog

from queue_engine.core.observability.meter import Meter, NullMeter
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Invalid, NotFound, ReadLagError, StaleRead
from queue_engine.domain.facts import (
    Branch,
    BranchRules,
    CheckReport,
    Commit,
    Comparison,
    MergeMethod,
    PullRequest,
    RequiredCheck,
    Review,
    Snapshot,
)
from queue_engine.domain.known_facts import (
    DEFAULT_BRANCH,
    NAMED,
    RULES,
    SHARED_RULES,
    Consent,
    Known,
    KnownName,
    MergeResult,
    OwnLabel,
    PullRequestState,
    of_branch,
    of_comment,
    of_commit,
    of_pull,
)
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHubPorts
from queue_engine.known.branches import exists, outdated_tip, pushes
from queue_engine.known.cached import remembered_answers
from queue_engine.known.checks import outdated_reports
from queue_engine.known.facts import KnownFacts
from queue_engine.known.forwarding import Forwarding
from queue_engine.known.lag import (
    BRANCH_TIP,
    CHECKS,
    COMMIT,
    COMPARISON,
    PULL,
    REVIEWS,
    SNAPSHOT,
    ReadKind,
    ReadLag,
)
from queue_engine.known.pulls import corrected, outdated_pull, outdated_snapshot, webhooks_since
from queue_engine.known.reviews import outdated_reviews
from queue_engine.store import Store

_log = structlog.get_logger("imq.known")

T = TypeVar("T")

Contradiction = Callable[[T, Sequence[Known], datetime], str | None]
"""Why an answer is older than these facts; None if nothing speaks against it."""


class GitHubReads(Forwarding):
    """Both ports to GitHub, as every part of IMQ but the gateway itself gets them."""

    def __init__(self, github: GitHubPorts, store: Store, clock: Clock, *, meter: Meter | None = None) -> None:
        super().__init__(github)
        self._store = store
        self._facts = KnownFacts(store, clock)
        self._clock = clock
        self._meter = meter or NullMeter()
        self._lag = ReadLag()

    async def pull_request(self, repository: Repository, number: int) -> PullRequest:
        """Compared with its state, head and labels; with its webhooks."""
        ask = partial(self._github.pull_request, repository, number)
        pull = await self._compared(repository, of_pull(number), ask, outdated_pull, PULL)
        return replace(pull, reported=await self._webhooks_since(repository, number))

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        """Compared with the pull request's state, head, labels and reviews, and with the tip of its base."""
        ask = partial(self._github.snapshot, repository, number, login=login, head_sha=head_sha)
        taken = await self._compared(repository, of_pull(number), ask, outdated_snapshot, SNAPSHOT)
        if taken.base_tip is not None:
            base = of_branch(taken.pull.base_branch)
            known = (await self._facts.about(repository.id, {base})).get(base, ())
            if why := outdated_tip(taken.pull.base_branch, taken.base_tip, known, self._clock.now()):
                raise self._outdated(repository, base, why)
        return replace(taken, pull=replace(taken.pull, reported=await self._webhooks_since(repository, number)))

    async def latest_pull_requests(self, repository: Repository) -> tuple[PullRequest, ...]:
        """What is outdated is corrected; what is known to be closed is left out."""
        listed = await self._github.latest_pull_requests(repository)
        subjects = {of_pull(pull.number) for pull in listed}
        known, now = await self._facts.about(repository.id, subjects), self._clock.now()
        pulls = (corrected(pull, known.get(of_pull(pull.number), ()), now) for pull in listed)
        return tuple(pull for pull in pulls if pull is not None)

    async def comparison(self, repository: Repository, base_branch: str, head_sha: str) -> Comparison:
        """Compared with the base's tip."""
        ask = partial(self._github.comparison, repository, base_branch, head_sha)
        return await self._compared(
            repository,
            of_branch(base_branch),
            ask,
            lambda answer, known, now: outdated_tip(base_branch, answer.base_tip, known, now),
            COMPARISON,
            named=(of_branch(base_branch), of_commit(head_sha)),
        )

    async def branch_tip(self, repository: Repository, branch: str) -> Branch | None:
        """Compared with the branch's tip; none is outdated if the branch was just pushed to."""

        def outdated(answer: Branch | None, known: Sequence[Known], now: datetime) -> str | None:
            if answer is not None:
                return outdated_tip(branch, answer.sha, known, now)
            pushed = pushes([one for one in known if now - one.at < NAMED], now)
            return f"the branch {branch} is known to exist" if exists(pushed) else None

        ask = partial(self._github.branch_tip, repository, branch)
        return await self._compared(repository, of_branch(branch), ask, outdated, BRANCH_TIP)

    async def commit(self, repository: Repository, sha: str) -> Commit:
        """A commit never changes; one that was just named may be missing."""
        ask = partial(self._github.commit, repository, sha)
        return await self._compared(repository, of_commit(sha), ask, _never, COMMIT)

    async def branch_rules(self, repository: Repository, base_branch: str) -> BranchRules:
        """Rules read soon after they changed may be those of before, and are not remembered."""
        ask = partial(self._github.branch_rules, repository, base_branch)
        rules = await self._compared(repository, of_branch(base_branch), ask, _never)
        changed = (await self._facts.about(repository.id, {RULES})).get(RULES, ())
        if any(self._clock.now() - one.at < NAMED for one in changed):
            self._github.forget_rules(repository.id)
        return rules

    async def check_reports(
        self, repository: Repository, sha: str, required: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """Compared with the checks that are known to have ended."""
        ask = partial(self._github.check_reports, repository, sha, required)
        return await self._compared(
            repository,
            of_commit(sha),
            ask,
            lambda answer, known, now: outdated_reports(answer, required, known, now),
            CHECKS,
        )

    async def reviews(self, repository: Repository, number: int) -> tuple[Review, ...]:
        """Compared with the reviews of the last seconds."""
        ask = partial(self._github.reviews, repository, number)
        return await self._compared(repository, of_pull(number), ask, outdated_reviews, REVIEWS)

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        """Read at the commit that is known to be the branch's tip, which no replica can show as it was before."""
        subject = DEFAULT_BRANCH if base_branch is None else of_branch(base_branch)
        tip = await self._facts.tip(repository.id, subject)
        ask = partial(self._github.configuration, repository, tip or base_branch)
        try:
            return await self._compared(repository, subject, ask, _never)
        except NotFound:
            # There is no such branch.
            return None

    async def organisation_configuration(self, repository: Repository, commit: str | None = None) -> str | None:
        """The same for the owner's repository, if IMQ has seen it."""
        async with self._store.reading() as tx:
            shared = await tx.queues.repository(repository.owner, SHARED_RULES)
        if shared is None:
            return await self._github.organisation_configuration(repository, commit)
        tip = commit or await self._facts.tip(shared.id, DEFAULT_BRANCH)
        ask = partial(self._github.organisation_configuration, repository, tip)
        try:
            return await self._compared(shared, DEFAULT_BRANCH, ask, _never)
        except NotFound:
            return None

    async def react(self, repository: Repository, comment_id: int, content: str) -> None:
        """A comment that was just written may be missing."""
        ask = partial(self._github.react, repository, comment_id, content)
        await self._compared(repository, of_comment(comment_id), ask, _never)

    async def merge(
        self,
        repository: Repository,
        number: int,
        head_sha: str,
        method: MergeMethod,
        *,
        title: str | None = None,
        body: str | None = None,
    ) -> str:
        """Once GitHub has answered, the pull request is known to be merged."""
        landed = await self._github.merge(repository, number, head_sha, method, title=title, body=body)
        await self._facts.record(
            repository.id, {of_pull(number): MergeResult(sha=landed), of_commit(landed): KnownName()}
        )
        return landed

    async def add_label(self, repository: Repository, number: int, label: str) -> None:
        """Once GitHub has answered, the label is known to be set."""
        await self._github.add_label(repository, number, label)
        await self._facts.record(repository.id, {of_pull(number): OwnLabel(label=label, label_set=True)})

    async def remove_label(self, repository: Repository, number: int, label: str) -> None:
        """Once GitHub has answered, the label is known to be gone."""
        await self._github.remove_label(repository, number, label)
        await self._facts.record(repository.id, {of_pull(number): OwnLabel(label=label, label_set=False)})

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
        """The answer, unless it contradicts what is known when it has come. Raises StaleRead, and ReadLagError where
        reads of this kind lag so far that it would.

        `named` are the subjects that a 404 may be about, if there are more than this one.
        """
        if kind is not None and (wait := await self._early(repository, kind, subject)):
            raise ReadLagError(f"GitHub does not show yet what it told of {subject}", retry_after=wait)
        with remembered_answers() as answers:
            try:
                answer = await ask()
            except (NotFound, Invalid) as missing:
                if _is_missing(missing) and await self._facts.names_new(repository.id, set(named) | {subject}):
                    words = f"just named, not found: {missing.message}"
                    raise self._outdated(repository, subject, words, kind) from missing
                raise
        if outdated is _never and kind is None:
            return answer
        known = (await self._facts.about(repository.id, {subject})).get(subject, ())
        now = self._clock.now()
        why = outdated(answer, known, now)
        if why is None:
            if kind is not None:
                self._lag.current(repository.id, kind, subject, known, now)
            return answer
        for forget in answers:
            forget()
        raise self._outdated(repository, subject, why, kind)

    async def _webhooks_since(self, repository: Repository, number: int) -> tuple[PullRequestState | Consent, ...]:
        """Return the webhooks' facts of a pull request until now, without the labels that IMQ itself took off."""
        subject = of_pull(number)
        told = webhooks_since((await self._facts.about(repository.id, {subject})).get(subject, ()), self._clock.now())
        removals = [one for one in told if isinstance(one, PullRequestState) and one.removed_label is not None]
        if not removals:
            return told
        own = await self._github.own_login()
        return tuple(one for one in told if not (one in removals and one.by == own))

    async def _early(self, repository: Repository, kind: ReadKind, subject: str) -> timedelta:
        """How long GitHub would still show what was there before, by how far it lagged of late."""
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
        return StaleRead(f"GitHub's answer is older than what it told before: {why}")


def _never(answer: object, known: Sequence[Known], now: datetime) -> None:
    """Nothing that is known can contradict this answer."""


def _is_missing(refusal: NotFound | Invalid) -> bool:
    """Whether GitHub does not know what it was asked about: of a commit it says so with 422 (homu #141)."""
    return isinstance(refusal, NotFound) or refusal.message.startswith("No commit found for SHA")
