"""A person presses "Re-run" on IMQ's own check: IMQ reads the pull request again, and the check says so."""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.world import CI_TIME, LABEL, World

MINUTE = timedelta(minutes=1)
REPORTS = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"


def own(pull: Any) -> list[Any]:
    """IMQ's check runs on the pull request's head, oldest first."""
    return [run for run in reversed(pull.check_runs) if run.name == "IMQ"]


def text(pull: Any) -> str:
    """What the newest of them says below its summary."""
    return str(own(pull)[-1].output.get("text"))


def press(world: World, pull: Any, what: str, *, by: str = "hubot") -> None:
    """Press the button of the check, or that of its suite."""
    button = world.repository.rerun if what == "check" else world.repository.rerun_suite
    button(own(pull)[-1], by=by)


@pytest.mark.lagging
@pytest.mark.parametrize("what", ["check", "suite"])
async def test_rerun_of_imqs_check_reads_a_queued_pull_request_again(world: World, what: str) -> None:
    """After the rerun IMQ reads the pull request and its checks at once, and not by its slow poll."""
    pull = await world.behind("front")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(timedelta(seconds=10))
    read = world.requests(REPORTS)
    press(world, pull, what)
    await world.pass_time(timedelta(seconds=15))
    assert world.requests(REPORTS) > read
    assert "Read again after a re-run of IMQ's check by `hubot`" in text(pull)
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.lagging
@pytest.mark.parametrize("what", ["check", "suite"])
async def test_rerun_after_the_pull_request_left_answers_and_queues_nothing(world: World, what: str) -> None:
    """P4: without the label a rerun is no consent; a new check run repeats why the pull request left."""
    pull = await world.behind("front")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(timedelta(seconds=10))
    pull.unlabel(LABEL, by="mona")
    await world.pass_time(MINUTE)
    before = len(own(pull))
    press(world, pull, what)
    await world.pass_time(MINUTE)
    assert await world.status(pull) is None
    assert len(own(pull)) == before + 1
    assert (own(pull)[-1].status, own(pull)[-1].conclusion) == ("completed", "neutral")
    assert "Read again after a re-run of IMQ's check by `hubot`" in text(pull)
    assert not pull.merged


@pytest.mark.thorough
@pytest.mark.lagging
async def test_rerun_finds_a_label_whose_webhook_was_lost(world: World) -> None:
    """Not the next sweep, but the rerun finds the label, and queues the pull request."""
    pull = await world.behind("front")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(timedelta(seconds=10))
    pull.unlabel(LABEL, by="mona")
    await world.pass_time(MINUTE)
    pull.label(LABEL, by="mona", webhook=False)
    await world.pass_time(timedelta(seconds=5))
    assert await world.status(pull) is None
    press(world, pull, "check")
    await world.pass_time(timedelta(seconds=30))
    assert await world.status(pull) is not None


@pytest.mark.thorough
@pytest.mark.lagging
async def test_rerun_of_a_check_that_imq_did_not_write_costs_nothing(world: World) -> None:
    """P7: the webhook is that of another App's check, or of a suite of IMQ's App without any check run."""
    pull = world.open("plain")
    await world.pass_time(CI_TIME * 2)
    (run,) = pull.check_runs
    before = world.requests()
    world.repository.rerun(run, by="hubot")
    (suite,) = [each for each in world.repository.record.suites.values() if each.app is world.app]
    world.github.checks.rerequest_suite(suite, actor=world.github.actor("hubot"))
    await world.pass_time(timedelta(seconds=30))
    assert world.requests() == before
