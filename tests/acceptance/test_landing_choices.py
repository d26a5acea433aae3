"""How a repository wants its pull requests to land: method and words, the branch afterwards, and who may."""

import re
from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.executor.cleanup import BRANCH_JOB
from tests.acceptance.choosing import AT_ONCE, configure, green, lands, leaves
from tests.acceptance.world import CI_TIME, LABEL, World


def branches(world: World) -> Any:
    return world.repository.record.git.branches()


# Method and words


@pytest.mark.thorough
async def test_method_label_overrides_the_configured_method(world: World) -> None:
    """One pull request may land otherwise than all others."""
    await configure(world, "merge: {method: squash, method_labels: {keep commits: merge}}\n")
    squashed = await lands(world, await green(world, "plain"))
    assert len(squashed.parents) == 1
    kept = await green(world, "history")
    kept.label("Keep Commits", by="mona")
    assert len((await lands(world, kept)).parents) == 2


@pytest.mark.thorough
async def test_method_that_the_repository_forbids_is_refused_at_admission(world: World) -> None:
    """Before any CI is spent, and with the method named; P1: it never lands in another way instead."""
    await configure(world, "merge: {method: rebase}\n")
    world.repository.record.allow_rebase_merge = False
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    assert await leaves(world, pull) == "method_not_allowed"
    assert "rebase" in world.comment(pull)


@pytest.mark.thorough
async def test_method_that_was_allowed_meanwhile_is_refused_by_no_memory(world: World) -> None:
    """Reads by REST remember the allowed methods, and no webhook reports their change."""
    world.repository.record.allow_rebase_merge = False
    await configure(world, "merge: {method_labels: {keep commits: rebase}}\n")
    await lands(world, await green(world, "plain"))
    world.repository.record.allow_rebase_merge = True
    kept = await green(world, "history")
    kept.label("keep commits", by="mona")
    assert len((await lands(world, kept)).parents) == 1


@pytest.mark.thorough
async def test_queued_pull_request_leaves_over_no_remembered_method(world: World) -> None:
    """The method was allowed, and its label set, after it was queued: what is allowed is asked before it leaves."""
    world.repository.record.allow_rebase_merge = False
    await configure(world, "merge: {method_labels: {keep commits: rebase}}\n")
    kept = world.open("history")
    kept.label(LABEL, by="mona")
    await world.settle()
    world.repository.record.allow_rebase_merge = True
    kept.label("keep commits", by="mona")
    await world.until(lambda: LABEL not in kept.labels, within=CI_TIME * 4)
    assert (kept.merged, await world.reasons(kept)) == (True, [])


@pytest.mark.thorough
async def test_push_that_is_queued_again_is_refused_by_no_memory_of_methods(world: World) -> None:
    """The pull request is read by REST then, which names no methods."""
    world.repository.record.allow_rebase_merge = False
    await configure(world, "on_push: requeue\nmerge: {method_labels: {keep commits: rebase}}\n")
    kept = world.open("history")
    kept.label(LABEL, by="mona")
    await world.settle()
    world.repository.record.allow_rebase_merge = True
    kept.label("keep commits", by="mona")
    await world.settle()
    kept.push({"more": "1\n"}, by="mona")
    await world.until(lambda: kept.merged or LABEL not in kept.labels, within=CI_TIME * 4)
    assert kept.merged


async def test_commit_is_written_in_the_repositorys_words_with_its_co_authors(world: World) -> None:
    """Title, body to its cut mark, address, and everybody who wrote a commit but its author, on the tested tree."""
    body = '"{body}\\n\\nPR-URL: {url}\\n\\n{co_authors}"'
    await configure(world, f'merge:\n  method: squash\n  title: "{{title}} (#{{number}})"\n  body: {body}\n')
    pull = await green(world, "words")
    pull.push({"more.py": "more\n"}, by="hubot")
    pull.edit_body("Why.\n<!-- imq:cut -->\nNot for the log.\nSigned-off-by: rhea <rhea@example.org>", by="mona")
    await world.pass_time(CI_TIME * 2)
    landed = await lands(world, pull)
    assert landed.title == f"words (#{pull.number})"
    lines = landed.message.splitlines()[1:]
    why, address = (line for line in lines if line and "Co-authored-by" not in line)
    assert why == "Why."
    assert re.fullmatch(rf"PR-URL: http\S+/{world.repository.full_name}/pull/{pull.number}", address)
    assert [line.partition("<")[0] for line in lines if "Co-authored-by" in line] == ["Co-authored-by: hubot "]
    assert await world.paused() is None


