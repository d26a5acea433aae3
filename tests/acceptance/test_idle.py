"""P7: what does not concern a queue costs nothing, and neither does waiting."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CheckRunFields, CISettings, RecordedCall
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.world import LABEL, World, a_world

SLOW_POLLS = 4
"""Looks of the slow fallback in three hours of CI: after 15, 30, 60 and 120 minutes."""

SWEEPS = {f"GET /repos/{{owner}}/{{repo}}/{name}" for name in ("issues", "issues/comments", "pulls")}
"""What the sweep asks of a repository every ten minutes, however many pull requests there are; mostly answered 304."""


def own(world: World) -> list[RecordedCall]:
    """Requests about a repository's pull requests, the sweep's lists left out."""
    return [r for r in world.server.requests if "{owner}" in r.template and r.template not in SWEEPS]


async def cost_of_one(
    world: World, *, ci_time: timedelta, meanwhile: Callable[[], object] = lambda: None
) -> list[RecordedCall]:
    """The requests from the label of a pull request behind its base to its end; things happen while it is checked."""
    ci = world.repository.add_ci("ci/test", settings=CISettings(duration=ci_time, judge=total_at_most_ten))
    world.repository.protect("main", required_checks=[("ci/test", ci.app.id)], webhook=False)
    pull = world.open("add")
    world.repository.push("main", {"other.py": "other\n"}, "Other", by="rhea")
    await world.settle()
    before = len(own(world))
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    meanwhile()
    await world.until(lambda: pull.merged)
    await world.settle()
    assert "anded" in world.comment(pull)
    return own(world)[before:]


@pytest.mark.thorough
async def test_hours_of_ci_cost_no_more_than_a_few_slow_polls(tmp_path: Path) -> None:
    """Three hours of checks cost at most four looks more than one minute does, and what renewed tokens cost."""
    settings = {"IMQ_CHECK_TIMEOUT_SECONDS": "14400"}
    costs = []
    for ci_time in (timedelta(minutes=1), timedelta(hours=3)):
        directory = tmp_path / str(ci_time.seconds)
        async with a_world(directory, ci=False, protect=False, settings=settings) as world:
            costs.append(await cost_of_one(world, ci_time=ci_time))
    short, long = costs
    # Fifteen, and three more for the first of a repository: its configuration takes one request, and its rules three
    # where there is no classic protection.
    assert len(short) <= 18
    slow_polls = [r for r in long if r.template.endswith("/check-runs") and r.method == "GET"]
    assert len(slow_polls) <= SLOW_POLLS + 1
    # A branch's protection and rules are read with another token at the end: their ETags miss (otterdog #201).
    assert counted(long) - counted(short) <= SLOW_POLLS + 2


async def test_ten_minutes_of_ci_and_some_seconds_cost_no_slow_poll(tmp_path: Path) -> None:
    """P7: a round figure that CI often takes costs what one minute does, though its runner starts a little late."""
    costs = []
    for seconds in (60, 630):
        async with a_world(tmp_path / str(seconds), ci=False, protect=False) as world:
            requests = await cost_of_one(world, ci_time=timedelta(seconds=seconds))
            costs.append([r.template for r in requests])
    assert costs[0] == costs[1]


def counted(requests: list[RecordedCall]) -> int:
    """Requests that use up the primary limit: a 304 does not."""
    return sum(not request.not_modified for request in requests)


@pytest.mark.thorough
async def test_hundred_idle_pull_requests_and_a_storm_of_their_webhooks_cost_nothing(tmp_path: Path) -> None:
    """Pushed to, labelled, closed, checked by others: a landing amid all that costs the same as one alone."""
    costs = []
    for company in (0, 100):
        async with a_world(tmp_path / str(company), ci=False, protect=False) as world:
            idle = [world.open(f"idle-{number}", webhook=False) for number in range(company)]
            requests = await cost_of_one(
                world, ci_time=timedelta(minutes=3), meanwhile=partial(disturb, world, idle[:15])
            )
            costs.append([r.template for r in requests])
    assert costs[0] == costs[1]


def disturb(world: World, pulls: list[Any]) -> None:
    """Everything that people and machines do to pull requests that are not queued."""
    app = next(app for app in world.github.state.apps.values() if app.slug == "ci")
    for pull in pulls:
        pull.push({"more.py": "more\n"}, by="mona")
        pull.label("bug", by="mona")
        pull.unlabel("bug", by="mona")
        pull.close(by="mona")
        pull.reopen(by="mona")
        world.github.checks.create_run(
            world.repository.record,
            app=app,
            name="ci/other",
            head_sha=pull.head_sha,
            fields=CheckRunFields(conclusion="failure"),
        )
