"""P6: every departure names who or what caused it, and commands get what was meant."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Job, Trigger
from tests.acceptance.choosing import configure
from tests.acceptance.commenting import MINUTE, reacted, ready, say
from tests.acceptance.test_consent import MERGE
from tests.acceptance.test_flaky_jobs import EDIT
from tests.acceptance.test_methods import ONLY_REBASE
from tests.acceptance.train_world import a_train_world
from tests.acceptance.world import CI_TIME, LABEL, LAG, World, a_world


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", ["/queue.", "/queue!", "/queue: now", " /queue", "/Queue, please", "\u00a0/queue :rocket:"]
)
async def test_command_with_punctuation_or_polite_words_is_what_was_meant(world: World, text: str) -> None:
    """P6: no one is left without an answer for a full stop."""
    world.open("ahead").label(LABEL, by="mona")
    pull = await ready(world)
    world.open("front").label(LABEL, by="mona")
    await world.settle()
    comment = pull.comment(text, by="mona")
    await world.settle()
    assert reacted(comment) == {"eyes", "+1"}
    assert await world.status(pull) is not None


@pytest.mark.thorough
async def test_queue_with_a_level_sets_the_priority(world: World) -> None:
    """P3: `/queue high` is `/queue priority=high`, with the same right."""
    world.open("ahead").label(LABEL, by="mona")
    pull = await ready(world)
    await say(world, pull, "/queue high", by="mona")
    assert await world.status(pull) is None
    await say(world, pull, "/queue high", by="rhea")
    entry = await world.entry(pull)
    assert entry is not None
    assert entry.priority == 10


async def test_misspelt_command_gets_one_answer_if_its_author_has_rights(world: World) -> None:
    """P6: who may queue learns the right form, once; a stranger with another bot's word costs no comment."""
    pull = await ready(world)
    comment = await say(world, pull, "/dequeue", by="mona")
    assert reacted(comment) == {"eyes", "confused"}
    assert "`/unqueue`" in world.comment(pull)
    other = await ready(world, "other")
    world.github.create_user("stranger")
    world.repository.record.collaborators["stranger"] = "read"
    await say(world, other, "/queuex", by="stranger")
    assert world.spoken(other) == 0


async def test_bot_without_the_right_is_pointed_to_the_configuration(world: World) -> None:
    """P6: the refusal of a bot's label names the key that lets the bot queue."""
    world.github.create_user("labeler[bot]", kind="Bot")
    world.repository.record.collaborators["labeler[bot]"] = "triage"
    pull = await ready(world)
    pull.label(LABEL, by="labeler[bot]")
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert await world.reasons(pull) == ["label_without_right"]
    assert "`who_may_queue.people`" in world.comment(pull)


async def test_fork_of_an_organisation_leaves_with_its_own_next_step(world: World) -> None:
    """P6: GitHub has no "Allow edits by maintainers" for it, so no one is sent to look for that."""
    world.github.create_user("guild", kind="Organization")
    pull = world.open("idea", by=None, fork_of="guild")
    assert not pull.record.maintainer_can_modify
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"other.py": "other\n"}, "Other", by="rhea")
    pull.label(LABEL, by="mona")
    await world.settle()
    await world.until_status(pull, None)
    await world.settle()
    assert await world.reasons(pull) == ["fork_of_organisation"]
    text = world.comment(pull)
    assert "an organisation owns" in text
    assert "Allow edits" not in text


async def cannot_be_rebased(world: World) -> Any:
    """A pull request that merges, and whose commits conflict one by one: the later one takes the first one back."""
    pull = world.open("twice", files={"README.md": "first\n"})
    original = world.repository.files("main")["README.md"]
    pull.push({"README.md": original, "twice.py": "more\n"}, by="mona")
    world.repository.push("main", {"README.md": "changed\n"}, "Change the same line", by="rhea")
    pull.update_branch()
    await world.pass_time(CI_TIME * 2)
    return pull


