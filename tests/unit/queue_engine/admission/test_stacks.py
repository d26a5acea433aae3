"""Where a pull request above others lands, and what becomes of its wait as those below change."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from queue_engine.admission.stacks import followed, place_of
from queue_engine.core.database.database import Database
from queue_engine.domain.errors import StaleRead
from queue_engine.domain.facts import BranchRules, PullRequest, Snapshot, StackMember, StackPosition
from queue_engine.domain.model import UnmetRequirement
from queue_engine.domain.port import GitHub as Port
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import Reject
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import GitHub, Setup
from tests.unit.queue_engine.examples import NOW, REPOSITORY, entry, pull, rules

WAITING = entry(unmet=(UnmetRequirement(Reason.STACKED_ABOVE, "#7, of the branch topic"),))


class Stacks(GitHub):
    """Answers the pull request below, and of each branch the pull requests whose head it is; no branch has rules."""

    def __init__(self, below: PullRequest, members: Mapping[str, StackMember]) -> None:
        super().__init__()
        self.pull = below
        self.members = members

    async def branch_rules(self, *_: object, kept: bool = False) -> BranchRules:
        return rules()

    async def stack_members(self, _: object, branch: str) -> tuple[StackMember, ...]:
        return (self.members[branch],) if branch in self.members else ()


def engine_with(database: Database, below: PullRequest, members: Mapping[str, StackMember]) -> Engine:
    return replace(Setup(Store(database)).engine, github=cast(Port, Stacks(below, members)))


async def test_stack_without_registration_is_followed_down_to_the_branch_on_which_it_lands(
    sqlite_database: Database,
) -> None:
    """Each level is the head of the one below."""
    engine = engine_with(sqlite_database, pull(), {"mid": StackMember(5, "low"), "low": StackMember(3, "main")})
    taken = Snapshot(pull(base_branch="topic", default_branch="main"), below=(StackMember(7, "mid"),))
    assert await place_of(engine, REPOSITORY, taken) == StackPosition(7, "topic", "main")


async def test_pull_request_whose_lower_one_landed_on_a_further_one_waits_for_that(sqlite_database: Database) -> None:
    """P4: GitHub changed its base branch to the one where the lower one landed, which is no branch to land on yet."""
    below = pull(number=7, head_branch="topic", base_branch="low", open=False, merged=True)
    engine = engine_with(sqlite_database, below, {})
    taken = Snapshot(pull(base_branch="low", default_branch="main"), below=(StackMember(3, "main"),))
    found = await followed(engine, WAITING, taken)
    assert not isinstance(found, Reject)
    assert (found[1].stack, found[1].pull.base_branch) == (StackPosition(3, "low", "main"), "main")


@pytest.mark.parametrize("ago", [timedelta(0), timedelta(minutes=1)])
async def test_changed_base_branch_ends_the_wait_unless_the_one_below_may_just_have_landed(
    sqlite_database: Database, ago: timedelta
) -> None:
    """P4: GitHub's reads may show the landing later than the change that it caused."""
    engine = engine_with(sqlite_database, pull(number=7, head_branch="topic"), {})
    taken = Snapshot(pull(base_branch="main", updated_at=NOW - ago))
    if not ago:
        with pytest.raises(StaleRead):
            await followed(engine, WAITING, taken)
    else:
        assert await followed(engine, WAITING, taken) == Reject(Reason.BASE_CHANGED)
