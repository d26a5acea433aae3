"""P4: which stored commands a landing waits for and for how long, and which heads are IMQ's own updates."""

from dataclasses import replace
from typing import Any, cast

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import RequestOrderError
from queue_engine.domain.facts import Commit, Comparison
from queue_engine.domain.port import GitHub
from queue_engine.domain.webhooks import WEBHOOK_JOB, CommentCommand
from queue_engine.known.own_writes import AWAITED, await_withdrawals, updated_by_imq
from queue_engine.store import Store
from tests.store.examples import entry, queue, stand
from tests.unit.queue_engine.examples import NOW
from tests.unit.queue_engine.known.answers import unqueue


@pytest.fixture
def store(sqlite_database: Database) -> Store:
    return Store(sqlite_database)


async def awaited(store: Store, *commands: CommentCommand, times: int = 0) -> list[Any]:
    """The places of those that the landing of pull request 1 waits for, then the seconds until it tries again.

    It waited for the first of them so many times before.
    """
    async with store.transaction() as tx:
        front = await stand(tx, await queue(tx), 1)
        requests = [
            (f"{each.repository_id}:{each.number}", each.model_dump(mode="json", exclude_none=True))
            for each in commands
        ]
        ids = await tx.jobs.enqueue_all(kind=WEBHOOK_JOB, requests=requests, now=NOW, traces=[None] * len(requests))
        for _ in range(times):
            await tx.jobs.await_these(ids[:1], NOW, AWAITED)
        try:
            await await_withdrawals(tx, front)
        except RequestOrderError as waits:
            return [*sorted(ids.index(job) for job in waits.jobs), waits.retry_after.total_seconds()]
    return []


async def test_nothing_stored_keeps_no_landing(store: Store) -> None:
    assert await awaited(store) == []


@pytest.mark.parametrize(
    ("command", "waits"),
    [
        (unqueue(), [0, 1]),
        (unqueue(number=2), []),
        (unqueue(number=2, withdraws="repository"), [0, 1]),
        (unqueue(withdraws=None), []),
        (unqueue(repository_id=entry().repository.id + 1), []),
    ],
)
async def test_landing_waits_for_what_may_withdraw_its_pull_request_or_pause_its_queue(
    store: Store, command: CommentCommand, waits: list[int]
) -> None:
    """P5: a command about another pull request or repository keeps none."""
    assert await awaited(store, command) == waits


async def test_of_a_person_the_first_command_of_each_kind_counts(store: Store) -> None:
    """P5: more comments of a person keep a landing no longer, however the login is capitalized."""
    again = unqueue("Hubot", comment_id=2)
    pauses = unqueue(withdraws="repository", comment_id=3)
    assert await awaited(store, unqueue(), again, pauses, unqueue("mona")) == [0, 2, 3, 1]


@pytest.mark.parametrize(("association", "author", "waits"), [("NONE", None, 3), ("MEMBER", None, 5), (None, "s", 3)])
async def test_landing_waits_for_few_strangers(
    store: Store, association: str | None, author: str | None, waits: int
) -> None:
    """P5: accounts without rights keep no landing in their number; a maintainer's command after them counts."""
    strangers = [unqueue(f"s{n}", association=association, author=author) for n in range(5)]
    found = await awaited(store, *strangers, unqueue("maintainer"))
    assert found == [*range(waits), 5, 1]


@pytest.mark.parametrize(("times", "waits"), [(0, [0, 1]), (1, [0, 2]), (5, [0, 30]), (6, [])])
async def test_landing_waits_longer_each_time_and_then_no_more(store: Store, times: int, waits: list[int]) -> None:
    """P5: 1, 2, 4, 8, 16 and 30 seconds."""
    assert await awaited(store, unqueue(), times=times) == waits


async def test_landing_tries_again_when_the_first_of_two_commands_may_be_judged(store: Store) -> None:
    """P6: the one that was waited for longer delays no other."""
    assert await awaited(store, unqueue(), unqueue("mona"), times=3) == [0, 1, 1]


class Updated:
    """A GitHub where each head of the form `u3` is an update of the one before; `u0` is what a person pushed."""

    def __init__(self, *, made_by_imq: bool = True) -> None:
        self.made_by_imq = made_by_imq
        self.asked = list[tuple[str, str]]()

    async def comparison(self, _repository: object, branch: str, sha: str) -> Comparison:
        self.asked.append((branch, sha))
        number = int(sha[1:])
        parents = (f"u{number - 1}", "base") if number else ("work",)
        head = Commit(sha, f"tree-of-{sha}", parents, made_by_imq=self.made_by_imq and number > 0)
        return Comparison(base_tip="base", merge_base="base", behind=0, head=head)


@pytest.mark.parametrize(
    ("head", "known", "made_by_imq", "ours", "reads"),
    [
        ("u1", "u0", True, True, 1),
        ("u3", "u0", True, True, 3),
        ("u10", "u0", True, True, 10),
        ("u11", "u0", True, False, 10),
        ("u1", "u0", False, False, 1),
        ("u2", "other", True, False, 3),
    ],
)
async def test_head_is_imqs_update_if_only_imqs_updates_lead_to_the_known_one(
    head: str, known: str, made_by_imq: bool, ours: bool, reads: int
) -> None:
    """P4: consent for the known head is consent for them. P7: at most ten reads."""
    github = Updated(made_by_imq=made_by_imq)
    assert await updated_by_imq(cast(GitHub, github), replace(entry(), head_sha=known), head) is ours
    assert [branch for branch, _ in github.asked] == ["main"] * reads
