"""Stored modes of repositories, and pull requests in shadow mode."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import CheckState
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import BaseState, ShadowAction, ShadowLanding, ShadowOutcome, ShadowPull
from queue_engine.store import Transaction
from tests.store.examples import NOW, REPOSITORY
from tests.unit.queue_engine.examples import entry

OTHER = Repository(REPOSITORY.id + 1, "grace", "compiler", 4)
PULL = ShadowPull(
    REPOSITORY,
    4,
    "Add",
    "main",
    "head",
    enqueued_at=NOW,
    queued_by="mona",
    decision=ShadowAction(ShadowOutcome.WAITING, NOW, Reason.FROZEN, "Weekend", ("ci",), predicted_at=NOW),
    entry=entry(number=4),
    due_at=NOW + timedelta(minutes=15),
)
LANDING = ShadowLanding(
    at=NOW,
    by="mona",
    sha="landed",
    head_sha="head",
    reason=None,
    detail=None,
    checks=CheckState.PASSED,
    not_passed=(),
    tree_tested=False,
    before="before",
    approved_at=NOW,
    base=BaseState.RED,
    base_checks=("ci",),
    red_before=False,
)


async def test_mode_is_unknown_until_it_is_set(t: Transaction) -> None:
    """A new database knows no mode before the first sweep."""
    assert await t.shadow.mode(REPOSITORY.id) is None
    await t.shadow.set_mode(REPOSITORY, Mode.SHADOW)
    await t.shadow.set_mode(OTHER, Mode.QUEUE)
    assert await t.shadow.mode(REPOSITORY.id) is Mode.SHADOW
    assert await t.shadow.modes({REPOSITORY.id, OTHER.id, 99}) == {REPOSITORY.id: Mode.SHADOW, OTHER.id: Mode.QUEUE}
    assert await t.shadow.repositories() == (REPOSITORY,)


async def test_pull_request_is_read_as_it_was_stored(t: Transaction) -> None:
    """Its would-be entry, too, so that time limits continue."""
    await t.shadow.put(PULL, NOW)
    assert await t.shadow.find(REPOSITORY.id, 4) == replace(PULL, version=1)
    landed = replace(PULL, version=1, entry=None, landing=LANDING)
    await t.shadow.put(landed, NOW)
    assert await t.shadow.find(REPOSITORY.id, 4) == replace(landed, version=2)


async def test_pull_request_that_changed_since_is_not_overwritten(t: Transaction) -> None:
    """Reports on a commit and events of its pull request are handled at the same time."""
    await t.shadow.put(PULL, NOW)
    with pytest.raises(StaleRecord):
        await t.shadow.put(PULL, NOW)
    await t.shadow.put(replace(PULL, version=1), NOW)
    with pytest.raises(StaleRecord):
        await t.shadow.put(replace(PULL, version=1), NOW)


async def test_pull_requests_are_found_by_commit_branch_and_time(t: Transaction) -> None:
    """By their head, and by the commit that landed them."""
    await t.shadow.put(PULL, NOW)
    landed = replace(PULL, number=5, head_sha="other", landing=LANDING, entry=None, due_at=None, base_branch="next")
    await t.shadow.put(landed, NOW + timedelta(hours=1))
    await t.shadow.put(replace(PULL, repository=OTHER), NOW)
    found = {
        "head": await t.shadow.of_commit(REPOSITORY.id, "head"),
        "landed": await t.shadow.of_commit(REPOSITORY.id, "landed"),
        "branch": await t.shadow.of_branch(REPOSITORY.id, "next"),
        "due": await t.shadow.due(REPOSITORY.id, NOW + timedelta(minutes=15)),
        "early": await t.shadow.due(REPOSITORY.id, NOW),
        "since": await t.shadow.changed_since(NOW + timedelta(minutes=1)),
        "of both": await t.shadow.changed_since(NOW, repository_ids=[OTHER.id, REPOSITORY.id]),
    }
    assert {name: [each.number for each in pulls] for name, pulls in found.items()} == {
        "head": [4],
        "landed": [5],
        "branch": [5],
        "due": [4],
        "early": [],
        "since": [5],
        "of both": [4, 5, 4],
    }


async def test_interrupted_pull_requests_keep_their_decision(t: Transaction) -> None:
    """The repository leaves shadow mode while they would be in the queue."""
    await t.shadow.put(PULL, NOW)
    await t.shadow.interrupt(REPOSITORY.id, NOW)
    found = await t.shadow.find(REPOSITORY.id, 4)
    assert found is not None
    assert (found.decision, found.entry, found.due_at, found.interrupted) == (PULL.decision, None, None, True)


async def test_writes_of_one_repository_are_forgotten(t: Transaction) -> None:
    """Labels that IMQ meant to remove, and rejections; those of other repositories stay."""
    for repository in (REPOSITORY, OTHER):
        await t.outbox.want_label(repository, 4, "merge-queue", on=False, due=NOW)
        await t.rejections.put(repository.id, 4, "head", Reason.CONFLICT, NOW)
    await t.shadow.forget_writes(REPOSITORY.id)
    assert await t.outbox.wanted_labels(REPOSITORY.id, 4) == {}
    assert await t.outbox.wanted_labels(OTHER.id, 4) == {"merge-queue": False}
    assert await t.rejections.find(REPOSITORY.id, 4) is None
    assert await t.rejections.find(OTHER.id, 4) is not None


async def test_purge_deletes_what_did_not_change_for_long(t: Transaction) -> None:
    """A report covers some weeks."""
    await t.shadow.put(PULL, NOW)
    await t.shadow.put(replace(PULL, number=5), NOW + timedelta(days=1))
    assert await t.shadow.purge(NOW + timedelta(hours=1)) == 1
    assert [each.number for each in await t.shadow.changed_since(NOW)] == [5]
