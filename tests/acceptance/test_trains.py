"""Pull requests are tested together, and land as they were tested."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from queue_engine.control import pauses
from queue_engine.domain.run import RunState
from tests.acceptance.commenting import say
from tests.acceptance.test_freezes import control
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all, ready
from tests.acceptance.world import World


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta) -> AsyncIterator[World]:
    """A world in which trains start CI by a push."""
    async with a_train_world(tmp_path, lag=lag) as made:
        yield made


@pytest.mark.thorough
@pytest.mark.lagging
async def test_five_pull_requests_land_with_one_ci_run(world: World) -> None:
    """What CI passed is exactly what the base gets, in the order of the queue."""
    pulls = await ready(world, "a", "b", "c", "d", "e")
    before = commits_tested(world)
    queue_all(pulls)
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    # Where reads lag, the first may be admitted alone.
    assert commits_tested(world) - before == (2 if world.settling else 1)
    assert await world.entries() == ()


async def test_train_waits_until_it_is_full_or_its_limit_is_over(tmp_path: Path) -> None:
    """The third makes it full; a fourth alone waits for ten minutes, and says so."""
    async with a_train_world(tmp_path, trains="{candidates: push, runs: 4, max_size: 3, fill_wait: 10m}") as world:
        pulls = await ready(world, "a", "b", "c", "d")
        before = commits_tested(world)
        queue_all(pulls[:2])
        await world.pass_time(timedelta(minutes=4))
        assert commits_tested(world) == before
        queue_all(pulls[2:3])
        await world.until(lambda: all(pull.merged for pull in pulls[:3]), within=timedelta(minutes=5))
        assert commits_tested(world) == before + 1
        queue_all(pulls[3:])
        await world.pass_time(timedelta(minutes=9))
        assert not pulls[3].merged
        await say(world, pulls[3], "/why", by="mona")
        assert "waits for other pull requests" in world.comment(pulls[3])
        await world.until(lambda: pulls[3].merged, within=timedelta(minutes=5))


@pytest.mark.parametrize("why", ["alone is next", "no room", "hotfix", "frozen"])
async def test_train_does_not_wait_for_others_that_cannot_come(tmp_path: Path, why: str) -> None:
    """P5: `fill_wait` ends at once where no other may join, or where somebody is in a hurry."""
    more = "depth: 2\n" if why == "no room" else ""
    more += "priority: {labels: {urgent: {hotfix: true}}}\nfreeze: {exempt_labels: exempt}\n"
    trains = "{candidates: push, max_size: 3, fill_wait: 1h}"
    async with a_train_world(tmp_path, trains=trains, more=more) as world:
        pulls = await ready(world, "a", "b", "c")
        if why == "hotfix":
            pulls[0].label("urgent", by="mona")
        if why == "frozen":
            await say(world, pulls[2], "/freeze until 6h", by="rhea")
            await world.settle()
            pulls[0].label("exempt", by="mona")
        queue_all(pulls[:1])
        if why in {"alone is next", "no room"}:
            await world.settle()
            await say(world, pulls[1], "/queue alone" if why == "alone is next" else "/queue", by="mona")
        await world.until(lambda: pulls[0].merged, within=timedelta(minutes=10))


async def test_pull_request_that_was_queued_alone_is_tested_with_no_other(world: World) -> None:
    """The others share a run; it is tested by its own head once they have landed."""
    pulls = await ready(world, "a", "b", "c")
    await say(world, pulls[1], "/queue alone", by="mona")
    queue_all([pulls[0], pulls[2]])
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    async with world.bot.engine.store.reading() as tx:
        repository = world.repository.record.id
        started = await tx.timeline_reads.of_branch(repository, "main", ["run_started"], limit=20)
    assert started, "the others were in a train"
    assert not any(pulls[1].number in event.data["members"] for event in started)


@pytest.mark.parametrize("waits", [False, True])
async def test_pull_request_that_was_queued_alone_stays_so_after_a_push(tmp_path: Path, waits: bool) -> None:
    """In the queue, where a push queues it again, and outside, where it waits with the new head."""
    more = "on_push: {queued: requeue}\nblocking: {labels: later}\n"
    async with a_train_world(tmp_path, more=more) as world:
        pulls = await ready(world, "a", "b")
        await say(world, pulls[0], "/pause", by="rhea")
        if waits:
            pulls[1].label("later", by="mona")
        queue_all(pulls[:1])
        await say(world, pulls[1], "/queue alone", by="mona")
        pulls[1].push({"more.py": "1\n"}, by="mona")
        await world.pass_time(timedelta(minutes=5))
        if waits:
            pulls[1].unlabel("later", by="mona")
            await world.settle()
        assert len(await world.entries()) == 2
        await say(world, pulls[0], "/resume", by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls))
        async with world.bot.engine.store.reading() as tx:
            repository = world.repository.record.id
            started = await tx.timeline_reads.of_branch(repository, "main", ["run_started"], limit=20)
        assert not any(pulls[1].number in event.data["members"] for event in started)


@pytest.mark.thorough
async def test_one_bad_pull_request_among_five_is_ejected_and_the_others_land(world: World) -> None:
    """Green alone and red together: the member that makes runs fail is found by tests of parts."""
    pulls = await ready(
        world, "a", "b", "c", "d", "e", files=[{f"{name}.txt": "9\n" if name == "c" else "0\n"} for name in "abcde"]
    )
    world.repository.push("main", {"two.txt": "2\n"}, "Two more", by="rhea")
    await world.pass_time(timedelta(minutes=8))
    queue_all(pulls)
    bad = pulls[2]
    await world.until(lambda: all(pull.merged for pull in pulls if pull is not bad))
    await world.until_status(bad, None)
    await world.settle()
    assert not bad.merged
    assert await world.reasons(bad) == ["checks_failed"]


async def test_member_that_conflicts_with_another_waits_for_it(world: World) -> None:
    """A conflict with the base dequeues it only once the other has landed."""
    first, other = await ready(world, "a", "b", files=[{"app.py": "ONE\ntwo\n"}, {"app.py": "uno\ntwo\n"}])
    third = (await ready(world, "c"))[0]
    queue_all([first, other, third])
    await world.until(lambda: first.merged and third.merged)
    await world.until_status(other, None)
    assert not other.merged
    assert await world.reasons(other) == ["conflict"]


@pytest.mark.thorough
async def test_push_to_a_member_throws_its_run_away(world: World) -> None:
    """P4: the pushed head has no consent, and what was tested with the former head does not land."""
    pulls = await ready(world, "a", "b", "c")
    queue_all(pulls)
    await world.pass_time(timedelta(minutes=1))
    pulls[1].push({"more.py": "x\n"}, by="mona")
    await world.until(lambda: pulls[0].merged and pulls[2].merged)
    await world.settle()
    assert not pulls[1].merged
    assert await world.reasons(pulls[1]) == ["head_changed"]
    assert "more.py" not in world.repository.files("main")


@pytest.mark.thorough
async def test_push_to_the_base_while_a_run_is_active_tests_again_on_it(world: World) -> None:
    """P1: the base only moves by compare-and-set from the tip that was tested on."""
    pulls = await ready(world, "a", "b")
    queue_all(pulls)
    await world.pass_time(timedelta(minutes=1))
    world.repository.push("main", {"hand.py": "x\n"}, "By hand", by="rhea")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    assert {"hand.py", "a.py", "b.py"} <= set(world.repository.files("main"))
    assert await world.paused() is None


@pytest.mark.thorough
async def test_freeze_holds_a_run_that_passes_until_it_ends(world: World) -> None:
    """Nothing lands in a freeze; what passed before lands after it without another CI run."""
    pulls = await ready(world, "a", "b")
    queue_all(pulls)
    await world.pass_time(timedelta(minutes=1))
    await control(world, pauses.freeze, until=world.clock.now() + timedelta(minutes=30), reason="release")
    before = commits_tested(world)
    await world.pass_time(timedelta(minutes=20))
    assert not any(pull.merged for pull in pulls)
    async with world.bot.engine.store.reading() as tx:
        [run] = await tx.runs.of_repository(world.repository.record.id)
    # Pages show that the run has passed, and comments still name the freeze.
    assert run.state is RunState.PASSED
    assert "release" in world.comment(pulls[0])
    await world.until(lambda: all(pull.merged for pull in pulls))
    assert commits_tested(world) == before


async def test_silent_ci_falls_back_to_one_pull_request_after_the_other(tmp_path: Path) -> None:
    """No entry is ejected because CI does not watch the branches of candidates."""
    async with a_train_world(tmp_path, ci={"branches": ("main",)}) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert [await world.reasons(pull) for pull in pulls] == [[], []]


@pytest.mark.thorough
async def test_squash_lands_each_member_with_the_tree_that_was_tested(tmp_path: Path) -> None:
    """The landed trees are those of the candidate's chain, one after the other."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        pulls = await ready(world, "a", "b", "c")
        before = commits_tested(world)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert commits_tested(world) - before <= 4
        assert await world.paused() is None
        assert await world.entries() == ()


