"""What GitHub's rules refuse to trains: IMQ lands by other means, or one by one.

Pull requests leave only for what GitHub refuses on their base by every means.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import DropConnection, Fault, Job, RecordedCall, ReviewRule
from tests.acceptance.page_readers import reader
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all, ready
from tests.acceptance.world import LAG, World

SQUASH = "merge:\n  method: squash\n"
MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"


async def events(world: World) -> list[tuple[str, str | None, str | None]]:
    """The events of the queue: each with its reason, and its detail or the outcome of its run."""
    async with world.bot.engine.store.reading() as tx:
        found = await tx.timeline.of_pull_request(world.repository.record.id, 0)
    return [(each.event, each.reason, each.data.get("outcome") or each.data.get("detail")) for each in found]


async def landed(world: World, *, prepare: Callable[[Any], object] = lambda pull: None) -> list[Any]:
    """Queue three pull requests at once, and wait until they have landed."""
    pulls = await ready(world, "a", "b", "c")
    for pull in pulls:
        prepare(pull)
    queue_all(pulls)
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    assert await world.paused() is None
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
    return pulls


@pytest.mark.thorough
async def test_check_that_is_skipped_on_candidates_alone_has_trains_switched_off(tmp_path: Path) -> None:
    """P1: a job with a condition for pull requests passes as skipped, and has tested nothing."""
    async with a_train_world(tmp_path) as world:
        on_pulls = Job("lint", guard=lambda run: run.event == "pull_request")
        world.repository.add_workflow("Lint", path=".github/workflows/lint.yml", jobs=[on_pulls])
        world.repository.protect("main", required_checks=["ci/test", "lint"])
        await landed(world)
        assert (await events(world))[-1] == ("trains_off", "ci_skipped_on_candidates", "lint")


@pytest.mark.parametrize(
    ("branches", "rule"),
    [
        ("imq-build/**/*", {"creation": True}),
        ("imq-build/**/*", {"required_approvals": 1}),
        ("imq/**/*", {"creation": True}),
    ],
)
async def test_rule_over_the_branches_of_trains_switches_them_off_once(
    tmp_path: Path, branches: str, rule: dict[str, Any]
) -> None:
    """P5: IMQ neither ejects a member nor tries again and again; the queue names GitHub's refusal."""
    async with a_train_world(tmp_path) as world:
        world.github.behaviour.pull_request_rule_on_create = False
        world.repository.add_ruleset("All", branches=[branches], by="rhea", **rule)
        await landed(world)
        happened = await events(world)
        [(_, reason, detail)] = [each for each in happened if each[0] == "trains_off"]
        assert reason == "candidates_refused"
        assert "rule" in (detail or "").lower()
        assert [each[0] for each in happened].count("run_started") == 1


@pytest.mark.thorough
async def test_trains_without_ci_name_the_lines_that_a_workflow_lacks(tmp_path: Path) -> None:
    """A maintainer reads them where the others land one by one: on the page of the queue, and in each history."""
    path = ".github/workflows/tests.yml"
    text = "on: pull_request\njobs:\n  unit:\n    runs-on: ubuntu-latest\n    steps:\n      - run: make test\n"
    async with a_train_world(tmp_path) as world:
        world.repository.push("main", {path: text}, "Test", by="rhea")
        world.repository.add_workflow("Tests", path=path, jobs=[Job("unit")], on=("pull_request",))
        world.repository.protect("main", required_checks=["unit"])
        pulls = await landed(world)
        wanted = f"add to {path}: on: / push: / branches: ['imq/**']"
        [(_, reason, detail)] = [each for each in await events(world) if each[0] == "trains_off"]
        assert reason == "ci_silent_on_candidates"
        assert str(detail).startswith(wanted)
        async with reader(world, "mona") as mona:
            assert wanted in (await mona.get("/repositories/acme/widgets/branches/main")).text
        assert f"ci silent on candidates (`` {wanted}" in next(each.body for each in pulls[0].comments)


@pytest.mark.parametrize("method", ["merge", "squash"])
async def test_strict_base_that_trains_may_not_move_is_landed_on_one_by_one(tmp_path: Path, method: str) -> None:
    """P1: no train stops half-way, since GitHub refuses the second of two merges; one by squash costs no CI run."""
    async with a_train_world(tmp_path, more=f"merge:\n  method: {method}\n") as world:
        world.repository.protect("main", required_checks=["ci/test"], strict=True, reviews=ReviewRule(1), by="rhea")
        await landed(world, prepare=lambda pull: pull.review("APPROVED", by="rhea"))
        happened = await events(world)
        assert [each for each in happened if each[0] == "paused"] == []
        [(_, reason, detail)] = [each for each in happened if each[0] == "trains_off"]
        assert reason == "candidate_landing_refused"
        if method == "merge":
            assert detail == "Changes must be made through a pull request."
            async with reader(world, "mona") as mona:
                page = (await mona.get("/repositories/acme/widgets/branches/main")).text
                assert (
                    f"let IMQ land no train on main, so it tests one pull request after the other. Details: {detail}"
                    in page
                )
                assert "Add IMQ's App to the bypass list of that rule, with the mode" in page
        else:
            assert detail == "GitHub merges only branches that are up to date, and trains land by squash"
            assert "run_started" not in [each[0] for each in happened]


