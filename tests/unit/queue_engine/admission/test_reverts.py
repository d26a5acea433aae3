"""Open the revert of a landed pull request, or find the one that is there."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queue_engine.admission.rejection import RejectionError
from queue_engine.admission.reverts import open_revert, queue_revert, request_revert, revert_culprit
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Job
from queue_engine.domain.culprit import BaseCommit, CulpritOutcome, CulpritRecord
from queue_engine.domain.errors import StaleRead
from queue_engine.domain.facts import Commit, HeadPush, Permission, PullRequest, Snapshot
from queue_engine.domain.policy import CulpritPolicy
from queue_engine.domain.port import BranchUpdate
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.store import Store
from tests.store.test_landing_records import record
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Clock
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY, pull

MARK = "<!-- imq revert 1 -->"
LANDED = replace(pull(), number=1, open=False, merged=True)
REVERT = replace(pull(), number=9, body=MARK, author="imq[bot]")


class GitHub:
    """The pull requests of a repository; each revert gets the next number."""

    def __init__(self, *pulls: PullRequest) -> None:
        self.pulls = {each.number: each for each in (LANDED, *pulls)}
        self.made: list[int] = []
        self.closes = False
        """Whether people close a pull request just before IMQ reads it by a snapshot."""
        self.pushed: str | None = None
        """The commit of each revert, if somebody pushes just after GitHub made it."""
        self.pushes: tuple[HeadPush, ...] = ()
        """GitHub's history of each revert's branch."""
        self.message = ""
        """That of the landed commit."""
        self.title = ""
        """That of the commit of each revert."""
        self.commits: list[tuple[str, tuple[str, ...], str]] = []
        self.moves: list[Sequence[BranchUpdate]] = []

    async def latest_pull_requests(self, *_: object) -> tuple[PullRequest, ...]:
        return tuple(each for each in self.pulls.values() if each.open)

    async def head_pushes(self, *_: object) -> tuple[HeadPush, ...]:
        return self.pushes

    async def commit(self, _repository: object, sha: str) -> Commit:
        return Commit(sha, "tree", (), message=self.message)

    async def permission(self, *_: object) -> Permission:
        return Permission.WRITE

    async def own_login(self) -> str:
        return "imq[bot]"

    async def pull_request(self, _repository: object, number: int) -> PullRequest:
        return self.pulls[number]

    async def snapshot(self, _repository: object, number: int, **_: object) -> Snapshot:
        return Snapshot(replace(self.pulls[number], open=not self.closes), None, None)

    async def revert_pull_request(self, *_: object) -> tuple[int, str, Commit]:
        number = max(self.pulls) + 1
        self.pulls[number] = replace(REVERT, number=number)
        self.made.append(number)
        head = self.pulls[number].head_sha if self.pushed is None else self.pushed
        return number, "revert-1", Commit(head, "tree", (), message=self.title)

    async def create_commit(self, _: object, tree: str, parents: tuple[str, ...], message: str) -> Commit:
        self.commits.append((tree, parents, message))
        return Commit("without", tree, parents)

    async def update_refs(self, _: object, updates: Sequence[BranchUpdate]) -> None:
        self.moves.append(updates)


def engine_with(database: Database, github: GitHub, culprit: CulpritPolicy = CulpritPolicy.REVERT) -> Engine:
    policies = StaticPolicies(replace(POLICY, culprit=culprit))
    return Engine(Store(database), cast(Any, github), Clock(), policies, random=lambda: 0.5, owner="w")


@pytest.mark.parametrize(
    ("there", "number"),
    [
        (REVERT, 9),
        (replace(REVERT, author="mallory"), 10),
        (replace(REVERT, body=MARK.replace("1", "11")), 10),
        (replace(REVERT, open=False), 10),
    ],
)
async def test_open_revert_of_ones_own_is_found_and_no_other(
    sqlite_database: Database, there: PullRequest, number: int
) -> None:
    """P2, P4: the mark is found after a kill; anyone may copy it, and what is closed reverts nothing."""
    github = GitHub(there)
    assert (await open_revert(engine_with(sqlite_database, github), REPOSITORY, LANDED, by="ada")).number == number
    assert github.made == [number][: number - 9]


async def test_revert_whose_commit_imq_replaced_is_read_again_until_reads_show_it(sqlite_database: Database) -> None:
    """P4: the commit that is queued is the newer one, which IMQ made of GitHub's own; an older read is no push."""
    github = GitHub()
    github.title = 'Revert "Add [skip ci]"'
    engine = engine_with(sqlite_database, github)
    for _ in range(2):
        with pytest.raises(StaleRead):
            await queue_revert(engine, REPOSITORY, LANDED, by="ada")
    assert github.commits == [("tree", (), 'Revert "Add skip-ci"')]
    [[move]] = github.moves
    assert (move.branch, move.before, move.after) == ("revert-1", github.pulls[2].head_sha, "without")
    github.pulls[2] = replace(github.pulls[2], head_sha="pushed")
    done = await queue_revert(engine, REPOSITORY, LANDED, by="ada")
    assert done.refused is not None
    assert done.refused.reason is Reason.HEAD_CHANGED


