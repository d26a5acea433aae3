"""A label leads to a merge: the main path, as people see it."""

from datetime import timedelta

import pytest

from tests.acceptance.world import CI_TIME, LABEL, World

pytestmark = pytest.mark.lagging


def changing(path: str, text: str) -> dict[str, str]:
    return {path: text}


async def test_green_pull_request_labeled_lands_and_its_author_reads_so(world: World) -> None:
    """P1, P6: an up-to-date green pull request merges at once, with one comment, one check run and no label left."""
    pull = world.repository.open_pull_request("Add a file", head="add-file", by="mona", files={"new.py": "new\n"})
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(seconds=5))
    await world.settle()
    assert "Landed" in world.comment(pull) or "landed" in world.comment(pull)
    assert LABEL not in pull.labels
    own = [run for run in pull.check_runs if run.name == "IMQ"]
    assert [(run.status, run.conclusion) for run in own] == [("completed", "success")]
    assert await world.entries() == ()


@pytest.mark.thorough
async def test_pull_request_behind_the_base_is_updated_checked_and_lands(world: World) -> None:
    """P1: the base moved after the pull request was opened; its own CI runs again on top of the new base first."""
    pull = world.repository.open_pull_request("Add a file", head="add-file", by="mona", files={"new.py": "new\n"})
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"other.py": "other\n"}, "Add other", by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    tested = world.repository.tree(pull.head_sha)
    assert world.repository.tree("main") == tested


async def test_pull_requests_land_in_the_order_of_their_labels(world: World) -> None:
    """P3: first in, first out, each tested on top of the one before; requests stay within the goal of fifteen."""
    pulls = [
        world.repository.open_pull_request(f"Add {n}", head=f"add-{n}", by="mona", files={f"new{n}.py": f"{n}\n"})
        for n in range(5)
    ]
    await world.pass_time(CI_TIME * 2)
    before = world.requests()
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    merged = [
        commit.message.splitlines()[0]
        for commit in world.repository.log("main")
        if "Merge pull request" in commit.message
    ]
    assert [f"#{pull.number}" in line for pull, line in zip(reversed(pulls), merged, strict=False)] == [True] * 5
    assert all(world.spoken(pull) == 1 for pull in pulls)
    assert (world.requests() - before) / len(pulls) <= 15


@pytest.mark.thorough
async def test_two_changes_green_alone_and_red_together_never_both_land(world: World) -> None:
    """P1: the second is tested on top of the first, is red there, and leaves with its failing check linked."""
    first = world.repository.open_pull_request("Six", head="six", by="mona", files={"six.txt": "6\n"})
    second = world.repository.open_pull_request("Seven", head="seven", by="hubot", files={"seven.txt": "7\n"})
    await world.pass_time(CI_TIME * 2)
    first.label(LABEL, by="mona")
    await world.settle()
    second.label(LABEL, by="hubot")
    await world.until(lambda: first.merged and LABEL not in second.labels)
    await world.settle()
    assert not second.merged
    text = world.comment(second)
    assert "ci/test" in text
    assert "@hubot" in text
    assert "http" in text


async def test_conflicting_pull_request_is_ejected_and_the_next_one_lands(world: World) -> None:
    """P5: a conflict with what landed before ejects one pull request and delays no other."""
    first = world.repository.open_pull_request("One", head="one", by="mona", files={"app.py": "ONE\ntwo\nthree\n"})
    second = world.repository.open_pull_request("Uno", head="uno", by="hubot", files={"app.py": "UNO\ntwo\nthree\n"})
    third = world.repository.open_pull_request("New", head="new", by="mona", files={"new.py": "new\n"})
    await world.pass_time(CI_TIME * 2)
    for pull in (first, second, third):
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: first.merged and third.merged)
    await world.settle()
    assert not second.merged
    assert "conflict" in world.comment(second)
    assert "@hubot" in world.comment(second)
    assert LABEL not in second.labels
