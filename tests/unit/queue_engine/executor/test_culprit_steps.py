"""A search for the culprit, step by step: which answers of GitHub count, and how it ends without one."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import delete

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.domain.culprit import (
    CULPRIT,
    REVERT_JOB,
    BaseCommit,
    CommitCheck,
    CommitResult,
    CulpritOutcome,
    CulpritRecord,
)
from queue_engine.domain.errors import Forbidden, Invalid, WriteRefused
from queue_engine.domain.facts import Branch, CheckReport, CheckState, HeadPush, WorkflowRun
from queue_engine.domain.policy import CulpritPolicy
from queue_engine.domain.port import BranchUpdate
from queue_engine.domain.run import CandidateTrigger
from queue_engine.effects.context import Engine
from queue_engine.executor.cleanup import TRY_AGAIN
from queue_engine.executor.culprit import CulpritSteps, find_culprit
from queue_engine.store import Store
from queue_engine.store.departures import CheckCount, day_of
from queue_engine.store.tables import culprits
from tests.store.test_landing_records import record
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Clock
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, POLICY, REPOSITORY, report, workflow_run

FAILED, PASSED, PENDING = CheckState.FAILED, CheckState.PASSED, CheckState.PENDING
BRANCH = "imq/main/culprit-1-1"


class GitHub:
    """CI of a base branch: workflow runs and reports by commit. The suite of a run has its number."""

    def __init__(self) -> None:
        self.tip: str | None = "base-1"
        self.runs: dict[str, list[WorkflowRun]] = {}
        self.reports: dict[str, list[CheckReport]] = {}
        self.wrote: list[tuple[str, object]] = []
        self.taken: dict[str, str] = {}
        """Who made the branches that are there."""
        self.refuses = False
        """Whether GitHub refuses reruns, and the deletion of branches."""

    def ran(self, sha: str, number: int, state: CheckState, conclusion: str | None = None, *, on: str = "main") -> None:
        """Have a workflow run on a branch at a commit, with one job."""
        made = report("ci", state, run=number * 10, workflow=number, conclusion=conclusion)
        ended = {} if state is PENDING else {"status": "completed", "conclusion": made.conclusion}
        self.runs.setdefault(sha, []).append(workflow_run(number, sha, branch=on, **ended))
        self.reports.setdefault(sha, []).insert(0, made)

    async def branch_tip(self, *_: object) -> Branch | None:
        return None if self.tip is None else Branch(self.tip, protected=True)

    async def workflow_runs(self, _repository: object, sha: str) -> tuple[WorkflowRun, ...]:
        return tuple(self.runs.get(sha, ()))

    async def check_reports(self, _repository: object, sha: str, _required: object) -> tuple[CheckReport, ...]:
        return tuple(self.reports.get(sha, ()))

    async def pull_request(self, *_: object) -> None:
        raise Forbidden("no content may be read", status=403)

    async def rerun(self, _repository: object, run: int) -> None:
        self.wrote.append(("rerun", run))
        if self.refuses:
            raise Forbidden("no runs may be written", status=403)

    async def create_branch(self, _repository: object, branch: str, _sha: str) -> None:
        if branch in self.taken:
            raise Invalid("Reference already exists", status=422)
        self.wrote.append(("create", branch))

    async def branch_pushes(self, _repository: object, branch: str) -> tuple[HeadPush, ...]:
        return (HeadPush("0" * 40, "base-0", NOW, self.taken[branch]),)

    async def update_refs(self, _repository: object, updates: Sequence[BranchUpdate]) -> None:
        if self.refuses:
            raise Forbidden("a rule keeps it", status=403)
        self.wrote += [("delete", each.branch) for each in updates]

    async def delete_branch(self, *_: object) -> None:
        raise Forbidden("a rule keeps it", status=403)

    async def cancel_run(self, _repository: object, run: int) -> None:
        self.wrote.append(("cancel", run))

    async def own_login(self) -> str:
        return "imq[bot]"

    async def dispatch_workflow(self, _repository: object, path: str, *_: object) -> None:
        self.wrote.append(("dispatch", path))


class Search:
    """A stored search over one landing, whose tip failed by the job 10 of run 1."""

    def __init__(self, store: Store) -> None:
        self.github, self.store = GitHub(), store
        self.engine = Engine(
            store, cast(Any, self.github), Clock(), StaticPolicies(POLICY), random=lambda: 0.5, owner="w"
        )
        self.github.ran("base-1", 1, FAILED)

    async def steps(self, culprit: CulpritPolicy = CulpritPolicy.NAME) -> CulpritSteps:
        async with self.store.transaction() as tx:
            queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        return CulpritSteps(self.engine, queue, replace(POLICY, culprit=culprit))

    async def proceed(self, culprit: CulpritPolicy = CulpritPolicy.NAME, **stored: Any) -> CulpritRecord:
        """Take the search on, and return it as it is stored then."""
        steps = await self.steps(culprit)
        commits = (BaseCommit("base-0"), BaseCommit("base-1", 1))
        values: dict[str, Any] = {"app_id": 10, "workflow": 1, "job": 10, "run": 1, "trigger": CandidateTrigger.PUSH}
        search = replace(CulpritRecord(1, "ci", commits, (failed(),), NOW), **values | stored)
        async with self.store.transaction() as tx:
            search = await tx.culprits.add(search, REPOSITORY.id)
        await steps.proceed(search)
        [found] = await self.stored()
        return found

    async def stored(self) -> tuple[CulpritRecord, ...]:
        async with self.store.reading() as tx:
            return await tx.culprits.of_queue(1)

    async def announced(self) -> list[CulpritOutcome | None]:
        """The outcomes of the events that programs and people read."""
        async with self.store.reading() as tx:
            events = await tx.timeline.since(0, limit=100)
        return [each.data.get("outcome") for each in events if each.event == CULPRIT]

    async def begin(self, *former: CulpritRecord, tries: int = 0) -> Hold | None:
        """Begin a search for a failure on the second of two landings."""
        self.github.tip = "base-2"
        async with self.store.transaction() as tx:
            for number in (1, 2):
                made = record(number) | {"checks": [{"names": ["ci"]}]}
                made["landed"] = made["landed"] | {"commit": f"base-{number}"}
                made["base"] = made["base"] | {"before": f"base-{number - 1}"}
                await tx.landings.add(made, NOW + number * MINUTE, None, ())
        return await (await self.steps()).begin("base-2", "ci", former, tries)


def failed(place: int = 1, *, on_base: bool = True) -> CommitResult:
    """A failure."""
    return CommitResult(place, passed=False, at=NOW, on_base=on_base)


def passed(place: int = 0) -> CommitResult:
    """A pass on a branch of IMQ's."""
    return CommitResult(place, passed=True, at=NOW)


