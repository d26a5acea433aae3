"""Commands in comments: who may give which, what becomes of them, and what is none."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.commenting import MINUTE, answered, reacted, ready, say
from tests.acceptance.test_held import held
from tests.acceptance.world import LABEL, World, a_world


@pytest.mark.thorough
async def test_queue_by_who_may_is_acknowledged_labeled_and_lands(world: World) -> None:
    """The label stays the visible truth, whatever was typed."""
    pull = await ready(world)
    world.open("ahead").label(LABEL, by="mona")
    await world.settle()
    comment = await say(world, pull, "Looks good!\n\n/queue", by="hubot")
    assert reacted(comment) == {"eyes", "+1"}
    assert LABEL in pull.labels
    entry = await world.entry(pull)
    assert entry is not None
    assert (entry.queued_by, entry.queued_head) == ("hubot", pull.head_sha)
    await world.until(lambda: pull.merged)
    assert world.spoken(pull) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["/queue", "/why\n/queue priority=high"])
async def test_typed_queue_reads_one_snapshot(world: World, text: str) -> None:
    """P7: pull request, rules of the method, reviews and the person's right come in one query, as for the label."""
    pull = await ready(world)
    world.open("ahead").label(LABEL, by="mona")
    await world.settle()
    before = len(world.server.requests)
    pull.comment(text, by="rhea")
    await world.settle()
    assert await world.status(pull) == "pending"
    asked = [each.template for each in list(world.server.requests)[before:]]
    reads = [each for each in asked if each.startswith("GET") or each.endswith("/graphql")]
    # An earlier comment of IMQ's is looked for on a pull request that has comments, and this one has the command.
    assert [each for each in reads if not each.endswith("/comments")] == ["POST /graphql"]


async def test_reply_to_why_says_what_is_true_when_it_is_sent(world: World) -> None:
    """P6: IMQ keeps the question. A later edit of the comment has the answer of then, and the newest words agree."""
    pull = await world.behind("late")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await say(world, pull, "/why\n/queue status", by="mona")
    assert "> First in the queue for `main`, waiting for checks since" in world.comment(pull)
    assert "> 1. `#1`: `checking` since" in world.comment(pull)
    await say(world, pull, "/pause the release goes first", by="rhea")
    assert "The queue is blocked" not in world.comment(pull), "the newest commands alone are answered"
    await say(world, pull, "/why", by="mona")
    paused = (
        "> The queue is blocked: `rhea` paused the queue for `main` at 2026-01-05 09:07 UTC (`the release goes first`)."
    )
    assert paused in world.comment(pull)
    async with world.bot.engine.store.reading() as tx:
        stored = await tx.answers.find(pull.record.repository.id, pull.number)
    assert stored is not None
    assert [reply.facts for reply in stored.replies] == [{"base_branch": "main"}]
    await say(world, pull, "/resume", by="rhea")
    assert paused not in world.comment(pull)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", ["/queue", "/requeue", "/queue priority=high", "/pause", "/resume", "/freeze until 2h"]
)
async def test_command_by_somebody_without_the_right_is_refused_with_the_reason(world: World, text: str) -> None:
    """Triagers may label, but neither merge nor control queues; nothing has happened afterwards."""
    pull = await ready(world)
    comment = await say(world, pull, text, by="tria")
    assert reacted(comment) == {"eyes", "confused"}
    assert await world.status(pull) is None
    assert LABEL not in pull.labels
    assert await world.paused() is None
    assert world.spoken(pull) == 1


@pytest.mark.thorough
async def test_author_of_a_fork_may_dequeue_but_not_queue(tmp_path: Path) -> None:
    """Leaving is one's own; landing takes the repository's right."""
    async with a_world(tmp_path, repository={"private": False}) as world:
        pull = await ready(world, "fix", by=None, fork_of="fern")
        comment = await say(world, pull, "/queue", by="fern")
        assert "confused" in reacted(comment)
        assert await world.status(pull) is None
        world.open("ahead").label(LABEL, by="mona")
        pull.label(LABEL, by="mona")
        await world.settle()
        assert await world.status(pull) == "pending"
        comment = await say(world, pull, "/unqueue", by="fern")
        assert "+1" in reacted(comment)
        assert await world.status(pull) is None
        assert LABEL not in pull.labels
        assert await world.reasons(pull) == ["unqueued"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    ["> /queue", "```\n/queue\n```", "    /queue", "`/queue`", "<!--\n/queue\n-->", "Say /queue.", "/lgtm", "/merge"],
)
async def test_text_that_is_no_command_is_not_stored_and_not_answered(world: World, text: str) -> None:
    """Quoted, fenced and hidden text, and other bots' commands, cost nothing."""
    pull = await ready(world)
    before = world.requests()
    comment = await say(world, pull, text, by="mona")
    assert reacted(comment) == set()
    assert await world.status(pull) is None
    assert world.spoken(pull) == 0
    assert world.requests() == before


