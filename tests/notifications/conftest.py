"""What tests of the courier share: a clock that stands still, a GitHub without anything on it, and the courier."""

import pytest

from notifications.courier import Courier
from queue_engine.store import Store
from tests.notifications.post import MovedClock, Post


@pytest.fixture
def clock() -> MovedClock:
    """Time stands still until a test moves it."""
    return MovedClock()


@pytest.fixture
def post() -> Post:
    """A GitHub on which nothing stands yet."""
    return Post()


@pytest.fixture
def courier(store: Store, post: Post, clock: MovedClock) -> Courier:
    """A courier of this test's store."""
    return Courier(store, post, clock, owner="a", random=lambda: 0.5)