@pytest.fixture
def search(sqlite_database: Database) -> Search:
    return Search(Store(sqlite_database))


def under_test(**changes: Any) -> dict[str, Any]:
    """A test of the first commit that is under way."""
    test = CommitCheck(0, BRANCH, NOW, published=True)
    return {"rerun_ended": True, "tests": 1, "testing": replace(test, **changes)}


async def test_job_that_was_cancelled_says_nothing(search: Search) -> None:
    """P5: unknown never blames: the search goes by tests alone."""
    search.github.ran("base-1", 1, FAILED, "cancelled")
    search.github.reports["base-1"][0] = replace(search.github.reports["base-1"][0], run_id=11)
    found = await search.proceed(rerun_at=NOW)
    assert (found.rerun_ended, found.results) == (True, (failed(),))


@pytest.mark.parametrize(("on", "conclusion"), [("other", "success"), (BRANCH, "skipped")])
async def test_another_branchs_job_and_a_skipped_one_are_no_result(search: Search, on: str, conclusion: str) -> None:
    """P5: the commit may also have run in a pull request, or in a train."""
    search.github.ran("base-0", 2, PASSED, conclusion, on=on)
    search.github.runs["base-0"].append(workflow_run(3, "base-0", branch=BRANCH))
    found = await search.proceed(**under_test())
    assert (found.results, found.testing is None, found.polls) == ((failed(),), False, 1)


