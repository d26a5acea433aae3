"""People who give commands in comments, and what they see of it."""

from datetime import timedelta
from typing import Any

from tests.acceptance.world import CI_TIME, World

MINUTE = timedelta(minutes=1)


async def ready(world: World, name: str = "add", *, by: str | None = "mona", **more: Any) -> Any:
    """A pull request whose checks have ended."""
    pull = world.open(name, by=by, **more)
    await world.pass_time(CI_TIME * 2)
    return pull


async def say(world: World, pull: Any, text: str, *, by: str) -> Any:
    """Somebody comments, and a minute passes."""
    comment = pull.comment(text, by=by)
    await world.pass_time(MINUTE)
    return comment


def reacted(comment: Any) -> set[str]:
    """What IMQ reacted with."""
    return {word for word, who in comment.reactions.items() if "imq[bot]" in who}


async def answered(world: World, pull: Any) -> list[str]:
    """What the commands given last on this pull request were answered, in their order."""
    async with world.bot.engine.store.reading() as tx:
        answer = await tx.answers.find(pull.record.repository.id, pull.number)
    assert answer is not None
    return [reply.code.value for reply in answer.replies]