@pytest.mark.parametrize("settled", [True, False])
async def test_head_that_cannot_be_rebased_is_refused_with_its_own_reason(tmp_path: Path, settled: bool) -> None:
    """P5: where only a rebase is allowed, one read says so: no nine merge calls, and the one behind it lands."""
    async with a_world(tmp_path, repository=ONLY_REBASE) as world:
        pull, following = await cannot_be_rebased(world), world.open("own")
        if settled:
            world.github.mergeability.mergeable(pull.record)
            await world.pass_time(CI_TIME)
        for each in (pull, following):
            each.label(LABEL, by="mona")
            await world.settle()
        await world.until(lambda: following.merged)
        await world.settle()
        assert await world.reasons(pull) == ["rebase_impossible"]
        assert "Rebase it by hand, or choose another method" in world.comment(pull)
        merges = [each for each in world.server.requests if each.template == f"PUT {MERGE}"]
        # GitHub computes the fact when it is asked: until then one call learns it from the refusal.
        assert len([each for each in merges if f"/{pull.number}/" in each.path]) <= (0 if settled else 1)


async def test_labels_that_name_two_methods_are_refused_and_named(world: World) -> None:
    """P4: IMQ cannot know which of them was meant."""
    await configure(world, "merge: {method_labels: {by-squash: squash, by-rebase: rebase}}\n")
    pull = await ready(world)
    pull.label("by-squash", by="mona")
    pull.label("by-rebase", by="mona")
    pull.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    assert await world.reasons(pull) == ["methods_contradict"]
    assert "by-squash: squash, by-rebase: rebase" in world.comment(pull)
    assert not pull.merged


QUOTED = """merge:
  method: {method}
  title: "{{title}} for @{{author}} ({{head}})"
  body: "{{body}}\\n\\n{{commits}}\\n\\nMade with @acme/tools.\\n\\n{{co_authors}}"
"""
"""Templates that quote what people wrote, and mention people themselves."""


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("method", ["merge", "squash"])
async def test_name_in_any_text_of_a_commit_reaches_none_as_a_mention(
    tmp_path: Path, method: str, trains: bool
) -> None:
    """P6: no commit mentions anybody: not by title, description, commits, branch or template, alone or in a train."""
    text = QUOTED.format(method=method)
    async with a_train_world(tmp_path, more=text) if trains else a_world(tmp_path) as world:
        if not trains:
            await configure(world, text)
        pull, other = world.open("fix/@hubot"), world.open("other")
        pull.push({"more.py": "more\n"}, message="Ask @rhea", by="robot[bot]")
        pull.edit_title("Thank @hubot, 谢@rhea and -@tria", by="mona")
        pull.edit_body("Thanks to @hubot and @acme/team; mail a@example.org.", by="mona")
        await world.pass_time(CI_TIME * 2)
        for each in (pull, other):
            each.label(LABEL, by="mona")
        await world.until(lambda: bool(pull.merged and other.merged))
        bodies = [each.body for each in world.server.requests if isinstance(each.body, dict)]
        sent = [
            str(each[key]) for each in bodies for key in ("message", "commit_message", "commit_title") if key in each
        ]
        assert [text for text in sent if re.search(r"(?<![A-Za-z0-9_])@[a-z]+(?![\w.-])", text)] == []
        landed = next(each.message for each in world.repository.log("main") if each.message.startswith("Thank"))
        named = "Thank @\u200bhubot, 谢@\u200brhea and -@\u200btria for @\u200bmona (fix/@\u200bhubot)"
        assert landed.startswith(named)
        assert "a@example.org" in landed
        assert re.search(r"^Co-authored-by: robot\[bot\] <\S*robot\[bot\]@\S+>$", landed, re.MULTILINE), landed


async def test_branch_whose_rules_forbid_merge_commits_is_refused_at_once_with_that_reason(world: World) -> None:
    """P5: IMQ's update would be a merge commit; one refused call says so, and the one behind it lands."""
    world.repository.add_ruleset("linear", branches=["~ALL"], linear_history=True, by="rhea")
    pull = await world.behind("late")
    pull.label(LABEL, by="mona")
    before = world.clock.now()
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert world.clock.now() - before < MINUTE
    assert await world.reasons(pull) == ["head_linear"]
    assert "forbid merge commits" in world.comment(pull)
    assert "This branch must not contain merge commits" in world.comment(pull)
    assert world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/update-branch") == 1


