"""A transaction on each database."""

from collections.abc import AsyncIterator

import pytest

from queue_engine.store import Store, Transaction


@pytest.fixture
async def t(store: Store) -> AsyncIterator[Transaction]:
    """A transaction that is committed at the end of the test."""
    async with store.transaction() as transaction:
        yield transaction
