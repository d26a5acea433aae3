"""The sweep of a repository: which labels it asks GitHub for, and whom it finds by them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import pytest

from queue_engine.config.model import Policy
from queue_engine.core.concurrency.request_context import RequestPriority, current_work
from queue_engine.core.database.database import Database
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.errors import NotFound
from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.port import PAGE, GitHub, SnapshotRequest
from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.effects.context import Engine
from queue_engine.handlers.reconciler import REPOSITORY_JOB, SWEEP_JOB, Reconciler, enqueue_sweep
from queue_engine.handlers.repository_events import LABEL_JOB, MISSING_JOB
from queue_engine.handlers.stale_comments import STALE_COMMENTS_JOB
from queue_engine.store import Store
from tests.store.examples import NOW, REPOSITORY, queue, stand
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.examples import pull
from tests.unit.queue_engine.sweeps import sweep_repository

LATER = timedelta(hours=1)


class Rules(StaticPolicies):
    """The default branch's configuration has one label, `release` labels of its own."""

    def __init__(self, *own: str) -> None:
        super().__init__(Policy(trigger_labels=("Land",)))
        self.own = own

    async def of(self, repository: Repository, base_branch: str) -> Policy:
        return Policy(trigger_labels=self.own) if base_branch == "release" else await super().of(repository, "")


class GitHubOfLists:
    """GitHub as far as a sweep goes; keeps by which labels it was asked, and who was read."""

    def __init__(self, *latest: PullRequest) -> None:
        self.latest = latest
        self.labels: list[str] = []
        self.read: list[int] = []
        self.priorities: set[RequestPriority] = set()

    async def latest_pull_requests(self, repository: Repository) -> tuple[PullRequest, ...]:
        self.priorities.add(current_work().priority)
        return self.latest

    async def labeled_pull_requests(self, repository: Repository, label: str) -> tuple[int, ...]:
        self.labels.append(label)
        return (1000 + len(self.labels),)

    async def prepare_writes(self, repository: Repository) -> None:
        """Nothing is written."""

    async def history(self, *_: object) -> tuple[()]:
        return ()

    async def pull_request(self, repository: Repository, number: int) -> PullRequest:
        self.read.append(number)
        return pull(number=number, open=False)

    async def branch_tip(self, repository: Repository, branch: str) -> str:
        return "tip"

    async def snapshot(self, repository: Repository, number: int, **_: object) -> Snapshot:
        return Snapshot(await self.pull_request(repository, number))


async def sweep(database: Database, github: GitHubOfLists, rules: Rules, *branches: str) -> None:
    """Sweep a repository with queues for these branches."""
    store = Store(database)
    engine = Engine(store, cast(GitHub, github), SystemClock(), rules, lambda: 0.5, "test")
    async with engine.change() as change:
        for branch in branches:
            await change.tx.queues.find_or_create(REPOSITORY, branch, NOW)
    await sweep_repository(engine, REPOSITORY)


def many() -> tuple[PullRequest, ...]:
    """As many pull requests as one answer holds, none with a label."""
    return tuple(pull(number=n, labels=frozenset()) for n in range(1, PAGE + 1))


async def test_sweep_finds_a_label_that_only_another_branchs_own_rules_name(database: Database) -> None:
    """The sweep loses nothing that a webhook would have reported (P2), and no label counts on another branch."""
    theirs = pull(number=1, base_branch="release", labels=frozenset({"Ship"}))
    ours = pull(number=2, base_branch="main", labels=frozenset({"ship"}))
    unlike = pull(number=3, base_branch="release", labels=frozenset({"land"}))
    github = GitHubOfLists(theirs, ours, unlike)
    await sweep(database, github, Rules("ship"), "main", "release")
    assert github.read == [1]
    assert github.labels == []


async def test_sweep_of_a_branch_without_a_queue_goes_by_the_default_branchs_labels(database: Database) -> None:
    """P7: no branch's own rules are read before anything was queued for it."""
    github = GitHubOfLists(pull(number=1, base_branch="release", labels=frozenset({"land"})))
    await sweep(database, github, Rules("ship"), "main")
    assert github.read == [1]


@pytest.mark.parametrize(
    ("own", "branches", "asked"),
    [
        (("land",), ("main", "release"), ["land"]),
        (("ship",), ("main",), ["Land"]),
        (("ship", "LAND"), ("main", "release"), ["LAND", "ship"]),
    ],
)
async def test_sweep_of_many_pull_requests_asks_for_each_label_once(
    database: Database, own: tuple[str, ...], branches: tuple[str, ...], asked: list[str]
) -> None:
    """P7: where all branches share one label, in whatever case, one more request finds who is not among the latest."""
    github = GitHubOfLists(*many())
    await sweep(database, github, Rules(*own), *branches)
    assert sorted(github.labels, key=str.casefold) == asked
    assert github.read == list(range(1001, 1001 + len(asked)))


