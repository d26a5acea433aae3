"""Members that landed with a train, and that GitHub shows as merged late, or never."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, LAG, World

CLOSE, READ = (f"{method} /repos/{{owner}}/{{repo}}/pulls/{{number}}" for method in ("PATCH", "GET"))
NEVER = timedelta(days=30)
FEW_SWEEPS = {"IMQ_SWEEP_SECONDS": "40000"}


def closes(world: World) -> int:
    """How many requests changed a pull request."""
    return world.requests(CLOSE)


@pytest.mark.thorough
@pytest.mark.parametrize("after", [timedelta(seconds=2), timedelta(hours=5)], ids=["seconds", "hours"])
async def test_member_that_github_shows_as_merged_late_is_not_closed(tmp_path: Path, after: timedelta) -> None:
    """A closed pull request would never show as merged; one that shows so at once costs no request."""
    async with a_train_world(tmp_path, settings=FEW_SWEEPS) as world:
        world.github.timings.merged_by_push = after
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.until(lambda: {"a.py", "b.py"} <= set(world.repository.files("main")))
        await world.settle()
        reads = world.requests(READ)
        await world.pass_time(timedelta(hours=26))
        assert all(pull.merged for pull in pulls)
        assert closes(world) == 0
        assert world.requests(READ) - reads == (2 * 2 if after.seconds > 60 else 0)


@pytest.mark.thorough("True")
@pytest.mark.parametrize("closes_it", [False, True])
async def test_member_that_github_never_shows_as_merged_is_closed_with_its_commit(
    tmp_path: Path, closes_it: bool
) -> None:
    """A day later, in IMQ's one comment (P6); and not what somebody pushed to since (P2, P4)."""
    async with a_train_world(tmp_path, settings=FEW_SWEEPS) as world:
        world.github.timings.merged_by_push = NEVER
        world.github.timings.moved_head_closes = closes_it
        kept, gone = await ready(world, "a", "b")
        queue_all([kept, gone])
        await world.until(lambda: {"a.py", "b.py"} <= set(world.repository.files("main")))
        await world.pass_time(timedelta(hours=20))
        assert kept.state == gone.state == "open"
        kept.push({"more.py": "x\n"}, by="mona", webhook=False)
        await world.pass_time(timedelta(hours=5))
        assert kept.state == "open"
        assert (gone.state, gone.merged) == ("closed", False)
        merges = {each.title: each.sha for each in world.repository.log("main")}
        sha = merges[f"Merge pull request {gone.number} from b"]
        assert "So IMQ closed it" in world.comment(gone)
        assert sha in world.comment(gone)
        assert "closed it" not in world.comment(kept)
        assert world.spoken(gone) == 1
        assert closes(world) == 1


async def test_member_that_a_person_closes_before_github_shows_its_landing_has_landed(tmp_path: Path) -> None:
    """P6: its commits are on the base, so the comment is true; where they are not, the harness finds that."""
    async with a_train_world(tmp_path, settings=FEW_SWEEPS) as world:
        world.github.timings.merged_by_push = NEVER
        kept, gone = await ready(world, "a", "b")
        queue_all([kept, gone])
        await world.until(lambda: {"a.py", "b.py"} <= set(world.repository.files("main")))
        gone.close(by="mona")
        await world.pass_time(timedelta(hours=26))
        assert (gone.state, gone.merged) == ("closed", False)
        assert "Landed on `main`" in world.comment(gone)
        assert world.spoken(gone) == 1
        assert await world.contradictions() == []
        record, tip = world.repository.record, world.repository.sha("main")
        record.git.set_ref("heads/main", world.repository.log("main")[-1].sha)
        assert [each for each in await world.contradictions() if each.startswith(f"#{gone.number} ")] != []
        record.git.set_ref("heads/main", tip)


@pytest.mark.parametrize("lag", [timedelta(0), pytest.param(LAG, marks=pytest.mark.thorough)], ids=["", "lag"])
@pytest.mark.parametrize("reported", [True, False])
async def test_member_whose_base_somebody_changes_as_it_lands_is_not_closed(
    tmp_path: Path, lag: timedelta, reported: bool
) -> None:
    """P4, P6: the other base lacks its commits, its comment says so, and the label there is new consent."""
    async with a_train_world(tmp_path, settings=FEW_SWEEPS, lag=lag) as world:
        world.github.timings.merged_by_push = NEVER
        world.repository.create_branch("release", by="rhea")
        moved, gone = await ready(world, "a", "b")
        queue_all([moved, gone])
        await world.until(lambda: {"a.py", "b.py"} <= set(world.repository.files("main")))
        moved.edit_base("release", by="mona", webhook=reported)
        await world.pass_time(CI_TIME * 5)
        text = world.comment(moved)
        assert "Landed on `main`" in text
        assert "The base branch of the pull request is `release` now, so it is still open" in text
        assert LABEL not in moved.labels
        await world.pass_time(timedelta(hours=26))
        assert (moved.state, gone.state) == ("open", "closed")
        assert world.spoken(moved) == 1