@pytest.mark.parametrize(("named", "outcome"), [(None, CulpritOutcome.UNCERTAIN), (1, CulpritOutcome.NAMED)])
@pytest.mark.parametrize("culprit", [CulpritPolicy.REVERT, CulpritPolicy.OFF])
async def test_test_without_a_result_ends_the_search_and_leaves_no_branch_and_no_run(
    search: Search, culprit: CulpritPolicy, named: int | None, outcome: CulpritOutcome
) -> None:
    """P5, P6: every wait ends. Nothing contradicts a named culprit then: its comment stays, and nothing reverts it."""
    search.github.runs["base-0"] = [workflow_run(3, "base-0", branch=BRANCH, begun_by="imq[bot]")]
    found = await search.proceed(culprit, **under_test(since=NOW - 24 * HOUR), named=named, probability=0.95)
    assert (found.outcome, found.testing) == (outcome, None)
    assert search.github.wrote == [("cancel", 3), ("delete", BRANCH)]
    assert await search.announced() == ([] if named else [CulpritOutcome.UNCERTAIN])
    async with search.store.reading() as tx:
        assert await tx.jobs.unfinished_requests(REVERT_JOB, REVERT_JOB) == ()


@pytest.mark.parametrize(("begun", "minutes", "waits"), [(False, 4, True), (False, 6, False), (True, 6, True)])
async def test_test_on_which_nothing_reports_ends_sooner_than_one_that_runs(
    search: Search, begun: bool, minutes: int, waits: bool
) -> None:
    """P5: a trigger that was proven may have been removed since."""
    search.github.runs["base-0"] = [workflow_run(3, "base-0", branch=BRANCH)] if begun else []
    found = await search.proceed(**under_test(since=NOW - minutes * MINUTE))
    assert (found.outcome is None) is waits


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("state", [PASSED, FAILED])
async def test_result_of_a_test_is_kept_and_its_branch_deleted(search: Search, state: CheckState, kept: bool) -> None:
    """P2, P5: each test has a branch of its own, and leaves none, unless a rule keeps it: the search waits for none."""
    search.github.ran("base-0", 3, state, on=BRANCH)
    search.github.refuses, search.github.tip = kept, "base-0" if kept else "base-1"
    search.github.reports["base-0"].insert(0, report("other", FAILED, run=31, workflow=3))
    found = await search.proceed(**under_test())
    assert (("delete", BRANCH) in search.github.wrote) is not kept
    assert [(each.place, each.passed, each.on_base) for each in found.results[1:]] == [(0, state is PASSED, False)]


async def test_pass_of_a_test_is_no_flake_of_the_base(search: Search) -> None:
    """P5: only the rerun of the same job says that nothing is broken. Each test has its own limit."""
    found = await search.proceed(rerun_ended=True, results=(failed(), failed(), passed()), started=NOW - HOUR)
    assert (found.outcome, found.testing) == (None, CommitCheck(1, BRANCH, NOW, published=True))


async def test_earlier_pass_of_the_same_tip_is_no_fix(search: Search) -> None:
    """P6: the workflow may also run by a schedule."""
    search.github.ran("base-1", 2, PASSED)
    search.github.runs["base-1"][-1] = replace(search.github.runs["base-1"][-1], workflow=1)
    found = await search.proceed(rerun_ended=True)
    assert (found.outcome, found.tests) == (None, 1)


async def test_culprit_is_announced_once_while_tests_continue_before_a_revert(search: Search) -> None:
    """P6: one comment and one event have it, and the end of these tests changes neither."""
    results = (failed(), failed(), passed(), failed(on_base=False))
    found = await search.proceed(CulpritPolicy.REVERT, rerun_ended=True, results=results)
    assert (found.named, found.outcome) == (1, None)
    steps = await search.steps(CulpritPolicy.REVERT)
    await steps.proceed(replace(found, testing=None, results=(*results, *[passed(), failed(on_base=False)] * 2)))
    [ended] = await search.stored()
    assert await search.announced() == [None]
    assert 0.9 < (found.probability or 0) < (ended.probability or 0) < 1