@pytest.mark.thorough
async def test_edited_comment_is_no_command(world: World) -> None:
    """A person who may edit other people's comments could give commands in their name."""
    pull = await ready(world)
    comment = await say(world, pull, "Nice.", by="mona")
    pull.edit_comment(comment, "/queue", by="mona")
    await world.pass_time(MINUTE)
    assert await world.status(pull) is None
    assert reacted(comment) == set()


@pytest.mark.thorough
async def test_bots_command_nothing(world: World) -> None:
    """Neither automation nor IMQ's own words start anything."""
    pull = await ready(world)
    comment = await say(world, pull, "/queue", by="robot[bot]")
    assert reacted(comment) == set()
    assert await world.status(pull) is None


@pytest.mark.thorough
async def test_two_commands_at_once_are_done_once_each_in_their_order(world: World) -> None:
    """Two people in the same moment: the second finds it queued."""
    world.open("ahead").label(LABEL, by="mona")
    pull = await ready(world)
    world.open("behind").label(LABEL, by="mona")
    first, second = pull.comment("/queue", by="mona"), pull.comment("/queue", by="hubot")
    await world.pass_time(timedelta(seconds=30))
    assert reacted(first) >= {"eyes", "+1"}
    assert reacted(second) >= {"eyes", "+1"}
    assert sum(entry.number == pull.number for entry in await world.entries()) <= 1
    await world.until(lambda: pull.merged)
    assert world.spoken(pull) == 1


@pytest.mark.thorough
async def test_unqueue_and_requeue_give_the_place_up(world: World) -> None:
    """Who leaves and joins again stands at the end, with the head that is there now."""
    front, pull, last = [world.open(name) for name in ("front", "middle", "last")]
    for each in (front, pull, last):
        each.label(LABEL, by="mona")
        await world.settle()
    assert [entry.number for entry in await world.entries()] == [front.number, pull.number, last.number]
    comment = await say(world, pull, "/requeue", by="mona")
    assert "+1" in reacted(comment)
    assert [entry.number for entry in await world.entries()] == [front.number, last.number, pull.number]
    assert LABEL in pull.labels
    await say(world, pull, "/unqueue", by="mona")
    assert await world.status(pull) is None
    await world.until(lambda: front.merged and last.merged)
    assert not pull.merged
    assert LABEL not in pull.labels


async def test_push_after_the_command_was_typed_is_not_what_was_consented_to(world: World) -> None:
    """P4: somebody pushes while IMQ is down; the command that is delivered late queues nothing."""
    pull = await ready(world)
    address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
    comment = pull.comment("/queue", by="hubot")
    await world.github.schedule.run_due()
    await world.pass_time(MINUTE)
    pull.push({"evil.py": "evil\n"}, by="mona")
    await world.github.schedule.run_due()
    world.app.webhook_url = address
    await world.pass_time(timedelta(minutes=30))
    assert "confused" in reacted(comment)
    assert await world.status(pull) is None
    assert not pull.merged


@pytest.mark.thorough
async def test_command_given_while_the_bot_is_down_is_executed_on_redelivery(world: World) -> None:
    """No sweep reads comments: what failed to be delivered is sent again."""
    pull = await ready(world)
    address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
    comment = pull.comment("/queue", by="hubot")
    await world.github.schedule.run_due()
    world.app.webhook_url = address
    await world.until(lambda: pull.merged)
    assert "+1" in reacted(comment)


REFUSING = "when_not_ready: refuse\nblocking: {labels: [needs design]}\n"


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["/queue", "/requeue"])
async def test_queue_command_that_is_rejected_names_its_cause(world: World, text: str) -> None:
    """The answer names the label that blocks it, so that no reader has to search."""
    pull = await ready(world)
    world.repository.push("main", {".github/imq.yml": REFUSING}, "Rules", by="rhea")
    pull.label("needs design", by="mona")
    await world.settle()
    await say(world, pull, text, by="mona")
    assert "Details: `needs design`. When it is ready to land, remove that label." in world.comment(pull)


async def test_requeue_command_that_is_rejected_names_its_cause(world: World) -> None:
    """One that stands there leaves, and the answer names the way of merging that is not allowed."""
    rules = "merge: {method_labels: {keep commits: rebase}}\n"
    world.repository.push("main", {".github/imq.yml": rules}, "Rules", by="rhea")
    front, pull = world.open("front"), world.open("add")
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    world.repository.record.allow_rebase_merge = False
    pull.label("keep commits", by="mona")
    await world.settle()
    await say(world, pull, "/requeue", by="mona")
    assert await answered(world, pull) == ["refused"]
    async with world.bot.engine.store.reading() as tx:
        answer = await tx.answers.find(pull.record.repository.id, pull.number)
    assert answer is not None
    assert answer.replies[0].facts["detail"] == "rebase"