@pytest.mark.thorough
async def test_branch_whose_rules_judge_commit_messages_is_refused_at_once_with_githubs_words(world: World) -> None:
    """P5: IMQ's update is a commit as well, and GitHub says which rule its message breaks."""
    pull = await world.behind("late")
    world.repository.add_ruleset("messages", branches=["~ALL"], commit_message="^feat: ", by="rhea")
    pull.label(LABEL, by="mona")
    before = world.clock.now()
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert world.clock.now() - before < MINUTE
    assert await world.reasons(pull) == ["update_refused"]
    assert "Commit message must match a given regex pattern: ^feat: " in world.comment(pull)
    assert "or rebase it, as its rules allow" in world.comment(pull)


@pytest.mark.thorough
async def test_blocking_label_keeps_the_consent_and_its_end_lets_the_pull_request_join(world: World) -> None:
    """P5: a label or title may still change, so it waits outside the queue like a draft."""
    await configure(world, "blocking: {labels: hold}\n")
    pull = await ready(world)
    pull.label("hold", by="mona")
    pull.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    entry = await world.entry(pull)
    assert entry is None
    assert LABEL in pull.labels
    assert "remove that label" in world.comment(pull)
    pull.unlabel("hold", by="mona")
    await world.until(lambda: pull.merged)


COMMENT = "POST /repos/{owner}/{repo}/issues/{number}/comments"

ACTS: dict[str, tuple[Callable[[World, Any], object], str]] = {
    "unlabel": (lambda w, p: p.unlabel(LABEL, by="hubot"), "`hubot` removed the label, so"),
    "push": (lambda w, p: p.push({"more.py": "more\n"}, by="hubot"), "`hubot` pushed `"),
    "close": (lambda w, p: p.close(by="hubot"), "`hubot` closed the pull request"),
    "draft": (lambda w, p: p.convert_to_draft(by="hubot"), "`hubot` made the pull request a draft"),
    "base": (lambda w, p: p.edit_base("release", by="hubot"), "`hubot` changed the base branch"),
    "merge": (lambda w, p: p.merge(by="rhea"), "`rhea` merged the pull request outside the queue"),
    "unqueue": (lambda w, p: p.comment("/unqueue", by="hubot"), "`hubot` dequeued the pull request"),
    "block": (lambda w, p: p.label("hold", by="hubot"), "`hubot` added a label"),
    "title": (lambda w, p: p.edit_title("wip: no", by="hubot"), "`hubot` changed the title"),
    "bot": (lambda w, p: p.unlabel(LABEL, by="labeler[bot]"), "The bot `labeler[bot]` removed the label, so"),
}
IN_HISTORY = [act for act in ACTS if act not in ("merge", "unqueue")]


@pytest.mark.every_variant("False", "push-True", "base-True", "title-True", "close-True")
@pytest.mark.parametrize(("act", "lost"), [*((act, False) for act in ACTS), *((act, True) for act in IN_HISTORY)])
async def test_departure_names_who_caused_it(world: World, act: str, lost: bool) -> None:
    """P6: the login, and whether it is a bot, in the comment, in its history, and in the reply to `/why`.

    `lost`: GitHub never sent the webhook, and its history of the pull request says so.
    """
    world.github.create_user("labeler[bot]", kind="Bot")
    world.repository.record.collaborators["labeler[bot]"] = "write"
    world.repository.create_branch("release", "main")
    await configure(world, "blocking: {labels: hold, titles: ['^wip']}\n")
    front, pull = world.open("front"), world.open("second")
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    do, words = ACTS[act]
    with world.repository.domain.context.events.muted(lost):
        do(world, pull)
    await world.until_status(pull, None)
    await world.pass_time(MINUTE)
    assert words in world.comment(pull)


