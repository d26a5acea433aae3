"""What the configuration itself requires of a pull request before it joins its queue, and while it is there."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import ReviewRule
from tests.acceptance.branch_rules import rule
from tests.acceptance.choosing import AT_ONCE, configure, green, leaves
from tests.acceptance.world import CI_TIME, LABEL, World

FILES = "GET /repos/{owner}/{repo}/compare/{base}...{head}"


async def waits(world: World, pull: Any, words: str) -> None:
    """It is labeled, keeps its label, and its comment says what it lacks."""
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert (pull.merged, LABEL in pull.labels) == (False, True)
    assert words in world.comment(pull)


async def joins(world: World, pull: Any) -> None:
    """It joins by itself, and lands."""
    await world.until(lambda: pull.merged, within=CI_TIME * 3)


@pytest.mark.lagging
@pytest.mark.parametrize("rules", ["none", "one approval"])
async def test_pull_request_waits_for_the_approvals_that_the_configuration_requires(world: World, rules: str) -> None:
    """One rule of IMQ's own, where GitHub requires none, or one; an approval by somebody without the right is none."""
    await configure(world, "require: {approvals: 2}\n")
    if rules != "none":
        rule(world, reviews=ReviewRule(1))
    pull = await green(world, "add")
    pull.review("APPROVED", by="hubot")
    pull.review("APPROVED", by="tria")
    await waits(world, pull, "1 of 2")
    pull.review("APPROVED", by="rhea")
    await joins(world, pull)


@pytest.mark.lagging
async def test_approval_that_is_dismissed_in_the_queue_takes_the_pull_request_out(world: World) -> None:
    """P4: GitHub requires none, and would merge."""
    await configure(world, "require: {approvals: 1}\n")
    pull = world.open("add")
    review = pull.review("APPROVED", by="hubot")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.settle()
    pull.dismiss_review(review, by="rhea")
    assert await leaves(world, pull) == "approval_missing"


@pytest.mark.lagging
async def test_pull_request_waits_for_a_required_label_and_leaves_without_it(world: World) -> None:
    """The trigger label alone is not enough."""
    await configure(world, "require: {labels: [QA]}\n")
    pull = world.open("add")
    await world.settle()
    await waits(world, pull, "lacks a label")
    pull.label("qa", by="mona")
    await world.pass_time(timedelta(seconds=5))
    assert "lacks a label" not in world.comment(pull)
    pull.unlabel("qa", by="mona")
    assert await leaves(world, pull) == "label_missing"
    assert "`mona` removed a label" in world.comment(pull)


@pytest.mark.lagging
async def test_pull_request_waits_while_a_review_is_requested(world: World) -> None:
    """A review or the end of the request lets it join; without the key a request holds nothing up."""
    await configure(world, "require: {reviews_done: true}\n")
    pull, other = await green(world, "add"), await green(world, "more")
    for each in (pull, other):
        each.request_review("hubot", by="mona")
        await waits(world, each, "hubot")
    pull.request_review("hubot", by="mona", requested=False)
    await joins(world, pull)
    other.review("COMMENTED", by="hubot")
    await joins(world, other)


@pytest.mark.lagging
@pytest.mark.parametrize("text", ["require: {authors: [rhea]}\n", "blocking: {authors: [Mona]}\n"])
async def test_pull_requests_of_other_authors_are_refused(world: World, text: str) -> None:
    """An author never changes, so nothing is waited for."""
    await configure(world, text)
    pull, own = await green(world, "add", by="mona"), await green(world, "own", by="rhea")
    pull.label(LABEL, by="mona")
    assert await leaves(world, pull) == "blocked_by_author"
    own.label(LABEL, by="mona")
    await joins(world, own)


@pytest.mark.lagging
@pytest.mark.parametrize("text", ["require: {files: 'docs/**'}\n", "blocking: {files: ['**.py', '*.txt']}\n"])
async def test_pull_request_waits_with_files_that_keep_it_out(world: World, text: str) -> None:
    """A push of other files lets it join; a pull request with the right ones lands at once."""
    await configure(world, text)
    pull, docs = await green(world, "add"), await green(world, "docs", files={"docs/a.md": "words"})
    await waits(world, pull, "files that keep it out")
    docs.label(LABEL, by="mona")
    await world.until(lambda: docs.merged, within=AT_ONCE * 2)


@pytest.mark.thorough
async def test_pull_request_with_more_files_than_github_lists_waits_and_is_blamed_for_none(world: World) -> None:
    """Unknown never lands: any of them might keep it out."""
    await configure(world, "require: {files: 'docs/**'}\n")
    pull = await green(world, "add", files={f"docs/{number}.md": "words" for number in range(301)})
    await waits(world, pull, "or more files than GitHub lists")


@pytest.mark.lagging
async def test_files_are_read_only_where_a_rule_asks_for_them(world: World) -> None:
    """P7: a repository without such rules pays no request."""
    pull = await green(world, "add")
    before = world.requests(FILES)
    pull.label(LABEL, by="mona")
    await joins(world, pull)
    assert world.requests(FILES) == before
