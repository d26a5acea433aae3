"""The ledger of consents: each head that was bound has its line, and nothing else lands (P4)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.domain.consent import ConsentKind, HeadConsent
from queue_engine.domain.errors import InvariantError
from queue_engine.store import Store
from tests.store.examples import NOW, queue, stand


async def test_entry_begins_with_the_consent_that_queued_it(store: Store) -> None:
    """By a label, if nothing else is said."""
    async with store.transaction() as tx:
        entry = await stand(tx, await queue(tx), 1)
        found = await tx.consents.of(entry)
    assert found == (
        HeadConsent(entry.queued_head, entry.base_branch, entry.queued_by, entry.enqueued_at, ConsentKind.LABEL),
    )


async def test_bound_head_has_a_line_once_it_is_proved(store: Store) -> None:
    """IMQ's own update, or the push of the bot that opened the pull request; a change of anything else has none."""
    async with store.transaction() as tx:
        entry = await stand(tx, await queue(tx), 1)
        bound = replace(entry, head_sha="head-2", head_proved=False)
        await tx.consents.follow(entry, bound, NOW)
        with pytest.raises(InvariantError, match="head-2"):
            await tx.consents.verify(bound)
        proved = replace(bound, head_proved=True)
        await tx.consents.follow(bound, proved, NOW)
        await tx.consents.follow(proved, replace(proved, title="New"), NOW)
        await tx.consents.verify(proved)
        rebased = replace(proved, queued_head="head-3", head_sha="head-3")
        await tx.consents.follow(proved, rebased, NOW)
        await tx.consents.verify(rebased)
        with pytest.raises(InvariantError):
            await tx.consents.verify(replace(rebased, base_branch="release"))
        with pytest.raises(InvariantError, match="head-0"):
            await tx.consents.verify(replace(rebased, queued_head="head-0"))
        found = await tx.consents.of(entry)
    assert [(each.source.value, each.head_sha, each.by) for each in found[1:]] == [
        ("own_update", "head-2", None),
        ("bot_push", "head-3", entry.author),
    ]


async def test_lines_of_entries_are_kept_and_others_are_deleted_when_they_are_old(store: Store) -> None:
    """However long an entry waits, its consent counts."""
    async with store.transaction() as tx:
        stays, left = await stand(tx, await queue(tx), 1), await stand(tx, await queue(tx), 2)
        await tx.entries.remove(left)
        await tx.consents.purge(NOW - timedelta(days=1))
        assert await tx.consents.of(left)
        await tx.consents.purge(NOW + timedelta(days=365))
        assert await tx.consents.of(stays)
        assert await tx.consents.of(left) == ()
