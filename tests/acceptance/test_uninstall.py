"""What IMQ leaves on GitHub when a team removes it, as docs/operating.md says."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.shadow_mode import configure
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import LABEL


@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "at-once"])
async def test_queues_that_end_before_the_uninstall_leave_nothing_pending(tmp_path: Path, prepared: bool) -> None:
    """`enabled: false` withdraws checks, labels and candidates; an uninstall alone leaves them as they are."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "first", "second")
        queue_all(pulls)
        await world.pass_time(timedelta(minutes=1))
        if prepared:
            await configure(world, "enabled: false\ntrains: {candidates: push}\n")
            await world.pass_time(timedelta(minutes=20))
        (installation,) = [each for each in world.github.state.installations.values() if each.app is world.app]
        world.github.accounts.uninstall(installation)
        await world.pass_time(timedelta(hours=1))
        left = [name for name in world.repository.record.git.branches() if name.startswith("imq")]
        shown = [each.status for pull in pulls for each in pull.check_runs if each.name == "IMQ"]
        (comment,) = pulls[0].comments
        assert bool(left) is not prepared
        assert set(shown) == {"completed" if prepared else "in_progress"}
        assert [pull.labels for pull in pulls] == [[] if prepared else [LABEL]] * 2
        assert ("The configuration has no queue for `main`." in comment.body) is prepared