@pytest.mark.thorough
async def test_questions_are_answered_in_the_one_comment(world: World) -> None:
    """Everybody may ask why, status and help; the reply to a misspelt argument shows its usage."""
    pull = await ready(world)
    for text in ("/why", "/queue status", "/queue help", "/imq"):
        comment = await say(world, pull, text, by="tria")
        assert reacted(comment) == {"eyes", "+1"}, text
    comment = await say(world, pull, "/queue pretty please", by="tria")
    assert reacted(comment) == {"eyes", "confused"}
    assert "/queue" in world.comment(pull)
    assert await world.status(pull) is None


async def test_comment_with_too_many_commands_is_carried_out_as_far_as_the_limit(world: World) -> None:
    """A few are done; the answer says that the rest was left."""
    pull = await ready(world)
    await say(world, pull, "/why\n" * 8, by="mona")
    async with world.bot.engine.store.reading() as tx:
        answer = await tx.answers.find(pull.record.repository.id, pull.number)
    assert answer is not None
    assert [reply.code.value for reply in answer.replies] == ["why"] * 5 + ["too_many"]


@pytest.mark.thorough
async def test_command_on_a_closed_pull_request_is_answered_in_words(world: World) -> None:
    """P6: IMQ queues nothing there, and says what to do instead."""
    pull = await ready(world)
    pull.close(by="mona")
    await world.settle()
    comment = await say(world, pull, "/queue", by="mona")
    assert "confused" in reacted(comment)
    assert await world.status(pull) is None
    assert "The pull request is closed. To land it, reopen it and comment `/queue`." in world.comment(pull)
    assert world.spoken(pull) == 1


@pytest.mark.thorough
async def test_command_whose_comment_was_deleted_is_not_carried_out(world: World) -> None:
    """A command that its author deletes before IMQ reads it has no effect."""
    pull = await ready(world)
    comment = pull.comment("/queue", by="mona")
    pull.delete_comment(comment, by="mona")
    await world.pass_time(MINUTE)
    assert await world.status(pull) is None
    assert world.spoken(pull) == 0


@pytest.mark.thorough
async def test_queue_by_command_waits_for_room_in_a_full_queue(tmp_path: Path) -> None:
    """P5: as by label, no request is rejected for a full queue."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        first, pull = world.open("first"), world.open("second")
        first.label(LABEL, by="mona")
        await world.settle()
        comment = await say(world, pull, "/queue", by="hubot")
        assert "+1" in reacted(comment)
        assert await held(world) == [pull.number]
        assert LABEL in pull.labels
        await world.until(lambda: first.merged and pull.merged)


async def test_author_may_queue_once_what_a_maintainer_delegated(tmp_path: Path) -> None:
    """P4: the maintainer's consent lands it, with the maintainer's right; a second time needs a second grant."""
    async with a_world(tmp_path, repository={"private": False}) as world:
        pull = await ready(world, "patch", by=None, fork_of="fern")
        assert "confused" in reacted(await say(world, pull, "/queue", by="fern"))
        assert "confused" in reacted(await say(world, pull, "/delegate", by="fern"))
        await say(world, pull, "/delegate", by="mona")
        assert "`fern` may queue this pull request for `main` once, by `/queue`, until 2026-02-0" in world.comment(pull)
        await say(world, pull, "/pause", by="rhea")
        await say(world, pull, "/queue", by="fern")
        (entry,) = await world.entries()
        assert (entry.queued_by, entry.queued_head) == ("mona", pull.head_sha)
        await say(world, pull, "/unqueue", by="fern")
        assert "confused" in reacted(await say(world, pull, "/queue", by="fern"))
        assert await world.entries() == ()
        assert "confused" in reacted(await say(world, pull, "/undelegate", by="mona"))
        await say(world, pull, "/delegate", by="mona")
        assert "confused" in reacted(await say(world, pull, "/undelegate", by="tria"))
        assert "+1" in reacted(await say(world, pull, "/undelegate", by="hubot"))
        assert "confused" in reacted(await say(world, pull, "/queue", by="fern"))
        assert await world.entries() == ()
        await say(world, pull, "/delegate", by="mona")
        await say(world, pull, "/queue", by="fern")
        await say(world, pull, "/resume", by="rhea")
        await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_delegation_is_for_the_base_branch_on_which_it_was_given(tmp_path: Path) -> None:
    """P4: authors may change the base branch without any right; the maintainer consented to the other one alone."""
    async with a_world(tmp_path, repository={"private": False}) as world:
        world.repository.create_branch("release")
        pull = await ready(world, "patch", by=None, fork_of="fern")
        await say(world, pull, "/delegate", by="mona")
        pull.edit_base("release", by="fern")
        await world.pass_time(MINUTE)
        await say(world, pull, "/queue", by="fern")
        assert await answered(world, pull) == ["not_allowed"]
        assert await world.entries() == ()
