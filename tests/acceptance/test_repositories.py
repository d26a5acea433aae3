"""A repository's id is its identity: what is queued survives a new name, and leaves one that is out of reach (P5)."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import RecordedCall
from tests.acceptance.shadow_mode import SHADOW, configure
from tests.acceptance.test_out_of_order import Disorder
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import LABEL, LAG, World

EDIT = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"


async def queued(world: World) -> Any:
    """A pull request behind its base, being updated or checked."""
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    return pull


@pytest.mark.parametrize("webhook", [True, False])
async def test_repository_renamed_in_flight_lands_what_is_queued_under_its_new_name(
    world: World, webhook: bool
) -> None:
    """With a webhook or without: reads lead to the new name, which is stored and used from then on."""
    pull = await queued(world)
    world.repository.rename("gears", by="acme", webhook=webhook)
    await world.until(lambda: pull.merged, within=timedelta(minutes=40))
    await world.settle()
    assert await world.reasons(pull) == []
    async with world.bot.engine.store.reading() as tx:
        (queue,) = await tx.queues.all()
    assert queue.repository.full_name == "acme/gears"
    assert "anded" in world.comment(pull)


@pytest.mark.thorough
async def test_repository_transferred_to_another_installation_lands_what_is_queued(world: World) -> None:
    """The new owner has IMQ too: its installation is used from then on."""
    world.github.install(world.app, "globex")
    pull = await queued(world)
    world.repository.transfer("globex", by="acme")
    await world.until(lambda: pull.merged, within=timedelta(minutes=40))
    assert await world.reasons(pull) == []


@pytest.mark.parametrize("to", ["gears", "globex", "elsewhere"])
@pytest.mark.parametrize("webhook", [True, False])
async def test_label_whose_repository_moves_before_it_is_read_is_followed_by_the_repositorys_id(
    world: World, to: str, webhook: bool
) -> None:
    """P2: no dead letter, wherever it is by then and whether its webhook came."""
    if to == "globex":
        world.github.install(world.app, "globex")
    pull = world.open("add")
    await world.settle()

    def move() -> None:
        if to == "gears":
            world.repository.rename("gears", by="acme", webhook=webhook)
        else:
            world.repository.transfer("globex" if to == "globex" else "initech", by="acme", webhook=webhook)

    world.meanwhile("POST /graphql", move, phase="before")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged or to == "elsewhere", within=timedelta(minutes=8))
    await world.pass_time(timedelta(minutes=5))
    async with world.bot.engine.store.reading() as tx:
        assert await tx.dead_letters.count() == 0
        assert not await tx.jobs.unfinished(f"{world.repository.record.id}:{pull.number}")
    assert pull.merged is (to != "elsewhere")


@pytest.mark.parametrize("lag", [timedelta(0), LAG])
@pytest.mark.parametrize("what", ["try", "branches", "labels", "shadow"])
async def test_work_that_waits_while_its_repository_moves_follows_the_repositorys_id(
    tmp_path: Path, what: str, lag: timedelta
) -> None:
    """P2: the webhook of the transfer is lost; a test, branches, labels put off and shadow mode's jobs go on there."""
    async with a_train_world(tmp_path, lag=lag) as world:
        world.github.install(world.app, "globex")
        pulls = await ready(world, *"abcdefgh")
        moved: list[RecordedCall] = []

        async def move(exchange: RecordedCall) -> None:
            if exchange.phase == "before" and not moved and (what != "branches" or all(each.merged for each in pulls)):
                moved.append(exchange)
                world.repository.transfer("globex", by="acme", webhook=False)

        if what == "labels":
            for pull in pulls:
                pull.label(LABEL, by="tria")
                await world.pass_time(timedelta(seconds=3))
        elif what == "try":
            pulls[0].comment("/try", by="mona")
            await world.pass_time(timedelta(minutes=1))
        elif what == "shadow":
            await configure(world, SHADOW)
            pulls[0].label(LABEL, by="mona")
        else:
            queue_all(pulls)
        world.server.on_request = move
        await world.pass_time(timedelta(hours=1))
        async with world.bot.engine.store.reading() as tx:
            letters = await tx.dead_letters.list(10)
            known = await tx.repositories.by_id(world.repository.record.id)
        assert ([each.job_type for each in letters], known and known.owner) == ([], "globex")
        assert [name for name in world.repository.record.git.branches() if name.startswith("imq")] == []
        assert "passed. It queued nothing." in world.comment(pulls[0]) if what == "try" else True
        assert all(pull.labels == [] for pull in pulls) or what in {"shadow", "try"}