@pytest.mark.parametrize("culprit", [CulpritPolicy.NAME, CulpritPolicy.REVERT])
async def test_commit_that_was_pushed_around_the_queue_is_announced_once(
    search: Search, culprit: CulpritPolicy
) -> None:
    """P5, P6: of the whole queue: no author is to blame."""
    commits = (BaseCommit("base-0"), BaseCommit("base-1"))
    results = (failed(), failed(), passed(), failed(on_base=False))
    found = await search.proceed(culprit, rerun_ended=True, results=results, commits=commits)
    assert (found.outcome, found.culprit) == (CulpritOutcome.PUSHED, None)
    assert await search.announced() == [CulpritOutcome.PUSHED]


async def test_lost_rerun_leaves_the_decision_to_tests(search: Search) -> None:
    """P5: GitHub refuses to rerun old runs, and may lose a request."""
    found = await search.proceed(rerun_at=NOW - 6 * MINUTE)
    assert (found.rerun_ended, found.testing) == (True, CommitCheck(0, BRANCH, NOW, published=True))


async def test_test_by_dispatch_starts_each_workflow(search: Search) -> None:
    """A branch alone starts nothing there."""
    more = {"trigger": CandidateTrigger.DISPATCH, "workflows": ("a.yml",)}
    await search.proceed(**under_test(published=False) | more)
    assert search.github.wrote == [("create", BRANCH), ("dispatch", "a.yml")]


@pytest.mark.parametrize(
    ("by", "tests", "polls", "testing", "ends"),
    [
        ("imq[bot]", 1, 0, BRANCH, False),
        ("mona", 1, 4, BRANCH, False),
        ("mona", 1, 5, f"{BRANCH[:-1]}2", False),
        ("mona", 32, 5, None, True),
    ],
)
async def test_branch_of_somebody_else_is_tried_again_then_another_name_and_in_the_end_none(
    search: Search, by: str, tests: int, polls: int, testing: str | None, ends: bool
) -> None:
    """P5: reads may lag behind the death of a process; people may take any number of names. IMQ deletes no branch."""
    search.github.taken = {BRANCH: by}
    found = await search.proceed(**under_test(published=False) | {"tests": tests, "polls": polls})
    assert (found.testing and found.testing.branch, found.outcome is CulpritOutcome.UNCERTAIN) == (testing, ends)
    assert [each for each in search.github.wrote if each[0] == "delete"] == []


async def test_search_ends_once_the_base_passes_again_or_the_configuration_has_none(search: Search) -> None:
    """P7: nothing is tested any more."""
    assert (await search.proceed(CulpritPolicy.OFF)).outcome is CulpritOutcome.UNCERTAIN
    search.github.tip = "fix"
    search.github.ran("fix", 5, PASSED)
    steps = await search.steps()
    open_search = replace((await search.stored())[0], outcome=None, rerun_ended=True)
    await steps.proceed(open_search)
    assert [each.outcome for each in await search.stored()] == [CulpritOutcome.FIXED]
    assert search.github.wrote == []


@pytest.mark.parametrize("agreed", [False, True])
async def test_only_runs_that_agree_have_the_culprit_reverted(search: Search, agreed: bool) -> None:
    """P5: a search that ends before they do leaves the revert to people."""
    rest = [passed(), failed(on_base=False)] * 3 if agreed else [passed(), *[failed(on_base=False)] * 19]
    found = await search.proceed(CulpritPolicy.REVERT, rerun_ended=True, named=1, results=(failed(), failed(), *rest))
    async with search.store.reading() as tx:
        jobs = await tx.jobs.unfinished_requests(REVERT_JOB, REVERT_JOB)
    assert (found.outcome, len(jobs)) == (CulpritOutcome.NAMED, int(agreed))


