"""What IMQ deletes, closes and cancels after a run: only what is its own, by the record of the run."""

from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid
from queue_engine.domain.facts import HeadPush
from queue_engine.domain.port import NO_BRANCH, BranchUpdate
from queue_engine.domain.run import Run, RunMember, RunState
from queue_engine.executor.cleanup import CandidateCleanup
from queue_engine.executor.run_store import TrainState
from queue_engine.store import Store
from tests.unit.queue_engine.examples import NOW, REPOSITORY, workflow_run
from tests.unit.queue_engine.executor.train_states import TrainGitHub, a_state

DENIED = Forbidden("Resource not accessible by integration", status=403, lacking=True)
RULED = Forbidden("Repository rule violations found", status=403)
MOVED = HeadConflict("Reference update failed", status=422)
UNEXPLAINED = Invalid("Request cannot be processed at this time.", status=422)


@pytest.fixture
def store(sqlite_database: Database) -> Store:
    return Store(sqlite_database)


async def ended(store: Store, github: TrainGitHub, **run: Any) -> tuple[TrainState, Run]:
    """A run of one member that ended after its candidate was published."""
    mine = RunMember(1, "", "head-1", commit="c1", tree="t1")
    given: dict[str, Any] = {"candidate": "c1", "published_at": NOW, "state": RunState.ENDED, **run}
    members = given.pop("members", [mine])
    state, _ = await a_state(store, github, (1,), members=members, **{**given, "state": RunState.TESTING})
    async with store.transaction() as tx:
        kept = await tx.runs.save(replace(state.runs[0], state=RunState.ENDED))
    return state, kept


async def cleaned(state: TrainState, run: Run, *, cancels: bool = False, holds: int = 0) -> Hold | None:
    """Do the job of this run; `holds`: how often it waited for a permission."""
    request = {"run": run.id, "queue_id": run.queue_id, "branches": True, "cancels": cancels}
    job = SimpleNamespace(request=request, holds={"forbidden": holds})
    return await CandidateCleanup(state.engine).clean(cast(Job, job))


async def is_kept(store: Store, run: Run) -> bool:
    """Whether the record of the run is still there."""
    async with store.reading() as tx:
        return await tx.runs.get(run.id or 0) is not None


async def test_branches_of_a_run_go_in_one_request_if_they_are_at_its_candidate(store: Store) -> None:
    """P4: a push by somebody else is another tip."""
    github = TrainGitHub()
    state, run = await ended(store, github)
    assert await cleaned(state, run) is None
    assert github.named("update_refs") == [([BranchUpdate(each, before="c1", after=None) for each in run.branches],)]
    assert github.named("delete_branch") == []
    assert not await is_kept(store, run)


@pytest.mark.parametrize(
    ("parents", "by", "goes"),
    [(("base-1", "head-1"), "mona", True), (("base-1",), "mona", False), (("base-1",), "imq[bot]", True)],
)
async def test_build_branch_with_a_commit_that_its_record_lacks_goes_only_if_imq_made_it(
    store: Store, parents: tuple[str, ...], by: str, goes: bool
) -> None:
    """P4: a person who took the name before keeps the branch, and so does one who pushed. A backup may lack the rest.

    The merge of the next member is what IMQ makes there.
    """
    github = TrainGitHub(
        branch_tip=SimpleNamespace(sha="newer"),
        commit=SimpleNamespace(parents=parents),
        update_refs=DENIED,
        delete_branch=None,
        branch_pushes=(HeadPush(NO_BRANCH, "newer", NOW, by),),
    )
    unmerged = RunMember(1, "", "head-1")
    state, run = await ended(store, github, members=[unmerged], candidate=None, published_at=None)
    assert await cleaned(state, run) is None
    assert ((run.build_branch,) in github.named("delete_branch")) is goes


