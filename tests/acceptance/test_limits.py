"""GitHub's limits and GitHub's bad days: waited out as long as GitHub asks, nothing doubled, nothing forgotten."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from github_emulator import Fault, FaultKind
from tests.acceptance.naming import naming
from tests.acceptance.test_consent import queued
from tests.acceptance.world import CI_TIME, LABEL, World

CONFIGURATION = "/contents/.github/imq.yml"
"""Not there, which GitHub has to say once."""
PULL = "/repos/{owner}/{repo}/pulls/{number}"
COMMENTS = "/repos/{owner}/{repo}/issues/{number}/comments"
CHECK_RUNS = "/repos/{owner}/{repo}/commits/{ref}/check-runs"
WRITES = [("PUT", f"{PULL}/merge"), ("PUT", f"{PULL}/update-branch"), ("POST", COMMENTS)]


def sent_between(world: World, start: datetime, end: datetime) -> list[str]:
    """What the bot asked after one instant and before another, on behalf of its installation."""
    return [r.template for r in world.server.requests if start < r.at < end and r.installation is not None]


async def has_landed_once(world: World, pull: Any, *, within: timedelta = timedelta(hours=2)) -> None:
    """One merge, one comment that says so, no label left."""
    await world.until(lambda: pull.merged, within=within)
    await world.pass_time(timedelta(minutes=10))
    assert world.landed().count(pull.number) == 1
    assert "anded" in world.comment(pull)
    assert LABEL not in pull.labels


async def test_secondary_limit_on_every_kind_of_write_is_waited_out(world: World) -> None:
    """P7: whatever write it hits, nothing is sent until the time is over, a minute when GitHub names none."""
    for status, retry_after in ((403, 150), (403, None), (429, 150), (429, None), (422, None)):
        case, earlier = (status, retry_after), len(world.server.requests)
        pull = await world.behind(f"add-{status}-{retry_after}")
        for method, route in WRITES:
            world.server.faults.add(
                Fault(kind="secondary_limit", method=method, route=route, status=status, retry_after=retry_after)
            )
        pull.label(LABEL, by="mona")
        with naming(case):
            await has_landed_once(world, pull)
        hits = [one for one in list(world.server.requests)[earlier:] if one.fault == "secondary_limit"]
        assert (case, len(hits)) == (case, len(WRITES))
        for hit in hits:
            assert (case, sent_between(world, hit.at, hit.at + timedelta(seconds=retry_after or 60))) == (case, [])


async def test_exhausted_primary_limit_is_waited_out_until_its_reset(world: World) -> None:
    """P7: with none remaining, nothing is sent before the reset that the headers name; then the queue continues."""
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    fault = world.server.faults.add(Fault(kind="rate_limit", method="GET"))
    await world.until(lambda: fault.hits == 1)
    hit = next(request for request in world.server.requests if request.fault == "rate_limit")
    reset = world.server.limits.budget(f"installation {hit.installation}").reset
    assert reset - hit.at > timedelta(minutes=20)
    await has_landed_once(world, pull)
    assert sent_between(world, hit.at, reset) == []
    assert world.server.limits.violations == []


@pytest.mark.thorough
async def test_tokens_that_expire_at_any_time_are_renewed(world: World) -> None:
    """A token may be revoked or run out between any two requests: a new one is fetched, and nothing is lost."""
    pull = await world.behind("add")
    for _, route in WRITES:
        world.server.faults.add(Fault(kind="expired_token", route=route))
    world.server.faults.add(Fault(kind="expired_token", method="GET"))
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    world.server.tokens.revoke_all()
    await has_landed_once(world, pull, within=CI_TIME + timedelta(seconds=5))
    assert await world.reasons(pull) == []


@pytest.mark.thorough
async def test_answers_that_cannot_be_read_are_asked_for_again(world: World) -> None:
    """A proxy's HTML, a body cut off and links that are no addresses tell nothing; each read is repeated."""
    kinds: tuple[FaultKind, ...] = ("fail", "bad_json", "bad_link")
    for kind in kinds:
        pull = await world.behind(f"add-{kind}")
        for route in (PULL, "/repos/{owner}/{repo}/compare/{basehead}", CHECK_RUNS):
            world.server.faults.add(Fault(kind=kind, method="GET", route=route, status=502, times=2))
        world.server.faults.add(Fault(kind=kind, method="GET", status=502, times=2))
        pull.label(LABEL, by="mona")
        with naming(kind):
            await has_landed_once(world, pull)
        assert (kind, await world.reasons(pull)) == (kind, [])
        world.server.faults.clear()


@pytest.mark.thorough
@pytest.mark.parametrize("status", ["pending", "updating", "checking", "ready"])
async def test_github_down_for_ten_minutes_loses_nothing_in_any_status(world: World, status: str) -> None:
    """P2: every request fails for ten minutes while checks go on; afterwards everything lands, once."""
    pull = await queued(world, status)
    world.server.faults.add(Fault(kind="fail", status=503, times=None))
    await world.pass_time(timedelta(minutes=10))
    assert not pull.merged
    world.server.faults.clear()
    await has_landed_once(world, pull)
    assert await world.reasons(pull) == []


@pytest.mark.thorough
async def test_outage_that_lasts_is_shown_with_the_next_try_and_no_longer_when_it_is_over(world: World) -> None:
    """After a minute, comment and check run report the outage, and no longer once GitHub answers."""
    pull = await queued(world, "checking")
    fault = world.server.faults.add(Fault(kind="fail", route="/graphql", status=503, times=None))
    await world.until(lambda: fault.hits > 3)
    assert "IMQ has retried since" not in world.comment(pull)
    await world.pass_time(timedelta(minutes=5))
    assert "IMQ has retried since 2" in world.comment(pull)
    assert "the next try is at 2" in world.comment(pull)
    assert any("IMQ has retried since" in str(run.output) for run in pull.check_runs if run.name == "IMQ")
    world.server.faults.clear()
    await world.until(lambda: "IMQ has retried since" not in world.comment(pull), within=timedelta(minutes=10))
    await has_landed_once(world, pull)


@pytest.mark.thorough
async def test_github_down_for_more_than_an_hour_is_explained_when_it_is_back(world: World) -> None:
    """P5: after an hour the entry leaves; the word about it waits as long as GitHub takes to come back."""
    pull = await queued(world, "updating")
    world.server.faults.add(Fault(kind="fail", status=503, times=None))
    await world.pass_time(timedelta(minutes=75))
    assert await world.entries() == ()
    world.server.faults.clear()
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(minutes=30))
    await world.settle()
    assert await world.reasons(pull) == ["github_trouble"]
    assert "failed for longer than IMQ retries" in world.comment(pull)
    pull.label(LABEL, by="mona")
    await has_landed_once(world, pull)


@pytest.mark.thorough
async def test_pull_requests_labeled_at_once_are_within_every_limit(world: World) -> None:
    """P7: five labels in one moment, five landings, and not one request that GitHub had to refuse."""
    pulls = [world.open(f"add-{number}") for number in range(5)]
    await world.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    assert sorted(world.landed()) == [pull.number for pull in pulls]
    assert world.server.limits.violations == []
    refused = [request for request in world.server.requests if request.status and request.status >= 400]
    # What is not there is told once: no configuration, and no repository `.github` that a token could be made for.
    others = [(one.path, one.status) for one in refused if not one.path.endswith(CONFIGURATION)]
    assert others == [(f"/app/installations/{next(iter(world.github.state.installations))}/access_tokens", 422)]