async def test_search_goes_back_to_the_last_landing_that_passed(search: Search) -> None:
    """P5: the base failed since the landing before this one, so that either may be the culprit."""
    for number, state in enumerate((PASSED, FAILED, FAILED)):
        search.github.ran(f"base-{number}", 20 + number, state)
    await search.begin()
    [found] = await search.stored()
    assert [each.sha for each in found.commits] == ["base-0", "base-1", "base-2"]
    assert (found.green_at, found.outcome) == (NOW, CulpritOutcome.NO_TRIGGER)
    assert await search.announced() == [CulpritOutcome.NO_TRIGGER]


@pytest.mark.parametrize(("on", "workflow"), [("imq/main/5", 1), ("main", 2)])
async def test_landing_counts_as_green_by_the_same_workflow_on_the_base_alone(
    search: Search, on: str, workflow: int
) -> None:
    """P5: a train's run, or another workflow of the base, says nothing of this check there."""
    for number, state in enumerate((PASSED, FAILED, FAILED)):
        search.github.ran(f"base-{number}", 21, state)
    search.github.ran("base-1", 5, PASSED, on=on)
    search.github.runs["base-1"][-1] = replace(search.github.runs["base-1"][-1], workflow=workflow)
    await search.begin()
    [found] = await search.stored()
    assert len(found.commits) == 3


async def test_base_that_is_red_since_a_search_has_no_second_one(search: Search) -> None:
    """P5: each later landing fails, too, and its author has nothing to do with it."""
    search.github.ran("base-2", 22, FAILED)
    former = CulpritRecord(1, "ci", (BaseCommit("base-0"), BaseCommit("base-1", 1)), (failed(),), NOW)
    assert await search.begin(replace(former, outcome=CulpritOutcome.NAMED, id=9)) is None
    assert await search.stored() == ()


@pytest.mark.parametrize("tries", [0, 5])
async def test_failure_that_reads_do_not_show_is_read_again_five_times(search: Search, tries: int) -> None:
    """P5: reads may lag behind the webhook; a rerun by people may have passed meanwhile; other branches say nothing."""
    search.github.ran("base-2", 22, PASSED)
    search.github.ran("base-2", 5, FAILED, on="other")
    held = await search.begin(tries=tries)
    assert held == (None if tries else Hold(timedelta(seconds=5), "check_unread"))
    assert await search.stored() == ()


@pytest.mark.parametrize(
    ("tip", "check", "culprit"),
    [
        ("base-1", "ci", CulpritPolicy.NAME),
        ("base-2", "lint", CulpritPolicy.NAME),
        ("base-2", "ci", CulpritPolicy.OFF),
        ("base-2", "ci", CulpritPolicy.NAME),
    ],
)
async def test_search_begins_for_a_failure_of_the_newest_landing_alone(
    search: Search, tip: str, check: str, culprit: CulpritPolicy
) -> None:
    """P5, P7: not for an older one, a check that never passed for it, or where it is off."""
    for number, state in enumerate((PASSED, FAILED, FAILED)):
        search.github.ran(f"base-{number}", 20 + number, state)
    search.github.reports["base-2"].append(report("lint", FAILED, run=1, workflow=22))
    search.github.runs["base-2"].insert(0, workflow_run(7, "base-2", branch="main"))
    await search.begin()
    async with search.store.transaction() as tx:
        await tx.connection.execute(delete(culprits))
    assert await (await search.steps(culprit)).begin(tip, check, (), 0) is None
    begins = (tip, check, culprit) == ("base-2", "ci", CulpritPolicy.NAME)
    assert [each.run for each in await search.stored()] == [22] * begins


@pytest.mark.parametrize("tip", ["pushed", None])
async def test_tip_that_is_not_the_landing_any_more_begins_no_search(search: Search, tip: str | None) -> None:
    """P5: somebody has pushed since, and that commit has checks of its own; or has deleted the branch."""
    for number, state in enumerate((PASSED, FAILED, FAILED)):
        search.github.ran(f"base-{number}", 20 + number, state)
    await search.begin()
    async with search.store.transaction() as tx:
        await tx.connection.execute(delete(culprits))
    search.github.tip = tip
    assert await (await search.steps()).begin("base-2", "ci", (), 5) is None
    assert await search.stored() == ()


