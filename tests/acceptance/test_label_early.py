"""A pull request gets its label before it is ready: it waits outside the queue, and joins by itself."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import PullRequestOptions, ReviewRule
from tests.acceptance.branch_rules import rule
from tests.acceptance.callers import Caller, path_of
from tests.acceptance.choosing import configure, green
from tests.acceptance.world import CI_TIME, LABEL, World

DRAFT = PullRequestOptions(draft=True)
SOON = timedelta(minutes=2)


async def early(world: World, name: str = "early", **more: Any) -> Any:
    """A green pull request that somebody labels before it is ready."""
    pull = await green(world, name, **more)
    pull.label(LABEL, by="mona")
    await world.settle()
    await world.pass_time(timedelta(seconds=5))
    assert LABEL in pull.labels
    assert not (await waiting(world, pull)).is_ready
    return pull


async def waiting(world: World, pull: Any) -> Any:
    """The entry of a pull request, in the queue or outside of it."""
    async with world.bot.engine.store.reading() as tx:
        entry = await tx.entries.find(pull.record.repository.id, pull.number)
    assert entry is not None
    return entry


async def reason_of(world: World, pull: Any) -> str | None:
    """Why a pull request waits no longer; None while it is queued, or waits."""
    async with world.bot.engine.store.reading() as tx:
        if await tx.entries.is_queued(pull.record.repository.id, pull.number):
            return None
    return (await world.reasons(pull))[-1]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_draft_with_the_label_waits_and_lands_once_it_is_ready(world: World) -> None:
    """P6: the label stays, one comment says what it waits for, and whose move it is."""
    pull = await early(world, options=DRAFT)
    assert await world.entries() == ()
    comment = world.comment(pull)
    assert "something is missing" in comment
    assert "draft" in comment
    assert "**Next step for the author:** Mark it as ready for review." in comment
    assert "@mona" not in comment
    pull.ready_for_review(by="mona")
    await world.until(lambda: pull.merged, within=SOON)
    await world.settle()
    assert world.spoken(pull) == 1
    assert LABEL not in pull.labels


@pytest.mark.thorough
@pytest.mark.lagging
async def test_pull_request_without_approvals_waits_and_lands_once_it_has_them(world: World) -> None:
    """Each review changes what the comment says; requested changes may be taken back."""
    rule(world, reviews=ReviewRule(2))
    pull = await early(world)
    assert "0 of 2" in world.comment(pull)
    pull.review("CHANGES_REQUESTED", by="hubot")
    await world.pass_time(timedelta(seconds=15))
    assert "requested changes" in world.comment(pull)
    pull.review("APPROVED", by="hubot")
    await world.pass_time(timedelta(seconds=15))
    assert "1 of 2" in world.comment(pull)
    pull.review("APPROVED", by="rhea")
    await world.until(lambda: pull.merged, within=SOON)
    assert world.spoken(pull) == 1


@pytest.mark.thorough
@pytest.mark.lagging
async def test_comment_names_everything_that_is_missing(world: World) -> None:
    """What comes first is shown first; the rest is a list."""
    rule(world, reviews=ReviewRule(1))
    pull = await early(world, options=DRAFT)
    assert "It also lacks this:" in world.comment(pull)
    assert "0 of 1" in world.comment(pull)
    pull.review("APPROVED", by="rhea")
    await world.pass_time(timedelta(seconds=15))
    assert "It also lacks this:" not in world.comment(pull)
    pull.ready_for_review(by="mona")
    await world.until(lambda: pull.merged, within=SOON)


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("act", ["unlabel", "close", "retarget"])
async def test_wait_ends_by_what_withdraws_consent(world: World, act: str) -> None:
    """P4: outside the queue consent may be withdrawn as within; nothing lands afterwards."""
    world.repository.create_branch("release", "main")
    pull = await early(world, options=DRAFT)
    match act:
        case "unlabel":
            pull.unlabel(LABEL, by="mona")
        case "close":
            pull.close(by="mona")
        case "retarget":
            pull.edit_base("release", by="mona")
    await world.settle()
    await world.pass_time(timedelta(seconds=10))
    reason = {"unlabel": "label_removed", "close": "closed", "retarget": "base_changed"}[act]
    assert await reason_of(world, pull) == reason
    pull.record.state == "open" and pull.ready_for_review(by="mona")
    await world.pass_time(CI_TIME * 2)
    assert not pull.merged


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("webhook", [True, False], ids=["webhook", "lost"])
async def test_push_by_somebody_who_may_queue_binds_the_new_head(world: World, webhook: bool) -> None:
    """P4: the author fixes what a reviewer asked for, and the new head lands; also if the webhook was lost."""
    pull = await early(world, options=DRAFT)
    head = pull.push({"more.py": "more\n"}, by="hubot", webhook=webhook)
    await world.pass_time(CI_TIME * 2 if webhook else timedelta(minutes=15))
    entry = await waiting(world, pull)
    assert entry.queued_head == head
    async with world.bot.engine.store.reading() as tx:
        (*_, last) = await tx.consents.of(entry)
    assert (last.source, last.by, last.head_sha) == ("waiting_push", "hubot", head)
    pull.ready_for_review(by="mona")
    await world.until(lambda: pull.merged, within=SOON)
    assert "more.py" in world.repository.files("main")


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize(
    ("webhook", "next_webhook"),
    [(True, True), (False, False), (False, True)],
    ids=["webhook", "lost", "lost_but_the_next"],
)
async def test_push_by_another_person_ends_the_wait(world: World, webhook: bool, next_webhook: bool) -> None:
    """P4: the head that somebody without the right pushed never lands, though another push follows at once."""
    pull = await early(world, options=DRAFT)
    world.repository.record.collaborators["tria"] = "write"
    pull.push({"evil.py": "evil\n"}, by="tria", webhook=webhook)
    world.repository.record.collaborators["tria"] = "triage"
    pull.push({"more.py": "more\n"}, by="mona", webhook=next_webhook)
    await world.pass_time(timedelta(seconds=20) if webhook else timedelta(minutes=15))
    assert await reason_of(world, pull) == "head_changed"
    assert "pushed by tria, who may not queue" in world.comment(pull)
    assert LABEL not in pull.labels


async def test_each_push_ends_the_wait_where_the_configuration_says_so(world: World) -> None:
    """`on_push: {waiting: dequeue}`."""
    await configure(world, "on_push: {waiting: dequeue}\n")
    pull = await early(world, options=DRAFT)
    pull.push({"more.py": "more\n"}, by="mona")
    await world.pass_time(timedelta(seconds=20))
    assert await reason_of(world, pull) == "head_changed"


@pytest.mark.thorough
async def test_triagers_label_on_a_draft_is_refused(world: World) -> None:
    """P4: who may queue is checked when the label is set, and not only when the pull request is ready."""
    pull = await green(world, "tria", options=DRAFT)
    pull.label(LABEL, by="tria")
    await world.pass_time(timedelta(minutes=1))
    assert LABEL not in pull.labels
    assert "write access" in world.comment(pull)


async def test_label_counts_no_longer_once_its_sender_may_not_queue(world: World) -> None:
    """P4: the person who set the label is asked for again when the pull request is ready."""
    pull = await early(world, options=DRAFT)
    world.repository.record.collaborators["mona"] = "read"
    pull.ready_for_review(by="rhea")
    await world.pass_time(CI_TIME)
    assert not pull.merged
    assert LABEL not in pull.labels


@pytest.mark.thorough
async def test_refuse_rejects_what_is_not_ready(world: World) -> None:
    """`when_not_ready: refuse` takes the label off at once, as IMQ did before."""
    await configure(world, "when_not_ready: refuse\n")
    rule(world, reviews=ReviewRule(1))
    draft, lacking = await green(world, "draft", options=DRAFT), await green(world, "lacking")
    for pull in (draft, lacking):
        pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert [LABEL in pull.labels for pull in (draft, lacking)] == [False, False]
    assert (await world.reasons(draft), await world.reasons(lacking)) == (["draft"], ["approval_missing"])


@pytest.mark.thorough
async def test_wait_costs_no_request_while_nothing_happens(world: World) -> None:
    """P7: but for the sweep, which lists the repository in any case."""
    await early(world, options=DRAFT)
    await world.pass_time(timedelta(minutes=30))
    asked = world.requests("GET /repos/{owner}/{repo}/pulls/{number}", "POST /graphql")
    await world.pass_time(timedelta(hours=2))
    assert world.requests("GET /repos/{owner}/{repo}/pulls/{number}", "POST /graphql") == asked


async def test_wait_ends_after_its_limit(world: World) -> None:
    """P5: the comment says why, and the label comes off."""
    await configure(world, "timeouts: {ready: 3h}\n")
    pull = await early(world, options=DRAFT)
    await world.pass_time(timedelta(hours=3, minutes=15))
    assert await reason_of(world, pull) == "not_ready_timed_out"
    assert LABEL not in pull.labels
    assert "waited too long outside the queue" in world.comment(pull)
    assert world.spoken(pull) == 1


@pytest.mark.thorough
@pytest.mark.lagging
async def test_ready_pull_request_joins_behind_those_that_were_ready_before(world: World) -> None:
    """P3: all that are in the queue came first, whenever the label was set."""
    first = await early(world, "first", options=DRAFT)
    second, third = world.open("second"), world.open("third")
    await world.pass_time(timedelta(seconds=10))
    for pull in (second, third):
        pull.label(LABEL, by="mona")
        await world.settle()
    first.ready_for_review(by="mona")
    await world.settle()
    assert [entry.number for entry in await world.entries()] == [second.number, third.number, first.number]
    await world.until(lambda: first.merged)
    assert world.landed() == [second.number, third.number, first.number]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_lost_webhooks_are_found_by_the_sweep(world: World) -> None:
    """P2: a draft that became ready, an approval, and a removed label are found within ten minutes."""
    rule(world, reviews=ReviewRule(1))
    pull, other = await early(world, "pull", options=DRAFT), await early(world, "other", options=DRAFT)
    pull.ready_for_review(by="mona", webhook=False)
    pull.review("APPROVED", by="rhea", webhook=False)
    other.unlabel(LABEL, by="mona", webhook=False)
    await world.until(lambda: pull.merged, within=timedelta(minutes=15))
    assert await reason_of(world, other) == "label_removed"


@pytest.mark.lagging
async def test_changed_rules_and_configuration_let_it_join(world: World) -> None:
    """A requirement that a maintainer removes is waited for no longer."""
    demand = world.repository.add_ruleset("rules", by="rhea", reviews=ReviewRule(1))
    pull = await early(world)
    world.repository.remove_ruleset(demand, by="rhea")
    await world.until(lambda: pull.merged, within=SOON)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_command_asks_as_the_label_does_and_why_says_what_is_missing(world: World) -> None:
    """`/queue` sets the label and waits, `/why` says for what, and `/unqueue` ends the wait."""
    pull = await green(world, "asked", options=DRAFT)
    pull.comment("/queue", by="mona")
    await world.pass_time(timedelta(seconds=20))
    assert LABEL in pull.labels
    assert "IMQ queues the pull request for `main` as soon as it is ready." in world.comment(pull)
    pull.comment("/why", by="hubot")
    await world.pass_time(timedelta(seconds=20))
    assert "Not in the queue for `main` yet: The pull request is a draft." in world.comment(pull)
    pull.comment("/unqueue", by="mona")
    await world.pass_time(timedelta(seconds=20))
    assert await reason_of(world, pull) == "unqueued"
    assert LABEL not in pull.labels
    pull.ready_for_review(by="mona")
    await world.pass_time(CI_TIME)
    assert not pull.merged


async def test_api_and_pages_say_what_is_missing(world: World, mona: Caller) -> None:
    """Programs read the state `not_ready` with all that the pull request lacks; the queue counts it apart."""
    rule(world, reviews=ReviewRule(1))
    pull = await green(world, "called", options=DRAFT)
    queued, why = await mona.queue(pull), await mona.ask("GET", path_of(pull))
    assert (queued.status, queued.body["status"], queued.body["position"]) == (202, "not_ready", None)
    assert (why.body["state"], why.body["reason"], why.body["whose_move"]) == ("not_ready", "draft", "author")
    assert [each["reason"] for each in why.body["unmet"]] == ["draft", "approval_missing"]
    shown = await mona.ask("GET", "/api/v1/repositories/acme/widgets/branches/main/queue")
    assert (shown.body["depth"], shown.body["held"], shown.body["not_ready"]) == (0, 0, 1)


@pytest.mark.thorough
async def test_conflict_ends_the_wait(world: World) -> None:
    """A conflict needs a push, which needs a new consent anyway."""
    pull = await early(world, files={"app.py": "ONE\ntwo\nthree\n"}, options=DRAFT)
    world.repository.push("main", {"app.py": "UNO\ntwo\nthree\n"}, "Edit too", by="rhea")
    await world.settle()
    pull.ready_for_review(by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=SOON)
    assert (await world.reasons(pull))[-1] == "conflict"


@pytest.mark.thorough
async def test_kill_while_it_waits_loses_nothing(world: World) -> None:
    """P2: a process that dies before it answers a webhook leaves it to the next."""
    pull = await early(world, options=DRAFT)
    await world.kill()
    pull.ready_for_review(by="mona")
    await world.restart()
    await world.until(lambda: pull.merged, within=timedelta(minutes=15))
    assert world.spoken(pull) == 1
