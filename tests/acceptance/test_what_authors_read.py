"""What the author reads on GitHub: one comment with the status and the outcome, which then does not change."""

import re
from datetime import timedelta
from typing import Any

import pytest

from github_emulator import PullRequestOptions
from tests.acceptance.choosing import configure
from tests.acceptance.world import CI_TIME, LABEL, World

MINUTE = timedelta(minutes=1)
EDIT = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
CREATE = "POST /repos/{owner}/{repo}/issues/{number}/comments"


async def ready(world: World, *names: str) -> list[Any]:
    """Pull requests whose checks have ended, up to date with their base."""
    pulls = [world.open(name) for name in names]
    await world.pass_time(CI_TIME * 2)
    return pulls


async def behind(world: World, *names: str) -> list[Any]:
    """The same, and then their base moves."""
    pulls = await ready(world, *names)
    world.repository.push("main", {f"past-{names[0]}.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()
    return pulls


def writes(world: World) -> int:
    """How often a comment was written or edited."""
    return world.requests(EDIT, CREATE)


def history_lines(text: str) -> list[str]:
    """The folded lines, without their times."""
    _, _, folded = text.partition("<details>")
    return [line.partition(" UTC: ")[2] for line in folded.splitlines() if line.startswith("- ")]


@pytest.mark.thorough
async def test_author_reads_the_whole_way_in_one_comment_of_four_edits(world: World) -> None:
    """Queued behind another, updated, checked, landed: each shown once, the landing of others not at all (P6, P7)."""
    first, second = await behind(world, "first", "second")
    first.label(LABEL, by="mona")
    await world.until_status(first, "checking")
    second.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=5))
    waiting = world.comment(second)
    assert "at position 2 of 2" in waiting
    assert f"Ahead of it when queued: `#{first.number}`." in waiting
    await world.until(lambda: second.merged)
    await world.settle()
    text = world.comment(second)
    assert re.search(r"\*\*✅ Landed on `main` as [0-9a-f]{40}\*\*", text)
    assert "in CI." in text
    assert history_lines(text)[0] == "Queued for `main` at position 2 by `mona`"
    assert history_lines(text)[-1].startswith("Landed on `main` as `")
    assert "@" not in text
    assert 2 < writes(world) <= 2 * 4


@pytest.mark.thorough
async def test_author_reads_no_time_in_ci_that_was_a_pause(world: World) -> None:
    """Five hours of pause over checks of minutes are neither time at the front nor in CI, nor a measure for others."""
    (pull,) = await behind(world, "paused")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(MINUTE)
    pull.comment("/pause lunch", by="rhea")
    await world.pass_time(timedelta(hours=5))
    pull.comment("/resume", by="rhea")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert "Time in the queue: 5 h 1 min, of which 1 min at the front and 1 min in CI." in world.comment(pull)
    async with world.bot.engine.store.reading() as tx:
        timeline = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
    (took,) = [event.data["checks"] for event in timeline if event.event == "ready" and event.data]
    assert CI_TIME - timedelta(seconds=1) < timedelta(seconds=took) <= CI_TIME


@pytest.mark.thorough
async def test_comments_of_those_behind_do_not_change_at_every_landing(world: World) -> None:
    """They land one after another; what the last one reads is edited no more often than what the first one reads."""
    pulls = await ready(world, *(f"p{number}" for number in range(5)))
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: pulls[-1].merged)
    await world.settle()
    assert len(pulls) < writes(world) <= 4 * len(pulls)


@pytest.mark.thorough
async def test_author_reads_a_range_once_there_is_a_history(world: World) -> None:
    """After five landings here the sixth shows from when to when it is likely to land, and lands in it."""
    for pull in await world.land_behind_each_other(5):
        assert "likely" not in world.comment(pull)
    (last,) = await behind(world, "last")
    last.label(LABEL, by="mona")
    await world.until_status(last, "checking")
    began = world.clock.now()
    await world.pass_time(timedelta(seconds=10))
    found = re.search(r", likely (?:before|between (\d+:\d+) and) (\d+:\d+) UTC", world.comment(last))
    assert found is not None, world.comment(last)
    await world.until(lambda: last.merged)
    assert (found[1] or f"{began:%H:%M}") <= f"{world.clock.now():%H:%M}" <= found[2]


