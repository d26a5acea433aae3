"""GitHub merges by itself what IMQ has queued: a person enabled auto-merge on it."""

import re
from datetime import timedelta

import pytest

from github_emulator import Fault, ReviewRule
from tests.acceptance.branch_rules import rule
from tests.acceptance.choosing import green
from tests.acceptance.world import CI_TIME, LABEL, World

MUTATION = "mutation DisableAutoMerge"


def configure(world: World, choice: str) -> None:
    """A maintainer allows auto-merge, and chooses what IMQ does about it."""
    world.repository.record.allow_auto_merge = True
    world.repository.push("main", {".github/imq.yml": f"auto_merge: {choice}\n"}, "Configure IMQ", by="rhea")


def mutations(world: World) -> int:
    """How often IMQ asked GitHub to disable an auto-merge."""
    sent = [call.body for call in world.server.requests.of("POST /graphql")]
    return sum(MUTATION in str(body) for body in sent)


@pytest.mark.lagging
@pytest.mark.parametrize("when", ["before", "queued"])
async def test_auto_merge_of_a_queued_pull_request_is_disabled_and_the_comment_says_so(world: World, when: str) -> None:
    """P1: GitHub does not merge past the queue, whether it was asked before or after the label; IMQ merges."""
    world.repository.record.allow_auto_merge = True
    pull = world.open("front")
    await world.settle()
    if when == "before":
        pull.enable_auto_merge(by="mona")
        await world.settle()
    pull.label(LABEL, by="mona")
    await world.settle()
    if when == "queued":
        pull.enable_auto_merge(by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert pull.record.auto_merge is None
    assert "IMQ disabled GitHub's auto-merge" in world.comment(pull)
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    assert pull.record.merged_by.login == "imq[bot]"
    assert mutations(world) == 1


@pytest.mark.thorough
@pytest.mark.lagging
async def test_auto_merge_whose_webhook_was_lost_is_found_by_the_sweep(world: World) -> None:
    """P1: the sweep lists pull requests that changed, and sees it there."""
    world.repository.record.allow_auto_merge = True
    pull, front = world.open("second"), world.open("front")
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    front.comment("/pause lunch", by="rhea")
    await world.settle()
    pull.enable_auto_merge(by="mona", webhook=False)
    await world.pass_time(timedelta(minutes=12))
    assert pull.record.auto_merge is None or pull.merged


@pytest.mark.lagging
@pytest.mark.parametrize("webhook", [True, False])
async def test_auto_merge_of_a_pull_request_that_waits_for_its_approval_is_disabled(
    world: World, webhook: bool
) -> None:
    """P1: the approval that it waits for would let GitHub merge it past the queue."""
    world.repository.record.allow_auto_merge = True
    rule(world, reviews=ReviewRule(1))
    pull = await green(world, "early")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    pull.enable_auto_merge(by="mona", webhook=webhook)
    await world.pass_time(timedelta(minutes=12))
    assert (pull.record.auto_merge, pull.merged, LABEL in pull.labels) == (None, False, True)
    pull.review("APPROVED", by="hubot")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    assert pull.record.merged_by.login == "imq[bot]"
    assert mutations(world) == 1


@pytest.mark.lagging
@pytest.mark.parametrize("when", ["before", "queued"])
async def test_auto_merge_is_refused_where_the_configuration_says_so(world: World, when: str) -> None:
    """The comment names auto-merge, and the label comes off; without auto-merge the pull request is queued."""
    configure(world, "refuse")
    pull = world.open("front")
    await world.settle()
    if when == "before":
        pull.enable_auto_merge(by="mona")
    pull.label(LABEL, by="mona")
    await world.settle()
    if when == "queued":
        pull.enable_auto_merge(by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert await world.reasons(pull) == ["auto_merge_enabled"]
    assert re.search("auto-merge is enabled|enabled GitHub's auto-merge", world.comment(pull))
    assert LABEL not in pull.labels
    assert mutations(world) == 0
    pull.disable_auto_merge(by="mona")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_auto_merge_that_imq_may_not_disable_takes_the_pull_request_out(world: World) -> None:
    """P1, P5: GitHub refuses the mutation: the entry leaves, and the comment names auto-merge and GitHub's message."""
    world.repository.record.allow_auto_merge = True
    pull = world.open("front")
    await world.settle()
    answer = {"errors": [{"type": "FORBIDDEN", "message": "Resource not accessible by integration"}], "data": None}
    refusal = Fault(
        kind="fail",
        method="POST",
        route="/graphql",
        status=200,
        body=answer,
        times=None,
        when=lambda call: MUTATION in str(call.body),
    )
    world.server.faults.add(refusal)
    pull.label(LABEL, by="mona")
    await world.settle()
    pull.enable_auto_merge(by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert await world.reasons(pull) == ["auto_merge_enabled"]
    assert "not accessible by integration" in world.comment(pull)


@pytest.mark.thorough
async def test_auto_merge_that_a_person_disables_first_is_not_shown_as_the_work_of_imq(world: World) -> None:
    """GitHub refuses to disable what is not enabled any more."""
    world.repository.record.allow_auto_merge = True
    pull = await green(world, "front")
    world.repository.push("main", {"moved.py": "moved\n"}, "Move the base", by="rhea")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    pull.enable_auto_merge(by="mona")
    world.meanwhile("GET /repos/{owner}/{repo}/pulls/{number}", lambda: pull.disable_auto_merge(by="mona"))
    await world.pass_time(timedelta(seconds=30))
    assert (mutations(world), pull.record.auto_merge) == (1, None)
    assert "IMQ disabled" not in world.comment(pull)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_repository_without_auto_merge_pays_no_request(world: World) -> None:
    """P7: the snapshot that IMQ reads anyway shows it."""
    pull = world.open("front")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    assert mutations(world) == 0


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("first", ["github", "imq"])
async def test_auto_merge_of_a_queued_pull_request_is_taken_for_merged_by_a_person(world: World, first: str) -> None:
    """P2: GitHub or IMQ merges first; it is merged once, no entry is ejected, and the next is tested on top."""
    configure(world, "ignore")
    world.github.timings.auto_merge = timedelta(0) if first == "github" else timedelta(minutes=1)
    world.repository.record.allow_auto_merge = True
    pull, behind = await world.behind("front"), world.open("behind")
    for each in (pull, behind):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(pull, "checking")
    pull.enable_auto_merge(by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    assert pull.record.merged_by.login == ("mona" if first == "github" else "imq[bot]")
    await world.until(lambda: behind.merged, within=CI_TIME * 2)
    assert world.landed() == [pull.number, behind.number]
    assert await world.paused() is None
    assert world.repository.is_ancestor(pull.merge_sha, behind.head_sha)
    assert "merged" in world.comment(pull).lower() or "landed" in world.comment(pull).lower()


@pytest.mark.thorough
@pytest.mark.lagging
async def test_auto_merge_that_a_push_disabled_lands_nothing(world: World) -> None:
    """P4: the push ends the queue's consent and GitHub's; GitHub merges nothing, IMQ says whose move it is."""
    configure(world, "ignore")
    pull = world.repository.open_pull_request("Theirs", head="theirs", fork_of="stranger", files={"a.py": "a\n"})
    await world.pass_time(timedelta(seconds=30))
    pull.label(LABEL, by="mona")
    await world.settle()
    pull.enable_auto_merge(by="mona")
    pull.push({"a.py": "b\n"}, by="stranger")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(minutes=1))
    await world.pass_time(CI_TIME * 2)
    assert not pull.merged
    assert await world.reasons(pull) == ["head_changed"]


@pytest.mark.lagging
async def test_button_queues_the_head_that_it_showed_where_the_configuration_says_so(world: World) -> None:
    """P4: as the label, which IMQ sets; GitHub's auto-merge is off then, so that it never merges past the queue."""
    configure(world, "queue")
    pull = world.open("front")
    await world.settle()
    pull.enable_auto_merge(by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert pull.record.auto_merge is None
    assert LABEL in pull.labels
    (entry,) = await world.entries()
    assert (entry.queued_by, entry.queued_head) == ("mona", pull.head_sha)
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    assert pull.record.merged_by.login == "imq[bot]"


@pytest.mark.parametrize("choice", ["queue", "disable"])
async def test_button_queues_no_head_that_came_after_it_and_nothing_elsewhere(world: World, choice: str) -> None:
    """P4: a push before IMQ has read the pull request is refused in words; without the key the button is GitHub's."""
    configure(world, choice)
    pull = world.open("front")
    await world.settle()
    pull.enable_auto_merge(by="mona")
    pull.push({"later.py": "1\n"}, by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert await world.entries() == ()
    assert await world.reasons(pull) == (["head_changed"] if choice == "queue" else [])


@pytest.mark.lagging
@pytest.mark.parametrize("withdrawn", ["disabled", "draft", "other base", "closed"])
async def test_button_whose_webhook_comes_late_queues_nothing_that_was_withdrawn(world: World, withdrawn: str) -> None:
    """P4: GitHub delivers a lost webhook again hours later. By then the person has changed their mind."""
    configure(world, "queue")
    world.repository.create_branch("next")
    pull = world.open("front")
    await world.settle()
    late = timedelta(hours=1)
    world.github.webhooks.faults.delay(late, event="pull_request", action="auto_merge_enabled")
    pull.enable_auto_merge(by="mona")
    match withdrawn:
        case "disabled":
            pull.disable_auto_merge(by="mona")
        case "draft":
            pull.convert_to_draft(by="mona")
            pull.ready_for_review(by="mona")
        case "other base":
            pull.edit_base("next", by="mona")
        case "closed":
            pull.close(by="mona")
            pull.reopen(by="mona")
    await world.pass_time(late + timedelta(minutes=1))
    assert (await world.entries(), LABEL in pull.labels) == ((), False)
    assert withdrawn == "other base" or not pull.merged
    assert world.spoken(pull) == 0


@pytest.mark.lagging
async def test_button_is_that_of_github_on_a_branch_without_a_queue(world: World) -> None:
    """P6: IMQ says nothing about a branch that it does not serve, and GitHub merges as it would."""
    configure(world, "queue\nenabled: false")
    pull = world.open("front")
    await world.settle()
    pull.enable_auto_merge(by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert world.spoken(pull) == 0
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.lagging
async def test_button_of_a_person_without_the_right_queues_nothing_and_the_comment_says_so(world: World) -> None:
    """P4: GitHub offers the button to everyone with write access; the configuration may ask for more."""
    configure(world, "queue\nwho_may_queue: {permission: maintain}")
    rule(world, reviews=ReviewRule(1))
    pull = world.open("front")
    await world.settle()
    pull.enable_auto_merge(by="hubot")
    await world.pass_time(timedelta(minutes=1))
    assert (await world.entries(), LABEL in pull.labels) == ((), False)
    assert "`hubot` asked to queue it." in world.comment(pull)
    assert pull.record.auto_merge is not None, "GitHub lets this person merge"
