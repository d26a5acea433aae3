"""Fair share through the whole bot: many pull requests of one author do not delay those of others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from github_emulator import CI, CISettings
from tests.acceptance.callers import Caller, caller
from tests.acceptance.page_readers import reader
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.pull_request_calls import HOME, order, read_entry
from tests.acceptance.train_world import CANDIDATES, a_train_world
from tests.acceptance.world import CI_TIME, LABEL, LAG, World, a_world

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


async def agents_in_line(world: World) -> tuple[Any, list[Any]]:
    """Four pull requests of an agent, of which three have landed; returns the last, which counts as later, and them."""
    world.github.create_user("agent[bot]", kind="Bot")
    world.repository.record.collaborators["agent[bot]"] = "write"
    agents = [world.open(f"agent-{number}", by="agent[bot]") for number in range(4)]
    for pull in agents:
        pull.label(LABEL, by="agent[bot]")
        await world.settle()
    await world.until(lambda: agents[2].merged)
    return agents[3], agents[:3]


@pytest.mark.parametrize(("through", "yields"), [(0.3, True), (0.6, True), (0.7, False)])
async def test_run_of_an_agent_ends_for_a_person_in_its_first_two_thirds(
    world: World, through: float, yields: bool
) -> None:
    """People's pull requests wait for no run that has hardly begun; the agent's keeps its consent, and lands after."""
    delayed, earlier = await agents_in_line(world)
    person = world.open("person")
    await world.until_status(delayed, "checking")
    await world.pass_time(CI_TIME * through)
    person.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=2))
    assert (await world.status(person) == "pending") is not yields
    await world.until(lambda: person.merged and delayed.merged)
    last = [person, delayed] if yields else [delayed, person]
    assert world.landed()[len(earlier) :] == [each.number for each in last]
    assert (f"preempted by `#{person.number}`" in world.comment(delayed)) is yields
    assert await world.reasons(delayed) == []


@pytest.mark.parametrize("is_persons", [True, False])
async def test_change_that_a_person_lands_again_counts_as_the_persons(
    world: World, mona: Caller, is_persons: bool
) -> None:
    """P3: IMQ opened the pull request, and an agent's run ends for it all the same; a mark alone proves nothing."""
    landed = world.open("landed")
    landed.label(LABEL, by="mona")
    await world.until(lambda: bool(landed.merged))
    await world.settle()
    path = f"{HOME}/pulls/{landed.number}"
    revert = (await mona.ask("POST", f"{path}/revert")).body["opened"]
    await world.until(lambda: world.repository.pull(revert).merged)
    await world.settle()
    delayed, _ = await agents_in_line(world)
    if is_persons:
        again = world.repository.pull((await mona.ask("POST", f"{path}/reland")).body["opened"])
    else:
        again = world.open("again", by="agent[bot]")
        again.record.body = f"<!-- imq revert {landed.number} -->"
    await world.until_status(delayed, "checking")
    again.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=2))
    assert (await world.status(again) == "pending") is not is_persons


async def test_run_of_an_agent_ends_three_times_at_most(world: World) -> None:
    """P5: each costs CI, and a push to the agent's branch, so a steady stream of people ends it no oftener."""
    delayed, earlier = await agents_in_line(world)
    people = [world.open(f"person-{number}") for number in range(5)]
    for person in people:
        if not delayed.merged:
            await world.until_status(delayed, "checking")
            await world.pass_time(CI_TIME * 0.3)
        person.label(LABEL, by="mona")
        await world.until(partial(lambda pull: bool(pull.merged), person))
    order = [*people[:3], delayed, *people[3:]]
    assert world.landed()[len(earlier) :] == [each.number for each in order]


async def test_run_that_ended_for_a_person_counts_if_that_person_leaves(world: World) -> None:
    """P7: neither another update nor more CI."""
    delayed, earlier = await agents_in_line(world)
    person = world.open("person")
    await world.until_status(delayed, "checking")
    updated = delayed.head_sha
    await world.pass_time(CI_TIME * 0.3)
    person.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=2))
    assert await world.status(delayed) == "pending"
    person.unlabel(LABEL, by="mona")
    await world.until(lambda: delayed.merged, within=CI_TIME)
    assert (delayed.head_sha, world.landed()) == (updated, [each.number for each in (*earlier, delayed)])


