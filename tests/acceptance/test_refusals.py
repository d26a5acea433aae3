"""Who may queue which pull request, and what a refusal says."""

from datetime import timedelta
from pathlib import Path

import pytest

from github_emulator import PullRequestOptions
from tests.acceptance.choosing import configure
from tests.acceptance.world import CI_TIME, LABEL, World, a_world


async def test_label_by_a_triager_is_refused_and_taken_off(world: World) -> None:
    """GitHub lets triagers label but not merge; IMQ does not merge for them."""
    pull = world.repository.open_pull_request("Add", head="add", by="mona", files={"new.py": "new\n"})
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="tria")
    await world.pass_time(timedelta(minutes=1))
    assert not pull.merged
    assert LABEL not in pull.labels
    assert "write access" in world.comment(pull)


@pytest.mark.thorough
async def test_draft_is_refused_with_its_next_step(world: World) -> None:
    """A draft is not ready; its author reads what to do."""
    await configure(world, "when_not_ready: refuse\n")
    pull = world.repository.open_pull_request(
        "Add", head="add", by="mona", files={"new.py": "new\n"}, options=PullRequestOptions(draft=True)
    )
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert LABEL not in pull.labels
    assert "draft" in world.comment(pull)


@pytest.mark.thorough
async def test_conflict_is_reported_although_github_did_not_know_it_at_first(world: World) -> None:
    """`mergeable` null means ask again later, false means conflict."""
    pull = world.repository.open_pull_request("Edit", head="edit", by="mona", files={"app.py": "ONE\ntwo\nthree\n"})
    world.repository.push("main", {"app.py": "UNO\ntwo\nthree\n"}, "Edit too", by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(minutes=2))
    await world.settle()
    assert "conflict" in world.comment(pull)
    assert not pull.merged


@pytest.mark.thorough
async def test_full_queue_lets_later_entries_wait_for_room(tmp_path: Path) -> None:
    """P5: no request is rejected for a full queue."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        pulls = [
            world.repository.open_pull_request(f"Add {n}", head=f"add-{n}", by="mona", files={f"{n}.py": f"{n}\n"})
            for n in range(3)
        ]
        for pull in pulls:
            pull.label(LABEL, by="mona")
            await world.settle()
        assert [entry.held_since is not None for entry in await world.entries()] == [False, True, True]
        await world.pass_time(timedelta(seconds=5))
        assert "full" in world.comment(pulls[2])
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert [world.spoken(pull) for pull in pulls] == [1, 1, 1]


@pytest.mark.thorough
async def test_automation_that_sets_a_refused_label_again_starts_nothing(world: World) -> None:
    """P6: the same head, refused once, gets no second comment and no second CI run."""
    pull = world.repository.open_pull_request("Seven", head="seven", by="mona", files={"seven.txt": "70\n"})
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    comment, asked = world.comment(pull), world.requests()
    for _ in range(5):
        pull.label(LABEL, by="robot[bot]")
        await world.pass_time(timedelta(minutes=1))
        pull.unlabel(LABEL, by="robot[bot]")
        await world.pass_time(timedelta(minutes=1))
    assert world.comment(pull) == comment
    # One of them is the sweep's comparison of check runs.
    assert world.requests() - asked <= 5


async def test_late_delivery_of_an_old_label_does_not_take_a_newer_one_off(world: World) -> None:
    """P4, P6: the label was set, the head changed, the label was set again; the first delivery comes last."""
    pull = world.repository.open_pull_request("Add", head="add", by="mona", files={"new.py": "new\n"})
    await world.pass_time(CI_TIME * 2)
    world.github.webhooks.faults.delay(timedelta(minutes=2), event="pull_request", action="labeled", times=1)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=20))
    pull.push({"new.py": "newer\n"}, by="mona")
    pull.unlabel(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=20))
    world.github.webhooks.faults.delay(timedelta(minutes=5), event="pull_request", action="labeled", times=1)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=3))
    assert LABEL in pull.labels
    await world.until(lambda: pull.merged)
    assert world.spoken(pull) == 1


@pytest.mark.thorough
async def test_label_in_other_letters_is_the_same_label(world: World) -> None:
    """GitHub knows no two labels that differ in case only."""
    pull = world.repository.open_pull_request("Add", head="add", by="mona", files={"new.py": "new\n"})
    await world.pass_time(CI_TIME * 2)
    pull.label("Merge-Queue", by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert pull.labels == []