async def test_strict_ruleset_that_imq_bypasses_keeps_trains_by_squash(tmp_path: Path) -> None:
    """The bypass list counts for merges: each member lands with the tree that was tested."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        world.repository.add_ruleset("Strict", required_checks=["ci/test"], strict=True, bypass=["imq"], by="rhea")
        await landed(world)
        assert [each[2] for each in await events(world)][-1] == "landed"
        assert "trains_off" not in [each[0] for each in await events(world)]


async def test_rule_that_comes_while_a_train_is_tested_does_not_stop_it_half_way(tmp_path: Path) -> None:
    """P1: the rules are read again before the first merge of a train by squash."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.settle()
        world.repository.protect("main", required_checks=["ci/test"], strict=True, by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert "paused" not in [each[0] for each in await events(world)]


@pytest.mark.thorough
async def test_squash_landing_refused_half_way_has_its_tip_tested_first(tmp_path: Path) -> None:
    """P1: the base has a tree that no run tested; after its checks passed, the other member lands."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        pulls = await ready(world, "a", "b")
        merged: list[str] = []

        async def hook(exchange: RecordedCall) -> None:
            if exchange.template == MERGE and exchange.phase == "before":
                merged.append(exchange.path)
                if len(merged) == 2:
                    world.repository.protect("main", required_checks=["ci/test"], lock=True, by="rhea")

        world.server.on_request = hook
        queue_all(pulls)
        await world.until(lambda: len(merged) >= 2)
        before = commits_tested(world)
        first = world.repository.sha("main")
        while await world.paused() is None:
            await world.pass_time(timedelta(minutes=1))
        assert world.repository.sha("main") == first
        world.repository.protect("main", required_checks=["ci/test"], by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls))
        happened = [(event, outcome) for event, _, outcome in await events(world)]
        assert ("run_ended", "stopped") in happened
        assert commits_tested(world) - before >= 2


@pytest.mark.thorough
async def test_push_to_the_base_within_a_squash_landing_stops_it_before_the_next_merge(tmp_path: Path) -> None:
    """P1: no run tested the next member on top of that push; once the tip passed, a run does."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        pulls = await ready(world, "a", "b", "c")
        merges = 0

        async def hook(exchange: RecordedCall) -> None:
            nonlocal merges
            if exchange.template == MERGE and exchange.phase == "before":
                merges += 1
                if merges == 2:
                    made = world.repository.commit({"pushed.py": "1\n"}, world.repository.sha(), "By hand", by="rhea")
                    world.repository.push_commit("main", made, by="rhea")
                    raise DropConnection

        world.server.on_request = hook
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        happened = await events(world)
        assert (
            "paused",
            "tip_untested",
            "1 of 3 members landed, then IMQ stopped: somebody pushed to main",
        ) in happened
        assert [each for each in happened if each[2] == "tree_mismatch"] == []
        assert world.requests(MERGE) == 4


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mode", "covers_apps", "moves"),
    [("always", True, True), ("always", False, False), ("exempt", False, True), ("pull_request", True, False)],
)
async def test_train_lands_by_one_push_where_the_bypass_covers_it_and_by_merges_elsewhere(
    tmp_path: Path, mode: str, covers_apps: bool, moves: bool
) -> None:
    """Sources disagree about the mode `always`: both answers land, once, and without another CI run."""
    async with a_train_world(tmp_path) as world:
        world.github.behaviour.apps_bypass_updates = covers_apps
        world.repository.add_ruleset("Reviews", reviews=ReviewRule(1), bypass={"imq": mode}, by="rhea")
        await landed(world, prepare=lambda pull: pull.review("APPROVED", by="rhea"))
        assert world.requests(MERGE) == (0 if moves else 3)
        assert [each[0] for each in await events(world)].count("run_started") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["merge", "squash"])
