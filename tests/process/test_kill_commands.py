"""P2, for real: a process killed with `kill -9` at each step of carrying commands out at a full queue."""

from pathlib import Path
from typing import Any

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.model import TimelineEvent
from queue_engine.store import Store
from tests.acceptance.template import Template
from tests.acceptance.world import LABEL
from tests.process.processes import Theatre, a_theatre

pytestmark = [pytest.mark.process, pytest.mark.slow]


async def say(theatre: Theatre, pull: Any, text: str, *, by: str) -> None:
    """A command, and real time until it is done."""
    comment = pull.comment(text, by=by)
    await theatre.until(lambda: "imq[bot]" in comment.reactions.get("+1", ()))


def text_of(pull: Any) -> str:
    """What IMQ says on a pull request."""
    return "".join(comment.body for comment in pull.comments if "<!-- imq:comment" in comment.body)


async def history(theatre: Theatre, pull: Any) -> list[tuple[str, str | None]]:
    """What happened to a pull request: events, with their reasons."""
    database = Database(theatre.environment["DATABASE_URL"])
    async with Store(database).reading() as tx:
        events: tuple[TimelineEvent, ...] = await tx.timeline.of_pull_request(theatre.repository.record.id, pull.number)
    await database.close()
    in_order = sorted(events, key=lambda event: event.id)
    return [(event.event, event.reason and event.reason.value) for event in in_order]


@pytest.mark.thorough
async def test_commands_at_a_full_queue_are_done_once_by_a_bot_that_is_killed_at_each_step(tmp_path: Path) -> None:
    """Waiting, its priority, leaving the line, giving the place up: each is done, answered, and done once."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        theatre.environment["IMQ_MAX_QUEUE_DEPTH"] = "1"
        front, first, gone = [
            theatre.repository.open_pull_request(name, head=name, by="mona", files={f"{name}.py": f"{name}\n"})
            for name in ("front", "first", "gone")
        ]
        await theatre.start()
        await say(theatre, front, "/pause until all is said", by="rhea")
        front.label(LABEL, by="mona")
        await theatre.until(lambda: "is paused" in text_of(front))
        theatre.kill_once_at_each_step(reading=False)
        await say(theatre, first, "/queue priority=high", by="rhea")
        await say(theatre, gone, "/queue", by="mona")
        await say(theatre, gone, "/unqueue", by="mona")
        await say(theatre, front, "/requeue", by="mona")
        theatre.server.on_request = None
        await say(theatre, front, "/resume", by="rhea")
        await theatre.until(lambda: first.merged and front.merged and LABEL not in gone.labels)
        await theatre.until(lambda: all("Landed" in text_of(pull) for pull in (first, front)))
        assert len(theatre.deaths) >= 8, theatre.deaths
        histories = [await history(theatre, pull) for pull in (front, first, gone)]
    left = ("cancelled", "unqueued")
    assert [event for event in histories[0] if event == left or event[0] == "landed"] == [left, ("landed", None)]
    assert [event[0] for event in histories[1] if event[0] in {"held", "queued", "landed"}] == [
        "held",
        "queued",
        "landed",
    ]
    assert histories[2] == [("held", "queue_full"), ("cancelled", "unqueued")]
    assert not gone.merged