async def test_commit_names_its_reviewers_and_commits(world: World) -> None:
    """Approvals of people with write access alone, and no mention of anybody, by a train's commit and by a merge."""
    await configure(world, 'merge: {title: "{title} (r={reviewers})", body: "{commits}"}\n')
    pull = await green(world, "words")
    pull.push({"more.py": "more\n"}, message="Ask @rhea", by="mona")
    pull.review("APPROVED", by="hubot")
    pull.review("APPROVED", by="rhea")
    pull.review("APPROVED", by="tria")
    await world.pass_time(CI_TIME * 2)
    landed = await lands(world, pull)
    title, _, body = landed.message.partition("\n\n")
    assert title == "words (r=hubot, rhea)"
    assert body.splitlines() == ["- words", "- Ask @\u200brhea"]


async def test_label_says_how_it_left_its_queue(world: World) -> None:
    """What failed gets one label, which goes when the pull request is queued again; what landed gets the other."""
    await configure(world, "labels: {landed: Shipped, failed: broken}\n")
    pull = await green(world, "early")
    world.repository.push("main", {"early.py": "other\n"}, "Conflict", by="rhea")
    pull.label(LABEL, by="mona")
    assert await leaves(world, pull) == "conflict"
    assert pull.labels == ["broken"]
    pull.force_push({"late.py": "late\n"}, by="mona", onto=world.repository.log("main")[0].sha)
    await world.pass_time(CI_TIME * 2)
    await lands(world, pull)
    assert pull.labels == ["Shipped"]


# The branch afterwards


@pytest.mark.thorough
async def test_branch_of_what_landed_is_deleted_where_that_is_wanted(world: World) -> None:
    """And nowhere else."""
    kept = await green(world, "kept")
    await lands(world, kept)
    await configure(world, "merge: {delete_branch: true}\n")
    pull = await green(world, "topic/one")
    await lands(world, pull)
    assert "kept" in branches(world)
    assert "topic/one" not in branches(world)


ODD = {"message": "Odd"}
UNPROCESSABLE = {"data": {"updateRefs": None}, "errors": [{"type": "UNPROCESSABLE", **ODD}]}


@pytest.mark.parametrize(("status", "odd"), [(422, ODD), (200, UNPROCESSABLE)])
async def test_branch_whose_deletion_github_refuses_for_a_moment_is_deleted_later(
    world: World, status: int, odd: dict[str, Any]
) -> None:
    """P5: unknown words are no rule at once, nor do they say that somebody pushed."""
    await configure(world, "merge: {delete_branch: true}\n")
    pull = await green(world, "topic")
    moves = Fault("fail", when=lambda call: "updateRefs" in str(call.body), status=status, body=odd, times=2)
    world.server.faults.add(moves)
    world.server.faults.add(Fault("fail", method="DELETE", route=re.compile("git/refs"), status=422, body=ODD, times=2))
    await lands(world, pull)
    assert "topic" in branches(world)
    await world.pass_time(timedelta(minutes=10))
    assert "topic" not in branches(world)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "neighbour"), [("fix#12", "fix"), ("fix%2F1", "fix/1"), ("a/fix#x", "a/fix"), ("fíx&co", "f")]
)
async def test_branch_whose_name_an_address_would_read_otherwise_is_the_one_deleted(
    world: World, name: str, neighbour: str
) -> None:
    """Whatever is in a branch's name, no other branch pays for it."""
    await configure(world, "merge: {delete_branch: true}\n")
    world.repository.create_branch(neighbour, by="rhea")
    pull = await green(world, name, files={"its.py": "its\n"})
    before = set(branches(world))
    await lands(world, pull)
    assert before - set(branches(world)) == {name}


async def test_branch_that_the_configuration_names_is_kept_after_its_release(world: World) -> None:
    """`develop` is landed on, although it was the head of a pull request and nothing has been queued for it yet."""
    text = "merge: {delete_branch: true}\nbranches: [{match: main}, {match: develop}]\n"
    await configure(world, text)
    release = await green(world, "develop")
    await lands(world, release)
    await world.pass_time(timedelta(minutes=2))
    assert "develop" in branches(world)