async def test_sweep_of_many_reads_queued_pull_requests_by_one_query(sqlite_database: Database) -> None:
    """P7: only those that seem to have lost consent, or that the query did not show, are read by themselves."""
    github, asked = GitHubOfLists(*many()), list[int]()

    async def snapshots(_: Repository, requests: Sequence[SnapshotRequest]) -> dict[int, Snapshot]:
        asked.extend(each.number for each in requests)
        kept = pull(number=201, labels=frozenset({"Land"}), head_sha=requests[0].head_sha)
        return {201: Snapshot(kept), 202: Snapshot(pull(number=202, open=False))}

    github.snapshots = snapshots  # type: ignore[attr-defined]
    async with Store(sqlite_database).transaction() as tx:
        main = await queue(tx)
        for number in (201, 202, 203):
            await stand(tx, main, number)
    await sweep(sqlite_database, github, Rules("ship"))
    assert asked == [201, 202, 203]
    assert sorted(set(github.read) - {1001}) == [202, 203]


async def test_pull_request_that_is_not_found_hides_no_other(sqlite_database: Database) -> None:
    """P5: each is a job of its own, and the error of the one names it."""
    github = GitHubOfLists(*(pull(number=n, labels=frozenset({"land"})) for n in (1, 2, 3)))
    found = github.pull_request

    async def pull_request(repository: Repository, number: int) -> PullRequest:
        if number == 2:
            raise NotFound("Not Found", status=404)
        return await found(repository, number)

    github.pull_request = pull_request  # type: ignore[method-assign]
    with pytest.raises(ExceptionGroup) as failed:
        await sweep(sqlite_database, github, Rules("ship"))
    assert github.read == [1, 3]
    assert [str(error) for error in failed.value.exceptions] == ["pull request 2 of acme/rocket: Not Found"]


async def test_sweep_comes_behind_what_people_wait_for(sqlite_database: Database) -> None:
    """P7: its jobs are claimed last, and its requests leave room to others: someone's label waits for no sweep."""
    github = GitHubOfLists(pull(number=1, labels=frozenset()))
    engine = Engine(Store(sqlite_database), cast(GitHub, github), SystemClock(), Rules("ship"), lambda: 0.5, "test")
    async with engine.change() as change:
        await enqueue_sweep(change, REPOSITORY)
        await change.tx.jobs.enqueue(kind=WEBHOOK_JOB, request={}, process_id="somebody", now=change.now)
        claimed = await change.tx.jobs.claim_some(2, owner="t", now=change.now, lease=timedelta(minutes=1))
    assert [job.kind for job in claimed] == [WEBHOOK_JOB, REPOSITORY_JOB]
    await Reconciler(engine, interval=timedelta(minutes=10)).sweep_repository(claimed[1])
    assert github.priorities == {RequestPriority.BACKGROUND}
    async with engine.change() as change:
        await change.tx.jobs.finish(claimed)
        await change.tx.jobs.enqueue(kind=WEBHOOK_JOB, request={}, process_id="somebody else", now=change.now + LATER)
        claimed = await change.tx.jobs.claim_some(9, owner="t", now=change.now + LATER, lease=timedelta(minutes=1))
    assert [job.kind for job in claimed] == [WEBHOOK_JOB, STALE_COMMENTS_JOB, LABEL_JOB]


@pytest.mark.parametrize(
    ("action", "named", "kind"),
    [
        ("added", (REPOSITORY,), REPOSITORY_JOB),
        ("unarchived", (REPOSITORY,), REPOSITORY_JOB),
        ("removed", (REPOSITORY,), MISSING_JOB),
        ("archived", (REPOSITORY,), MISSING_JOB),
        ("transferred", (REPOSITORY,), SWEEP_JOB),
        ("removed", (), SWEEP_JOB),
    ],
)
async def test_webhook_about_repositories_costs_no_read_of_others_where_it_names_all(
    sqlite_database: Database, action: str, named: tuple[Repository, ...], kind: str
) -> None:
    """P7: one that is out of reach is read by itself, since no list has it."""
    store = Store(sqlite_database)
    github = cast(GitHub, GitHubOfLists())
    engine = Engine(store, github, SystemClock(), Rules(), random=lambda: 0.5, owner="w")
    await Reconciler(engine, interval=LATER).request_of(REPOSITORY.installation_id, action, named)
    async with store.reading() as tx:
        found = {
            each: await tx.jobs.unfinished_requests(each, each) for each in (REPOSITORY_JOB, MISSING_JOB, SWEEP_JOB)
        }
    assert [each for each, requests in found.items() if requests] == [kind]