async def test_job_of_another_failure_continues_the_search_that_runs(search: Search) -> None:
    """P7: a queue has one search at a time."""
    running = await search.proceed(rerun_at=NOW)
    engine = replace(search.engine, policies=StaticPolicies(replace(POLICY, culprit=CulpritPolicy.NAME)))
    request = {"queue_id": running.queue_id, "sha": "base-1", "check": "other"}
    held = await find_culprit(engine, cast(Job, SimpleNamespace(request=request, holds={})))
    assert held is not None
    assert [each.check for each in await search.stored()] == ["ci"]


async def test_search_has_the_flakes_of_its_check_from_the_ledger_of_its_branch(search: Search) -> None:
    """P5: of the last thirty days, and of this check and base branch alone."""
    counted = [CheckCount("ci", 10, 2), CheckCount("lint", 50, 5)]
    async with search.store.transaction() as tx:
        ledger, today = tx.statistics, day_of(NOW)
        await ledger.count_checks(REPOSITORY.id, "main", today, counted)
        await ledger.count_checks(REPOSITORY.id, "main", today - 30, [CheckCount("ci", 4, 1)])
        await ledger.count_checks(REPOSITORY.id, "main", today - 31, [CheckCount("ci", 100, 100)])
        await ledger.count_checks(REPOSITORY.id, "develop", today, [CheckCount("ci", 100, 100)])
        await ledger.count_checks(REPOSITORY.id + 1, "main", today, [CheckCount("ci", 100, 100)])
        await ledger.count_checks(REPOSITORY.id, "main", today, [CheckCount("ci", 100, 100)], "test")
    for number, state in enumerate((PASSED, FAILED, FAILED)):
        search.github.ran(f"base-{number}", 20 + number, state)
    await search.begin()
    [found] = await search.stored()
    assert found.history == (3, 14)


async def test_rerun_that_runs_for_long_is_waited_for(search: Search) -> None:
    """P5: it is not lost: without its result a flake would cost tests."""
    search.github.runs["base-1"] = [workflow_run(1, "base-1", branch="main")]
    found = await search.proceed(rerun_at=NOW - 6 * MINUTE)
    assert (found.rerun_ended, found.polls) == (False, 1)


async def test_first_landing_that_is_recorded_begins_no_search(search: Search) -> None:
    """P5: no record has what the base was before."""
    search.github.tip = "base-1"
    made = record(1) | {"checks": [{"names": ["ci"]}]}
    made["landed"], made["base"] = made["landed"] | {"commit": "base-1"}, {"branch": "main"}
    async with search.store.transaction() as tx:
        await tx.landings.add(made, NOW, None, ())
    assert await (await search.steps()).begin("base-1", "ci", (), 0) is None
    assert await search.stored() == ()


@pytest.mark.parametrize("refused", [False, True])
async def test_rerun_is_requested_once_and_waited_for(search: Search, refused: bool) -> None:
    """P5, P7: while it is lost within five minutes, or runs, the search costs nothing more; no other run counts."""
    search.github.refuses = refused
    search.github.ran("base-1", 2, PASSED)
    first = await search.proceed()
    assert (search.github.wrote, first.rerun_at, first.rerun_ended) == ([("rerun", 1)], NOW, False)
    steps = await search.steps()
    await steps.proceed(first)
    assert search.github.wrote == [("rerun", 1)]
    search.github.reports["base-1"].insert(0, report("ci", PENDING, run=11, workflow=1))
    await steps.proceed(first)
    [waiting] = await search.stored()
    assert (waiting.polls, waiting.rerun_ended, waiting.results) == (1, False, (failed(),))


@pytest.mark.parametrize("culprit", [CulpritPolicy.NAME, CulpritPolicy.REVERT])
async def test_flake_of_the_base_ends_the_search_after_one_test_of_the_same_commit(
    search: Search, culprit: CulpritPolicy
) -> None:
    """P5, P7: one green rerun may have missed the fault."""
    search.github.reports["base-1"].insert(0, report("ci", PASSED, run=11, workflow=1))
    found = await search.proceed(culprit, rerun_at=NOW)
    assert (found.outcome, found.testing) == (None, CommitCheck(1, BRANCH, NOW, published=True))
    steps = await search.steps(culprit)
    await steps.proceed(replace(found, testing=None, results=(*found.results, passed(1))))
    assert [(each.outcome, each.tests) for each in await search.stored()] == [(CulpritOutcome.FLAKE, 1)]


