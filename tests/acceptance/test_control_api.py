"""Programs pause, freeze and reorder a queue by the API, with the rights that GitHub reports now."""

from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from tests.acceptance.callers import Answer, Caller, caller, path_of
from tests.acceptance.pull_request_calls import HOME, order, read_entry
from tests.acceptance.test_priorities import opened
from tests.acceptance.world import CI_TIME, LABEL, World

PAUSE, FREEZE = f"{HOME}/branches/main/pause", f"{HOME}/branches/main/freeze"


@pytest.fixture
async def rhea(world: World, session: aiohttp.ClientSession) -> Caller:
    """An admin of the repository."""
    return await caller(world, session, "rhea")


async def move(by: Caller, pull: Any, priority: int | str) -> Answer:
    return await by.ask("PATCH", path_of(pull), body={"priority": priority})


@pytest.mark.thorough
async def test_pause_by_the_api_holds_everybody_until_it_is_resumed(world: World, rhea: Caller) -> None:
    """Authors read who paused and why; the same call again changes nothing; the next one lets all go on."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    done = await rhea.ask("POST", PAUSE, body={"reason": "The release goes first."}, key="k")
    halt = {"reason": "paused_by_hand", "detail": "The release goes first.", "until": None}
    assert (done.status, done.body["changed"], done.body["blockers"]) == (200, True, [halt])
    assert (await rhea.ask("POST", PAUSE, body={"reason": "The release goes first."})).body["changed"] is False
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(hours=1))
    assert not pull.merged
    assert "The release goes first." in world.comment(pull)
    assert (await read_entry(rhea, pull))["entry"]["blockers"] == [halt]
    resumed = await rhea.ask("DELETE", PAUSE)
    assert (resumed.status, resumed.body["changed"], resumed.body["blockers"]) == (200, True, [])
    assert resumed.body["concerned"] == [pull.number]
    again = await rhea.ask("POST", PAUSE, body={"reason": "The release goes first."}, key="k")
    assert (again.body, again.headers["Idempotency-Replayed"]) == (done.body, "true")
    await world.until(lambda: pull.merged)
    assert (await rhea.ask("DELETE", PAUSE)).body["changed"] is False


async def test_freeze_by_the_api_ends_by_itself(world: World, rhea: Caller) -> None:
    """Nothing lands before that instant; the queue continues after it; a past one, or one without zone, is refused."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    now = world.clock.now()
    end = now + timedelta(hours=2)
    frozen = await rhea.ask("PUT", FREEZE, body={"until": end.isoformat(), "reason": "Holidays"})
    assert (frozen.status, [halt["reason"] for halt in frozen.body["blockers"]]) == (200, ["frozen"])
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=100))
    assert not pull.merged
    await world.until(lambda: pull.merged, within=timedelta(hours=1))
    assert world.clock.now() >= end
    assert (await rhea.ask("PUT", FREEZE, body={"until": now.isoformat()})).status == 409
    assert (await rhea.ask("PUT", FREEZE, body={"until": "2026-02-01T08:00:00"})).status == 400
    assert (await rhea.ask("PUT", FREEZE)).status == 400


IMPOSSIBLE = [
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    "10000-01-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-02-01T25:00:00Z",
    "2026-02-01T00:00:00+99:00",
    "2026-06-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "NaN",
    "1e18",
    "1000000000000000000",
    1_000_000_000_000_000_000,
    1e400,
    float("nan"),
    True,
]


async def test_freeze_until_an_impossible_instant_is_refused(world: World, rhea: Caller) -> None:
    """Year 0, 10^18, NaN, no such day, out of what UTC knows, or beyond the ninety days of commands: 422."""
    for until in IMPOSSIBLE:
        answer = await rhea.ask("PUT", FREEZE, body={"until": until})
        assert answer.status == 422, (until, answer.body)
        assert "instant" in answer.body["error"] or "90 days" in answer.body["error"]
    for until in ("tomorrow", "", None, [], "2026-02-01", "x" * 10_000):
        assert (await rhea.ask("PUT", FREEZE, body={"until": until})).status == 400, until
    assert await world.paused() is None
    assert (await rhea.ask("GET", f"{HOME}/branches/main/queue")).status in (200, 404)


