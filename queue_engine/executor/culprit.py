"""Search for the culprit: the landing since which the base fails a check that had passed for that landing.

A failure on the commit of a landing, in the base's own CI, begins it. IMQ reruns the failed job once. Then it tests
landed commits, one at a time, on branches that point at them: nothing is merged, and no other candidate waits for
that. What a search knows is stored before each request, so that a job after a kill continues it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.core.timing.backoff import wait
from queue_engine.domain.culprit import (
    REVERT_JOB,
    BaseCommit,
    CommitCheck,
    CommitResult,
    CulpritOutcome,
    CulpritRecord,
)
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError, NotFound, WriteRefused
from queue_engine.domain.facts import CheckReport, CheckState, RequiredCheck, WorkflowRun
from queue_engine.domain.landing_record import LandingRecord
from queue_engine.domain.model import Queue
from queue_engine.domain.policy import Candidates, CulpritPolicy
from queue_engine.domain.run import CandidateTrigger
from queue_engine.effects.context import Engine
from queue_engine.effects.landings import announce_culprit, checks_of
from queue_engine.executor.candidate import EXISTS
from queue_engine.executor.cleanup import TRY_AGAIN, CandidateCleanup, until_permitted
from queue_engine.executor.triggers import choice_at
from queue_engine.planner.culprit import CulpritResult, judge_culprit
from queue_engine.rules.checks import is_red
from queue_engine.store.departures import day_of

if TYPE_CHECKING:
    from queue_engine.workflows.trigger_choice import TriggerReport

_log = structlog.get_logger("imq.culprit")

_MOST_READ = 32
"""How many landings IMQ reads back to find the last one that passed."""
_HISTORY = timedelta(days=30)
"""How far back the flakes of a check count."""
_UNREAD, _SOON = "check_unread", timedelta(seconds=5)
_MOST_UNREAD = 5
"""How often IMQ asks again for a failure that only a webhook has shown."""
_LOST_RERUN = timedelta(minutes=5)
"""After which IMQ does without the result of a rerun that has not begun."""
_TRIGGERS = (CandidateTrigger.PUSH, CandidateTrigger.DISPATCH)


async def find_culprit(engine: Engine, job: Job) -> Hold | None:
    """Follow the search of a queue as far as it goes; holds the job while CI runs. Raises GitHubError."""
    async with engine.store.reading() as tx:
        queue = await tx.queues.get(int(job.request["queue_id"]))
        assert queue is not None
        searches = await tx.culprits.of_queue(queue.id)
    policy = await engine.policies.of(queue.repository, queue.base_branch)
    follower = CulpritSteps(engine, queue, policy)
    search = next((each for each in searches if each.outcome is None), None)
    if search is None:
        tip, check = str(job.request["sha"]), str(job.request["check"])
        return await follower.begin(tip, check, searches, job.holds.get(_UNREAD, 0))
    try:
        return await follower.proceed(search)
    except WriteRefused:
        return Hold(TRY_AGAIN)
    except Forbidden:
        if (again := until_permitted(job)) is None:
            raise
        return again


def _chain(latest: Sequence[LandingRecord]) -> list[BaseCommit]:
    """Return the commits on which the base rested, the newest first; pushes in between stand without a number."""
    found = list[BaseCommit]()
    for landed, before in zip(latest, [*latest[1:], None], strict=True):
        found.append(BaseCommit(landed.sha, landed.number))
        parent = landed.record.get("base", {}).get("before")
        if parent is not None and (before is None or parent != before.sha):
            found.append(BaseCommit(parent))
    return found[:_MOST_READ]


class CulpritSteps:
    """Takes one search from each stored state to the next."""

    def __init__(self, engine: Engine, queue: Queue, policy: Policy) -> None:
        self._engine, self._queue, self._policy = engine, queue, policy
        self._github, self._repository = engine.github, queue.repository
        self._cleanup = CandidateCleanup(engine)

    async def begin(self, tip: str, check: str, former: Sequence[CulpritRecord], tries: int) -> Hold | None:
        """Begin a search, unless the base has moved on, passes by now, or failed before: that search has ended."""
        async with self._engine.store.reading() as tx:
            latest = await tx.landings.latest(self._repository.id, _MOST_READ, base_branch=self._queue.base_branch)
        unused = self._policy.culprit is CulpritPolicy.OFF
        if unused or not latest or latest[0].sha != tip or check not in checks_of(latest[0]):
            return None
        found = await self._github.branch_tip(self._repository, self._queue.base_branch)
        if found is None:
            return None
        runs = await self._github.workflow_runs(self._repository, tip)
        wanted, base = RequiredCheck(check, None), self._queue.base_branch
        report = await self._report(tip, wanted, [each for each in runs if each.branch == base])
        if found.sha != tip or report is None or not is_red(report):
            # A read may lag behind the webhook; a newer tip has checks of its own.
            return None if tries >= _MOST_UNREAD else Hold(_SOON, _UNREAD)
        run = next(each for each in runs if each.suite == report.suite)
        now = self._engine.clock.now()
        search = await self._with_commits(latest, run, former, RequiredCheck(check, report.app_id))
        if search is None:
            return None
        first = CommitResult(len(search.commits) - 1, passed=False, at=now, url=report.url, on_base=True)
        search = await self._with_trigger(replace(search, results=(first,), job=report.run_id, run=run.id))
        async with self._engine.change() as change:
            search = await change.tx.culprits.add(search, self._repository.id)
            if search.outcome is not None:
                await announce_culprit(change, self._queue, search, self._policy)
        _log.info("culprit_search", repository=self._repository.full_name, check=search.check, outcome=search.outcome)
        return await self.proceed(search)

    async def _with_commits(
        self, latest: Sequence[LandingRecord], run: WorkflowRun, former: Sequence[CulpritRecord], wanted: RequiredCheck
    ) -> CulpritRecord | None:
        """Return a search over what landed since the base was green; None if it has been red since a former one."""
        chain, ended = _chain(latest), {each.tip for each in former}
        row, green_at = chain[:1], None
        for commit in chain[1:]:
            row = [commit, *row]
            if (green_at := await self._green_at(commit.sha, run.workflow)) is not None:
                break
            if commit.sha in ended:
                return None
        if len(row) < 2:
            return None
        now = self._engine.clock.now()
        async with self._engine.store.reading() as tx:
            ledger, since = tx.statistics, day_of(now - _HISTORY)
            history = await ledger.check_history(self._repository.id, self._queue.base_branch, wanted.name, since)
        begun = CulpritRecord(self._queue.id, wanted.name, tuple(row), (), now, wanted.app_id, history=history)
        return replace(begun, workflow=run.workflow, green_at=green_at)

    async def _green_at(self, sha: str, workflow: int) -> datetime | None:
        """Return when this workflow passed on a commit, in the base's own CI; None if it is not known to have."""
        runs = await self._github.workflow_runs(self._repository, sha)
        own = [each for each in runs if each.branch == self._queue.base_branch and each.workflow == workflow]
        return next((each.created_at for each in own if each.conclusion == "success"), None)

    async def _with_trigger(self, search: CulpritRecord) -> CulpritRecord:
        """Return the search with what is proven to start its check on a branch that points at a landed commit."""
        from queue_engine.workflows.event_context import CandidateContext

        base = self._queue.base_branch
        wanted = [RequiredCheck(search.check, search.app_id)]
        answers: tuple[TriggerReport, ...] = ()
        with suppress(Forbidden):
            # GitHub dispatches only workflows that the default branch has, too.
            pull = await self._github.pull_request(self._repository, search.commits[-1].number or 0)
            candidate = CandidateContext(self._repository.full_name, base, f"imq/{base}/1", pull.default_branch)
            choice = await choice_at(self._github, self._repository, search.tip, wanted, candidate, Candidates.AUTO)
            answers = choice.answers
        proven = {each.trigger: each for each in answers if each.runs}
        trigger = next((each for each in _TRIGGERS if each in proven), None)
        if trigger is None:
            return replace(search, outcome=CulpritOutcome.NO_TRIGGER)
        return replace(search, trigger=trigger, workflows=proven[trigger].workflows)

    async def _report(self, sha: str, wanted: RequiredCheck, runs: Sequence[WorkflowRun]) -> CheckReport | None:
        """Return the report of the check on a commit, if one of these workflow runs gave it; never a skipped one."""
        suites = {each.suite for each in runs}
        reports = await self._github.check_reports(self._repository, sha, frozenset({wanted}))
        own = (each for each in reports if each.name == wanted.name and each.suite in suites)
        return next((each for each in own if not each.skipped), None)

    async def proceed(self, search: CulpritRecord) -> Hold | None:
        """Take the search to its next wait, or to its end."""
        while search.outcome is None:
            if self._policy.culprit is CulpritPolicy.OFF:
                await self._give_up(search)
                return None
            followed = await (self._follow_rerun(search) if not search.rerun_ended else self._follow_test(search))
            if isinstance(followed, Hold):
                return followed
            search = followed
        return None

    async def _save(self, search: CulpritRecord) -> CulpritRecord:
        await self._engine.write(lambda change: change.tx.culprits.save(search))
        return search

    async def _wait(self, search: CulpritRecord) -> Hold:
        """Wait for a webhook of the check, or for a late poll: ever rarer, so that long CI costs little (P7)."""
        await self._save(replace(search, polls=search.polls + 1))
        return Hold(wait(self._policy.check_poll, search.polls, random=self._engine.random))

    async def _follow_rerun(self, search: CulpritRecord) -> CulpritRecord | Hold:
        """Rerun the failed job on the tip once, and take its result; without a rerun the tests alone decide."""
        runs = await self._github.workflow_runs(self._repository, search.tip)
        report = await self._report(search.tip, _check_of(search), [each for each in runs if each.id == search.run])
        if report is not None and report.run_id != search.job:
            if report.state is CheckState.PENDING:
                return await self._wait(search)
            search = replace(search, rerun_ended=True)
            return await self._with_result(search, len(search.commits) - 1, report, on_base=True)
        now = self._engine.clock.now()
        if search.rerun_at is None:
            # After a kill the request may be the second one: GitHub refuses to rerun what runs.
            with suppress(Forbidden, HeadConflict, Invalid, NotFound):
                await self._github.rerun(self._repository, search.run or 0)
            search = await self._save(replace(search, rerun_at=now))
        elif any(each.id == search.run and not each.ended for each in runs):
            return await self._wait(search)
        elif now >= search.rerun_at + _LOST_RERUN:
            return await self._save(replace(search, rerun_ended=True))
        return Hold(_LOST_RERUN / 5)

    async def _with_result(
        self, search: CulpritRecord, place: int, report: CheckReport, *, on_base: bool = False
    ) -> CulpritRecord:
        """Keep a result, unless somebody cancelled the job: then it says nothing."""
        passed = report.state is CheckState.PASSED
        if passed or is_red(report):
            now = self._engine.clock.now()
            result = CommitResult(place, passed=passed, at=now, url=report.url, on_base=on_base)
            search = replace(search, results=(*search.results, result))
        return await self._save(search)

    async def _follow_test(self, search: CulpritRecord) -> CulpritRecord | Hold:
        """Take the result of the test under way; without one, judge what is known, and begin the next test or end."""
        if search.testing is not None:
            return await self._take_result(search, search.testing)
        verdict = judge_culprit(search, reverts=self._policy.culprit is CulpritPolicy.REVERT)
        if verdict.named != search.named:
            return await self._name(search, verdict)
        if verdict.outcome is not None:
            return await self._end(search, verdict.outcome, verdict=verdict)
        assert verdict.test is not None
        if await self._passes_again(search):
            return await self._end(search, CulpritOutcome.FIXED if search.named is None else CulpritOutcome.NAMED)
        number = search.tests + 1
        branch = f"imq/{self._queue.base_branch}/culprit-{search.id}-{number}"
        test = CommitCheck(verdict.test, branch, self._engine.clock.now())
        return await self._save(replace(search, testing=test, tests=number, polls=0))

    async def _passes_again(self, search: CulpritRecord) -> bool:
        """Whether the base has moved on, and passes: somebody has fixed it."""
        found = await self._github.branch_tip(self._repository, self._queue.base_branch)
        return (
            found is not None
            and found.sha != search.tip
            and (await self._green_at(found.sha, search.workflow) is not None)
        )

    async def _take_result(self, search: CulpritRecord, test: CommitCheck) -> CulpritRecord | Hold:
        sha = search.commits[test.place].sha
        if not test.published:
            if await self._publish(search, test, sha):
                return await self._save(replace(search, testing=replace(test, published=True), polls=0))
            if search.polls < _MOST_UNREAD:
                # GitHub's activity may not show yet what a former job did before it died.
                await self._save(replace(search, polls=search.polls + 1))
                return Hold(_SOON)
            if search.tests >= _MOST_READ:
                return await self._give_up(search)
            return await self._save(replace(search, testing=None))
        runs = await self._github.workflow_runs(self._repository, sha)
        own = [each for each in runs if each.branch == test.branch]
        report = await self._report(sha, _check_of(search), own) if own else None
        if report is None or report.state is CheckState.PENDING:
            limit = self._policy.checks.fallback_timeout if own else self._policy.trains.first_report
            if self._engine.clock.now() < test.since + limit:
                return await self._wait(search)
            return await self._give_up(search)
        await self._unpublish(test, sha)
        return await self._with_result(replace(search, testing=None), test.place, report)

    async def _publish(self, search: CulpritRecord, test: CommitCheck, sha: str) -> bool:
        """Create the branch, unless a former job did, and start CI; False if it may be somebody else's."""
        try:
            await self._github.create_branch(self._repository, test.branch, sha)
        except Invalid as refusal:
            exists = EXISTS in refusal.message.lower()
            if exists and not await self._cleanup.is_proved(self._repository, test.branch, sha):
                return False
        if search.trigger is CandidateTrigger.DISPATCH:
            for path in search.workflows:
                with suppress(Invalid, NotFound):
                    await self._github.dispatch_workflow(self._repository, path, test.branch, {})
        return True

    async def _give_up(self, search: CulpritRecord) -> CulpritRecord:
        """End a search without another result: no run of it has a use any more, and nothing contradicts its culprit."""
        if (test := search.testing) is not None:
            sha = search.commits[test.place].sha
            if test.published:
                await self._cleanup.cancel_workflows(self._repository, sha, {test.branch})
            await self._unpublish(test, sha)
        return await self._end(search, CulpritOutcome.UNCERTAIN if search.named is None else CulpritOutcome.NAMED)

    async def _unpublish(self, test: CommitCheck, sha: str) -> None:
        """Delete the branch, unless a rule keeps it or somebody pushed. Raises Forbidden while a permission lacks."""
        try:
            if await self._cleanup.delete_own(self._repository, test.branch, sha if test.published else None):
                return
            why = "it is not proved to be IMQ's"
        except (Forbidden, Invalid, HeadConflict, MergeError) as refusal:
            if isinstance(refusal, Forbidden) and refusal.lacking:
                raise
            why = refusal.message
        _log.info("not_cleaned_up", repository=self._repository.full_name, what=test.branch, message=why)

    async def _name(self, search: CulpritRecord, verdict: CulpritResult) -> CulpritRecord:
        """Name the culprit at once: further tests may confirm that. Take back the one whom they contradict."""
        named = replace(search, named=verdict.named, probability=verdict.probability)
        async with self._engine.change() as change:
            await change.tx.culprits.save(named)
            if search.named is not None:
                contradicted = replace(search, outcome=CulpritOutcome.UNCERTAIN)
                await announce_culprit(change, self._queue, contradicted, self._policy)
            if named.culprit is not None:
                await announce_culprit(change, self._queue, named, self._policy)
        return named

    async def _end(
        self, search: CulpritRecord, outcome: CulpritOutcome, *, verdict: CulpritResult | None = None
    ) -> CulpritRecord:
        """End the search, and announce what `_name` did not; have the culprit reverted if independent runs agree."""
        probability = search.probability if verdict is None else verdict.probability
        ended = replace(search, outcome=outcome, testing=None, probability=probability)
        async with self._engine.change() as change:
            await change.tx.culprits.save(ended)
            if outcome is not CulpritOutcome.NAMED:
                await announce_culprit(change, self._queue, ended, self._policy)
            elif verdict is not None and verdict.agreed:
                request = {"queue_id": self._queue.id, "search": search.id}
                await change.enqueue(REVERT_JOB, request, self._repository.id)
        _log.info("culprit_ended", repository=self._repository.full_name, outcome=outcome.value, number=ended.culprit)
        return ended


def _check_of(search: CulpritRecord) -> RequiredCheck:
    return RequiredCheck(search.check, search.app_id)
