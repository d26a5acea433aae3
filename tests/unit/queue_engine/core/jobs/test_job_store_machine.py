"""The job store under any sequence of operations, against cards that a person would keep by hand."""

import asyncio
from collections.abc import Awaitable
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.dead_letters import DeadLetters
from queue_engine.core.jobs.job import POISON_DEATHS, LeaseLost
from queue_engine.core.jobs.job_store import Jobs
from tests.unit.queue_engine.core.jobs.job_cards import FINISHED, LEASE, Buried, Card, JobCards, deaths

PROCESSES = st.sampled_from(["p", "q", "r"])
PRIORITIES = st.integers(-1, 1)
WAITS = st.sampled_from([timedelta(0), timedelta(seconds=10), LEASE])
Arrival = tuple[str, int, timedelta]
ARRIVALS = st.lists(st.tuples(PROCESSES, PRIORITIES, WAITS), min_size=1, max_size=4)

SETTINGS = settings(
    max_examples=5,
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    # A failing sequence is reported as it was found: to shorten it on a database takes minutes.
    phases=[Phase.generate],
)


class JobMachine(JobCards):
    """Workers act on the store, and each act is noted on the cards."""

    @initialize(arrivals=ARRIVALS)
    def begin(self, arrivals: list[Arrival]) -> None:
        """There is work from the first."""
        self._arrive(arrivals)

    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        """Anything that may happen now. One rule for all: Hypothesis leaves whole rules out of most of its runs."""
        actions = [self._enqueue_some, *[self._claim] * 4]
        if self.held:
            actions += [self._renew, self._finish, self._end, self._retry, self._hold, self._bury]
        if self.dead:
            actions += [self._reprocess, self._reprocess_all, self._discard]
        if any(card.status in FINISHED for card in self.cards):
            actions += [self._take_results]
        if any(card.status == "IN_PROGRESS" for card in self.cards):
            actions += [self._start_again]
        data.draw(st.sampled_from(actions))(data)

    def _enqueue_some(self, data: st.DataObject) -> None:
        """Jobs come, due now or later."""
        self._arrive(data.draw(ARRIVALS))

    def _arrive(self, arrivals: list[Arrival]) -> None:
        for process, priority, wait in arrivals:
            self._enqueue(process, priority, self.now + wait)

    def _enqueue(self, process: str, priority: int, due: datetime) -> None:
        job_id = self._jobs(
            lambda store: store.enqueue(
                kind="k", request={}, process_id=process, now=self.now, not_before=due, priority=priority
            )
        )
        self.cards.append(Card(next(self._lives), job_id, process, priority, due))

    def _claim(self, data: st.DataObject) -> None:
        """A worker takes what is next; from the dead as well, and that counts as a death."""
        owner, limit = data.draw(st.sampled_from("ab")), data.draw(st.integers(1, 3))
        poison = data.draw(st.booleans())
        self.now += data.draw(WAITS)
        claimed = list(
            self._jobs(lambda store: store.claim_some(limit, owner=owner, now=self.now, lease=LEASE, poison=poison))
        )
        taken = self._take(self._of(self._next(limit)) if poison else self._next(limit, poison=False), owner)
        if poison and len(taken) < limit and any(card.deaths >= POISON_DEATHS for card in taken):
            taken += self._take(self._next(limit - len(taken), poison=False), owner)
        assert [job.id for job in claimed] == [card.id for card in taken]
        self.held += zip(claimed, taken, strict=True)

    def _take(self, cards: list[Card], owner: str) -> list[Card]:
        return [
            self._change(
                card,
                status="IN_PROGRESS",
                owner=owner,
                leased_until=self.now + LEASE,
                deaths=deaths(card),
                claims=card.claims + 1,
            )
            for card in cards
        ]

    def _renew(self, data: st.DataObject) -> None:
        """It is still at it."""
        job, card = self._draw(data)
        assert self._jobs(lambda store: store.renew(job, self.now + LEASE)) == (card is not None)
        if card is not None:
            self._change(card, leased_until=self.now + LEASE)

    def _finish(self, data: st.DataObject) -> None:
        """Workers are done; what one lost meanwhile is left alone."""
        drawn = [self._draw(data) for _ in range(data.draw(st.integers(1, 2)))]
        self._jobs(lambda store: store.finish([job for job, _ in drawn]))
        for _, card in drawn:
            if card is not None and card in self.cards:
                self.cards.remove(card)

    def _end(self, data: st.DataObject) -> None:
        """Somebody collects its result."""
        job, card = self._draw(data)
        failed = data.draw(st.booleans())

        def settle(store: Jobs) -> Awaitable[None]:
            return store.fail(job, "no", self.now) if failed else store.complete(job, {}, self.now)

        if card is None:
            self._refused(settle)
            return
        self._jobs(settle)
        if failed:
            self._settle(card, status="FAILED", attempt=card.attempt + 1, error="no")
        else:
            self._settle(card, status="COMPLETED", error=None)

    def _retry(self, data: st.DataObject) -> None:
        """It failed and comes again."""
        job, card = self._draw(data)
        at = self.now + data.draw(WAITS)
        if card is None:
            self._refused(lambda store: store.retry(job, at=at, error="no", now=self.now))
            return
        self._jobs(lambda store: store.retry(job, at=at, error="no", now=self.now))
        self._settle(card, status="PENDING", attempt=card.attempt + 1, deaths=0, not_before=at, error="no")

    def _hold(self, data: st.DataObject) -> None:
        """It has to wait, and keeps its place."""
        job, card = self._draw(data)
        at = self.now + data.draw(WAITS)
        if card is None:
            self._refused(lambda store: store.hold(job, at=at, now=self.now))
            return
        self._jobs(lambda store: store.hold(job, at=at, now=self.now))
        self._settle(card, status="PENDING", deaths=0, not_before=at)

    def _bury(self, data: st.DataObject) -> None:
        """It failed for good."""
        job, card = self._draw(data)
        retryable = data.draw(st.booleans())

        def bury(letters: DeadLetters) -> Awaitable[None]:
            return letters.add(job, "never", self.now, attempts=job.attempt + 1, retryable=retryable)

        if card is None:
            with pytest.raises(LeaseLost):
                self._dead(bury)
            return
        self._dead(bury)
        self.cards.remove(card)
        self.dead[card.id] = Buried(card, retryable, self.now)

    def _reprocess(self, data: st.DataObject) -> None:
        """One is done again."""
        job_id = data.draw(st.sampled_from([*self.dead]))
        assert self._dead(lambda letters: letters.reprocess(job_id, self.now))
        self._live_again([job_id])

    def _reprocess_all(self, data: st.DataObject) -> None:
        """All that are worth it, in the order in which they failed."""
        ids = [job_id for job_id, buried in self.dead.items() if buried.retryable]
        assert self._dead(lambda letters: letters.reprocess(None, self.now)) == len(ids)
        self._live_again(sorted(ids, key=lambda job_id: (self.dead[job_id].at, job_id)))

    def _live_again(self, ids: list[str]) -> None:
        for job_id in ids:
            old = self.dead.pop(job_id).card
            self.cards.append(Card(next(self._lives), job_id, old.process, old.priority, self.now))

    def _discard(self, data: st.DataObject) -> None:
        """Discard a dead letter that no person needs."""
        job_id = data.draw(st.sampled_from([*self.dead]))
        assert self._dead(lambda letters: letters.discard(job_id))
        del self.dead[job_id]

    def _take_results(self, data: st.DataObject) -> None:
        """A consumer takes what is finished, in the order of arrival."""
        process = data.draw(PROCESSES)
        finished = [c for c in self.cards if c.process == process and c.status in FINISHED]
        taken = self._jobs(lambda store: store.take_results(process))
        assert [(job.id, job.status) for job in taken] == [(card.id, card.status) for card in finished]
        self.cards = [card for card in self.cards if card not in finished]

    def _start_again(self, data: st.DataObject) -> None:
        """The only process starts: no other can hold anything."""
        under_way = [card for card in self.cards if card.status == "IN_PROGRESS"]
        assert self._jobs(lambda store: store.release_all(self.now)) == len(under_way)
        for card in under_way:
            self._settle(card, status="PENDING", deaths=card.deaths + 1)

    @invariant()
    def nothing_is_lost_or_done_by_two(self) -> None:
        """Every job is where its card is, and of a process only one is under way."""
        rows, dead, due, depth = self._within(self._read)
        assert rows == [
            (c.id, c.process, c.priority, c.status, c.attempt, c.deaths, c.claims, c.owner, c.leased_until, c.error)
            for c in self.cards
        ]
        assert dead == {job_id: (b.card.attempt + 1, b.retryable, b.at) for job_id, b in self.dead.items()}
        unfinished = [card for card in self.cards if card.status not in FINISHED]
        assert depth == len(unfinished)
        assert due == min((c.leased_until or c.not_before for c in unfinished if self._in_order(c)), default=None)
        under_way = [card.process for card in self.cards if card.status == "IN_PROGRESS"]
        assert len(under_way) == len(set(under_way))


@pytest.mark.thorough
@pytest.mark.long("postgres")
def test_jobs_under_any_sequence_of_operations_are_as_kept_by_hand(database_url: str) -> None:
    """Workers claim, die, renew, settle late or restart: nothing is lost, and nothing is done by two at once.

    Jobs of one process keep their order, dead letters wait for a person, and results for their collector.
    """
    database = Database(database_url)
    with asyncio.Runner() as runner:

        class Machine(JobMachine):
            def __init__(self) -> None:
                super().__init__(runner, database)

        run_state_machine_as_test(Machine, settings=SETTINGS)
        runner.run(database.close())