@pytest.mark.thorough
async def test_branch_that_others_are_based_on_is_kept_and_nothing_is_closed(world: World) -> None:
    """Deleting it would close the pull requests stacked on it."""
    await configure(world, "merge: {delete_branch: true}\n")
    below = await green(world, "below")
    above = world.open("above", base="below")
    await lands(world, below)
    assert "below" in branches(world)
    assert above.state == "open"


async def test_branch_that_another_pull_request_is_made_of_is_kept(world: World) -> None:
    """The same branch may be on its way into two others."""
    await configure(world, "merge: {delete_branch: true}\n")
    world.repository.create_branch("release", by="rhea")
    pull = await green(world, "fix")
    backport = world.repository.open_pull_request("fix", head="fix", base="release", by="mona")
    await lands(world, pull)
    assert "fix" in branches(world)
    assert backport.state == "open"


async def test_branch_of_a_fork_is_never_touched(world: World) -> None:
    """It belongs to somebody else, even where its name is one of ours."""
    await configure(world, "merge: {delete_branch: true}\n")
    pull = await green(world, "idea", by=None, fork_of="fan")
    world.repository.create_branch("idea", pull.head_sha, by="rhea")
    await lands(world, pull)
    assert "idea" in branches(world)
    assert pull.record.head_repository.git.branch("idea") is not None


@pytest.mark.thorough
async def test_branch_with_rules_or_a_queue_of_its_own_is_kept(world: World) -> None:
    """What others are merged into outlives one pull request."""
    await configure(world, "merge: {delete_branch: true}\n")
    for name in ("guarded", "develop"):
        world.repository.create_branch(name, by="rhea")
    await lands(world, await green(world, "feature", base="develop"))
    for name in ("guarded", "develop"):
        world.repository.push(name, {f"{name}.txt": "0\n"}, name, by="rhea")
    world.repository.protect("guarded", by="rhea")
    pulls = [world.repository.open_pull_request(name, head=name, by="mona") for name in ("guarded", "develop")]
    await world.pass_time(CI_TIME * 2)
    for pull in pulls:
        await lands(world, pull, within=CI_TIME * 2)
    assert {"guarded", "develop"} <= set(branches(world))
    # GitHub is not even asked: it might let an App do it.
    sent = [one.body["variables"] for one in world.server.requests.of("POST /graphql")]
    assert [ref["name"] for each in sent for ref in each.get("updates", ())] == ["refs/heads/feature"]


async def test_branch_that_went_on_after_it_landed_is_kept(world: World) -> None:
    """Somebody's next work may be on it."""
    await configure(world, "merge: {delete_branch: true}\n")
    pull = await green(world, "topic")
    merge = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
    world.meanwhile(
        merge, lambda: world.repository.push("topic", {"next.py": "next\n"}, "Next", by="mona"), phase="after"
    )
    await lands(world, pull)
    assert "topic" in branches(world)


async def test_branch_to_which_somebody_pushes_as_it_is_deleted_is_kept(world: World) -> None:
    """P4: the request names the commit that landed."""
    await configure(world, "merge: {delete_branch: true}\n")
    pull = await green(world, "topic")
    uses = "GET /repos/{owner}/{repo}/pulls"
    world.meanwhile(
        uses, lambda: world.repository.push("topic", {"next.py": "next\n"}, "Next", by="mona"), phase="after"
    )
    await lands(world, pull)
    assert "topic" in branches(world)
    assert world.server.on_request is None, "the push happened"


async def test_branch_deleted_twice_or_not_by_permission_is_no_failure(world: World) -> None:
    """At least once, seen once: a repeated job finds nothing to do, a refusal leaves no dead letter."""
    await configure(world, "merge: {delete_branch: true}\n")
    pull = await green(world, "topic")
    entry_head = pull.head_sha
    await lands(world, pull)
    async with world.bot.engine.change() as change:
        queue = (await change.tx.queues.all())[0]
        await change.tx.jobs.enqueue(
            kind=BRANCH_JOB,
            request={"queue_id": queue.id, "number": pull.number, "head": entry_head},
            process_id="again",
            now=change.now,
        )
    await world.pass_time(timedelta(minutes=5))
    assert "topic" not in branches(world)
    async with world.bot.engine.store.reading() as tx:
        assert await tx.dead_letters.count() == 0


# Who may queue, and what is kept out