@pytest.mark.parametrize("failures", [1, 2])
async def test_culprit_that_results_contradict_is_taken_back_at_once_and_the_search_continues(
    search: Search, failures: int
) -> None:
    """P5, P6: its author reads that. The right one is named once it is sure."""
    commits = (BaseCommit("base-0"), BaseCommit("base-1", 1), BaseCommit("base-2", 2))
    again = failed(1, on_base=False)
    tests = (passed(), passed(1), failed(2, on_base=False), *[again] * failures)
    found = await search.proceed(rerun_ended=True, named=2, commits=commits, results=(failed(2), failed(2), *tests))
    assert (found.named, found.outcome, found.tests) == ([None, 1][failures - 1], None, 1)
    assert await search.announced() == [CulpritOutcome.UNCERTAIN, None][:failures]


async def land(search: Search, *landed: tuple[str, str]) -> None:
    """Store landings of pull requests 1, 2 and so on, each a commit on top of another one."""
    async with search.store.transaction() as tx:
        for number, (before, sha) in enumerate(landed, 1):
            made = record(number) | {"checks": [{"names": ["ci"]}]}
            made["landed"], made["base"] = made["landed"] | {"commit": sha}, made["base"] | {"before": before}
            await tx.landings.add(made, NOW + number * MINUTE, None, ())
    search.github.tip = landed[-1][1]


async def test_push_around_the_queue_between_two_landings_may_be_the_culprit(search: Search) -> None:
    """P5: the search has its commit without a pull request, so that it names no landing after it."""
    await land(search, ("base-0", "base-1"), ("pushed", "base-2"), ("base-2", "base-3"))
    for sha, state in (("base-0", PASSED), ("pushed", FAILED), ("base-2", FAILED), ("base-3", FAILED)):
        search.github.ran(sha, 20, state)
    assert await (await search.steps()).begin("base-3", "ci", (), 0) is None
    [found] = await search.stored()
    assert [(each.sha, each.number) for each in found.commits] == [
        ("base-0", None), ("base-1", 1), ("pushed", None), ("base-2", 2), ("base-3", 3)
    ]  # fmt: skip


async def test_search_reads_no_more_commits_than_landings_where_people_push_between_them(search: Search) -> None:
    """P7: each commit costs a read of its workflow runs."""
    await land(search, *((f"pushed-{number}", f"base-{number}") for number in range(2, 34)))
    search.github.ran("base-33", 20, FAILED)
    await (await search.steps()).begin("base-33", "ci", (), 0)
    [found] = await search.stored()
    assert (len(found.commits), found.commits[0].sha, found.commits[-1].sha) == (32, "pushed-18", "base-33")


@pytest.mark.parametrize("lacks", [True, False])
async def test_job_without_a_permission_is_tried_for_a_week_and_one_in_shadow_mode_until_that_ends(
    search: Search, monkeypatch: pytest.MonkeyPatch, lacks: bool
) -> None:
    """P2, P7: the search continues where it was; what GitHub refuses for good ends it as a failed job."""
    running = await search.proceed(rerun_at=NOW)
    refusal = Forbidden("no", status=403, lacking=True) if lacks else WriteRefused("shadow mode")

    async def refused(*_: object) -> None:
        raise refusal

    monkeypatch.setattr(CulpritSteps, "proceed", refused)
    request = {"queue_id": running.queue_id, "sha": "base-1", "check": "ci"}

    async def found(**holds: int) -> Hold | None:
        return await find_culprit(search.engine, cast(Job, SimpleNamespace(request=request, holds=holds)))

    assert await found() == (Hold(TRY_AGAIN, "forbidden") if lacks else Hold(TRY_AGAIN))
    if lacks:
        with pytest.raises(Forbidden):
            await found(forbidden=10_000)
    assert [each.outcome for each in await search.stored()] == [None]
