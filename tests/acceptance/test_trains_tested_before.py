"""A candidate whose tree passed before, on another commit, lands by a push, too."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.landing_witness import landings
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


@pytest.mark.thorough
async def test_record_of_a_tree_that_passed_on_another_commit_says_where_its_checks_ran(tmp_path: Path) -> None:
    """P1: where no rule asks for checks of the commit itself, the landing takes them over; its passport names that."""
    more = "checks: {required: ci/test}\nmerge: {tested_refs: ci/test}\n"
    async with a_train_world(tmp_path, more=more) as world:
        del world.repository.record.protections["main"]
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(timedelta(minutes=1))
        git = world.repository.record.git
        [tested] = {tip for name, tip in git.branches().items() if name.startswith("imq/")}
        world.repository.push("main", {}, "Empty", by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        records = [each.record for each in await landings(world.bot.engine.store)]
        landed = world.repository.sha("main")
        assert landed != tested
        for record in records:
            [check] = record["checks"]
            assert (check["from"], check["commit"]) == ("same_tree", tested)
            assert (record["candidate"]["commit"], record["candidate"]["tree"]) == (landed, git.tree(tested))
            assert record["verdict"] == {"result": "equal"}
        assert ["ref" in record for record in records] == [False, True]