async def members_of_runs(world: World) -> list[list[int]]:
    """The members of the runs that trains began, oldest first."""
    async with world.bot.engine.store.reading() as tx:
        found = await tx.timeline_reads.of_branch(world.repository.record.id, "main", ["run_started"], limit=50)
    return [sorted(each.data["members"]) for each in sorted(found, key=lambda each: each.at)]


@pytest.mark.parametrize("lag", [timedelta(0), pytest.param(LAG, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("slots", [1, 2])
async def test_train_of_people_has_no_member_of_agents_and_waits_for_none(
    tmp_path: Path, lag: timedelta, slots: int
) -> None:
    """P5, P6: bad pull requests of agents cost people no run; they land once people have none, and know why."""
    async with a_train_world(tmp_path, trains=f"{{candidates: push, runs: {slots}}}", lag=lag) as world:
        world.github.create_user("agent[bot]", kind="Bot")
        world.repository.record.collaborators["agent[bot]"] = "write"
        files = [{"bad.txt": "7\n"}, *({f"agent-{number}.py": "good\n"} for number in range(5))]
        agents = [world.open(f"agent-{number}", by="agent[bot]", files=each) for number, each in enumerate(files)]
        people = [world.open(f"person-{number}") for number in range(3)]
        await world.pass_time(CI_TIME * 2)
        world.repository.push("main", {"limits.txt": "4\n"}, "Raise the limit", by="rhea")
        await world.pass_time(CI_TIME * 2)
        for pull in agents:
            pull.label(LABEL, by="agent[bot]")
        await world.pass_time(CI_TIME / 2)
        for pull in people:
            pull.label(LABEL, by="mona")
        await world.pass_time(CI_TIME / 4)
        agents[0].comment("/why", by="mona")
        await world.settle()
        assert "Bots and agents share one place in this queue" in world.comment(agents[0])
        await world.until(lambda: all(pull.merged for pull in people), within=CI_TIME * 3)
        assert not any(pull.merged for pull in agents)
        await world.until(lambda: all(pull.merged for pull in agents[1:]), within=CI_TIME * 30)
        await world.until(lambda: LABEL not in agents[0].labels, within=CI_TIME * 30)
        assert (await world.reasons(agents[0]))[-1] == "checks_failed"
        numbers = {each.number for each in people}
        assert all(numbers.isdisjoint(run) or numbers.issuperset(run) for run in await members_of_runs(world))
        await world.settle()
        assert await world.paused() is None


@pytest.mark.parametrize("more", ["fair_share: off\n", "priority: {labels: {urgent: 50}}\n"])
async def test_train_of_people_has_members_of_agents_where_they_do_not_yield(tmp_path: Path, more: str) -> None:
    """P3: the order counts again where a repository wants that, or for one whose label gives it priority."""
    async with a_train_world(tmp_path, more=more) as world:
        world.github.create_user("agent[bot]", kind="Bot")
        world.repository.record.collaborators["agent[bot]"] = "write"
        agent, person = world.open("agent", by="agent[bot]"), world.open("person")
        await world.pass_time(CI_TIME * 2)
        if "urgent" in more:
            agent.label("urgent", by="mona")
        agent.label(LABEL, by="mona")
        await world.pass_time(CI_TIME / 2)
        person.label(LABEL, by="mona")
        await world.until(lambda: bool(agent.merged and person.merged), within=CI_TIME * 8)
        assert (await members_of_runs(world))[0] == [agent.number]
        commits = [each.sha for each in world.repository.log("main")]
        assert commits.index(person.merge_sha) < commits.index(agent.merge_sha)


async def test_agent_that_has_waited_for_six_runs_joins_the_trains_of_people(tmp_path: Path) -> None:
    """P5: it lands although people have more all the time."""
    async with a_train_world(tmp_path, trains="{candidates: push, max_size: 2}") as world:
        world.github.create_user("agent[bot]", kind="Bot")
        world.repository.record.collaborators["agent[bot]"] = "write"
        agent, people = world.open("agent", by="agent[bot]"), [world.open(f"person-{number}") for number in range(40)]
        await world.pass_time(CI_TIME * 2)
        for pull in people:
            pull.label(LABEL, by="mona")
        agent.label(LABEL, by="agent[bot]")
        await world.until(lambda: bool(agent.merged), within=CI_TIME * 18)
        assert not all(pull.merged for pull in people)


LAGS = [timedelta(0), pytest.param(LAG, marks=pytest.mark.thorough)]


@asynccontextmanager
async def stage(directory: Path, *, trains: bool, lag: timedelta) -> AsyncIterator[tuple[World, CI, Any]]:
    """A world that has landed some; its CI, and a pull request of an agent that yields to people and is queued now."""
    async with a_world(directory, ci=False, protect=False, lag=lag) as world:
        settings = CISettings(duration=CI_TIME, judge=total_at_most_ten, branches=CANDIDATES)
        ci = world.repository.add_ci("ci/test", settings=settings)
        world.repository.protect("main", required_checks=[("ci/test", ci.app.id)])
        configured = {".github/imq.yml": "trains: {candidates: push, runs: 1}\n"} if trains else {"a.py": "a\n"}
        world.repository.push("main", configured, "Configure IMQ", by="rhea")
        await world.pass_time(CI_TIME * 2)
        delayed, _ = await agents_in_line(world)
        if trains:
            await world.until(lambda: bool(delayed.merged))
            delayed = world.open("delayed", by="agent[bot]")
            await world.pass_time(CI_TIME * 2)
        yield world, ci, delayed


async def landed_in_order(world: World, *pulls: Any) -> bool:
    """Whether these have landed in this order."""
    commits = [each.sha for each in reversed(world.repository.log("main"))]
    places = [commits.index(each.merge_sha) for each in pulls]
    return places == sorted(places)


@pytest.mark.every_variant
@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("trains", [False, True])
async def test_person_waits_for_the_run_of_an_agent_that_hangs_for_two_usual_runs_at_most(
    tmp_path: Path, lag: timedelta, trains: bool
) -> None:
    """P5: past two thirds it keeps its place, until it takes twice as long as usual; then both land."""
    async with stage(tmp_path, trains=trains, lag=lag) as (world, ci, delayed):
        ci.finishes = False
        if trains:
            delayed.label(LABEL, by="agent[bot]")
        await world.until_status(delayed, "checking")
        await world.pass_time(timedelta(seconds=10))
        ci.finishes = True
        person = world.open("person")
        await world.pass_time(CI_TIME * 0.9)
        person.label(LABEL, by="mona")
        await world.pass_time(CI_TIME * 0.8)
        assert (await world.status(delayed), await world.status(person)) == ("checking", "pending")
        await world.until(lambda: bool(person.merged), within=CI_TIME * 1.5)
        await world.until(lambda: bool(delayed.merged))
        assert await landed_in_order(world, person, delayed)
        assert await world.reasons(delayed) == []


@pytest.mark.parametrize("lag", LAGS)
async def test_run_of_an_agent_that_ends_for_a_person_is_counted_in_trains(tmp_path: Path, lag: timedelta) -> None:
    """P5: only so many in a row end; an outcome ends the count."""
    async with stage(tmp_path, trains=True, lag=lag) as (world, _, delayed):
        person = world.open("person")
        await world.pass_time(CI_TIME * 2)
        delayed.label(LABEL, by="agent[bot]")
        await world.until_status(delayed, "checking")
        person.label(LABEL, by="mona")
        await world.until(lambda: bool(person.merged))
        async with world.bot.engine.store.reading() as tx:
            [queue] = await tx.queues.all()
            memory = (await tx.trains.get(queue.id)).memory
        assert [(each["id"], each["yields"]) for each in memory["trains"]["queue"]] == [(delayed.number, 1)]
        await world.until(lambda: bool(delayed.merged))
        assert await landed_in_order(world, person, delayed)