async def test_revert_that_was_closed_is_opened_again_and_an_open_one_is_not(sqlite_database: Database) -> None:
    """People may close a revert, and ask for it later."""
    github = GitHub()
    engine = engine_with(sqlite_database, github)
    for _ in range(2):
        assert (await open_revert(engine, REPOSITORY, LANDED, by="ada")).number == 2
    async with engine.store.reading() as tx:
        events = await tx.timeline.of_pull_request(REPOSITORY.id, LANDED.number)
    assert [each.data["revert"] for each in events] == [2]
    github.pulls[2] = replace(github.pulls[2], open=False)
    assert (await open_revert(engine, REPOSITORY, LANDED, by="ada")).number == 3


async def test_commit_of_a_former_revert_is_no_proof_for_a_later_one(sqlite_database: Database) -> None:
    """P4: a job died after it had opened the second one, whose commit is not stored."""
    github = GitHub()
    engine = engine_with(sqlite_database, github)
    assert (await open_revert(engine, REPOSITORY, LANDED, by="ada")).head_sha is not None
    github.pulls |= {2: replace(github.pulls[2], open=False), 9: REVERT}
    made = await open_revert(engine, REPOSITORY, LANDED, by="ada")
    assert (made.number, made.head_sha, github.made) == (9, None, [2])


async def test_revert_that_has_closed_meanwhile_is_not_queued(sqlite_database: Database) -> None:
    """P4: a read after a kill may show what people did in between."""
    github = GitHub()
    engine = engine_with(sqlite_database, github)
    made = await open_revert(engine, REPOSITORY, LANDED, by="ada")
    github.closes = True
    assert await queue_revert(engine, REPOSITORY, LANDED, by="ada") == made


async def culprit_job(engine: Engine, *, by: str | None = "ada", named: int | None = 1) -> Job:
    """The job that reverts a culprit, #1, that `ada` queued."""
    row = (BaseCommit("base-0"), BaseCommit("base-1", 1))
    async with engine.store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        search = await tx.culprits.add(
            CulpritRecord(queue.id, "ci", row, (), NOW, named=named, outcome=CulpritOutcome.NAMED), REPOSITORY.id
        )
        landed = record(1) | {"members": [{"number": 1, "consents": [{"by": by}]}]}
        await tx.landings.add(landed, NOW, None, ())
    return cast(Job, SimpleNamespace(request={"queue_id": queue.id, "search": search.id}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"title": 'Revert "Change"'}, ""),
        ({"title": "Reland: Change"}, ""),
        ({"head_branch": "revert-7-change"}, ""),
        ({"author": "imq[bot]"}, ""),
        ({"body": "Too slow.\n\nReverts acme/widgets#7"}, ""),
        ({"body": "This reverts commit 1234567."}, ""),
        ({}, "Faster again\n\nThis reverts commit 1234567."),
    ],
)
async def test_culprit_that_may_be_a_revert_is_left_to_people(
    sqlite_database: Database, changes: dict[str, str], message: str
) -> None:
    """P5: IMQ and people would revert each other for ever."""
    github = GitHub(replace(LANDED, **cast(Any, changes)))
    github.message = message
    engine = engine_with(sqlite_database, github)
    await revert_culprit(engine, await culprit_job(engine))
    assert github.made == []


async def test_revert_that_is_not_queued_is_not_announced_as_queued(sqlite_database: Database) -> None:
    """P4, P6: somebody pushed to it, which `ada` has not consented to; her comment still says what to do."""
    github = GitHub()
    github.pushed = "made-by-github"
    engine = engine_with(sqlite_database, github)
    job = await culprit_job(engine)
    await revert_culprit(engine, job)
    async with engine.store.reading() as tx:
        [search] = await tx.culprits.of_queue(job.request["queue_id"])
        assert await tx.entries.of_repository(REPOSITORY.id) == ()
    assert (github.made, search.revert) == ([2], None)


@pytest.mark.parametrize("body", ["It reverts nothing.", "See #7, which reverts #5"])
async def test_culprit_that_is_no_revert_is_reverted(sqlite_database: Database, body: str) -> None:
    """Other words about reverts are no sign of one."""
    github = GitHub(replace(LANDED, body=body))
    github.pushed = "elsewhere"
    engine = engine_with(sqlite_database, github)
    await revert_culprit(engine, await culprit_job(engine))
    assert github.made == [2]


MADE = HeadPush("0" * 40, REVERT.head_sha, NOW, "imq[bot]")


