"""Fair share through the whole bot: many pull requests of one author do not delay those of others."""

from pathlib import Path

import aiohttp

from tests.acceptance.callers import caller
from tests.acceptance.page_readers import reader
from tests.acceptance.pull_request_calls import order, read_entry
from tests.acceptance.world import LABEL, a_world

SENTENCE = "has 5 pull requests in this queue, so others come between."


async def test_pull_request_of_another_author_comes_between_and_each_place_says_why(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """The fourth of one author waits for room behind a later one; API, page and `/why` name its share."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "3"}) as world:
        many = [world.open(f"many-{number}", by="hubot") for number in range(5)]
        for pull in many:
            pull.label(LABEL, by="hubot")
            await world.settle()
        other = world.open("other")
        other.label(LABEL, by="mona")
        await world.settle()
        assert await order(world) == [each.number for each in (*many[:3], other, *many[3:])]
        hubot = await caller(world, session, "hubot")
        shown = await read_entry(hubot, many[3])
        assert (shown["state"], shown["fair_share"]) == ("held", {"author": "hubot", "pulls": 5})
        assert (await read_entry(hubot, other))["fair_share"] is None
        async with reader(world, "hubot") as person:
            page = await person.get(f"/repositories/acme/widgets/pulls/{many[3].number}")
            assert f"Order hubot {SENTENCE}" in page.text
        many[3].comment("/why", by="hubot")
        await world.settle()
        assert f"`hubot` {SENTENCE}" in world.comment(many[3])
        await world.until(lambda: all(pull.merged for pull in (*many, other)))
        assert world.landed() == [each.number for each in (*many[:3], other, *many[3:])]
