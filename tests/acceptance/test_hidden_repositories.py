"""Attacks on what callers may not see: private repositories, by every route, every token, and every list."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from github_emulator import Fault
from queue_engine.domain.facts import Permission
from tests.acceptance.api_walk import OUTSIDE, STREAMS, Call, calls, served
from tests.acceptance.callers import Caller, caller
from tests.acceptance.project import FILES
from tests.acceptance.world import LABEL, World, a_world

HIDDEN, MISSING = "acme/nightingale", "acme/nowhere"
WORDS = ("nightingale", "operation-dusk", "Overture", "mona")
"""Names that belong to the private repository: its own, its branch, a title, its author."""
PERMISSION = "GET /repos/{owner}/{repo}/collaborators/{username}/permission"


async def hide(world: World) -> Any:
    """A second, private repository with a pull request in a queue and one that was refused; mona works there."""
    secret = world.github.create_repository(HIDDEN, files=FILES, collaborators={"mona": "maintain"})
    secret.push("operation-dusk", {"dusk.txt": "0\n"}, "Start", by="acme")
    pull = secret.open_pull_request(
        "Overture", head="change", base="operation-dusk", by="mona", files={"overture.py": "x\n"}
    )
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert await world.entry(pull) is not None
    world.github.create_user("stranger")
    return pull


async def walk(world: World) -> tuple[Call, ...]:
    """Every call of the document that the running bot answers."""
    async with aiohttp.ClientSession() as session:
        document = json.loads((await Caller(world, session, None).read("/api/v1/openapi.json"))[1])
    return tuple(calls(document))


@pytest.mark.thorough
async def test_every_route_is_walked_by_these_tests(world: World) -> None:
    """What the application routes is in its document, or named here: nothing can be added beside both."""
    described = {(call.method, call.template) for call in await walk(world)}
    assert served(world) - OUTSIDE - STREAMS == described - STREAMS


async def test_no_route_distinguishes_a_hidden_repository_from_a_missing_one(
    world: World, session: aiohttp.ClientSession
) -> None:
    """Status, body and headers are the same, for a person without the right and for a token of another scope."""
    await hide(world)
    widgets = world.repository.record.id
    attackers = (
        await caller(world, session, "stranger"),
        await caller(world, session, None, name="other", repositories=(widgets,), access=Permission.MAINTAIN),
        await caller(world, session, "mona", name="narrowed", repositories=(widgets,)),
        await caller(world, session, "mona", name="elsewhere", installation_id=4711),
        await caller(world, session, "mona", name="reader", access=Permission.READ, repositories=(widgets,)),
        await caller(world, session, None, name="nobody"),
        Caller(world, session, None),
    )
    walked = [call for call in await walk(world) if call.of_repository]
    assert len(walked) >= 11
    for attacker in attackers:
        for call in walked:
            hidden, missing = [
                await attacker.send(call.method, call.path(name, branch="operation-dusk"), call.body)
                for name in (HIDDEN, MISSING)
            ]
            assert hidden == missing, f"{call.method} {call.template}"
            assert hidden[0] in {401, 403, 404}, hidden
            assert not [word for word in WORDS if word in hidden[1]]
    assert len(await world.entries()) == 1


async def test_no_other_address_names_what_is_private(world: World, session: aiohttp.ClientSession) -> None:
    """Lists, figures, health, the document and refusals: for a stranger with a token, and for one without."""
    await hide(world)
    await world.pass_time(timedelta(minutes=20))
    stranger, anonymous = await caller(world, session, "stranger"), Caller(world, session, None)
    addresses = [call.path(HIDDEN) for call in await walk(world) if not call.of_repository and not call.writes]
    addresses += [path for method, path in OUTSIDE if method == "GET"] + [f"/{HIDDEN}", "/api/v1/nothing"]
    for attacker in (stranger, anonymous):
        for path in addresses:
            _, text, headers = await attacker.read(path)
            assert not [word for word in WORDS if word in f"{text} {headers}"], path
    status = json.loads((await stranger.read("/queue/status"))[1])
    assert (status["queues"], status["accepting"]) == ([], True)


@pytest.mark.thorough
async def test_page_of_figures_names_no_person_and_no_repository(world: World, session: aiohttp.ClientSession) -> None:
    """The page may be public: after merges, refusals and calls it holds no name of a person, repository or branch."""
    pull = await hide(world)
    mona = await caller(world, session)
    await mona.ask("POST", f"/api/v1/repositories/{HIDDEN}/branches/operation-dusk/pause", body={"reason": "Overture"})
    await world.pass_time(timedelta(hours=3))
    _, page, _ = await Caller(world, session, None).read("/metrics")
    assert 'imq_github_requests_total{call="GET /repos/{owner}/{repo}/pulls"' in page
    names = (*WORDS, pull.head_sha, "acme", "widgets", "ci/test", LABEL, "for mona")
    assert [name for name in names if name in page] == []


async def test_metrics_are_shown_to_operators_alone_where_that_is_set(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """Sums tell of private repositories too: a caller who may not see all of them sees no page."""
    async with a_world(tmp_path, settings={"IMQ_METRICS": "token"}) as world:
        rhea, anonymous = await caller(world, session, "rhea"), Caller(world, session, None)
        prometheus = await caller(world, session, None, name="p", operator=True, access=Permission.READ)
        answers = [await each.read("/metrics") for each in (anonymous, rhea, prometheus)]
    assert [status for status, _, _ in answers] == [401, 403, 200]
    assert ["imq_queues" in text for _, text, _ in answers] == [False, False, True]


@pytest.mark.thorough
async def test_stranger_waits_as_long_for_a_hidden_repository_as_for_a_missing_one(
    world: World, session: aiohttp.ClientSession
) -> None:
    """GitHub is asked as often about both, at first and later, so that no clock distinguishes them."""
    await hide(world)
    # IMQ asks about this repository in place of one that it does not know: it has a token for both.
    await (await caller(world, session)).read("/api/v1/repositories/acme/widgets/queues")
    stranger = await caller(world, session, "stranger")
    for expected in (1, 0, 0):
        asked = []
        for name in (HIDDEN, MISSING):
            before = world.requests(), world.requests(PERMISSION)
            assert (await stranger.read(f"/api/v1/repositories/{name}/queues"))[0] == 404
            asked.append((world.requests() - before[0], world.requests(PERMISSION) - before[1]))
        assert asked == [(expected, expected)] * 2
    await world.pass_time(timedelta(minutes=6))
    later = []
    for name in (MISSING, HIDDEN):
        earlier = world.requests(PERMISSION)
        await stranger.read(f"/api/v1/repositories/{name}/queues")
        later.append(world.requests(PERMISSION) - earlier)
    assert later == [1, 1]


@pytest.mark.thorough
async def test_name_that_a_hidden_repository_gave_up_opens_nothing(
    world: World, session: aiohttp.ClientSession
) -> None:
    """A person who took that name before IMQ knew of the rename could, as its administrator, pause the hidden queue."""
    pull = await hide(world)
    stranger = await caller(world, session, "stranger")
    world.github.repository(HIDDEN).rename("lark", by="acme", webhook=False)
    world.github.create_repository(HIDDEN, files=FILES, collaborators={"stranger": "admin"}, private=False)
    for call in [call for call in await walk(world) if call.of_repository]:
        answer = await stranger.send(call.method, call.path(HIDDEN, branch="operation-dusk"), call.body)
        assert answer[0] == 404, call
    assert (await stranger.ask("GET", "/queue/status")).body["queues"] == []
    assert await world.entry(pull) is not None


@pytest.mark.parametrize("status", [403, 502])
async def test_fault_of_github_reveals_nothing_of_a_hidden_repository(
    world: World, session: aiohttp.ClientSession, status: int
) -> None:
    """Whatever GitHub answers, the caller gets the same for both."""
    await hide(world)
    stranger = await caller(world, session, "stranger")
    world.server.faults.add(Fault(kind="fail", method="GET", route=PERMISSION, status=status, times=None))
    hidden, missing = [await stranger.read(f"/api/v1/repositories/{name}/queues") for name in (HIDDEN, MISSING)]
    assert hidden == missing
    assert hidden[0] == 503


@pytest.mark.thorough
async def test_lists_and_sums_hold_only_what_the_person_may_read(world: World, session: aiohttp.ClientSession) -> None:
    """Names, counts, and whether there is a place: of readable queues alone, as GitHub says, within the scope."""
    await hide(world)
    public = world.github.create_repository("acme/open", files=FILES, private=False)
    shown = public.open_pull_request("Seen", head="seen", by="acme", files={"seen.py": "x\n"})
    shown.label(LABEL, by="acme")
    world.open("add").label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=30))

    async def names(who: Caller) -> set[str]:
        return {each["repository"] for each in (await who.ask("GET", "/queue/status")).body["queues"]}

    async with world.bot.engine.store.reading() as tx:
        repository = await tx.repositories.named("acme", "widgets")
    assert repository is not None
    installation = repository.installation_id
    every = {"acme/widgets", HIDDEN, "acme/open"}
    assert await names(Caller(world, session, None)) == set()
    assert await names(await caller(world, session, "stranger")) == {"acme/open"}
    assert await names(await caller(world, session, "tria")) == {"acme/open", "acme/widgets"}
    assert await names(await caller(world, session, "mona")) == every
    assert await names(await caller(world, session, "mona", name="one", repositories=(repository.id,))) == {
        "acme/widgets"
    }
    assert await names(await caller(world, session, None, name="all", installation_id=installation)) == every
    assert await names(await caller(world, session, None, name="none", installation_id=installation + 1)) == set()
    assert await names(await caller(world, session, None, name="on call", operator=True)) == every