@pytest.mark.thorough
async def test_departure_says_how_long_after_the_update_a_bot_acted(world: World) -> None:
    """P6: automation that answers to IMQ's own update is named with that update."""
    world.github.create_user("labeler[bot]", kind="Bot")
    world.repository.record.collaborators["labeler[bot]"] = "write"
    pull = await world.behind("late")
    queued = pull.head_sha
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.settle()
    assert pull.head_sha != queued
    await world.pass_time(timedelta(seconds=15))
    pull.unlabel(LABEL, by="labeler[bot]")
    await world.until_status(pull, None)
    await world.settle()
    text = world.comment(pull)
    assert re.search(r"`labeler\[bot\]` removed the label 1[456] s after IMQ's update", text), text
    pull.comment("/why", by="mona")
    await world.settle()
    assert "removed the label" in world.comment(pull).split("Last result")[1].split("\n")[0]


@pytest.mark.thorough
async def test_later_change_of_another_person_is_no_cause(world: World) -> None:
    """P6: who changed something later did not cause what no webhook reported."""
    front, pull = world.open("front"), world.open("second")
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    pull.unlabel(LABEL, by="tria", webhook=False)
    pull.edit_title("Another title", by="hubot")
    await world.until_status(pull, None)
    await world.settle()
    assert "hubot" not in world.comment(pull)
    assert "`tria` removed the label" in world.comment(pull)


async def test_pull_request_of_a_deleted_base_branch_was_closed_by_github(world: World) -> None:
    """P6: no one closed it; its base branch is gone."""
    world.repository.create_branch("release", "main", by="rhea")
    pull = world.open("late", base="release")
    pull.label(LABEL, by="mona")
    await world.settle()
    assert await world.status(pull) is not None
    world.repository.delete_branch("release", by="rhea")
    await world.until_status(pull, None)
    await world.settle()
    assert await world.reasons(pull) == ["base_deleted"]
    assert "GitHub closed the pull request" in world.comment(pull)


async def test_commits_that_landed_with_another_pull_request_name_that_one(world: World) -> None:
    """P6: no one merged it past the queue: its commits came with another one of the queue."""
    lower = world.open("lower")
    upper = world.repository.open_pull_request("upper", head="upper", by="mona", files={"upper.py": "upper\n"})
    upper.force_push({"upper.py": "more\n"}, onto=lower.head_sha, by="mona")
    await world.pass_time(CI_TIME * 2)
    for each in (world.open("front"), upper, world.open("between"), lower):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: upper.merged and lower.merged)
    await world.pass_time(MINUTE)
    assert await world.reasons(lower) == ["landed_with_another"]
    assert f"landed with #{upper.number}" in world.comment(lower)


@pytest.mark.parametrize(
    ("method", "by", "lag"),
    [("merge", "merge", 0), ("merge", "merge", 2), ("merge", "push", 0), ("squash", "merge", 2)],
)
async def test_merge_by_hand_without_a_webhook_is_not_named_after_a_later_landing(
    tmp_path: Path, method: str, by: str, lag: int
) -> None:
    """P6: the head of the one that landed next has these commits by IMQ's own update alone; GitHub names who merged."""
    async with a_world(tmp_path) as world:
        await configure(world, f"merge: {{method: {method}}}\n")
        front, pull, other = (world.open(name) for name in ("front", "pull", "other"))
        await world.pass_time(CI_TIME * 2)
        for each in (front, other, pull):
            each.label(LABEL, by="mona")
            await world.settle()
        world.server.lag.set(timedelta(seconds=lag))
        with world.repository.domain.context.events.muted():
            if by == "merge":
                pull.merge("merge", by="rhea")
            else:
                world.repository.push_commit("main", pull.head_sha, by="rhea", force=True)
        await world.until(lambda: bool(other.merged))
        await world.pass_time(timedelta(minutes=15))
        assert pull.merged
        assert await world.reasons(pull) == ["merged_elsewhere"]
        assert "`rhea` merged the pull request outside the queue" in world.comment(pull)


