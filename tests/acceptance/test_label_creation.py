"""The trigger label that a repository lacks: IMQ creates it once, and only where it may."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from tests.acceptance.choosing import configure
from tests.acceptance.commenting import MINUTE, ready
from tests.acceptance.test_configuration import validate
from tests.acceptance.world import LABEL, World

CREATE = "POST /repos/{owner}/{repo}/labels"
SWEEP = timedelta(minutes=11)


@pytest.fixture
def logs() -> Iterator[list[EventDict]]:
    with capture_logs() as captured:
        yield captured


def labels(world: World) -> dict[str, str]:
    """The colours of the repository's labels, by name."""
    return {label.name: label.color for label in world.repository.record.labels.values()}


@pytest.mark.thorough
@pytest.mark.parametrize("lag", [timedelta(0), timedelta(seconds=2)])
async def test_label_is_there_when_imq_is_installed(world: World, lag: timedelta) -> None:
    """With a colour and a description, so that people find it in the list of labels."""
    world.server.lag.set(lag)
    await world.pass_time(MINUTE)
    label = world.repository.record.labels[LABEL]
    assert (label.color, label.description) == ("1f6feb", "Queue this pull request: IMQ tests and merges it")
    await world.pass_time(timedelta(hours=2))
    assert [each.status for each in world.server.requests if each.template == CREATE and each.status != 401] == [201]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_labels_that_the_configuration_names_are_created(world: World) -> None:
    """At the next sweep; the one that was there before stays."""
    await configure(world, "trigger_labels: [land, hotfix]\n")
    await world.pass_time(SWEEP)
    assert {LABEL, "land", "hotfix"} <= labels(world).keys()


@pytest.mark.thorough
@pytest.mark.lagging
async def test_label_that_people_created_stays_as_it_is(world: World) -> None:
    """Names differ in more than case."""
    world.open("first").label("Land", by="rhea")
    await configure(world, "trigger_labels: [land]\n")
    await world.pass_time(SWEEP * 2)
    assert (labels(world)["Land"], "land" in labels(world)) == ("ededed", False)
    assert world.authorized(CREATE) == 2


@pytest.mark.thorough
@pytest.mark.lagging
async def test_label_that_a_maintainer_deleted_is_not_created_again(world: World) -> None:
    """Also not after a restart."""
    await world.pass_time(MINUTE)
    world.repository.delete_label(LABEL, by="rhea")
    await world.pass_time(SWEEP * 2)
    await world.kill()
    await world.restart()
    await world.pass_time(SWEEP)
    assert LABEL not in labels(world)
    assert world.authorized(CREATE) == 1


@pytest.mark.parametrize("needs_issues", [True, False])
async def test_installation_that_may_not_create_labels_is_logged_once_a_day(
    world: World, tmp_path: Path, logs: list[EventDict], needs_issues: bool
) -> None:
    """Sources differ in whether `pull_requests: write` suffices. New permissions count at the next sweep."""
    world.github.behaviour.labels_need_issues = needs_issues
    world.grant("issues", "read")
    pull = await ready(world)
    await configure(world, "trigger_labels: [land]\n")
    await world.pass_time(timedelta(hours=2))
    assert ("land" in labels(world)) is not needs_issues
    refused = [each for each in logs if each["event"] == "label_not_created"]
    assert len(refused) == int(needs_issues)
    text = "trigger_labels: [land]\n"
    shown = await validate(world, tmp_path, text, "--against", f"acme/widgets#{pull.number}", "--by", "mona")
    assert ("The repository has no label land: create it" in shown.output) is needs_issues
    if needs_issues:
        assert "grant IMQ's App the permission issues: write" in refused[0]["advice"]
        installation = next(each for each in world.github.state.installations.values() if each.app is world.app)
        world.github.accounts.accept_permissions(installation, {"issues": "write"})
        await world.pass_time(SWEEP)
    assert labels(world)["land"] == "1f6feb"
    pull.label("land", by="mona")
    await world.until(lambda: pull.merged)


@pytest.mark.lagging
async def test_label_is_created_once_though_the_process_is_killed(world: World) -> None:
    """P6: killed after GitHub created it; the next process learns that it exists."""
    await configure(world, "trigger_labels: [land]\n")
    created: list[bool] = []
    world.meanwhile(CREATE, lambda: created.append(True), phase="after")
    await world.until(lambda: bool(created), within=SWEEP)
    await world.kill()
    await world.restart()
    await world.pass_time(SWEEP)
    assert labels(world)["land"] == "1f6feb"


@pytest.mark.thorough
@pytest.mark.lagging
async def test_repository_in_shadow_mode_gets_no_label(world: World) -> None:
    """IMQ writes nothing there."""
    await configure(world, "mode: shadow\ntrigger_labels: [land]\n")
    await world.pass_time(SWEEP * 2)
    assert "land" not in labels(world)