@pytest.mark.parametrize(
    ("pushes", "reason"),
    [
        ((), Reason.HEAD_CHANGED),
        ((replace(MADE, by="mona"),), Reason.HEAD_CHANGED),
        ((replace(MADE, before="pushed"),), Reason.HEAD_CHANGED),
        ((replace(MADE, after="another"),), Reason.HEAD_CHANGED),
        ((replace(MADE, before="made"), replace(MADE, after="made", by="mona")), Reason.HEAD_CHANGED),
        ((replace(MADE, before="made"), replace(MADE, after="made")), Reason.LABEL_WITHOUT_RIGHT),
        ((MADE,), Reason.LABEL_WITHOUT_RIGHT),
    ],
)
async def test_revert_whose_commit_was_never_stored_needs_githubs_proof_of_it(
    sqlite_database: Database, pushes: tuple[HeadPush, ...], reason: Reason
) -> None:
    """P4: a job died after GitHub's answer, and people may have pushed since. The proved one gets to the next rule."""
    github = GitHub(REVERT)
    github.pushes = pushes
    engine = engine_with(sqlite_database, github)
    object.__setattr__(github, "permission", no_permission)
    done = await queue_revert(engine, REPOSITORY, LANDED, by="ada")
    assert (done.number, done.refused and done.refused.reason) == (9, reason)


@pytest.mark.parametrize(("by", "head"), [("imq[bot]", "without"), ("mona", None)])
async def test_revert_whose_commit_was_never_stored_gets_ci_all_the_same(
    sqlite_database: Database, by: str, head: str | None
) -> None:
    """P2: a job died before it replaced a commit that skips CI. P4: a person's commit stays as it is."""
    github = GitHub(REVERT)
    github.pushes, github.message = (replace(MADE, by=by),), 'Revert "Add [skip ci]"'
    opened = await open_revert(engine_with(sqlite_database, github), REPOSITORY, LANDED, by="ada")
    assert (opened.number, opened.head_sha) == (9, head)
    moved = [(each.branch, each.before, each.after) for [each] in github.moves]
    assert moved == ([] if head is None else [(REVERT.head_branch, MADE.after, head)])


async def no_permission(*_: object) -> Permission:
    return Permission.NONE


@pytest.mark.parametrize("recent", [2, 3])
async def test_fourth_revert_of_an_hour_is_left_to_people(sqlite_database: Database, recent: int) -> None:
    """P5: whatever goes wrong, it goes wrong three times. One of an hour ago does not count."""
    github = GitHub()
    github.pushed = "elsewhere"
    engine = engine_with(sqlite_database, github)
    job = await culprit_job(engine)
    async with engine.store.transaction() as tx:
        done = CulpritRecord(job.request["queue_id"], "ci", (BaseCommit("base-0"),), (), NOW, revert=90)
        for started in (*[NOW] * recent, NOW - timedelta(minutes=61)):
            await tx.culprits.add(replace(done, started=started), REPOSITORY.id)
    await revert_culprit(engine, job)
    assert github.made == [2][recent - 2 :]


@pytest.mark.parametrize(
    ("culprit", "changes"),
    [
        (CulpritPolicy.NAME, {}),
        (CulpritPolicy.OFF, {}),
        (CulpritPolicy.REVERT, {"by": None}),
        (CulpritPolicy.REVERT, {"named": None}),
    ],
)
async def test_revert_needs_the_configuration_of_now_a_culprit_and_a_person(
    sqlite_database: Database, culprit: CulpritPolicy, changes: dict[str, Any]
) -> None:
    """P4: in whose name, and whether maintainers still want it."""
    github = GitHub()
    engine = engine_with(sqlite_database, github, culprit)
    await revert_culprit(engine, await culprit_job(engine, **changes))
    assert github.made == []


@pytest.mark.parametrize("merged", [False, True])
async def test_reverted_change_relands_only_after_its_revert_has_landed(
    sqlite_database: Database, merged: bool
) -> None:
    """P6: a revert that people closed has reverted nothing; a third person may not, the author and writers may."""
    github = GitHub()
    engine = engine_with(sqlite_database, github)
    assert not (await request_revert(engine, REPOSITORY, 1, by="ada", reland=True)).landed
    await open_revert(engine, REPOSITORY, LANDED, by="ada")
    github.pulls[2] = replace(github.pulls[2], open=False, merged=merged)
    done = await request_revert(engine, REPOSITORY, 1, by="writer", reland=True)
    assert (done.landed, done.number, github.made) == ((True, 3, [2, 3]) if merged else (False, None, [2]))
    object.__setattr__(github, "permission", no_permission)
    again = await request_revert(engine, REPOSITORY, 1, by=LANDED.author.upper(), reland=True)
    assert again.number == done.number
    for reland in (True, False):
        with pytest.raises(RejectionError):
            await request_revert(engine, REPOSITORY, 1, by="writer", reland=reland)


async def test_pull_request_that_has_not_landed_has_no_revert(sqlite_database: Database) -> None:
    """P6: nothing is opened."""
    github = GitHub(replace(LANDED, merged=False))
    engine = engine_with(sqlite_database, github)
    assert not (await request_revert(engine, REPOSITORY, 1, by="ada")).landed
    assert github.made == []
