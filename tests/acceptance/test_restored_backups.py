"""P1, P2, P4, P6: a backup that was made under traffic is restored after some landings.

Covers `bot/cli/backup.py`.
"""

from datetime import timedelta
from pathlib import Path

from bot.cli.backup import copy
from tests.acceptance.test_lost_databases import front, label_in_order, remove_database
from tests.acceptance.world import LABEL, World


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
    await world.kill()
    remove_database(tmp_path)
    (tmp_path / "backup.db").rename(tmp_path / "imq.db")
    await world.restart()
    pulls = [first, *queued, later]
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=2))
    await world.settle()
    assert world.landed()[: len(landed)] == landed
    assert sorted(world.landed()) == sorted(pull.number for pull in pulls)
    assert [world.spoken(pull) for pull in pulls] == [1, 1, 1, 1]
    assert all("Landed" in world.comment(pull) for pull in pulls)
