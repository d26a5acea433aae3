"""The job that disables GitHub's auto-merge: what it does depends on what holds when it runs."""

from dataclasses import asdict, replace
from typing import cast

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Forbidden
from queue_engine.domain.policy import GithubMergePolicy
from queue_engine.domain.port import GitHub as Port
from queue_engine.handlers.inbox import GithubMerges
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import GitHub, Setup
from tests.unit.queue_engine.examples import POLICY, REPOSITORY
from tests.unit.queue_engine.sweeps import a_job


class AutoMerges(GitHub):
    """Answers the mutation: whether auto-merge was enabled; None: IMQ may not disable it."""

    def __init__(self, answer: bool | None) -> None:
        super().__init__()
        self.answer = answer

    async def disable_auto_merge(self, *_: object) -> bool:
        if self.answer is None:
            raise Forbidden("no right", status=403)
        return await self._answer("disable", self.answer)


@pytest.mark.parametrize(
    ("choice", "answer", "asked", "words"),
    [
        (GithubMergePolicy.DISABLE, True, ["pull", "disable"], ["auto_merge_disabled"]),
        (GithubMergePolicy.DISABLE, False, ["pull", "disable"], []),
        (GithubMergePolicy.DISABLE, None, ["pull"], ["failed"]),
        (GithubMergePolicy.IGNORE, True, [], []),
    ],
    ids=["disabled", "disabled by a person", "no right", "ignored since"],
)
async def test_auto_merge_is_disabled_by_the_present_policy_and_announced_only_if_imq_did_it(
    sqlite_database: Database, choice: GithubMergePolicy, answer: bool | None, asked: list[str], words: list[str]
) -> None:
    """P7: a changed policy costs no request. P6: if IMQ lacks the right, the comment mentions the author."""
    scene = Setup(Store(sqlite_database))
    github = AutoMerges(answer)
    policies = StaticPolicies(replace(POLICY, auto_merge=choice))
    engine = replace(scene.engine, github=cast(Port, github), policies=policies)
    await scene.front()
    job = a_job({"repository": asdict(REPOSITORY), "number": 1})
    await GithubMerges(engine).disable(job)
    async with scene.store.reading() as tx:
        events = await tx.timeline.of_pull_request(REPOSITORY.id, 1)
        shown = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)
    assert (github.asked, [each.event for each in events]) == (asked, words)
    if answer is None:
        assert shown is not None
        assert shown.people == ("ada",)
