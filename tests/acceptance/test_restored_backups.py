"""P1, P2, P4, P6: a backup that was made under traffic is restored after some landings."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.cli.queue_files import copy
from tests.acceptance.test_lost_databases import front, label_in_order, remove_database
from tests.acceptance.train_stage import TrainWorld, a_train_world
from tests.acceptance.world import LABEL, World


async def restore_later(world: World, directory: Path) -> None:
    """IMQ ends, and starts again with the copy that was made before."""
    await world.kill()
    remove_database(directory)
    (directory / "backup.db").rename(directory / "imq.db")
    await world.restart()


async def test_restored_backup_lands_nothing_twice_and_loses_nothing(world: World, tmp_path: Path) -> None:
    """Pull requests landed since the copy was made, and another was queued; GitHub has what the copy lacks."""
    later = world.open("later")
    first = await front(world)
    queued = [world.open(name) for name in ("second", "third")]
    await label_in_order(world, *queued)
    copy(tmp_path / "imq.db", tmp_path / "backup.db")
    await world.until(lambda: first.merged and queued[0].merged, within=timedelta(hours=1))
    later.label(LABEL, by="mona")
    await world.settle()
    landed = [pull.number for pull in (first, *queued) if pull.merged]
    await restore_later(world, tmp_path)
    pulls = [first, *queued, later]
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=2))
    await world.settle()
    assert world.landed()[: len(landed)] == landed
    assert sorted(world.landed()) == sorted(pull.number for pull in pulls)
    assert [world.spoken(pull) for pull in pulls] == [1, 1, 1, 1]
    assert all("Landed" in world.comment(pull) for pull in pulls)


async def run_trains(trains: TrainWorld, directory: Path, after: timedelta) -> None:
    """Copy the database while a train of four is built, of which the last fails; restore it after this time."""
    world, backup = trains.world, directory / "backup.db"
    world.meanwhile("POST /repos/{owner}/{repo}/merges", lambda: copy(directory / "imq.db", backup), phase="after")
    pulls = await trains.queued(0, 0, 0, 7)
    world.repository.push("main", {"four.txt": "4\n"}, "Four", by="rhea")
    await world.pass_time(after)
    assert trains.branches()
    await restore_later(world, directory)
    await world.until(lambda: all(pull.merged for pull in pulls[:3]))
    await world.pass_time(timedelta(minutes=30))
    assert not pulls[3].merged


@pytest.mark.parametrize("seconds", [230, *(pytest.param(each, marks=pytest.mark.long) for each in (20, 30, 400))])
async def test_backup_made_in_the_middle_of_a_train_leaves_no_branch_of_imq_and_every_other(
    tmp_path: Path, seconds: int
) -> None:
    """P2, P4: GitHub's activity shows which branches IMQ made; a person's has the same name and commit, and stays."""
    async with a_train_world(tmp_path, on=("pull_request",), trains="{candidates: auto, runs: 2}") as trains:
        repository = trains.world.repository
        tip = repository.create_branch("imq/main/901", "main", by="hubot")
        await run_trains(trains, tmp_path, timedelta(seconds=seconds))
        assert trains.branches() == ["imq/main/901"]
        assert repository.record.git.branch("imq/main/901") == tip
        drafts = [each for each in repository.record.pulls.values() if each.head_branch.startswith("imq/")]
        assert {each.state for each in drafts} == {"closed"}


async def test_branches_of_lost_records_are_kept_where_github_does_not_show_who_made_them(tmp_path: Path) -> None:
    """P4: an Enterprise Server without activity; a name is no proof."""
    async with a_train_world(tmp_path, trains="{candidates: auto, runs: 2}") as trains:
        trains.world.github.behaviour.activity = "none"
        await run_trains(trains, tmp_path, timedelta(seconds=230))
        assert trains.branches()
