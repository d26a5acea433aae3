"""Which comments are read as commands at all."""

from datetime import timedelta

import pytest

from queue_engine.commands.carrying_out import Commands
from queue_engine.core.database import Database
from queue_engine.hints import Hint, HintKind
from queue_engine.store import Store
from queue_engine.store.answers import KEPT
from tests.queue_engine.examples import NOW, REPOSITORY
from tests.queue_engine.scene import Scene


@pytest.mark.parametrize(("age", "heard"), [(KEPT, True), (KEPT + timedelta(seconds=1), False)])
async def test_comment_older_than_answers_are_kept_is_not_carried_out(
    sqlite_database: Database, age: timedelta, heard: bool
) -> None:
    """P4: GitHub may deliver it once more, and nobody knows any longer that it was carried out."""
    scene = Scene(Store(sqlite_database))
    hint = Hint(
        kind=HintKind.COMMENT,
        delivery="d",
        installation_id=REPOSITORY.installation_id,
        number=1,
        comment_id=70,
        commands=("queue",),
        sender="eve",
        association="NONE",
        updated_at=NOW - age,
    )
    await Commands(scene.engine).carry_out(REPOSITORY, hint)
    assert scene.github.asked == (["permission"] if heard else [])
