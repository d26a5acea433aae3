"""What tests of the outbox dispatcher share: a manual clock, an empty GitHub, and the dispatcher."""

import pytest

from notifications.outbox_dispatcher import OutboxDispatcher
from queue_engine.store import Store
from tests.unit.notifications.github_double import MovedClock, Post


@pytest.fixture
def clock() -> MovedClock:
    """Return a clock that stays at one instant until a test moves it."""
    return MovedClock()


@pytest.fixture
def post() -> Post:
    """A GitHub on which nothing stands yet."""
    return Post()


@pytest.fixture
def dispatcher(store: Store, post: Post, clock: MovedClock) -> OutboxDispatcher:
    """A dispatcher on this test's store."""
    return OutboxDispatcher(store, post, clock, owner="a", random=lambda: 0.5)
