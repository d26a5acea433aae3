"""Which runs of GitHub Actions are no longer needed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.effects.stale_runs import MOST_RUNS, to_cancel, updates_of
from tests.unit.queue_engine.examples import NOW, entry, workflow_run

IMQ = "imq[bot]"
RUN = workflow_run(1, "ours", begun_by=IMQ, last_run_by=IMQ)
LATER = NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("changes", "heads"),
    [
        ({"head_sha": "queued"}, ()),
        ({"head_sha": "ours", "updated_from": "queued"}, ("ours",)),
        ({"head_sha": "ours", "updated_from": "queued", "new_head": "next"}, ("ours",)),
        ({"head_sha": "queued", "new_head": "next", "new_head_is_ours": True}, ("next",)),
        ({"head_sha": "queued", "updated_from": "before"}, ()),
    ],
)
def test_updates_of_an_entry_are_never_what_a_person_pushed(changes: dict[str, Any], heads: tuple[str, ...]) -> None:
    """The queued head is a person's, whatever came before it; so is a head that no webhook announced."""
    assert updates_of(entry(queued_head="queued", **changes)) == heads


@pytest.mark.parametrize(
    ("changes", "cancelled"),
    [
        ({}, True),
        ({"event": "push", "created_at": LATER}, True),
        ({"created_at": LATER}, False),
        ({"head_sha": "another"}, False),
        ({"status": "completed"}, False),
        ({"begun_by": "mona"}, False),
        ({"last_run_by": "mona"}, False),
        ({"event": "workflow_dispatch"}, False),
    ],
)
def test_run_is_cancelled_only_if_imqs_push_caused_it(changes: dict[str, Any], cancelled: bool) -> None:
    """Not a person's, not one that a person ran again, not another head's, not what taking the label off began."""
    assert to_cancel([replace(RUN, **changes)], "ours", IMQ, NOW) == ((1,) if cancelled else ())


def test_runs_cancelled_at_once_are_bounded() -> None:
    """A head with hundreds of runs costs no hundreds of requests."""
    assert len(to_cancel([replace(RUN, id=number) for number in range(100)], "ours", IMQ, NOW)) == MOST_RUNS