@pytest.mark.thorough
async def test_author_of_a_closed_pull_request_reads_the_leave_and_nothing_after_it(world: World) -> None:
    """Closed by somebody while it waits: the comment says so, and nothing edits it but the answer to a command."""
    front, pull = await ready(world, "front", "closed")
    front.label(LABEL, by="mona")
    pull.label(LABEL, by="mona")
    await world.settle()
    pull.close(by="hubot")
    await world.pass_time(MINUTE)
    text, before = world.comment(pull), writes(world)
    assert "`hubot` closed the pull request." in text
    await world.pass_time(timedelta(hours=2))
    assert world.comment(pull) == text
    assert writes(world) - before <= 2, "only the other one's landing is told"
    pull.comment("/queue", by="mona")
    await world.settle()
    assert "To land it, reopen it" in world.comment(pull)
    assert world.spoken(pull) == 1
    assert before > 0


@pytest.mark.thorough
async def test_author_under_outcomes_only_reads_nothing_until_it_has_landed(world: World) -> None:
    """One comment, written once."""
    await configure(world, "comments: {level: outcomes}\n")
    (pull,) = await behind(world, "quiet")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.settle()
    assert world.spoken(pull) == 0
    await world.until(lambda: pull.merged)
    await world.settle()
    assert "Landed on `main`" in world.comment(pull)
    assert (world.requests(CREATE), world.requests(EDIT)) == (1, 0)


@pytest.mark.thorough
async def test_author_under_no_comments_sees_the_check_run(world: World) -> None:
    """Nothing is said on the pull request; the list of its checks still shows it."""
    await configure(world, "comments: {level: none}\n")
    (pull,) = await behind(world, "silent")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert world.spoken(pull) == 0
    (run,) = [run for run in pull.check_runs if run.name == "IMQ"]
    assert run.conclusion == "success"
    assert "Landed on `main`" in run.output["text"]


async def test_author_reads_the_repositorys_own_words(world: World) -> None:
    """A maintainer's sentence in the place of IMQ's; what only IMQ knows stays."""
    await configure(world, 'comments: {texts: {landed: "Thank you! It is on {base} **now**."}}\n')
    (pull,) = await ready(world, "thanked")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert world.comment(pull).startswith("<!-- imq:comment landed -->\nThank you! It is on main **now**.\n\n<details>")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["x`y", "a@rhea"])
async def test_author_with_a_hostile_branch_is_quoted(world: World, name: str) -> None:
    """Any base branch's name is in a code span."""
    world.repository.create_branch(name, by="rhea")
    pull = world.open("hostile", base=name)
    pull.label(LABEL, by="tria")
    await world.pass_time(MINUTE)
    text = world.comment(pull)
    assert "Not queued for `" in text
    assert re.search(r"(?<![`\w])@rhea", re.sub(r"`+[^`\n]+`+", "", text)) is None


def own(world: World, pull: Any) -> str:
    """The text of IMQ's comments on it."""
    return "\n".join(comment.body for comment in pull.comments if "<!-- imq:comment" in comment.body)


async def test_author_whose_comment_of_imq_was_deleted_is_answered_all_the_same(world: World) -> None:
    """P6: one new comment for what was asked, granted or not; it is edited from then on."""
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=10))
    (comment,) = (comment for comment in pull.comments if "<!-- imq:comment" in comment.body)
    pull.delete_comment(comment, by="mona")
    await world.settle()
    pull.comment("/why", by="hubot")
    await world.pass_time(timedelta(seconds=10))
    assert "`/why` by" in own(world, pull)
    pull.comment("/pause", by="hubot")
    await world.pass_time(timedelta(seconds=10))
    assert "`/pause`" in own(world, pull)
    assert world.spoken(pull) == 1
    await world.until(lambda: pull.merged)
    await world.pass_time(MINUTE)
    assert world.spoken(pull) == 1


async def test_author_reads_no_answer_below_what_overtook_it(world: World) -> None:
    """A refused `/queue` goes when it is queued after all, `/why` when it lands; a new command gets a new answer."""
    pull = world.open("add", options=PullRequestOptions(draft=True))
    pull.comment("/queue", by="mona")
    await world.pass_time(MINUTE)
    assert "`/queue`" in own(world, pull)
    pull.ready_for_review(by="mona")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=10))
    assert "was not executed" not in own(world, pull)
    pull.comment("/why", by="mona")
    await world.pass_time(timedelta(seconds=10))
    assert "`/why` by" in own(world, pull)
    await world.until(lambda: pull.merged)
    await world.pass_time(MINUTE)
    assert "`/why`" not in own(world, pull)
    assert world.spoken(pull) == 1