async def test_end_of_a_freeze_by_the_api_leaves_every_other_pause(world: World, rhea: Caller) -> None:
    """What lifts a freeze lifts no pause; both hold side by side."""
    until = {"until": "2026-02-01T08:00:00Z"}
    await rhea.ask("PUT", FREEZE, body=until)
    assert (await rhea.ask("DELETE", FREEZE)).body["blockers"] == []
    await rhea.ask("POST", PAUSE)
    for how, changed, blockers in (
        ("PUT", True, ["paused_by_hand", "frozen"]),
        ("DELETE", True, ["paused_by_hand"]),
        ("DELETE", False, ["paused_by_hand"]),
    ):
        answer = await rhea.ask(how, FREEZE, body=until if how == "PUT" else None)
        assert (answer.status, answer.body["changed"]) == (200, changed)
        assert [halt["reason"] for halt in answer.body["blockers"]] == blockers


async def test_branch_with_a_slash_is_steered_and_one_that_is_not_there_is_not(world: World, rhea: Caller) -> None:
    """A slash is written %2F; no queue is made for whatever somebody sends."""
    world.repository.push("release/1", {"notes.txt": "0\n"}, "Begin", by="rhea")
    await world.settle()
    paused = await rhea.ask("POST", f"{HOME}/branches/release%2F1/pause")
    assert (paused.status, paused.body["base_branch"]) == (200, "release/1")
    shown = await rhea.ask("GET", f"{HOME}/branches/release%2F1/queue")
    assert [halt["reason"] for halt in shown.body["blockers"]] == ["paused_by_hand"]
    for strange in ("mian", "release%2F2", "%00", "a%20b", "%0A", "..%2Fmain%3F", "x" * 300):
        assert (await rhea.ask("POST", f"{HOME}/branches/{strange}/pause")).status == 404
        assert (await rhea.ask("GET", f"{HOME}/branches/{strange}/queue")).status == 404
    listed = (await rhea.ask("GET", f"{HOME}/queues")).body
    assert [queue["base_branch"] for queue in listed["queues"]] == ["release/1"]


@pytest.mark.thorough
async def test_who_may_merge_only_steers_nothing_by_the_api(
    world: World, mona: Caller, session: aiohttp.ClientSession
) -> None:
    """As for commands: it takes maintain or admin, asked of GitHub at that moment; nothing is done half."""
    pull = world.open("add")
    anonymous = await caller(world, session, None)
    calls: list[tuple[str, str, Any]] = [
        ("POST", PAUSE, {}),
        ("DELETE", PAUSE, {}),
        ("PUT", FREEZE, {"until": "2026-02-01T08:00:00Z"}),
    ]
    calls += [
        ("DELETE", FREEZE, {}),
        ("PATCH", path_of(pull), {"priority": 1}),
        ("POST", path_of(pull), {"priority": 1}),
    ]
    for by in (mona, anonymous):
        for method, path, body in calls:
            assert (await by.ask(method, path, body=body)).status == 403, (method, path)
    assert (await order(world), pull.labels, await world.paused()) == ([], [], None)


@pytest.mark.thorough
async def test_right_that_was_taken_away_counts_at_once(world: World, rhea: Caller) -> None:
    """A token remembers no right."""
    assert (await rhea.ask("POST", PAUSE)).status == 200
    world.repository.record.collaborators["rhea"] = "write"
    assert (await rhea.ask("DELETE", PAUSE)).status == 403
    assert await world.paused() == "paused_by_hand"


async def test_priority_by_the_api_moves_and_says_whom_it_delays(world: World, rhea: Caller, mona: Caller) -> None:
    """It overtakes earlier entries that wait; the front stays the front."""
    front, second, third = await opened(world, "front", "second", "third")
    for pull in (front, second):
        assert (await mona.queue(pull)).status == 202
    await world.until_status(front, "checking")
    moved = await rhea.queue(third, priority="high")
    assert (moved.status, moved.body["position"], moved.body["priority"]) == (202, 1, 10)
    assert moved.body["delays"] == {"numbers": [second.number], "seconds": None, "preempts": None}
    assert await order(world) == [front.number, third.number, second.number]
    back = await move(rhea, third, -10)
    assert (back.status, back.body["position"], back.body["delays"]["numbers"]) == (200, 2, [])
    assert await order(world) == [front.number, second.number, third.number]
    assert (await rhea.queue(third, priority=5)).status == 200
    assert (await move(rhea, third, 1001)).status == 400
    await world.until(lambda: second.merged)
    assert world.landed() == [front.number, third.number, second.number]
    assert (await move(rhea, third, 1)).status == 404
