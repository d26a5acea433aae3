"""A repository's id is its identity: what is queued survives a new name, and leaves one that is out of reach (P5)."""

from datetime import timedelta
from typing import Any

import pytest

from sandbox.rest.faults import Fault
from tests.acceptance.world import LABEL, World

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


async def test_repository_transferred_to_another_installation_lands_what_is_queued(world: World) -> None:
    """The new owner has IMQ too: its installation is used from then on."""
    world.github.install(world.app, "globex")
    pull = await queued(world)
    world.repository.transfer("globex", by="acme")
    await world.until(lambda: pull.merged, within=timedelta(minutes=40))
    assert await world.reasons(pull) == []


async def test_repository_transferred_out_of_reach_keeps_nothing_queued(world: World) -> None:
    """The new owner does not have IMQ: its entries leave within minutes, with a reason of their own."""
    pull = await queued(world)
    world.repository.transfer("globex", by="acme")
    await world.pass_time(timedelta(minutes=5))
    assert await world.reasons(pull) == ["repository_gone"]
    assert await world.entries() == ()


@pytest.mark.parametrize("webhook", [True, False])
async def test_archived_repository_keeps_what_is_queued_and_lands_it_once_it_is_writable(
    world: World, webhook: bool
) -> None:
    """P5: for half an hour nothing can be written; no entry leaves, and no one has to act afterwards."""
    pull, behind = await queued(world), world.open("behind")
    behind.label(LABEL, by="mona")
    world.repository.archive(by="acme", webhook=webhook)
    await world.pass_time(timedelta(minutes=30))
    assert [await world.reasons(each) for each in (pull, behind)] == [[], []]
    assert await world.paused() == "github_refuses"
    world.repository.archive(False, by="acme", webhook=webhook)
    await world.until(lambda: pull.merged and behind.merged, within=timedelta(minutes=40))
    await world.settle()
    assert [await world.reasons(each) for each in (pull, behind)] == [[], []]
    assert await world.paused() is None
    assert "anded" in world.comment(pull)


async def test_repository_that_stays_archived_keeps_nothing_queued(world: World) -> None:
    """P5: every wait has a limit."""
    pull = await queued(world)
    world.repository.archive(by="acme")
    await world.pass_time(timedelta(minutes=5))
    assert await world.paused() == "github_refuses"
    world.clock.set(world.clock.now() + timedelta(days=7))
    await world.pass_time(timedelta(minutes=30))
    assert await world.reasons(pull) == ["repository_archived"]
    world.repository.archive(False, by="acme")
    await world.pass_time(timedelta(hours=1))
    assert LABEL not in pull.labels
    assert "archived" in world.comment(pull)


async def test_suspended_installation_keeps_what_is_queued_and_lands_it_afterwards(world: World) -> None:
    """P5: GitHub refuses every request meanwhile, and no entry leaves for that."""
    pull = await queued(world)
    (installation,) = [each for each in world.github.state.installations.values() if each.app is world.app]
    world.github.accounts.suspend(installation)
    await world.pass_time(timedelta(minutes=90))
    assert await world.reasons(pull) == []
    world.github.accounts.suspend(installation, False)
    await world.until(lambda: pull.merged, within=timedelta(minutes=40))
    await world.settle()
    assert "anded" in world.comment(pull)


@pytest.mark.parametrize(
    "words",
    [
        "Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow "
        "list enabled, and your IP address is not permitted to access this resource.",
        "Resource protected by organization SAML enforcement.",
    ],
    ids=["allow_list", "single_sign_on"],
)
async def test_organisation_that_shuts_imq_out_keeps_what_is_queued_and_lands_it_afterwards(
    world: World, words: str
) -> None:
    """P5, P6: longer than any outage may take; the queue says why, and no one has to act when it is over."""
    pull = await queued(world)
    world.server.faults.add(Fault(times=None, kind="fail", status=403, body={"message": words}))
    await world.pass_time(timedelta(hours=2))
    assert await world.reasons(pull) == []
    assert await world.paused() == "github_refuses"
    world.server.faults.clear()
    await world.until(lambda: pull.merged, within=timedelta(hours=2))
    await world.settle()
    assert await world.paused() is None
    assert "anded" in world.comment(pull)


async def test_writes_refused_for_a_permission_are_sent_once_it_is_accepted(world: World) -> None:
    """The pull request lands without its check run, which the accepted permission brings."""
    (installation,) = [each for each in world.github.state.installations.values() if each.app is world.app]
    world.grant("pull_requests", "read")
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=10))
    assert await world.reasons(pull) == ["permission_missing"]
    world.github.accounts.accept_permissions(installation, dict(world.app.permissions))
    await world.pass_time(timedelta(minutes=2))
    assert "lacks a permission" in world.comment(pull)
    assert LABEL not in pull.labels


async def test_uninstalled_app_keeps_nothing_queued_and_asks_for_nothing_more(world: World) -> None:
    """P7: a token is asked for a few times, not for ever."""
    pull = await queued(world)
    (installation,) = [each for each in world.github.state.installations.values() if each.app is world.app]
    world.github.accounts.uninstall(installation)
    await world.pass_time(timedelta(minutes=5))
    assert await world.entries() == ()
    assert await world.reasons(pull) == ["repository_gone"]