@pytest.mark.parametrize("webhook", [True, False])
async def test_approval_that_automation_dismissed_after_the_update_brings_the_place_back(
    world: World, webhook: bool
) -> None:
    """P3, P4: no one withdrew anything, so it waits outside the queue, and its renewal restores its place."""
    checks = [("ci/test", world.app_id("ci"))]
    world.repository.protect("main", required_checks=checks, required_approvals=1, by="rhea")
    pull = await world.behind("late")
    others = [world.open(name) for name in ("later", "other", "last")]
    given = [each.review("APPROVED", by="hubot") for each in (pull, *others)]
    queued = pull.head_sha
    for each in (pull, *others):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(pull, "checking")
    await world.settle()
    assert pull.head_sha != queued
    pull.dismiss_review(given[0], by="robot[bot]", webhook=webhook)
    await world.until_status(pull, None)
    await world.settle()
    assert LABEL in pull.labels
    assert "Ask for a review" in world.comment(pull)
    named = re.search(r"dismissed by robot\[bot\] \d+ s after IMQ's update", world.comment(pull))
    assert (named is not None) == webhook
    assert await world.reasons(pull) == ["approval_missing"]
    pull.review("APPROVED", by="hubot")
    await world.settle()
    waiting = [entry.number for entry in await world.entries()]
    assert waiting.index(pull.number) < waiting.index(others[-1].number)
    await world.until(lambda: all(each.merged for each in (pull, *others)))
    assert "anded" in world.comment(pull)


@pytest.mark.parametrize("lag", [LAG, timedelta(0)])
async def test_dismissal_is_named_as_long_as_the_approval_is_missing(tmp_path: Path, lag: timedelta) -> None:
    """P6: hours later, and after other changes of what it lacks, its comment says who dismissed the approval, once."""
    async with a_world(tmp_path, lag=lag) as world:
        checks = [("ci/test", world.app_id("ci"))]
        world.repository.protect("main", required_checks=checks, required_approvals=1, by="rhea")
        pull = await world.behind("late")
        given = pull.review("APPROVED", by="hubot")
        await world.settle()
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        await world.pass_time(MINUTE)
        pull.dismiss_review(given, by="robot[bot]")
        await world.until_status(pull, None)
        await world.settle()
        words = r"dismissed by robot\[bot\] \d+ s after IMQ's update"
        named = re.search(words, world.comment(pull))
        assert named is not None
        assert [each.status for each in pull.check_runs if each.name == "IMQ"] == ["queued"], "it is not tested now"
        for act in (pull.convert_to_draft, pull.ready_for_review, lambda: pull.edit_title("Later", by="mona")):
            await world.pass_time(timedelta(hours=2))
            act()
            await world.pass_time(timedelta(minutes=20))
            assert re.findall(words, world.comment(pull)) == [named[0]]
        pull.review("APPROVED", by="hubot")
        await world.until(lambda: bool(pull.merged))
        await world.settle()
        assert "dismissed" not in world.comment(pull).partition("<details>")[0]


@pytest.mark.thorough
async def test_approval_that_a_person_dismissed_costs_the_place(world: World) -> None:
    """P4: a person's dismissal is a withdrawal, and is named."""
    checks = [("ci/test", world.app_id("ci"))]
    world.repository.protect("main", required_checks=checks, required_approvals=1, by="rhea")
    pull = await world.behind("late")
    given = pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    pull.dismiss_review(given, by="hubot")
    await world.pass_time(MINUTE)
    assert await world.reasons(pull) == ["approval_missing"]
    assert re.search(r"`hubot` dismissed an approval \d+ s after IMQ's update", world.comment(pull))
    assert LABEL not in pull.labels


@pytest.mark.thorough
@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("early", [False, True])
async def test_person_who_changes_the_login_keeps_the_place(world: World, taken: bool, early: bool) -> None:
    """P4: identity is the number of the account; the person who takes the former login has no part in the consent."""
    front, pull = world.open("front"), world.open("second")
    if early:
        pull.convert_to_draft()
    for each in (front, pull):
        each.label(LABEL, by="hubot")
        await world.settle()
    world.github.accounts.rename(world.github.user("hubot"), "hubert")
    if taken:
        world.github.create_user("hubot")
    if early:
        pull.ready_for_review()
    await world.until(lambda: front.merged and pull.merged)
    assert await world.reasons(front) == []


