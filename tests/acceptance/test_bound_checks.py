"""A required check that is bound to an App, or that only GitHub's refusal names: waited for until it really reports."""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.test_rules import report
from tests.acceptance.world import CI_TIME, LABEL, World

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
MINUTE = timedelta(minutes=1)


def status(world: World, pull: Any, name: str, *, by: str) -> None:
    """Somebody, or an App, sets a green commit status on the pull request's head."""
    actor, place = world.github.actor(by), world.repository.record
    world.github.checks.create_status(place, pull.head_sha, actor=actor, state="success", context=name)


@pytest.mark.parametrize("bound_by", ["configuration", "protection"])
async def test_status_of_another_sender_does_not_pass_the_check_of_an_app(world: World, bound_by: str) -> None:
    """P1: anyone who may push may set a status of any name; the App itself has to report, by a run or by a status."""
    app = world.github.create_app("builder", permissions={"checks": "write", "statuses": "write"})
    if bound_by == "protection":
        world.repository.protect("main", required_checks=[("ci/test", world.app_id("ci")), ("build", app.id)])
    else:
        text = f"checks: {{required: [{{name: build, app: {app.id}}}], timeout: 1h}}\n"
        world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
    never, late, older = world.open("never"), world.open("late"), world.open("older")
    await world.pass_time(CI_TIME + MINUTE)
    for pull in (never, late, older):
        status(world, pull, "build", by="hubot")
    never.label(LABEL, by="mona")
    await world.pass_time(30 * MINUTE)
    assert await world.status(never) == "checking"
    never.unlabel(LABEL, by="mona")
    for pull in (late, older):
        pull.label(LABEL, by="mona")
        await world.pass_time(CI_TIME + MINUTE)
        assert not pull.merged
        if pull is late:
            report(world, pull, "builder", "build", "success")
        else:
            status(world, pull, "build", by="builder[bot]")
        await world.pass_time(MINUTE)
        assert pull.merged
    assert len(world.server.requests.of(MERGE)) == 2


async def test_required_check_of_imqs_app_by_another_name_is_reported_at_admission(world: World) -> None:
    """IMQ never reports it: neither this pull request nor one behind it waits for that check."""
    world.repository.protect("main", required_checks=["ci/test", ("merge", world.app.id)], by="rhea")
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    assert await world.reasons(pull) == ["own_check_required"]
    assert "`main` requires a check of IMQ's own App" in world.comment(pull)
    assert LABEL not in pull.labels
    world.repository.protect("main", required_checks=["ci/test"], by="rhea")
    await world.settle()
    waiting = world.open("waiting")
    for each in (pull, waiting):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(pull, "checking")
    world.repository.protect("main", required_checks=["ci/test", ("merge", world.app.id)], by="rhea")
    await world.pass_time(MINUTE)
    assert [await world.reasons(each) for each in (pull, waiting)] == [
        ["own_check_required"] * 2,
        ["own_check_required"],
    ]


@pytest.mark.thorough
async def test_check_that_githubs_refusal_names_is_waited_for(world: World) -> None:
    """What no rule shows, a required workflow say, is known from the refusal: its report lands it, not a person."""
    world.repository.add_ruleset("scans", workflows=[".github/workflows/scan.yml"])
    pull = world.open("add")
    await world.pass_time(CI_TIME + MINUTE)
    pull.label(LABEL, by="mona")
    await world.pass_time(40 * MINUTE)
    assert await world.status(pull) == "checking"
    assert "scan" in world.comment(pull)
    tries = len(world.server.requests.of(MERGE))
    assert tries <= 6
    report(world, pull, "scanner", "scan", "success")
    await world.until(lambda: pull.merged, within=MINUTE)
    assert len(world.server.requests.of(MERGE)) == tries + 1


async def test_check_that_githubs_refusal_names_and_that_never_reports_is_named_in_the_end(world: World) -> None:
    """P5: it gets as long as any check; then the pull request leaves with its name, and no one is asked to approve."""
    world.repository.add_ruleset("scans", workflows=[".github/workflows/scan.yml"])
    pull = world.open("add")
    await world.pass_time(CI_TIME + MINUTE)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(hours=2) - MINUTE)
    assert await world.status(pull) == "checking"
    await world.pass_time(2 * MINUTE)
    assert (await world.status(pull), await world.reasons(pull)) == (None, ["checks_timed_out"])
    assert "scan (limit: 120 minutes" in world.comment(pull)
    assert len(world.server.requests.of(MERGE)) <= 9
