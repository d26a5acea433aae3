"""Statistics over HTTP, of pull requests that people queued on the emulator."""

from functools import partial

import pytest

from queue_engine.domain.model import EntryStatus
from tests.acceptance.callers import Caller
from tests.acceptance.world import CI_TIME, LABEL, World


async def test_statistics_are_those_of_what_people_did(world: World, mona: Caller) -> None:
    """One lands, one waits behind it and lands, one is closed; each has a departure whose parts add up."""
    pulls = [world.open(f"add-{number}") for number in range(3)]
    for pull in pulls:
        await mona.queue(pull)
    pulls[2].close(by="mona")
    await world.until(lambda: pulls[0].merged and pulls[1].merged)
    await world.settle()
    answer = await mona.ask("GET", "/api/v1/repositories/acme/widgets/branches/main/statistics?days=7")
    assert (answer.status, answer.body["landed"]) == (200, 2)
    reasons = {(each["outcome"], each["reason"]): each["pulls"] for each in answer.body["reasons"]}
    assert reasons == {("landed", None): 2, ("cancelled", "closed"): 1}
    assert sum(answer.body["mean_wait"].values()) * 2 >= CI_TIME.total_seconds()
    async with world.bot.engine.store.reading() as tx:
        departures = [
            (await tx.departures.of_pull_request(pull.record.repository.id, pull.number))[0] for pull in pulls
        ]
    assert [each.outcome for each in departures] == [EntryStatus.LANDED, EntryStatus.LANDED, EntryStatus.CANCELLED]
    for each in departures:
        parts = each.capacity + each.checks + each.paused + each.base_red + each.other
        assert parts == pytest.approx(each.waited)
    assert departures[1].capacity > 0
    assert departures[0].title == pulls[0].record.title


@pytest.mark.thorough
async def test_requests_per_landing_are_those_that_github_received(world: World, mona: Caller) -> None:
    """Reads, writes, comments and check runs of the repository's queues; all processes add up, also over a restart."""
    path = "/api/v1/repositories/acme/widgets/branches/main/statistics?days=7"
    for number in range(2):
        pull = world.open(f"add-{number}")
        pull.label(LABEL, by="mona")
        await world.until(partial(getattr, pull, "merged"))
        await world.settle()
        await world.kill()
        await world.restart()
    # A start lists the open pull requests of all repositories, and `.github` has rules for all: they belong to none.
    received = sum(
        ("{owner}" in each.template or each.template.endswith("/graphql"))
        and "/.github/contents/" not in each.path
        and each.template != "GET /repos/{owner}/{repo}/pulls"
        for each in world.server.requests
    )
    await world.bot.request_counts.close()
    answer = (await mona.ask("GET", path)).body
    assert answer["requests"] == received
    assert answer["requests_per_landing"] == received / 2
