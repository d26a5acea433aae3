"""P1, P2, P4, P6: a backup that was made under traffic is restored after some landings."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bot.cli.queue_files import copy
from queue_engine.domain.facts import OWN_CHECK
from tests.acceptance.test_lost_databases import front, label_in_order, remove_database
from tests.acceptance.train_stage import TrainWorld, a_train_world
from tests.acceptance.world import CI_TIME, LABEL, World


def _has_left(pull: Any, head: str) -> bool:
    return bool(pull.head_sha != head)


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


async def test_branches_that_a_person_made_under_the_names_of_a_run_of_the_backup_are_kept(tmp_path: Path) -> None:
    """P4: IMQ's own had these names, and are gone since its landing; GitHub's activity shows who made the new ones."""
    async with a_train_world(tmp_path) as trains:
        world, backup = trains.world, tmp_path / "backup.db"
        world.meanwhile("POST /repos/{owner}/{repo}/git/refs", lambda: copy(tmp_path / "imq.db", backup))
        pulls = await trains.queued(0, 0)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.pass_time(timedelta(minutes=5))
        assert trains.branches() == []
        taken = ["imq-build/main/1", "imq/main/1"]
        for name in taken:
            world.repository.push(name, {f"{name}.py": "work\n"}, "Work", by="mona")
        await restore_later(world, tmp_path)
        await world.pass_time(timedelta(minutes=30))
        assert trains.branches() == taken


@pytest.mark.thorough
async def test_branches_of_lost_records_are_kept_where_github_does_not_show_who_made_them(tmp_path: Path) -> None:
    """P4: an Enterprise Server without activity; a name is no proof."""
    async with a_train_world(tmp_path, trains="{candidates: auto, runs: 2}") as trains:
        trains.world.github.behaviour.activity = "none"
        await run_trains(trains, tmp_path, timedelta(seconds=230))
        assert trains.branches()


async def test_branches_of_a_test_that_the_backup_does_not_know_are_deleted_and_others_kept(tmp_path: Path) -> None:
    """P2, P4: the copy was made before somebody commented `/try`; a person has a branch of such a name, too."""
    async with a_train_world(tmp_path) as trains:
        world, pull = trains.world, trains.open()
        landed = await trains.queued(0, 0)
        await world.until(lambda: all(each.merged for each in landed))
        await world.settle()
        copy(tmp_path / "imq.db", tmp_path / "backup.db")
        world.repository.create_branch("imq/main/try-901", "main", by="hubot")
        await world.pass_time(timedelta(minutes=10))
        pull.comment("/try", by="mona")
        await world.pass_time(CI_TIME / 2)
        assert len(trains.branches()) == 3
        await restore_later(world, tmp_path)
        await world.pass_time(timedelta(hours=1))
        assert trains.branches() == ["imq/main/try-901"]


@pytest.mark.thorough
async def test_check_run_on_a_head_that_the_backup_does_not_know_ends(world: World, tmp_path: Path) -> None:
    """P6: IMQ updated the pull request after the copy was made, and a push follows: the copy knows neither head."""
    first = await front(world)
    second = world.open("second")
    await label_in_order(world, second)
    copy(tmp_path / "imq.db", tmp_path / "backup.db")
    await world.until(lambda: first.merged, within=timedelta(hours=1))
    await world.until_status(second, "checking")
    await world.pass_time(timedelta(seconds=10))
    (run,) = [run for run in second.check_runs if run.name == OWN_CHECK]
    assert run.status != "completed"
    second.unlabel(LABEL, by="mona")
    world.app.webhook_url = None
    await restore_later(world, tmp_path)
    await world.pass_time(timedelta(minutes=30))
    assert run.status == "completed"


@pytest.mark.parametrize("updates", [1, 2])
async def test_update_that_the_backup_does_not_know_is_bound_by_githubs_signature(
    world: World, tmp_path: Path, updates: int
) -> None:
    """P2, P4: GitHub made the merge for IMQ alone; the entry keeps its position."""
    first = await front(world)
    second = world.open("second")
    await label_in_order(world, second)
    copy(tmp_path / "imq.db", tmp_path / "backup.db")
    await world.until(lambda: first.merged, within=timedelta(hours=1))
    await world.until_status(second, "checking")
    for number in range(1, updates):
        head = second.head_sha
        world.repository.push("main", {f"around-{number}.py": "pushed\n"}, "Around the queue", by="rhea")
        await world.until(partial(_has_left, second, head))
        await world.until_status(second, "checking")
    await world.pass_time(timedelta(seconds=10))
    await restore_later(world, tmp_path)
    await world.until(lambda: second.merged, within=timedelta(hours=1))
    await world.settle()
    assert "head_changed" not in await world.reasons(second)


@pytest.mark.thorough
async def test_merge_of_the_base_by_a_person_is_no_update_of_imq(world: World, tmp_path: Path) -> None:
    """P4: a person's button makes the same parents, and GitHub signs it, too; its content may be the person's."""
    pull = await front(world)
    world.repository.push("main", {"around.py": "pushed\n"}, "Around the queue", by="rhea")
    copy(tmp_path / "imq.db", tmp_path / "backup.db")
    await world.kill()
    pull.update_branch(by="mona")
    await world.github.schedule.run_due()
    world.clock.set(world.clock.now() + timedelta(minutes=2))
    await world.github.schedule.run_due()
    remove_database(tmp_path)
    (tmp_path / "backup.db").rename(tmp_path / "imq.db")
    await world.restart()
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert await world.reasons(pull) == ["head_changed"]
    assert f"`mona` pushed `{pull.head_sha[:7]}` after `rhea` queued" in world.comment(pull)


async def test_own_updates_that_the_restored_database_cannot_prove_are_named_as_imqs(
    world: World, tmp_path: Path
) -> None:
    """P6: they are more than IMQ follows. The author reads that IMQ pushed them."""
    pull = await front(world)
    copy(tmp_path / "imq.db", tmp_path / "backup.db")
    for number in range(12):
        head = pull.head_sha
        world.repository.push("main", {f"around-{number}.py": "pushed\n"}, "Around the queue", by="rhea")
        await world.until(partial(_has_left, pull, head))
        await world.until_status(pull, "checking")
    await world.pass_time(timedelta(seconds=10))
    await restore_later(world, tmp_path)
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert await world.reasons(pull) == ["head_changed"]
    assert f"IMQ pushed `{pull.head_sha[:7]}` itself after `rhea` queued" in world.comment(pull)
    assert "its database is older" in world.comment(pull)
    await world.pass_time(timedelta(minutes=30))