@pytest.mark.thorough
async def test_who_may_queue_is_what_the_configuration_says(world: World) -> None:
    """Narrower than the right to merge, but for those who are named."""
    await configure(world, "who_may_queue: {permission: maintain, people: [tria]}\n")
    pull = await green(world, "add")
    pull.label(LABEL, by="mona")
    assert await leaves(world, pull) == "not_allowed_to_queue"
    await lands(world, pull, by="tria")


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["label", "title"])
async def test_blocking_label_or_title_takes_out_what_is_queued_and_what_is_held(world: World, where: str) -> None:
    """P5: in every waiting state; a later label waits outside the queue, and once the cause is gone that head lands."""
    await configure(world, 'depth: 1\nblocking: {labels: [do not merge], titles: ["(?i)^wip"]}\n')
    pulls = [world.open(name) for name in ("front", "held")]
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    assert await world.status(pulls[0]) == "checking"
    for pull in reversed(pulls):
        if where == "label":
            pull.label("Do Not Merge", by="hubot")
        else:
            pull.edit_title(f"WIP: {pull.record.title}", by="mona")
        assert await leaves(world, pull) == f"blocked_by_{where}"
    pull = pulls[0]
    pull.label(LABEL, by="mona")
    await world.settle()
    entry = await world.entry(pull)
    assert entry is None or not entry.is_ready
    assert LABEL in pull.labels
    assert f"blocked by {where}" in world.comment(pull).replace("_", " ")
    if where == "label":
        pull.unlabel("Do Not Merge", by="hubot")
    else:
        pull.edit_title("front", by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.thorough
async def test_branch_without_a_queue_is_reported_at_admission(world: World) -> None:
    """The configuration serves some branches and no others."""
    await configure(world, "enabled: false\nbranches:\n  - {match: main, enabled: true}\n")
    world.repository.create_branch("old", by="rhea")
    pull = world.open("add", base="old")
    pull.label(LABEL, by="mona")
    assert await leaves(world, pull) == "branch_not_served"


# Several trigger labels, and labels that come back


@pytest.mark.thorough
async def test_all_trigger_labels_that_it_carries_come_off(world: World) -> None:
    """A label left on would say that it is queued; labels that it does not have cost no request."""
    await configure(world, "trigger_labels: [ship, land, merge-queue]\n")
    pull = await green(world, "add")
    pull.label("land", by="mona")
    await lands(world, pull)
    assert pull.labels == []
    assert world.spoken(pull) == 1


@pytest.mark.parametrize(
    ("automation", "label", "apart", "times", "most"),
    [("robot[bot]", "ship", 50, 6, 0), ("robot[bot]", "land", 50, 6, 0), ("hubot", "ship", 120, 30, 12)],
)
async def test_label_that_automation_sets_again_and_again_starts_nothing(
    world: World, automation: str, label: str, apart: int, times: int, most: int
) -> None:
    """Every minute or two: no second comment, no CI, nothing read for a bot; in an hour little for one in disguise."""
    await configure(world, "trigger_labels: [ship, land]\nblocking: {labels: [hold]}\nwhen_not_ready: refuse\n")
    pull = await green(world, "add")
    pull.label("hold", by="rhea")
    pull.label("ship", by="mona")
    await world.until(lambda: "ship" not in pull.labels, within=AT_ONCE)
    await world.settle()
    assert await world.reasons(pull) == ["blocked_by_label"]
    runs, asked = len(pull.check_runs), world.requests("GET /repos/{owner}/{repo}/pulls/{number}")
    for _ in range(times):
        if label in pull.labels:
            pull.unlabel(label, by=automation)
        pull.label(label, by=automation)
        await world.pass_time(timedelta(seconds=apart))
    reasons = await world.reasons(pull)
    judged = [reason for reason in reasons if reason != "asked_too_often"]
    assert len(judged) - 1 <= most
    assert len(reasons) - len(judged) <= len(judged), "told more than once for each wait"
    assert world.requests("GET /repos/{owner}/{repo}/pulls/{number}") - asked <= most
    assert (world.spoken(pull), len(pull.check_runs)) == (1, runs)
    # A person who tries again when it is mended is heard, whatever went on before.
    pull.unlabel("hold", by="rhea")
    if label in pull.labels:
        pull.unlabel(label, by=automation)
    await world.pass_time(timedelta(hours=1))
    pull.label("land", by="mona")
    await world.until(lambda: pull.merged, within=AT_ONCE)
