"""Which comments are read as commands at all."""

from datetime import timedelta
from typing import Any

import pytest

from queue_engine.admission.request_order import RequestOrder
from queue_engine.commands.handler import Commands
from queue_engine.core.database.database import Database
from queue_engine.store import Store
from queue_engine.store.outbox.outbox import KEPT
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, REPOSITORY


def a_comment(**changes: Any) -> Any:
    """`/queue`, typed by somebody who may only read."""
    event = a_webhook(
        "comment",
        delivery="d",
        installation_id=REPOSITORY.installation_id,
        number=1,
        comment_id=70,
        commands=("queue",),
        sender="eve",
        association="NONE",
        updated_at=NOW,
    )
    return event.model_copy(update=changes)


@pytest.mark.parametrize("association", ["NONE", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN", None])
async def test_right_of_somebody_who_is_no_collaborator_is_asked_for_before_anything_is_done(
    sqlite_database: Database, association: str | None
) -> None:
    """P7: who once had a pull request merged may be anybody; one request, and no reaction."""
    scene = Setup(Store(sqlite_database))
    await Commands(scene.engine, RequestOrder(scene.engine)).execute(a_comment(association=association))
    assert scene.github.asked == ["permission"]


@pytest.mark.parametrize(("age", "executed"), [(KEPT, True), (KEPT + timedelta(seconds=1), False)])
async def test_comment_older_than_answers_are_kept_is_not_carried_out(
    sqlite_database: Database, age: timedelta, executed: bool
) -> None:
    """P4: GitHub may deliver it again when the record that IMQ executed it is gone."""
    scene = Setup(Store(sqlite_database))
    await Commands(scene.engine, RequestOrder(scene.engine)).execute(a_comment(updated_at=NOW - age))
    assert scene.github.asked == (["permission"] if executed else [])
