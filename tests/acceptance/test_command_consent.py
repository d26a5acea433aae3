"""P4: `/queue` consents to the head that its author can have seen, and to no push that may be newer."""

from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.reasons import Reason
from tests.acceptance.world import CI_TIME, LABEL, World

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


@pytest.fixture
async def pull(world: World) -> Any:
    """A pull request with green checks."""
    made = world.open("pull")
    await world.pass_time(CI_TIME * 2)
    return made


async def is_not_queued(world: World, pull: Any, says: str) -> None:
    """It is not queued, it never lands, and its comment says why."""
    assert await world.status(pull) is None
    await world.pass_time(HOUR)
    assert not pull.merged
    assert says in world.comment(pull)
    assert LABEL not in pull.labels


@pytest.mark.thorough
async def test_command_of_the_second_of_a_push_queues_nothing(world: World, pull: Any) -> None:
    """GitHub's times have whole seconds: no one knows which of the two was first."""
    pull.push({"unseen.py": "unseen\n"}, by="hubot")
    await world.settle()
    pull.comment("/queue", by="mona")
    await world.settle()
    await is_not_queued(world, pull, "changed")


async def test_command_is_void_when_a_push_of_its_second_is_reported_later(world: World, pull: Any) -> None:
    """The head was read with the push in it already; its webhook came after the command was carried out."""
    pull.push({"unseen.py": "unseen\n"}, by="hubot", webhook=False)
    pull.comment("/queue", by="mona")
    await world.settle()
    assert await world.status(pull) is not None
    deliver_push(world, pull)
    await world.settle()
    assert await world.reasons(pull) == [Reason.HEAD_CHANGED.value]
    await is_not_queued(world, pull, "same second")


@pytest.mark.thorough
async def test_command_that_waits_for_a_place_is_void_likewise(world: World, pull: Any) -> None:
    """A full queue makes no difference to consent."""
    rules = "depth: 1\n"
    world.repository.push("main", {".github/imq.yml": rules}, "Rules", by="rhea")
    first = world.open("first")
    first.label(LABEL, by="mona")
    await world.pass_time(SECOND)
    pull.push({"unseen.py": "unseen\n"}, by="hubot", webhook=False)
    pull.comment("/queue", by="mona")
    await world.settle()
    assert (await world.reasons(pull))[-1] == Reason.QUEUE_FULL.value
    deliver_push(world, pull)
    await world.settle()
    assert (await world.reasons(pull))[-1] == Reason.HEAD_CHANGED.value
    await is_not_queued(world, pull, "ew commits")


@pytest.mark.thorough
async def test_command_some_seconds_after_a_push_queues_its_head(world: World, pull: Any) -> None:
    """Its author can have seen it."""
    pull.push({"seen.py": "seen\n"}, by="hubot")
    await world.pass_time(2 * SECOND)
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged)
    assert "seen.py" in world.repository.files("main")


async def test_command_of_the_second_of_a_changed_base_queues_nothing(world: World, pull: Any) -> None:
    """The author of a pull request changes its base branch without any right on the repository."""
    world.repository.create_branch("release", "main")
    pull.edit_base("release", by="mona")
    await world.pass_time(SECOND * 2)
    pull.comment("/queue", by="hubot")
    pull.edit_base("main", by="mona")
    await world.settle()
    await is_not_queued(world, pull, "changed")


@pytest.mark.thorough
async def test_command_is_void_when_a_changed_base_of_its_second_is_reported_later(world: World, pull: Any) -> None:
    """The new base branch was read; its webhook came after the command was carried out."""
    pull.push({"seen.py": "seen\n"}, by="mona")
    world.repository.create_branch("release", "main")
    pull.edit_base("release", by="mona")
    await world.pass_time(SECOND * 2)
    pull.edit_base("main", by="mona", webhook=False)
    pull.comment("/queue", by="hubot")
    await world.settle()
    assert await world.status(pull) is not None
    deliver_changed_base(world, pull, before="release")
    await world.settle()
    assert await world.reasons(pull) == [Reason.BASE_CHANGED.value]
    await is_not_queued(world, pull, "same second")


def deliver_push(world: World, pull: Any) -> None:
    """The webhook of the push comes late."""
    before = pull.record.repository.git.must(pull.head_sha).parents[0]
    pull.announce("synchronize", by="hubot", details={"before": before, "after": pull.head_sha})


def deliver_changed_base(world: World, pull: Any, *, before: str) -> None:
    """The webhook of a changed base branch comes late."""
    details = {"changes": {"base": {"ref": {"from": before}, "sha": {"from": world.repository.sha(before)}}}}
    pull.announce("edited", by="mona", details=details)