@pytest.mark.thorough
async def test_members_land_with_few_requests_each(world: World) -> None:
    """P7: at most ten requests for each landing in trains of five, comments and check runs included."""
    pulls = await ready(world, "a", "b", "c", "d", "e")
    await world.pass_time(timedelta(minutes=5))
    before = world.requests()
    queue_all(pulls)
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.pass_time(timedelta(minutes=5))
    assert world.requests() - before <= 10 * len(pulls)


async def test_hotfix_is_tested_before_what_is_tested_now(tmp_path: Path) -> None:
    """A hotfix that preempts cancels the youngest run, whose members are tested again behind it."""
    rules = "priority:\n  labels:\n    hotfix: {priority: 1, hotfix: true, preempts: true}\n"
    async with a_train_world(tmp_path, more=rules) as world:
        pulls = await ready(world, "a", "b", "fix")
        queue_all(pulls[:2])
        await world.pass_time(timedelta(minutes=1))
        pulls[2].label("hotfix", by="rhea")
        queue_all(pulls[2:])
        await world.until(lambda: all(pull.merged for pull in pulls))
        merges = [each.title for each in reversed(world.repository.log("main")) if each.title.startswith("Merge")]
        assert merges[0] == f"Merge pull request {pulls[2].number} from fix"


@pytest.mark.thorough
async def test_draft_starts_ci_where_pushes_do_not(tmp_path: Path) -> None:
    """The draft is closed without a merge by hand, and its members land."""
    ci = {"on": ("pull_request",), "branches": ("main",)}
    async with a_train_world(tmp_path, trains="{candidates: pull_request}", ci=ci) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.pass_time(timedelta(minutes=1))
        drafts = [each for each in world.repository.record.pulls.values() if each.number > pulls[-1].number]
        assert len(drafts) == 1
        assert drafts[0].state == "closed"


