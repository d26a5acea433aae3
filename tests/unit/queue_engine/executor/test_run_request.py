"""The decisions of a `/try`: what its checks say, what ends it, and what goes with it."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.domain.errors import Forbidden, WriteRefused
from queue_engine.domain.facts import CheckReport, CheckState, RequiredCheck
from queue_engine.domain.notice import CommandReply, Reply, ReplyKind
from queue_engine.effects.context import Engine
from queue_engine.executor.run_request import RunRequests
from queue_engine.store import Store
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Clock
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY, REPOSITORY, report

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING
FACTS = {"base_branch": "main", "candidate": "built", "skipped": ["title"], "published": NOW.isoformat()}


def requests(reports: tuple[CheckReport, ...] = (), store: Store | None = None) -> RunRequests:
    """Tests on a GitHub that shows these reports."""

    async def check_reports(*_: object) -> tuple[CheckReport, ...]:
        return reports

    github = cast(Any, SimpleNamespace(check_reports=check_reports))
    engine = Engine(cast(Any, store), github, Clock(), StaticPolicies(POLICY), random=lambda: 0.5, owner="w")
    return RunRequests(engine)


@pytest.mark.parametrize(
    ("required", "reports", "since", "result"),
    [
        ("ci", (report("ci"),), 0, (ReplyKind.TRY_PASSED, "")),
        ("ci title", (report("ci"),), 0, (ReplyKind.TRY_PASSED, "")),
        ("title", (), 0, None),
        ("ci", (report("ci", FAILED), report("lint", FAILED)), 0, (ReplyKind.TRY_FAILED, "ci")),
        ("", (report("ci", FAILED), report("lint", FAILED)), 0, (ReplyKind.TRY_FAILED, "ci, lint")),
        ("", (report("ci"),), 0, (ReplyKind.TRY_PASSED, "")),
        ("", (), 0, None),
        ("ci", (report("ci", PENDING),), 0, None),
        ("ci", (report("ci", PENDING),), 100, (ReplyKind.TRY_ENDED, "its checks did not end in time")),
        ("ci", (), 100, (ReplyKind.TRY_ENDED, "no check reported on it")),
    ],
)
async def test_checks_end_a_test_or_let_it_wait(
    required: str, reports: tuple[CheckReport, ...], since: int, result: object
) -> None:
    """P1, P5: `title` is a check of pull requests alone, so it is not waited for; no report passes nothing."""
    wanted = frozenset(RequiredCheck(each, None) for each in required.split())
    facts = FACTS | {"published": (NOW - since * HOUR).isoformat()}
    assert await requests(reports)._judged(REPOSITORY, facts, wanted, POLICY) == result


@pytest.mark.parametrize(
    ("step", "code", "cleaned"),
    [
        ((ReplyKind.TRY_PASSED, ""), ReplyKind.TRY_PASSED, False),
        ((ReplyKind.TRY_FAILED, "ci"), ReplyKind.TRY_FAILED, False),
        ((ReplyKind.TRY_ENDED, "it closed"), ReplyKind.TRY_ENDED, True),
        (Forbidden("no", status=403), ReplyKind.TRY_ENDED, True),
        (None, ReplyKind.TRYING, None),
        (WriteRefused("shadow mode"), ReplyKind.TRYING, None),
    ],
)
async def test_result_is_kept_and_only_a_test_without_one_has_its_runs_cancelled(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, step: Any, code: ReplyKind, cleaned: bool | None
) -> None:
    """P2, P7: other checks of a test with a result run to their end; shadow mode keeps the test."""
    store, given = Store(sqlite_database), list[bool]()
    made = requests(store=store)

    async def stepped(*_: object) -> Any:
        if isinstance(step, Exception):
            raise step
        return step

    async def clean(*_: object, cancels: bool) -> None:
        given.append(cancels)

    monkeypatch.setattr(made, "_step", stepped)
    monkeypatch.setattr(made, "_clean", clean)
    trying = Reply(command="try", accepted=True, code=ReplyKind.TRYING, facts=FACTS | {"head": "head-1", "on": "main"})
    other = replace_code(trying, ReplyKind.QUEUED)
    async with store.transaction() as tx:
        await tx.repositories.refresh(REPOSITORY)
        await tx.answers.put(REPOSITORY.id, 1, 7, CommandReply(at=NOW, by="ada", replies=(other, trying, other)))
    request = {"repository": asdict(REPOSITORY), "number": 1, "base_branch": "main", "comment": 7, "by": "ada"}
    held = await made.advance(cast(Job, SimpleNamespace(request=request, claims=0)))
    async with store.reading() as tx:
        answer = await tx.answers.find(REPOSITORY.id, 1, comment_id=7)
    assert answer is not None
    assert [each.code for each in answer.replies] == [ReplyKind.QUEUED, code, ReplyKind.QUEUED]
    assert (given, isinstance(held, Hold)) == ([] if cleaned is None else [cleaned], cleaned is None)


def replace_code(reply: Reply, code: ReplyKind) -> Reply:
    """Another reply of the same comment."""
    return reply.model_copy(update={"code": code})
