"""One pass over one queue: decide, store, act, again, until there is nothing to do but wait.

The pass never sleeps: waiting is a due time in the database. Every state change is a compare-and-set; who loses one
reads again and decides again. Intent is stored before each call that changes something on GitHub, so that a process
killed in between leaves a state from which the next one asks GitHub what happened before it acts (P2).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine import asking
from queue_engine.actions import BaseIsRed, Block, Confirm, Fact, Leave, Look, Merge, Rerun, Save, Seen, Update, Wait
from queue_engine.check_limits import few, waits_for_start
from queue_engine.core import trace
from queue_engine.core.urgency import working
from queue_engine.decide import decide
from queue_engine.engine import Engine
from queue_engine.errors import (
    Forbidden,
    GitHubError,
    NotFound,
    OutdatedRead,
    RateLimited,
    StaleVersion,
    TooEarly,
)
from queue_engine.facts import CheckReport, MergeMethod
from queue_engine.keeping import Checks, Keeper
from queue_engine.landing import land, land_elsewhere
from queue_engine.model import Entry, Queue, RedBase, Stall
from queue_engine.own_merges import answered_merge, merged_by_imq, note_asked
from queue_engine.pass_errors import PassFailed
from queue_engine.policy import Policy
from queue_engine.reasons import REASONS, Outcome, Reason
from queue_engine.repositories import named_by, remember_name
from queue_engine.trouble import endured, lasts, later, longest_wait
from queue_engine.turn import Rest, turn
from queue_engine.verdicts import rerun_answered
from queue_engine.wish import as_wished, queued_since

_log = structlog.get_logger("imq.advance")

_STEPS = 200
"""More steps than any real pass needs; a pass that reaches it goes on at the next tick, so that it starves nobody."""


_OF_PULL = frozenset({Fact.PULL, Fact.SNAPSHOT})
"""What tells how the pull request itself is."""


class LeaseLost(Exception):
    """Somebody else holds this queue now; the pass ends without another step."""


async def advance(engine: Engine, queue: Queue, held: Callable[[], bool]) -> datetime | None:
    """Advance a leased queue as far as it goes; returns when to look again, None if it is empty or stands still.

    `held` says whether the lease still stands. Raises LeaseLost when it is not.
    """
    try:
        policy = await engine.policies.of(queue.repository, queue.base_branch)
    except GitHubError as error:
        return await _Pass(engine, queue, held, Policy()).endure(error)
    return await _Pass(engine, queue, held, policy).run()


class _Pass:
    def __init__(self, engine: Engine, queue: Queue, held: Callable[[], bool], policy: Policy) -> None:
        self._engine = engine
        self._queue = queue
        self._held = held
        self._seen = Seen()
        self._seen_for: tuple[str, int] | None = None
        """The front, by id and version, that the facts in `_seen` were read for."""
        self._depth = 0
        self._stall: Stall | None = None
        self._policy = policy
        self._keeper = Keeper(engine, policy)

    async def run(self) -> datetime | None:
        told: str | None = None
        with ExitStack() as story:
            for _ in range(_STEPS):
                if not self._held():
                    raise LeaseLost(self._queue.repository.full_name)
                entry = await self._front()
                if isinstance(entry, Rest):
                    return entry.until
                if entry.id != told:
                    story.close()
                    story.enter_context(_story_of(entry))
                    told = entry.id
                try:
                    with working(again=longest_wait(entry)):
                        due = await self._step(entry)
                except StaleVersion:
                    self._seen = Seen()
                    continue
                except Exception as error:
                    raise PassFailed(entry) from error
                if due is not None:
                    return due
        return self._engine.clock.now()

    async def endure(self, error: GitHubError) -> datetime | None:
        """The repository's own rules cannot be read: its queue waits for GitHub as for any other answer."""
        found = await turn(self._engine, self._queue.id, None)
        if isinstance(found, Rest):
            return found.until
        try:
            return await self._trouble(found.entry, error, looked_at_pull=True)
        except StaleVersion:
            return self._engine.clock.now()

    async def _front(self) -> Entry | Rest:
        """The entry to work on, or how long there is none."""
        found = await turn(self._engine, self._queue.id, self._policy)
        if isinstance(found, Rest):
            return found
        front, self._depth = found.entry, found.depth
        if (front.id, front.version) != self._seen_for:
            # A hint came, or another front: facts read before it may be older than what it tells of.
            self._seen, self._seen_for = Seen(), (front.id, front.version)
        self._stall = found.stall
        self._seen = replace(self._seen, ci_seen_at=found.stall.ci_seen_at if found.stall else None)
        return front

    async def _step(self, entry: Entry) -> datetime | None:
        """Take one action; returns when to look again if it was to wait."""
        if entry.merge_requested_at is not None:
            async with self._engine.store.reading() as tx:
                landed = await answered_merge(tx, entry, self._engine.clock.now())
            self._seen = replace(self._seen, landed_sha=landed)
        action = decide(entry, self._seen, self._policy, self._engine.clock.now())
        match action:
            case Look(fact):
                return await self._look(entry, fact)
            case Save(changed, ended):
                await self._save(entry, changed, ended=ended)
                return None
            case Wait(changed, until, pending, not_starting):
                settled = replace(changed, trouble=0, trouble_since=None)
                if settled != entry:
                    over = lasts(entry, self._engine.clock.now())
                    tell = over or settled.awaited_checks != entry.awaited_checks
                    await self._save(entry, settled, tell=tell, checks=pending)
                return await self._note_stall(changed, not_starting) or until
            case Update(changed):
                return await self._update(entry, changed)
            case Merge(changed):
                return await self._merge(await self._save(entry, changed), action)
            case Confirm(sha):
                return await self._confirm(entry, sha)
            case Leave(reason, detail, checks):
                return await self._leave(entry, reason, detail, checks)
            case Block(changed, reason, words):
                await self._keeper.block(entry, changed, reason, words)
                return None
            case Rerun(changed, failed):
                return await self._rerun(await self._save(entry, changed), failed)
            case BaseIsRed(changed, check, tip):
                return await self._wait_for_base(await self._save(entry, changed), check, tip)

    async def _save(
        self, entry: Entry, changed: Entry, *, tell: bool = False, checks: Checks = (), ended: datetime | None = None
    ) -> Entry:
        saved = await self._keeper.save(entry, changed, depth=self._depth, tell=tell, checks=checks, ended=ended)
        self._seen_for = (saved.id, saved.version)
        return saved

    async def _look(self, entry: Entry, fact: Fact) -> datetime | None:
        github = self._engine.github
        try:
            seen = await asking.look(github, entry, fact, self._seen, self._policy)
            if seen.pull is not None and seen.pull is not self._seen.pull:
                if (named := named_by(seen.pull, entry.repository)) != entry.repository:
                    await remember_name(self._engine, named)
                    return None
                store, repository, since = self._engine.store, entry.repository, queued_since(entry)
                pull = await as_wished(github, store, repository, seen.pull, entry.vouched, self._policy, since=since)
                seen = replace(seen, pull=pull)
            self._seen = seen
        except GitHubError as error:
            return await self._trouble(entry, error, looked_at_pull=fact in _OF_PULL)
        return None

    async def _update(self, entry: Entry, changed: Entry) -> datetime | None:
        saved = await self._save(entry, changed)
        self._seen = Seen()
        try:
            self._seen = await asking.update(self._engine.github, saved)
        except RateLimited as limited:
            # Nothing was asked for: the time that GitHub may take for an update begins with the next try.
            due = later(limited, self._engine.clock.now())
            await self._save(saved, replace(saved, status_since=due, recheck=0, recheck_at=due))
            return due
        except GitHubError as error:
            return await self._trouble(saved, error)
        return None

    async def _merge(self, entry: Entry, how: Merge) -> datetime | None:
        refused, self._seen = self._seen.refused_methods, Seen()
        await self._note_asked(entry, entry.head)
        try:
            answer = await asking.merge(self._engine.github, entry, how, refused)
        except RateLimited as limited:
            # Nothing was done, so nothing is in doubt.
            await self._note_asked(entry, None)
            await self._save(entry, replace(entry, merge_requested_at=None))
            return later(limited, self._engine.clock.now())
        except GitHubError as error:
            return await self._trouble(entry, error)
        if isinstance(answer, str):
            return await self._confirm(entry, answer, squashed=how.method is MergeMethod.SQUASH)
        await self._note_asked(entry, None)
        self._seen = answer
        if answer.merge_denied is None:
            since = entry.refused_since or self._engine.clock.now()
            await self._save(entry, replace(entry, refusals=entry.refusals + 1, refused_since=since))
        return None

    async def _note_asked(self, entry: Entry, head: str | None) -> None:
        async with self._engine.store.transaction() as tx:
            await note_asked(tx, entry, head, self._engine.clock.now())

    async def _rerun(self, entry: Entry, failed: Checks) -> datetime | None:
        self._seen = Seen()
        try:
            words = await asking.rerun(self._engine.github, entry, failed)
        except GitHubError as error:
            return await self._trouble(entry, error)
        if words is not None:
            _log.info("no_rerun", number=entry.number, message=words)
        answered = rerun_answered(entry, failed, words, self._policy, self._engine.clock.now())
        await self._save(entry, answered, tell=words is None)
        return None

    async def _wait_for_base(self, entry: Entry, check: CheckReport, tip: str) -> datetime | None:
        """The base itself does not pass: the queue knows, and lets only what mends it through."""
        now = self._engine.clock.now()
        async with self._engine.change() as change:
            # What Actions reported there is run again, once, by the first look.
            later = now if check.by_actions and self._policy.check_reruns else now + self._policy.ask_again.maximum
            red = RedBase(check.name, tip, now, 0, later, check.app_id)
            await change.tx.red_bases.note(self._queue.id, red)
        return now

    async def _note_stall(self, entry: Entry, not_starting: tuple[str, ...]) -> datetime | None:
        """Store that no check starts for the front. The next look, at once, tells that, or that one did start."""
        now = self._engine.clock.now()
        if self._stall is not None:
            return None if waits_for_start(entry, self._stall.head) else now
        if not not_starting:
            return None
        async with self._engine.change() as change:
            await change.tx.stalls.note(self._queue.id, Stall(now, entry.head, few(not_starting)))
        return now

    async def _confirm(self, entry: Entry, sha: str | None, *, squashed: bool = False) -> datetime | None:
        github = self._engine.github
        try:
            if sha is None:
                compared = await github.comparison(entry.repository, entry.base_branch, entry.head)
                sha = compared.base_tip
            landed = await github.commit(entry.repository, sha)
            branch = await asking.landed_on(github, entry, landed, self._seen)
        except GitHubError as error:
            return await self._trouble(entry, error, looked_at_pull=True)
        if branch != entry.base_branch:
            await land_elsewhere(self._engine, entry, landed, branch, self._policy)
            return None
        await land(self._engine, self._queue, entry, landed, self._policy, squashed=squashed)
        return None

    async def _leave(self, entry: Entry, reason: Reason, detail: str | None, checks: Checks = ()) -> datetime | None:
        """Dismiss the entry; before a fault is laid at somebody's door, the pull request is read once more."""
        pull, now = self._seen.pull, self._engine.clock.now()
        if reason is Reason.MERGED_ELSEWHERE:
            async with self._engine.store.reading() as tx:
                own = await merged_by_imq(tx, entry, now)
            if own:
                await self._save(entry, replace(entry, merge_requested_at=now))
                return None
        if pull is None and REASONS[reason].outcome is Outcome.FAILED and reason not in _UNREADABLE:
            return await self._look(entry, Fact.PULL)
        await self._keeper.dismiss(entry, reason, pull, detail=detail, checks=checks)
        return None

    async def _trouble(self, entry: Entry, error: GitHubError, *, looked_at_pull: bool = False) -> datetime | None:
        """GitHub did not answer as it should: wait within bounds, or find out whose fault it is."""
        if not isinstance(error, OutdatedRead | TooEarly):
            _log.warning("github_error", number=entry.number, error=type(error).__name__, message=error.message)
        if isinstance(error, NotFound | Forbidden):
            if looked_at_pull or self._seen.pull is not None:
                return await self._leave(entry, Reason.PERMISSION_MISSING, error.message)
            await self._save(entry, replace(entry, suspect=True))
            return None
        match endured(entry, error, self._policy, self._engine.clock.now(), self._engine.random):
            case Leave(reason, detail):
                return await self._leave(entry, reason, detail)
            case Wait(changed, until):
                if changed != entry:
                    saved = await self._keeper.wait_out(changed, until, depth=self._depth)
                    self._seen_for = (saved.id, saved.version)
                return until


@contextmanager
def _story_of(entry: Entry) -> Iterator[None]:
    """Whatever is done for an entry belongs to the delivery, or the call, that queued it."""
    delivery = {} if entry.delivery is None else {"delivery": entry.delivery}
    with trace.continued(entry.trace, "pass"), structlog.contextvars.bound_contextvars(**delivery):
        try:
            yield
        except Exception as error:
            # Whoever logs it stands outside of the story.
            error.add_note(f"#{entry.number}, delivery {entry.delivery}, trace {trace.ids()['trace_id']}")
            raise


_UNREADABLE = frozenset({Reason.GITHUB_TROUBLE, Reason.PERMISSION_MISSING})
"""Reasons found while GitHub does not let the pull request be read: no use in asking again."""