@pytest.mark.thorough
async def test_base_that_imq_may_not_move_lands_by_merges(tmp_path: Path) -> None:
    """A rule that forbids pushes to the base does not forbid merges of pull requests."""
    async with a_train_world(tmp_path) as world:
        world.repository.add_ruleset("No pushes", rules=[{"type": "pull_request", "parameters": {}}])
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert await world.paused() is None


@pytest.mark.thorough
async def test_trains_switched_off_while_a_run_is_active_go_on_one_by_one(world: World) -> None:
    """No branch and no run of a train is left."""
    pulls = await ready(world, "a", "b")
    queue_all(pulls)
    await world.pass_time(timedelta(minutes=1))
    world.repository.push("main", {".github/imq.yml": "trains: off\n"}, "No trains", by="rhea")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.pass_time(timedelta(minutes=5))
    assert [name for name in world.repository.record.git.branches() if name.startswith("imq")] == []


@pytest.mark.thorough
async def test_push_to_the_candidate_by_somebody_else_throws_its_run_away(world: World) -> None:
    """P1: what IMQ did not build does not land, whatever CI says of it."""
    pulls = await ready(world, "a", "b")
    queue_all(pulls)
    await world.pass_time(timedelta(minutes=1))
    [branch] = [name for name in world.repository.record.git.branches() if name.startswith("imq/")]
    world.repository.push(branch, {"smuggled.py": "x\n"}, "More", by="hubot")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.pass_time(timedelta(minutes=5))
    assert "smuggled.py" not in world.repository.files("main")
    async with world.bot.engine.store.reading() as tx:
        events = await tx.timeline.of_pull_request(world.repository.record.id, 0)
    assert "branch_changed" in [event.data.get("outcome") for event in events if event.event == "run_ended"]