async def test_former_login_in_another_persons_hands_gives_no_right(world: World) -> None:
    """P4: the account that queued it lost its right, and the one that has its login now did not queue it."""
    front, pull = world.open("front"), world.open("second")
    for each in (front, pull):
        each.label(LABEL, by="hubot" if each is pull else "mona")
        await world.settle()
    world.github.accounts.rename(world.github.user("hubot"), "hubert")
    del world.repository.record.collaborators["hubert"]
    world.github.create_user("hubot")
    world.repository.record.collaborators["hubot"] = "write"
    await world.until_status(pull, None)
    assert await world.reasons(pull) == ["permission_lost"]
    assert not pull.merged


async def cancelled_twice(world: World) -> Any:
    """A pull request whose required run a workflow on comments cancels: after IMQ's comment, and after a person's."""
    world.repository.add_workflow("CI", jobs=[Job("unit", CI_TIME)], on=["pull_request"], group="ci")
    answering = [Trigger("issue_comment", comment_types=["created", "edited"])]
    world.repository.add_workflow("Answers", jobs=[Job("answer", CI_TIME)], on=answering, group="ci")
    world.repository.protect("main", required_checks=[("unit", world.github.actions.app(world.repository.record).id)])
    pull = await world.behind("late")
    pull.label(LABEL, by="mona")
    await world.until(lambda: any(each.conclusion == "cancelled" for each in pull.check_runs))
    await world.until(lambda: pull.check_runs[0].status == "in_progress")
    return pull


@pytest.mark.parametrize("shown", ["run", "group", "nothing"])
async def test_run_that_a_newer_run_of_its_group_cancelled_names_that_one(tmp_path: Path, shown: str) -> None:
    """P6: a workflow on comments shares the concurrency group of the required run; what GitHub hides stays unknown."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        world.github.actions.shows_groups = shown == "run"
        world.github.actions.names_groups = shown != "nothing"
        pull = await cancelled_twice(world)
        pull.comment("Is this ready?", by="hubot")
        await world.until_status(pull, None)
        await world.settle()
        assert await world.reasons(pull) == ["checks_broke_down"]
        text, group = world.comment(pull), f"a newer run of the concurrency group ci-{pull.number}: unit"
        assert (group in text) == (shown != "nothing")
        named = re.search(r"in which this runs now: Answers http\S+/actions/runs/\d+", text)
        assert (named is not None) == (shown == "run")
        assert ("GitHub does not show" in text) == (shown != "run")


@pytest.mark.thorough
async def test_own_comments_cancel_a_rerun_of_the_same_group_no_second_time(tmp_path: Path) -> None:
    """P6: where no one else comments, the rerun ends, and the pull request lands."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        pull = await cancelled_twice(world)
        await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_label_that_a_workflow_removed_names_its_bot(world: World) -> None:
    """P6: a workflow's own token acts as `github-actions[bot]`, and its event starts no workflow."""
    world.github.actions.app(world.repository.record)
    front, pull = world.open("front"), world.open("second")
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    pull.unlabel(LABEL, by="github-actions[bot]")
    await world.until_status(pull, None)
    await world.settle()
    assert "The bot `github-actions[bot]` removed the label" in world.comment(pull)


@pytest.mark.parametrize("shown", ["null", "ghost"])
async def test_pull_request_of_a_deleted_account_mentions_no_one_and_lands(world: World, shown: Any) -> None:
    """P4, P6: a person with the right queued it, and is asked in place of its author."""
    world.github.behaviour.deleted_accounts = shown
    world.github.create_user("gone")
    world.repository.record.collaborators["gone"] = "write"
    broken, pull = world.open("broken", by="gone", files={"x.txt": "20\n"}), world.open("fine", by="gone")
    world.github.accounts.delete(world.github.user("gone"))
    for each in (broken, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: pull.merged)
    await world.settle()
    assert "@ghost" not in world.comment(broken)
    assert "@gone" not in world.comment(broken)
    assert "@mona" in world.comment(broken)


