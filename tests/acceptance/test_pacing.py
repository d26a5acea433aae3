"""P7: hours at GitHub's limits, and not one request that GitHub had to refuse."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.gateway.http import pacing
from bot.gateway.http.pacing import Rates
from github_emulator import CISettings
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

SCALE = 25
"""GitHub's documented limits, divided by this, with so many fewer pull requests: else an hour takes a minute."""

RATES = Rates(content_per_minute=80 // SCALE, content_per_hour=500 // SCALE, points_per_minute=900 // SCALE)
REPOSITORIES, PULLS = 5, 4
HOUR = timedelta(hours=1)
CONTENT = (
    "POST /repos/{owner}/{repo}/issues/{number}/comments",
    "PUT /repos/{owner}/{repo}/pulls/{number}/merge",
)


def set_limits(world: World) -> None:
    limits = world.server.limits
    limits.primary, limits.concurrent = 5_000 // SCALE, 100 // SCALE
    limits.points_per_minute, limits.points_together = RATES.points_per_minute, True
    limits.creations_per_minute, limits.creations_per_hour = RATES.content_per_minute, RATES.content_per_hour


@pytest.mark.long
async def test_hours_of_more_work_than_githubs_limits_allow_meet_no_limit_and_land_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels on hundreds of pull requests (scaled) in one moment: held back by ourselves, never by GitHub."""
    monkeypatch.setattr(pacing, "DOCUMENTED", RATES)
    async with a_world(tmp_path) as world:
        set_limits(world)
        pulls = []
        for number in range(REPOSITORIES):
            repository = world.github.create_repository(
                f"acme/part-{number}", files={"README.md": "Part\n"}, collaborators={"mona": "write", "rhea": "admin"}
            )
            ci = repository.add_ci("ci/test", settings=CISettings(duration=CI_TIME))
            repository.protect("main", required_checks=[("ci/test", ci.app.id)])
            pulls += [
                repository.open_pull_request(name, head=name, by="mona", files={f"{name}.py": "new\n"})
                for name in (f"add-{pull}" for pull in range(PULLS))
            ]
        await world.pass_time(CI_TIME * 2)
        start = world.clock.now()
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await world.pass_time(HOUR)
        content = sum(r.template in CONTENT and start <= r.at < start + HOUR for r in world.server.requests)
        assert RATES.content_per_hour * 0.8 < content <= RATES.content_per_hour * 0.9, "as much as the pace allows"
        assert sum(pull.merged for pull in pulls) >= 400 // SCALE, "merges before words"
        assert not all(pull.merged for pull in pulls), "there was more to do than an hour allows"
        await world.until(lambda: all(LABEL not in pull.labels for pull in pulls), within=timedelta(hours=4))
        assert world.server.limits.violations == []
        assert {request.status for request in world.server.requests} & {403, 429} == set()
        assert all(pull.merged for pull in pulls)


async def test_sweeps_leave_the_last_tenth_of_the_hour_to_merges(world: World) -> None:
    """Somebody else has used up most of the hour: urgent calls continue, the sweep waits for the reset."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    installation = next(r.installation for r in world.server.requests if r.installation is not None)
    budget = world.server.limits.budget(f"installation {installation}")
    budget.used = 4_600
    start, reset = world.clock.now(), budget.reset
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.until(lambda: world.clock.now() > reset + timedelta(minutes=1))
    swept = [r.at for r in world.server.requests if r.template == "GET /repos/{owner}/{repo}/pulls" and r.at > start]
    assert swept
    assert min(swept) >= reset
    assert world.server.limits.violations == []