@pytest.mark.parametrize("denied", [[DENIED, None], [None, DENIED], [UNEXPLAINED, None]])
async def test_run_is_kept_while_github_may_delete_one_of_its_branches_later(
    store: Store, denied: list[Exception | None]
) -> None:
    """Its record is what IMQ finds them by: a permission lacks, or GitHub is in trouble. P5: a week ends that."""
    github = TrainGitHub(update_refs=DENIED, branch_tip=SimpleNamespace(sha="c1"), delete_branch=[*denied, *denied])
    state, run = await ended(store, github)
    assert isinstance(await cleaned(state, run), Hold)
    assert await is_kept(store, run)
    assert await cleaned(state, run, holds=168) is None
    assert not await is_kept(store, run)


@pytest.mark.parametrize(
    "refused",
    [
        Invalid("Repository rule violations found\n\nNew.", status=422),
        Invalid("Cannot delete this protected branch", status=422),
        RULED,
    ],
)
async def test_branch_that_a_rule_keeps_is_asked_about_once(store: Store, refused: Exception) -> None:
    """P7: each further request would be refused as well. No permission is missing."""
    github = TrainGitHub(update_refs=DENIED, branch_tip=SimpleNamespace(sha="c1"), delete_branch=[refused] * 2)
    state, run = await ended(store, github)
    assert await cleaned(state, run) is None
    assert not await is_kept(store, run)


@pytest.mark.parametrize(("refused", "waits"), [(DENIED, True), (UNEXPLAINED, True), (RULED, False)])
async def test_branches_of_a_test_by_command_are_left_to_another_job_unless_a_rule_keeps_them(
    store: Store, refused: Exception, waits: bool
) -> None:
    """P5: if its own job waited, the next test of that pull request would be refused."""
    github = TrainGitHub(update_refs=DENIED, branch_tip=SimpleNamespace(sha="c1"), delete_branch=[refused])
    state, _ = await ended(store, github)
    cleanup = CandidateCleanup(state.engine)
    assert await cleanup.remove(REPOSITORY, ["imq/main/try-1"], (), made="c1") is waits


@pytest.mark.parametrize("cancels", [True, False])
async def test_workflow_runs_under_way_on_the_branches_of_a_run_are_cancelled(store: Store, cancels: bool) -> None:
    """P7: they hold runners; those that ended, and those of a later run with the same commit, are left alone."""
    state, run = await ended(store, TrainGitHub())
    own, other = {"branch": run.branch}, {"branch": "imq/main/999"}
    found = [
        workflow_run(11, "c1", **own),
        workflow_run(12, "c1", status="completed", conclusion="success", **own),
        workflow_run(13, "c1", **other),
        workflow_run(14, "c9", **own),
    ]

    class WithRuns(TrainGitHub):
        async def workflow_runs(self, *_: object) -> Any:
            return found

    github = WithRuns(cancel_run=None)
    state.engine = replace(state.engine, github=cast(Any, github))
    await cleaned(state, run, cancels=cancels)
    assert github.named("cancel_run") == ([(11,)] if cancels else [])


@pytest.mark.parametrize(
    ("tip", "refusal", "goes"), [("lost", DENIED, True), ("pushed", DENIED, False), ("lost", MOVED, False)]
)
async def test_lost_branch_to_which_somebody_pushed_since_its_proof_stays(
    store: Store, tip: str, refusal: Exception, goes: bool
) -> None:
    """P4: without a request that names the tip, IMQ reads it again before it deletes the branch; that read may lag."""
    github = TrainGitHub(
        candidate_branches={"imq/main/99": "lost"},
        branch_pushes=(HeadPush(NO_BRANCH, "lost", NOW, "imq[bot]"),),
        latest_pull_requests=(),
        update_refs=refusal,
        branch_tip=SimpleNamespace(sha=tip),
        delete_branch=None,
    )
    state, _ = await ended(store, github)
    job = SimpleNamespace(request=asdict(state.queue.repository), holds={})
    await CandidateCleanup(state.engine).clean_lost(cast(Job, job))
    assert (github.named("delete_branch") == [("imq/main/99",)]) is goes
