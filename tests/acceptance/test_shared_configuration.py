"""An organisation's shared configuration: a member who writes it decides nothing in repositories of others."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from queue_engine.domain.policy import SharedConfig
from tests.acceptance.choosing import green
from tests.acceptance.commenting import say
from tests.acceptance.project import FILES
from tests.acceptance.test_configuration import FILE, configure, validate
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

ATTACK = """\
trigger_labels: [bug, merge-queue]
who_may_queue: {permission: triage, people: [mallory]}
checks: {land_without: true, ignored: "*"}
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world in which nothing is required, so that the queue alone decides what lands, and that everybody can read."""
    async with a_world(tmp_path, protect=False, repository={"private": False}) as made:
        made.github.create_user("mallory")
        yield made


def shared(world: World, text: str, *, by: str = "mallory") -> Any:
    """A member creates the repository `.github`, of which they are the administrator, with this configuration."""
    made = world.github.create_repository("acme/.github", files=FILES, collaborators={by: "admin"})
    made.push("main", {FILE: text}, "Configure the queue", by=by)
    return made


def from_fork(world: World) -> Any:
    return world.open("backdoor", by="mallory", fork_of="mallory")


async def not_landed(world: World, pull: Any) -> None:
    await world.pass_time(CI_TIME * 2)
    assert not pull.merged
    assert await world.entries() == ()


@pytest.mark.thorough
@pytest.mark.parametrize("protected", [False, True])
async def test_member_who_creates_the_shared_configuration_lands_nothing(world: World, protected: bool) -> None:
    """Neither by naming themselves, nor by a label for bugs, nor with a review rule that they made up themselves."""
    home = shared(world, ATTACK)
    if protected:
        home.protect("main", required_approvals=1, by="mallory")
    await world.settle()
    pull = from_fork(world)
    await world.pass_time(CI_TIME * 2)
    await say(world, pull, "/queue", by="mallory")
    pull.label("bug", by="rhea")
    await not_landed(world, pull)
    await say(world, pull, "/why", by="rhea")
    why = "who_may_queue.people is ignored" if protected else "no rule requires an approving review"
    assert "IMQ ignores parts of the organization's shared configuration" in world.comment(pull)
    assert why in world.comment(pull)


async def test_person_named_by_the_shared_configuration_reads_why_it_does_not_count(world: World) -> None:
    """The refusal of somebody with triage, who may set labels, says what was ignored."""
    shared(world, ATTACK.replace("mallory", "tria")).protect("main", required_approvals=1)
    pull = await green(world, "idea", by=None, fork_of="fan")
    pull.label(LABEL, by="tria")
    await not_landed(world, pull)
    assert (await world.reasons(pull)) == ["label_without_right"]
    assert "who_may_queue.permission is ignored" in world.comment(pull)


@pytest.mark.thorough
async def test_unreviewed_configuration_stops_nobodys_queue(world: World) -> None:
    """P5: a file that switches queues off, or that cannot be read, has no effect where all members may write it."""
    home = shared(world, "enabled: false\n")
    pull = await green(world, "first")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME)
    home.push("main", {FILE: "enabled: ["}, "Break it", by="mallory")
    second = await green(world, "second")
    second.label(LABEL, by="mona")
    await world.until(lambda: second.merged, within=CI_TIME * 2)


@pytest.mark.thorough
async def test_reviewed_configuration_tightens_the_rules_of_all_repositories(world: World) -> None:
    """What an organisation asks for counts from its push on; what loosens does not, and stops nothing."""
    home = shared(world, "blocking: {labels: hold}\ntrigger_labels: ship\n", by="rhea")
    home.protect("main", required_approvals=1)
    pull = await green(world, "held-back")
    pull.label("hold", by="rhea")
    pull.label(LABEL, by="mona")
    await not_landed(world, pull)
    assert await world.reasons(pull) == ["blocked_by_label"]
    await configure(world, "depth: 3\n", home)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.thorough
async def test_configuration_loses_its_effect_with_the_rule_that_protects_it(world: World) -> None:
    """From the removal of the review rule on anybody may change the file, so that it counts no longer."""
    home = shared(world, "enabled: false\n", by="rhea")
    home.protect("main", required_approvals=1)
    pull = await green(world, "waits")
    pull.label(LABEL, by="mona")
    await not_landed(world, pull)
    assert await world.reasons(pull) == ["branch_not_served"]
    home.unprotect("main", by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.thorough
async def test_configuration_given_away_does_not_count(world: World) -> None:
    """GitHub leads on from a repository's old name: what is there now belongs to somebody else."""
    home = shared(world, "enabled: false\n", by="rhea")
    home.protect("main", required_approvals=1)
    home.rename("old-github")
    pull = await green(world, "served")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME)


@pytest.mark.thorough
async def test_trusted_configuration_holds_where_there_is_none(tmp_path: Path) -> None:
    """One reviewed file in the owner's `.github` for all of its others, and a push to it counts at once."""
    async with a_world(tmp_path, settings={"IMQ_ORGANIZATION_CONFIG": "trust"}) as world:
        home = shared(world, "trigger_labels: ship\n", by="rhea")
        home.add_ruleset("reviewed", required_approvals=1, bypass={"rhea": "always"})
        pull = await green(world, "shared")
        pull.label("ship", by="mona")
        await world.until(lambda: pull.merged, within=CI_TIME * 2)
        second = await green(world, "second")
        await configure(world, "trigger_labels: land\n", home)
        second.label("land", by="mona")
        await world.until(lambda: second.merged, within=CI_TIME * 2)
        await configure(world, "trigger_labels: mine\n")
        third = await green(world, "third")
        third.label("mine", by="mona")
        await world.until(lambda: third.merged, within=CI_TIME * 2)


@pytest.mark.parametrize("allowed", SharedConfig)
async def test_validate_of_a_shared_configuration_says_what_does_not_count(
    world: World, tmp_path: Path, allowed: SharedConfig
) -> None:
    """Before it is pushed, against a pull request, and whether a rule asks for reviews of it."""
    world.environment["IMQ_ORGANIZATION_CONFIG"] = allowed.value
    home = shared(world, "depth: 3\n")
    pull = await green(world, "looked-at")
    against = ("--shared", "--against", f"acme/widgets#{pull.number}", "--by", "mallory")
    alone = await validate(world, tmp_path, ATTACK, "--shared")
    unreviewed = await validate(world, tmp_path, ATTACK, *against)
    home.protect("main", required_approvals=1)
    reviewed = await validate(world, tmp_path, ATTACK, *against)
    assert "the whole file in acme/.github is ignored: no rule requires" in unreviewed.stdout
    expected = {
        SharedConfig.OFF: "the whole file is ignored: IMQ_ORGANIZATION_CONFIG is off",
        SharedConfig.TIGHTEN: "who_may_queue.people is ignored: in a shared configuration it may not be set",
        SharedConfig.TRUST: "",
    }[allowed]
    for result in (alone, reviewed):
        assert expected in result.stdout
        assert ("Ignored" in result.stdout) == bool(expected)
    assert ("It would be queued" in reviewed.stdout) == (allowed is SharedConfig.TRUST)