@pytest.mark.thorough
async def test_auto_learns_from_a_run_that_its_ci_may_run_another_beside_it(tmp_path: Path) -> None:
    """`runs: auto` begins with one CI run at once; after the first one it lets two be active."""
    async with a_train_world(tmp_path, trains="{candidates: push, runs: auto}") as world:
        first, second, third = await ready(world, "a", "b", "c")
        queue_all([first])
        await world.until(lambda: bool(first.merged))
        queue_all([second])
        await world.pass_time(timedelta(minutes=1))
        queue_all([third])
        await world.pass_time(timedelta(minutes=1))
        async with world.bot.engine.store.reading() as tx:
            runs = await tx.runs.of_repository(world.repository.record.id)
        assert [run.numbers for run in runs] == [(second.number,), (second.number, third.number)]


def _without_pairs(*pairs: str) -> Callable[[Mapping[str, str]], bool]:
    """Judge trees: red with all files of one of these, one for each character."""
    return lambda files: not any(all(f"{name}.py" in files for name in pair) for pair in pairs)


@pytest.mark.thorough
@pytest.mark.parametrize("runs", [1, 2])
async def test_queue_with_red_pairs_and_a_red_one_ends_and_all_others_land(tmp_path: Path, runs: int) -> None:
    """P5: no run is repeated: of each pair one lands, the other leaves with the checks that failed, in few runs."""
    ci = {"judge": lambda files: "two.py" not in files or _without_pairs("bi", "df", "g")(files)}
    async with a_train_world(tmp_path, trains=f"{{candidates: push, runs: {runs}}}", ci=ci) as world:
        pulls = await ready(world, *"abcdefghi")
        world.repository.push("main", {"two.py": "x\n"}, "Together they fail", by="rhea")
        await world.pass_time(timedelta(minutes=8))
        before = commits_tested(world)
        queue_all(pulls)
        await world.until(lambda: sum(pull.merged for pull in pulls) == 6)
        await world.settle()
        await world.pass_time(timedelta(hours=1))
        assert await world.entries() == ()
        left = "".join(name for name, pull in zip("abcdefghi", pulls, strict=True) if not pull.merged)
        assert [len({*left} & {*pair}) for pair in ("bi", "df", "g")] == [1, 1, 1]
        assert all([await world.reasons(pull) == ["checks_failed"] for pull in pulls if not pull.merged])
        assert commits_tested(world) - before <= 14


@pytest.mark.long
async def test_four_runs_at_once_cost_no_more_than_one_by_one_where_pairs_are_red(tmp_path: Path) -> None:
    """P5: one by one they take twelve runs at least; the plan falls back to fewer runs at once by itself."""
    ci = {"judge": lambda files: "two.py" not in files or _without_pairs("cl", "ef", "ab")(files)}
    async with a_train_world(tmp_path, trains="{candidates: push, runs: 4}", ci=ci) as world:
        pulls = await ready(world, *"abcdefghijkl")
        world.repository.push("main", {"two.py": "x\n"}, "Together they fail", by="rhea")
        await world.pass_time(timedelta(minutes=8))
        before = commits_tested(world)
        queue_all(pulls)
        await world.until(lambda: sum(pull.merged for pull in pulls) == 9)
        await world.pass_time(timedelta(hours=1))
        assert await world.entries() == ()
        assert commits_tested(world) - before <= 12


async def test_head_whose_own_check_fails_joins_no_run_of_others(world: World) -> None:
    """P5: a check that turned red after the pull request was queued is evidence about that pull request alone."""
    good = await ready(world, "a", "b")
    world.repository.push("main", {"more.py": "x\n"}, "Move the base", by="rhea")
    bad = world.open("c", files={"c.txt": "99\n"})
    control_time = timedelta(minutes=1)
    await world.pass_time(control_time)
    await control(world, pauses.freeze, until=world.clock.now() + timedelta(minutes=20), reason="release")
    queue_all([*good, bad])
    before = commits_tested(world)
    await world.pass_time(timedelta(minutes=19))
    tested = commits_tested(world)
    await world.until(lambda: all(pull.merged for pull in good))
    await world.until_status(bad, None)
    assert tested - before <= 2
    assert not bad.merged
    # One run of both good ones, and one of the bad one alone.
    assert commits_tested(world) - tested == 2