@pytest.mark.parametrize("known_commits_judged", [False, True])
async def test_train_lands_where_signatures_are_required(
    tmp_path: Path, method: str, known_commits_judged: bool
) -> None:
    """GitHub signs the merges that IMQ asks it for, and the authors sign their commits."""
    async with a_train_world(tmp_path, more=f"merge:\n  method: {method}\n") as world:
        world.github.behaviour.known_commits_judged = known_commits_judged
        world.repository.add_ruleset("Signed", signatures=True, by="rhea")
        await landed(world, prepare=lambda pull: pull.sign())
        assert [each[0] for each in await events(world)].count("run_started") == 1
        assert world.requests(MERGE) == (0 if method == "merge" else 3)


async def test_train_whose_app_lost_its_permission_blames_no_rule(tmp_path: Path) -> None:
    """The owner took the right to write contents away: maintainers read that, and not that a rule refuses trains."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(timedelta(minutes=1))
        world.grant("contents", "read")
        await world.pass_time(timedelta(hours=2))
        [(_, reason, detail)] = [each for each in await events(world) if each[0] == "trains_off"]
        assert (reason, detail) == ("candidates_refused", "Resource not accessible by integration")
        assert [await world.reasons(pull) for pull in pulls] == [[], []]
        assert await world.paused() == "github_refuses"


QUEUED_BY_GITHUB = {"message": "Changes must be made through the merge queue"}


@pytest.mark.every_variant(
    "lock-branch_locked-is locked-merge-lag1", "queue-native_queue_required-merge queue-squash-lag1"
)
@pytest.mark.parametrize("lag", [timedelta(0), LAG])
@pytest.mark.parametrize("method", ["merge", "squash"])
@pytest.mark.parametrize(
    ("rule", "reason", "words"),
    [("queue", "native_queue_required", "merge queue"), ("lock", "branch_locked", "is locked")],
)
async def test_base_that_refuses_all_merges_lets_its_train_leave_at_once(
    tmp_path: Path, rule: str, reason: str, words: str, method: str, lag: timedelta
) -> None:
    """P5: where IMQ cannot read the rule, the first refused merge names it: no ten calls in twenty minutes."""
    async with a_train_world(tmp_path, more=f"merge: {{method: {method}}}\n", lag=lag) as world:
        world.grant("administration", None)
        pulls = await ready(world, "a", "b", "c")
        queue_all(pulls)
        await world.until(lambda: world.requests("POST /repos/{owner}/{repo}/merges") >= 3)
        checks, before = [("ci/test", world.app_id("ci"))], commits_tested(world)
        world.repository.protect("main", required_checks=checks, lock=rule == "lock", by="rhea")
        if rule == "queue":
            world.server.faults.add(Fault("fail", route=MERGE, status=405, times=None, body=QUEUED_BY_GITHUB))
            world.server.faults.add(Fault("fail", when=_moves_main, status=200, times=None, body=_NOT_MOVED))
        await world.until(lambda: not any(pull.labels for pull in pulls), within=timedelta(minutes=10))
        await world.settle()
        left = [pull for pull in pulls if not pull.merged]  # Where reads lag, the first one is a train of its own.
        assert len(left) >= 2
        assert [await world.reasons(pull) for pull in left] == [[reason]] * len(left)
        assert all(words in world.comment(pull) for pull in left)
        assert [each.status for each in world.server.requests if each.template == MERGE].count(405) == 1
        assert commits_tested(world) - before <= 1
        assert "imq" not in "".join(world.repository.record.git.branches())


_NOT_MOVED = {"data": {"updateRefs": None}, "errors": [{"type": "UNPROCESSABLE", **QUEUED_BY_GITHUB}]}


def _moves_main(call: RecordedCall) -> bool:
    return "updateRefs" in str(call.body) and "refs/heads/main" in str(call.body)


@pytest.mark.parametrize(("lag", "place"), [(timedelta(0), 2), (LAG, 3)], ids=["at_once", "lagging"])
async def test_own_check_that_becomes_required_between_two_merges_of_a_train_passes_first(
    tmp_path: Path, lag: timedelta, place: int
) -> None:
    """P5: the base does not stay at a tree that no run tested, until somebody resumes the queue."""
    async with a_train_world(tmp_path, more=SQUASH, lag=lag) as world:
        merges = list[RecordedCall]()

        async def rule(exchange: RecordedCall) -> None:
            if exchange.phase == "before" and exchange.template == MERGE:
                merges.append(exchange)
                if len(merges) == place:
                    checks = [("ci/test", world.app_id("ci")), ("IMQ", world.app.id)]
                    world.repository.protect("main", required_checks=checks)

        world.server.on_request = rule
        await landed(world)
        assert len(merges) <= 5, "each other member was refused once at most"
        assert "paused" not in [event for event, *_ in await events(world)]
