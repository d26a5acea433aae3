"""IMQ stands on the bypass list of a ruleset: GitHub would merge whatever IMQ asks for."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CheckRunFields, RecordedCall, ReviewRule
from tests.acceptance.choosing import configure, green, refused
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

CHECK_RUNS = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"
MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mode", "rules", "named"),
    [
        ("always", {"deployments": ["staging"]}, "required deployments"),
        ("pull_request", {"workflows": [".github/workflows/scan.yml"]}, "workflows"),
        ("exempt", {"reviews": ReviewRule(1, code_owners=True)}, "code owner review"),
        ("pull_request", {"reviews": ReviewRule(0, resolve_threads=True)}, "resolved conversations"),
    ],
)
async def test_ruleset_with_unenforced_requirements_is_refused_until_it_is_split(
    world: World, mode: str, rules: dict[str, Any], named: str
) -> None:
    """Before, each of these was skipped. Split as the comment says, GitHub checks the demand, and IMQ may update."""
    whole = world.repository.add_ruleset("main", update=True, bypass={"imq": mode}, by="rhea", **rules)
    pull = await green(world)
    reason, sentence = await refused(world, pull)
    assert reason == "ruleset_bypassed"
    assert f"main: {named}" in sentence
    assert "to a ruleset that IMQ cannot bypass" in sentence
    assert world.requests(MERGE) == 0
    world.repository.remove_ruleset(whole, by="rhea")
    world.repository.add_ruleset("who", update=True, bypass={"imq": mode}, by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(seconds=30))


@pytest.mark.thorough
async def test_bypassed_approval_is_demanded_when_queued_and_before_the_merge(world: World) -> None:
    """GitHub would merge without it: IMQ counts approvals itself, also when no webhook reported a change."""
    await configure(world, "when_not_ready: refuse\n")
    world.repository.add_ruleset("main", update=True, required_approvals=1, bypass=["imq"], by="rhea")
    pull = world.open("add")
    assert (await refused(world, pull))[0] == "approval_missing"
    pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    pull.review("CHANGES_REQUESTED", by="hubot", webhook=False)
    await world.until(lambda: LABEL not in pull.labels, within=CI_TIME * 3)
    assert not pull.merged
    assert (await world.reasons(pull))[-1] == "changes_requested"
    assert world.requests(MERGE) == 0
    pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.thorough
async def test_bypassed_code_scanning_is_waited_for_in_its_check(world: World) -> None:
    """As far as IMQ can see it: the check of the tool's name has to pass."""
    world.repository.add_ruleset("main", update=True, code_scanning=["CodeQL"], bypass=["imq"], by="rhea")
    pull = await green(world)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=20))
    assert not pull.merged
    app = world.github.create_app("scanner", permissions={"checks": "write"})
    record = world.repository.record
    world.github.checks.create_run(
        record,
        app=app,
        name="CodeQL",
        head_sha=pull.head_sha,
        fields=CheckRunFields(status="completed", conclusion="success"),
    )
    await world.until(lambda: pull.merged, within=timedelta(minutes=1))


@pytest.mark.parametrize("head", ["main", "release"])
@pytest.mark.parametrize("protected", [True, False])
async def test_writers_branch_is_not_merged_into_a_protected_branch_by_an_update(
    tmp_path: Path, protected: bool, head: str
) -> None:
    """Mona may not push there, and IMQ may: bringing a pull request from there up to date would do it for her.

    `release` is not the default branch, and never had a queue.
    """
    async with a_world(tmp_path, protect=False) as world:
        world.repository.push("mine", {"mine.py": "unreviewed\n"}, "Unreviewed", by="mona")
        if head != "main":
            world.repository.create_branch(head, "main")
        world.repository.push(head, {"past.py": "moved\n"}, "Move on", by="rhea")
        if protected:
            world.repository.add_ruleset(
                head, branches=[head], update=True, required_approvals=1, bypass=["imq"], by="rhea"
            )
        await world.pass_time(CI_TIME * 2)
        pull = world.repository.open_pull_request("Back", head=head, base="mine", by="mona")
        pull.label(LABEL, by="mona")
        await world.until(lambda: LABEL not in pull.labels, within=CI_TIME * 4)
        await world.settle()
        assert ("Unreviewed" in [commit.title for commit in world.repository.log(head)]) is not protected
        assert pull.merged is not protected
        assert await world.reasons(pull) == (["head_protected"] if protected else [])


@pytest.mark.thorough
@pytest.mark.parametrize("webhook", [True, False])
async def test_ruleset_that_changed_since_the_last_admission_protects_a_head_branch(
    world: World, webhook: bool
) -> None:
    """P4: this process received the webhook, or another one."""
    world.repository.add_ruleset("who", branches=["stable"], update=True, bypass=["imq", "rhea"], by="rhea")
    first = await green(world)
    first.label(LABEL, by="mona")
    await world.until(lambda: first.merged, within=timedelta(minutes=1))
    assert world.requests("GET /repos/{owner}/{repo}/rules/branches/{branch}") == 1
    pull = await world.behind("release")
    world.repository.add_ruleset(
        "what", branches=["release"], update=True, bypass=["imq", "rhea"], by="rhea", webhook=webhook
    )
    if not webhook:
        async with world.bot.engine.change() as change:
            await change.tx.repositories.renew_settings(pull.record.repository.id)
    await world.settle()
    head = pull.head_sha
    assert (await refused(world, pull))[0] == "head_protected"
    assert pull.head_sha == head


@pytest.mark.parametrize("rules", [{"required_approvals": 1}, {"deployments": ["staging"]}])
async def test_rules_whose_webhook_another_process_handled_during_the_pass_hold_for_its_merge(
    world: World, rules: dict[str, Any]
) -> None:
    """P1: GitHub would merge, and the pass has read its facts: it ends, and reads the rules again."""
    world.repository.add_ruleset("who", update=True, bypass=["imq"], by="rhea")
    pull = await green(world)

    async def change_rules(exchange: RecordedCall) -> None:
        if (exchange.template, exchange.phase) == (CHECK_RUNS, "after"):
            world.server.on_request = None
            world.repository.add_ruleset("what", bypass=["imq"], by="rhea", webhook=False, **rules)
            async with world.bot.engine.change() as change:
                await change.tx.repositories.renew_settings(pull.record.repository.id)

    world.server.on_request = change_rules
    reason, _ = await refused(world, pull)
    assert reason in {"approval_missing", "ruleset_bypassed"}
    assert world.requests(MERGE) == 0
