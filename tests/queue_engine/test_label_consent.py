"""When a label is consent after a dequeue: pure judgements over times."""

from datetime import timedelta

import pytest

from queue_engine.label_consent import LastDequeue
from tests.queue_engine.examples import NOW

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("pending", "labelled", "consents"),
    [
        (True, -60 * SECOND, False),
        (True, 0 * SECOND, False),
        (True, SECOND, True),
        (False, -61 * SECOND, False),
        (False, -59 * SECOND, True),
        (False, SECOND, True),
    ],
)
def test_label_consents_if_it_is_newer_than_the_dequeue(pending: bool, labelled: timedelta, consents: bool) -> None:
    """P4: once the removal was delivered, clocks may differ by a minute; before, not at all."""
    assert LastDequeue(NOW, pending).precedes(NOW + labelled) is consents


@pytest.mark.parametrize("pending", [True, False])
def test_label_of_unknown_time_is_no_consent(pending: bool) -> None:
    """P4: what GitHub does not tell is not taken for the better."""
    assert not LastDequeue(NOW, pending).precedes(None)
