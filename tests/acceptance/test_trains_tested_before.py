"""A candidate whose tree passed before, on another commit, lands by a push, too."""

from datetime import timedelta
from pathlib import Path

from tests.acceptance.train_world import a_train_world, queue_all, ready


async def test_tree_that_passed_on_another_commit_lands_by_a_push_after_its_checks(tmp_path: Path) -> None:
    """A rule counts the checks of the pushed commit: IMQ has it tested, and moves the base as before."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(timedelta(minutes=1))
        world.repository.push("main", {}, "Empty", by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        async with world.bot.engine.store.reading() as tx:
            [queue] = await tx.queues.all()
            memory = (await tx.trains.get(queue.id)).memory
            history = await tx.timeline.of_pull_request(world.repository.record.id, 0)
        outcomes = [each.data.get("outcome") for each in history if each.event == "run_ended"]
        assert "commit_untested" in outcomes
        assert outcomes[-1] == "landed"
        assert memory["by_api"] is None
