"""Requests whose work failed for good."""

from bot.web.live.request_watch import RequestIds
from queue_engine.store.requests import RequestStatusKind
from tests.acceptance.world import LABEL, World

SECRET = "ghp_" + "a" * 36


def opaque_ids(world: World) -> RequestIds:
    """The opaque ids that a world's bot gives."""
    return RequestIds(world.bot.settings.github_private_key)


async def dead_label(world: World, number: int) -> str:
    """Return the opaque id of a label whose job failed for good, with a secret in its error."""
    pull = world.open(f"change-{number}")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.github.schedule.run_due()
    async with world.bot.engine.change() as change:
        (found,) = await change.tx.requests.records(1, of=None, wanted=RequestStatusKind.ALL, after=None)
        claimed = await change.tx.jobs.claim_some(9, owner="w", now=change.now, lease=world.bot.engine.lease)
        (job,) = [each for each in claimed if each.id == found.id]
        await change.tx.dead_letters.add(job, f"403 for {SECRET}", change.now, attempts=9, retryable=True)
    return opaque_ids(world).seal(found.id)