async def test_repository_that_takes_the_former_name_lends_none_of_its_pull_requests(world: World) -> None:
    """P1, P4: the webhook of the rename is lost, and the other one has a pull request of the same number."""
    pull = world.open("add")
    await world.settle()
    names = []

    def rename() -> None:
        world.repository.rename("gears", by="acme", webhook=False)
        other = world.github.create_repository("acme/widgets", files={"a.py": "1\n"})
        names.append(other.open_pull_request("Other", head="other", by="acme", files={"b.py": "1\n"}))

    world.meanwhile("POST /graphql", rename)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(hours=2))
    await world.pass_time(timedelta(minutes=20))
    (other,) = names
    assert (other.state, other.comments, other.labels, other.check_runs) == ("open", [], [], [])
    async with world.bot.engine.store.reading() as tx:
        assert await tx.dead_letters.count() == 0


async def test_repository_that_stays_out_of_reach_keeps_nothing_queued(world: World) -> None:
    """P5: the new owner does not have IMQ, or not yet: entries wait as long as any hold, then leave for that reason."""
    pull = await queued(world)
    world.repository.transfer("globex", by="acme")
    await world.pass_time(timedelta(minutes=5))
    assert await world.paused() == "github_refuses"
    world.clock.set(world.clock.now() + timedelta(days=7))
    await world.pass_time(timedelta(minutes=30))
    assert await world.reasons(pull) == ["repository_gone"]
    assert await world.entries() == ()


async def test_repository_that_stays_archived_keeps_nothing_queued(world: World) -> None:
    """P5: every wait has a limit, which a permission that is accepted meanwhile does not move."""
    (installation,) = [each for each in world.github.state.installations.values() if each.app is world.app]
    pull = await queued(world)
    world.repository.archive(by="acme")
    await world.pass_time(timedelta(minutes=5))
    assert await world.paused() == "github_refuses"
    world.clock.set(world.clock.now() + timedelta(days=6))
    world.github.accounts.accept_permissions(installation, dict(world.app.permissions))
    await world.pass_time(timedelta(minutes=5))
    assert await world.paused() == "github_refuses"
    world.clock.set(world.clock.now() + timedelta(days=1))
    await world.pass_time(timedelta(minutes=30))
    assert await world.reasons(pull) == ["repository_archived"]
    world.repository.archive(False, by="acme")
    await world.pass_time(timedelta(hours=1))
    assert LABEL not in pull.labels
    assert "archived" in world.comment(pull)


@pytest.mark.thorough
@pytest.mark.parametrize("cause", ["archived", "uninstalled"])
async def test_words_that_were_refused_are_sent_at_the_end_of_that_although_the_queue_is_empty(
    world: World, cause: str
) -> None:
    """P6: the last pull request landed right before, so no queue was paused."""
    pull = await queued(world)
    change: Callable[[bool], None] = getattr(Disorder(world), cause)
    world.meanwhile(MERGE, lambda: world.meanwhile(EDIT, lambda: change(True)), phase="after")
    await world.pass_time(timedelta(hours=3))
    assert pull.merged
    assert LABEL in pull.labels
    change(False)
    await world.pass_time(timedelta(minutes=1))
    assert LABEL not in pull.labels
    assert "anded" in world.comment(pull)


async def test_writes_refused_for_a_permission_are_sent_once_it_is_accepted(world: World) -> None:
    """The pull request waits for the permission, and lands once it is accepted; its comment comes then."""
    (installation,) = [each for each in world.github.state.installations.values() if each.app is world.app]
    world.grant("pull_requests", "read")
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=10))
    assert await world.reasons(pull) == []
    world.github.accounts.accept_permissions(installation, dict(world.app.permissions))
    await world.until(lambda: pull.merged, within=timedelta(minutes=10))
    await world.settle()
    assert "anded" in world.comment(pull)
    assert LABEL not in pull.labels


@pytest.mark.thorough
async def test_uninstalled_app_asks_for_a_token_at_each_sweep_and_no_more(world: World) -> None:
    """P7: the queue waits for a week, and costs next to nothing."""
    pull = await queued(world)
    (installation,) = [each for each in world.github.state.installations.values() if each.app is world.app]
    world.github.accounts.uninstall(installation)
    await world.pass_time(timedelta(minutes=30))
    assert await world.reasons(pull) == []
    before = world.requests()
    await world.pass_time(timedelta(hours=1))
    assert world.requests() - before <= 6 * 4, "the lists of a sweep, and one read of the repository"