@pytest.mark.parametrize("edits", [False, True])
async def test_locked_conversation_has_the_words_on_the_check_run(world: World, edits: bool) -> None:
    """P6: GitHub takes no comment there, so the check run has the words, and the comment after the end of the lock."""
    world.github.behaviour.locked_refuses_edits = edits
    pull = world.open("broken", files={"x.txt": "20\n"})
    if edits:
        front = world.open("front")
        for each in (front, pull):
            each.label(LABEL, by="mona")
            await world.settle()
    pull.lock(by="rhea")
    if not edits:
        pull.label(LABEL, by="tria")
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    [run] = [each for each in pull.check_runs if each.app is world.app][:1]
    reason = await world.reasons(pull)
    assert reason == ["checks_failed" if edits else "label_without_right"]
    assert reason[0].replace("_", " ") in (run.output["title"] or "")
    tried = world.requests(COMMENT, EDIT)
    await world.pass_time(timedelta(hours=2))
    assert world.requests(COMMENT, EDIT) == tried
    pull.lock(False, by="rhea")
    await world.settle()
    assert f"{reason[0].replace('_', ' ')}" in world.comment(pull)


@pytest.mark.thorough
async def test_failed_check_names_its_app_and_whether_it_was_green_before_the_update(world: World) -> None:
    """P6: who reported, and that the change passed alone: it fails together with what landed meanwhile."""
    pull = world.open("six", files={"six.txt": "6\n"})
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"five.txt": "5\n"}, "Five", by="rhea")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert await world.reasons(pull) == ["checks_failed"]
    text = world.comment(pull)
    assert "`ci/test` passed on your commit" in text
    assert "reported by `ci`" in text


REFUSED_FOR: dict[str, tuple[Callable[[Any], object], str]] = {
    "head_changed": (lambda pull: pull.push({"more.py": "more\n"}, by="hubot"), "`hubot` pushed new commits"),
    "base_changed": (lambda pull: pull.edit_base("release", by="hubot"), "`hubot` changed the base branch"),
    "closed": (lambda pull: (pull.close(by="hubot"), pull.reopen(by="rhea")), "`hubot` closed the pull request"),
}
"""What somebody does before IMQ has judged a label, by the reason of the refusal."""


@pytest.mark.parametrize("lag", [0, 2])
@pytest.mark.parametrize("reason", REFUSED_FOR)
async def test_who_changed_a_pull_request_before_it_was_queued_is_named(tmp_path: Path, reason: str, lag: int) -> None:
    """P6: a refusal has no entry, and its webhooks name who caused it all the same."""
    act, words = REFUSED_FOR[reason]
    async with a_world(tmp_path) as world:
        world.repository.create_branch("release", "main", by="rhea")
        pull = await ready(world)
        world.server.lag.set(timedelta(seconds=lag))
        pull.label(LABEL, by="mona")
        act(pull)
        await world.pass_time(MINUTE)
        async with world.bot.engine.store.reading() as tx:
            events = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
        assert [(each.event, each.reason) for each in events] == [("refused", reason)]
        assert events[-1].data["dequeued_by"] == "hubot"
        assert words in world.comment(pull)


@pytest.mark.parametrize("act", ["base", "push"])
async def test_change_before_the_queue_without_its_webhook_names_who_made_it(world: World, act: str) -> None:
    """P6: there is no entry yet, and GitHub's history alone names the person."""
    world.repository.create_branch("release", "main")
    pull = world.open("change")
    await world.pass_time(2 * CI_TIME)
    pull.label(LABEL, by="mona")
    if act == "base":
        pull.edit_base("release", by="hubot", webhook=False)
    else:
        pull.push({"more.py": "more\n"}, by="hubot", webhook=False)
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert await world.reasons(pull) == ["base_changed" if act == "base" else "head_changed"]
    assert ("`hubot` changed the base branch" if act == "base" else "`hubot` pushed") in world.comment(pull)
