"""The base is red on a tip that landed green: IMQ finds the landing that broke it, and blames no one for the rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Job, Trigger
from queue_engine.admission.reverts import request_revert
from queue_engine.domain.culprit import CULPRIT, BaseCommit, CulpritOutcome, CulpritRecord
from queue_engine.effects.landings import announce_culprit
from queue_engine.executor.cleanup import request_lost
from tests.acceptance.commenting import say
from tests.acceptance.shadow_mode import repository_of
from tests.acceptance.test_queue_files import imported, move
from tests.acceptance.world import CI_TIME, LAG, World, a_world
from tests.support.databases import MakeUrl

WORKFLOW, CHECK = ".github/workflows/ci.yml", "unit"
FILE = """on: {{pull_request: {{}}, push: {{branches: [{branches}]}}{more}}}
jobs: {{unit: {{runs-on: ubuntu-latest, steps: [{{run: "true"}}]}}}}
"""
BOTH = pytest.mark.parametrize("trains", [False, pytest.param(True, marks=pytest.mark.thorough)])
AT_LAG = pytest.mark.parametrize("lag", [timedelta(0), pytest.param(LAG, marks=pytest.mark.thorough)])


@dataclass
class Bench:
    """A world whose CI fails on what the test says: trees with a file, everything, or the next jobs alone."""

    world: World
    bad: set[str] = field(default_factory=set)
    flakes: int = 0
    everything: bool = False
    missed_after: int | None = None
    """After how many failures a job misses the fault, once."""

    def passes(self, files: Any) -> bool:
        """Judge a tree."""
        if self.flakes:
            self.flakes -= 1
            return False
        good = not self.everything and self.bad.isdisjoint(files)
        if not good and self.missed_after is not None:
            self.missed_after -= 1
            return self.missed_after == -1
        return good

    async def land(self, *names: str) -> list[Any]:
        """Land a pull request for each name, before CI of the base has begun to fail."""
        pulls = [self.world.open(name, files={f"{name}.py": "1\n"}) for name in names]
        await self.world.pass_time(CI_TIME * 2)
        for pull in pulls:
            pull.label("merge-queue", by="mona")
        await self.world.until(lambda: all(pull.merged for pull in pulls))
        return pulls

    async def searches(self) -> tuple[CulpritRecord, ...]:
        """The searches of `main`, the newest first."""
        async with self.world.bot.engine.store.reading() as tx:
            queue = await tx.queues.find(self.world.repository.record.id, "main")
            return () if queue is None else await tx.culprits.of_queue(queue.id)

    async def events(self, number: int) -> int:
        """How often the search's result of a pull request was announced."""
        async with self.world.bot.engine.store.reading() as tx:
            events = await tx.timeline.of_pull_request(self.world.repository.record.id, number)
        return sum(each.event == CULPRIT for each in events)

    async def found(self) -> CulpritRecord:
        """Wait until a search has ended."""
        for _ in range(60):
            await self.world.pass_time(CI_TIME)
            if (searches := await self.searches()) and searches[0].outcome is not None:
                await self.world.settle()
                return searches[0]
        raise AssertionError(await self.searches())


@asynccontextmanager
async def a_bench(
    directory: Path, culprit: str, *, trains: bool, lag: timedelta = timedelta(0), starts: str | None = "push"
) -> AsyncIterator[Bench]:
    """A repository whose workflow runs on pull requests, on `main`, and on candidates by what `starts` it there."""
    async with a_world(directory, ci=False, protect=False, lag=lag) as world:
        bench = Bench(world)
        text = f"culprit: {culprit}\n" + ("trains: {candidates: push}\n" if trains else "")
        job = Job(CHECK, duration=CI_TIME, judge=bench.passes)
        pushed = ("main", "imq/**") if starts == "push" else ("main",)
        on = [Trigger("pull_request"), Trigger("push", branches=pushed)]
        on += [Trigger("workflow_dispatch")] if starts == "dispatch" else []
        more = ", workflow_dispatch: {}" if starts == "dispatch" else ""
        file = FILE.format(branches=", ".join(map(repr, pushed)), more=more)
        world.repository.push("main", {WORKFLOW: file, ".github/imq.yml": text}, "CI", by="rhea")
        world.repository.add_workflow("CI", jobs=[job], on=on, path=WORKFLOW)
        actions = world.github.actions.app(world.repository.record)
        world.repository.protect("main", required_checks=[(CHECK, actions.id)], by="rhea")
        world.repository.push("main", {"base.py": "1\n"}, "Begin", by="rhea")
        await world.pass_time(CI_TIME * 2)
        yield bench


def branches(world: World) -> list[str]:
    """IMQ's own branches."""
    return [name for name in world.repository.record.git.branches() if name.startswith("imq")]


@BOTH
@AT_LAG
async def test_breakage_is_found_among_what_landed_since_and_its_author_reads_that(
    tmp_path: Path, trains: bool, lag: timedelta
) -> None:
    """P5, P6: one comment names the culprit with its probability and runs; other authors read nothing of it."""
    async with a_bench(tmp_path, "name", trains=trains, lag=lag) as bench:
        world = bench.world
        good, bad, *other = await bench.land("good", "bad", *(["other"] if trains else []))
        bench.bad.add("bad.py")
        found = await bench.found()
        assert (found.outcome, found.culprit) == (CulpritOutcome.NAMED, bad.number)
        assert (found.probability or 0) >= 0.93
        comment = world.comment(bad)
        assert "Since this pull request landed, `main` fails `unit`, with a probability of 9" in comment
        assert all(each in comment for each in ("@mona", f"#{bad.number}`: [`failed", "`/revert`"))
        assert all("probability" not in world.comment(each) for each in (good, *other))
        assert branches(world) == []


@pytest.mark.parametrize("starts", ["dispatch", None])
async def test_search_tests_only_by_what_starts_the_check_on_a_branch(tmp_path: Path, starts: str | None) -> None:
    """P5, P6: where nothing does, IMQ makes no branch, blames no author, and says why."""
    async with a_bench(tmp_path, "name", trains=False, starts=starts) as bench:
        world = bench.world
        _, bad = await bench.land("good", "bad")
        bench.bad.add("bad.py")
        found = await bench.found()
        assert found.culprit == (bad.number if starts else None)
        assert found.outcome is (CulpritOutcome.NAMED if starts else CulpritOutcome.NO_TRIGGER)
        made = [each for each in world.repository.record.suites_by_sha.values() for each in each]
        assert any(str(each.head_branch).startswith("imq/") for each in made) is bool(starts)
        assert branches(world) == []
        async with world.bot.engine.store.reading() as tx:
            events = await tx.timeline.since(0, limit=100)
        outcomes = [each.data.get("outcome") for each in events if each.event == CULPRIT]
        assert outcomes == [None if starts else CulpritOutcome.NO_TRIGGER]


async def test_comment_that_names_a_culprit_says_what_reverts_it_without_a_command(tmp_path: Path) -> None:
    """P6: not by a command alone, without a second comment; a later result leaves that there."""
    async with a_bench(tmp_path, "name", trains=False) as bench:
        world = bench.world
        _, bad = await bench.land("good", "bad")
        bench.bad.add("bad.py")
        found = await bench.found()
        engine, repository = world.bot.engine, repository_of(world)
        opened = await request_revert(engine, repository, bad.number, by="mona")
        await world.settle()
        comment = world.comment(bad)
        assert f"IMQ opened `#{opened.number}`, which reverts this pull request. To land the change again" in comment
        assert "To take it back" not in comment
        [search] = await bench.searches()
        assert search.revert is None, "IMQ opened it for a person"
        for outcome in (CulpritOutcome.NAMED, CulpritOutcome.UNCERTAIN):
            async with engine.change() as change:
                queue = await change.tx.queues.find(repository.id, "main")
                assert queue is not None
                policy = await engine.policies.of(repository, "main")
                await announce_culprit(change, queue, replace(found, outcome=outcome), policy)
            await world.settle()
            assert f"IMQ opened `#{opened.number}`, which reverts" in world.comment(bad)
        assert "Later runs contradict that" in world.comment(bad)
        await world.until(lambda: world.repository.record.pulls[opened.number or 0].merged)


@AT_LAG
async def test_author_who_was_named_too_early_reads_that_without_reverts(tmp_path: Path, lag: timedelta) -> None:
    """P5, P6: a job missed the fault, so the next landing seemed to have it. Then the right one is named."""
    async with a_bench(tmp_path, "name", trains=True, lag=lag) as bench:
        pulls = await bench.land("good", "bad", "other")
        bench.bad.add("bad.py")
        bench.missed_after = 2
        found = await bench.found()
        assert (found.outcome, found.culprit) == (CulpritOutcome.NAMED, pulls[1].number)
        texts = [bench.world.comment(each) for each in pulls]
        assert ["Later runs contradict that: it is not known" in each for each in texts] == [False, False, True]
        assert ["probability" in each and "/revert" in each for each in texts] == [False, True, False]


async def test_base_that_is_repaired_while_a_culprit_is_confirmed_has_nothing_reverted(tmp_path: Path) -> None:
    """P5, P6: the culprit stays named, and its author is mentioned once."""
    async with a_bench(tmp_path, "revert", trains=False) as bench:
        world = bench.world
        _, bad = await bench.land("good", "bad")
        bench.bad.add("bad.py")
        while not (searches := await bench.searches()) or searches[0].named is None:
            await world.pass_time(CI_TIME / 4)
        world.repository.push("main", {"bad.py": None}, "Repair", by="rhea")
        found = await bench.found()
        await world.pass_time(CI_TIME * 2)
        assert (found.outcome, found.culprit, found.revert) == (CulpritOutcome.NAMED, bad.number, None)
        assert [each for each in world.repository.record.pulls.values() if each.title.startswith("Revert")] == []
        assert await bench.events(bad.number) == 1


@BOTH
async def test_why_on_a_culprit_says_what_is_known_and_who_reverts_it(tmp_path: Path, trains: bool) -> None:
    """P6: it landed, and there is something left to do: at first for people, then nothing but to land it again."""
    async with a_bench(tmp_path, "name", trains=trains) as bench:
        world = bench.world
        good, bad = await bench.land("good", "bad")
        bench.bad.add("bad.py")
        await bench.found()
        await say(world, bad, "/why", by="mona")
        assert "IMQ named it as what broke `main`, with a probability of" in world.comment(bad)
        assert "Who has to act: a maintainer. Next: To take it back, comment `/revert`" in world.comment(bad)
        await say(world, bad, "/revert", by="mona")
        await say(world, bad, "/why", by="mona")
        assert f"Who has to act: no one. Next: IMQ opened `#{bad.number + 1}`, which reverts" in world.comment(bad)
        await say(world, good, "/why", by="mona")
        assert "IMQ has nothing left to do." in world.comment(good)


@BOTH
@AT_LAG
async def test_flake_of_the_base_blames_no_change(tmp_path: Path, trains: bool, lag: timedelta) -> None:
    """P5: the rerun passes, and so does one test of the same commit."""
    async with a_bench(tmp_path, "name", trains=trains, lag=lag) as bench:
        pulls = await bench.land("a", "b")
        bench.flakes = 1
        found = await bench.found()
        assert (found.outcome, found.named, found.tests) == (CulpritOutcome.FLAKE, None, 1)
        assert all("probability" not in bench.world.comment(each) for each in pulls)


async def test_rerun_that_misses_the_fault_ends_no_search_and_a_green_base_has_nothing_reverted(tmp_path: Path) -> None:
    """P5: the base's own check is green then, so that the revert is left to people."""
    async with a_bench(tmp_path, "revert", trains=True) as bench:
        _, bad, _ = await bench.land("good", "bad", "other")
        bench.bad.add("bad.py")
        bench.missed_after = 1
        found = await bench.found()
        assert (found.outcome, found.culprit, found.revert) == (CulpritOutcome.NAMED, bad.number, None)
        assert found.results[1].on_base
        assert found.results[1].passed


@BOTH
@AT_LAG
async def test_environment_that_fails_blames_no_change(tmp_path: Path, trains: bool, lag: timedelta) -> None:
    """P5: the commit that passed before these landings fails now, too."""
    async with a_bench(tmp_path, "revert", trains=trains, lag=lag) as bench:
        pulls = await bench.land("a", "b")
        bench.everything = True
        found = await bench.found()
        assert (found.outcome, found.named) == (CulpritOutcome.ENVIRONMENT, None)
        assert found.green_at is not None
        assert (found.results[-1].passed, found.results[-1].place) == (False, 0)
        assert all("probability" not in bench.world.comment(each) for each in pulls)
        bench.everything = False


def titled(world: World, title: str) -> Any:
    """The one pull request with this title."""
    [found] = [each for each in world.repository.record.pulls.values() if each.title == title]
    return found


async def replies(world: World, pull: Any) -> list[str]:
    """What IMQ answered to the last commands on a pull request."""
    async with world.bot.engine.store.reading() as tx:
        answer = await tx.answers.find(world.repository.record.id, pull.number)
    return [] if answer is None else [each.code.value for each in answer.replies]


@BOTH
@AT_LAG
async def test_revert_lands_through_the_queue_of_a_red_base_and_the_change_can_reland(
    tmp_path: Path, trains: bool, lag: timedelta
) -> None:
    """P1, P4: `/revert` opens one pull request, which is tested and lands before others; `/reland` opens the change."""
    async with a_bench(tmp_path, "off", trains=trains, lag=lag) as bench:
        world = bench.world
        [bad] = await bench.land("bad")
        bench.bad.add("bad.py")
        await world.pass_time(CI_TIME * 2)
        waiting = world.open("waiting", files={"waiting.py": "1\n"})
        waiting.label("merge-queue", by="mona")
        await world.pass_time(CI_TIME * 3)
        bad.comment("/revert", by="mona")
        await world.pass_time(CI_TIME)
        assert await replies(world, bad) == ["reverted"]
        revert = titled(world, f'Revert "{bad.record.title}"')
        await world.until(lambda: revert.merged)
        await world.until(lambda: waiting.merged)
        files = world.repository.record.git.files(world.repository.record.git.branch("main"))
        assert {"bad.py", "waiting.py"} & {*files} == {"waiting.py"}
        bad.comment("/reland", by="mona")
        await world.pass_time(CI_TIME)
        assert await replies(world, bad) == ["relands"]
        again = titled(world, f"Reland: {bad.record.title}")
        assert (again.merged, await world.entry(again)) == (False, None)
        world.unsettled = "the change that relands fails, and its author has not queued it"


async def test_push_to_an_open_revert_is_no_part_of_a_later_request_to_revert(tmp_path: Path) -> None:
    """P4: who comments `/revert` consents to the commit that GitHub made, whatever its branch has by now."""
    async with a_bench(tmp_path, "off", trains=False) as bench:
        world = bench.world
        [bad] = await bench.land("bad")
        bad.comment("/revert", by="mona")
        await world.pass_time(timedelta(seconds=30))
        revert = titled(world, f'Revert "{bad.record.title}"')
        world.repository.push(revert.head_branch, {"more.py": "1\n"}, "More", by="rhea")
        await world.pass_time(CI_TIME * 2)
        assert await world.entry(revert) is None
        bad.comment("/revert", by="mona")
        await world.pass_time(CI_TIME * 2)
        assert await replies(world, bad) == ["revert_opened"]
        assert (revert.merged, await world.entry(revert)) == (False, None)


@BOTH
@AT_LAG
async def test_culprit_is_reverted_without_being_asked_only_after_runs_agree_and_never_twice(
    tmp_path: Path, trains: bool, lag: timedelta
) -> None:
    """P1, P4: where it is configured, one revert lands through the queue, and a revert is not reverted."""
    async with a_bench(tmp_path, "revert", trains=trains, lag=lag) as bench:
        world = bench.world
        _, bad = await bench.land("good", "bad")
        bench.bad.add("bad.py")
        found = await bench.found()
        assert (found.outcome, found.culprit) == (CulpritOutcome.NAMED, bad.number)
        tests = [(each.place, each.passed) for each in found.results if not each.on_base]
        assert found.named is not None
        assert min(tests.count((found.named - 1, True)), tests.count((found.named, False))) >= 2
        revert = titled(world, f'Revert "{bad.record.title}"')
        await world.until(lambda: revert.merged)
        await world.settle()
        [search] = await bench.searches()
        assert search.revert == revert.number
        assert f"IMQ opened `#{revert.number}`, which reverts this pull request" in world.comment(bad)
        async with world.bot.engine.store.reading() as tx:
            [*_, landed] = await tx.landings.of_pull_request(world.repository.record.id, revert.number)
        how = [(each["by"], each["how"]) for each in landed.record["members"][-1]["consents"]]
        assert ("mona", "revert") in how
        bench.bad.add("good.py")
        await world.pass_time(CI_TIME * 12)
        assert all(each.revert is None for each in (await bench.searches())[:-1])


WRITES = ("rerun", "create_branch", "update_refs", "revert_pull_request")


def kill_after(world: World, names: list[str]) -> list[str]:
    """Have IMQ die right after the first call of one of these; the name is taken from the list, and returned in one."""
    died = list[str]()
    github: Any = world.bot.engine.github

    def watch(name: str) -> None:
        call = getattr(github, name)

        async def watched(*given: Any, **more: Any) -> Any:
            answer = await call(*given, **more)
            if name in names and not died:
                names.remove(name)
                died.append(name)
                raise asyncio.CancelledError(name)
            return answer

        object.__setattr__(github, name, watched)

    for name in WRITES:
        watch(name)
    return died


@BOTH
async def test_search_and_revert_continue_after_a_kill_at_each_write_and_cost_nothing_while_the_base_is_green(
    tmp_path: Path, trains: bool
) -> None:
    """P2, P7: one culprit is named, one revert lands, no branch is left; before that no request was sent."""
    async with a_bench(tmp_path, "revert", trains=trains) as bench:
        world, left = bench.world, [*WRITES]
        _, bad = await bench.land("good", "bad")
        assert await bench.searches() == ()
        assert world.requests("POST /repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs") == 0
        bench.bad.add("bad.py")
        while left:
            died = kill_after(world, left)
            await world.until(partial(bool, died))
            await world.kill()
            await world.restart()
        title = f'Revert "{bad.record.title}"'
        await world.until(lambda: any(each.title == title for each in world.repository.record.pulls.values()))
        await world.until(lambda: titled(world, title).merged)
        await world.settle()
        [search] = await bench.searches()
        assert (search.culprit, search.revert) == (bad.number, titled(world, title).number)
        assert branches(world) == []


async def test_failure_since_a_push_around_the_queue_blames_no_pull_request(tmp_path: Path) -> None:
    """P5: somebody pushed between two landings; the check fails since that commit, and no author reads of it."""
    async with a_bench(tmp_path, "name", trains=False) as bench:
        world = bench.world
        [first] = await bench.land("first")
        world.repository.push("main", {"bad.py": "1\n"}, "Around", by="rhea")
        [last] = await bench.land("last")
        bench.bad.add("bad.py")
        found = await bench.found()
        assert found.outcome in (CulpritOutcome.PUSHED, CulpritOutcome.ENVIRONMENT)
        assert found.culprit is None
        assert all("probability" not in world.comment(each) for each in (first, last))


async def test_fourth_revert_within_an_hour_is_left_to_people(tmp_path: Path) -> None:
    """P5: three reverts that no one asked for are enough: the culprit is named, and people decide."""
    async with a_bench(tmp_path, "revert", trains=False) as bench:
        world = bench.world
        _, bad = await bench.land("good", "bad")
        async with world.bot.engine.change() as change:
            queue = await change.tx.queues.find(world.repository.record.id, "main")
            assert queue is not None
            for number in range(3):
                row = tuple(BaseCommit(f"{each:040x}", each) for each in (number, number + 1))
                done = CulpritRecord(queue.id, CHECK, row, (), change.now, named=1, revert=90 + number)
                await change.tx.culprits.add(replace(done, outcome=CulpritOutcome.NAMED), queue.repository.id)
        bench.bad.add("bad.py")
        assert (await bench.found()).culprit == bad.number
        await world.pass_time(CI_TIME)
        assert [each for each in world.repository.record.pulls.values() if each.title.startswith("Revert")] == []
        assert "`/revert`" in world.comment(bad)


async def test_running_search_continues_in_another_database(tmp_path: Path, make_sqlite_url: MakeUrl) -> None:
    """P2: a queue that has nothing but its search is in the file, with the results until then."""
    async with a_bench(tmp_path, "name", trains=False) as bench:
        world = bench.world
        _, bad = await bench.land("good", "bad")
        bench.bad.add("bad.py")
        while not (searches := await bench.searches()) or searches[0].testing is None:
            await world.pass_time(timedelta(seconds=20))
        before = searches[0]
        url = make_sqlite_url()
        file = await move(world, url)
        await imported(world, url, file)
        [after] = await bench.searches()
        assert (after.results[: len(before.results)], after.started) == (before.results, before.started)
        assert (await bench.found()).culprit == bad.number
        assert branches(world) == []


@pytest.mark.parametrize("way", ["off", "shadow", "permission"])
async def test_search_that_cannot_continue_leaves_no_branch_and_no_run(tmp_path: Path, way: str) -> None:
    """P5: people switch it off, or to shadow mode, or IMQ lacks a permission for a while: it comes to an end."""
    async with a_bench(tmp_path, "name", trains=False) as bench:
        world = bench.world
        await bench.land("good", "bad")
        bench.bad.add("bad.py")
        await world.until(lambda: bool(branches(world)))
        await world.pass_time(CI_TIME / 2)
        text = {"off": "culprit: off\n", "shadow": "culprit: name\nmode: shadow\n"}.get(way)
        if text is None:
            world.grant("contents", "read")
        else:
            world.repository.push("main", {".github/imq.yml": text}, "Configure", by="rhea")
        await world.pass_time(timedelta(minutes=30))
        world.grant("contents", "write")
        if way == "shadow":
            assert branches(world)
            world.repository.push("main", {".github/imq.yml": "culprit: name\n"}, "Configure", by="rhea")
        await world.pass_time(timedelta(hours=3))
        assert branches(world) == []
        assert [each.outcome is None for each in await bench.searches()] == [False]
        suites = [each for some in world.repository.record.suites_by_sha.values() for each in some]
        assert all(each.status == "completed" for each in suites if str(each.head_branch).startswith("imq/"))


async def test_branch_of_a_search_under_way_is_no_lost_one(tmp_path: Path) -> None:
    """P2: IMQ looks for branches of lost records after a pause, while CI runs on this one."""
    async with a_bench(tmp_path, "name", trains=False) as bench:
        world = bench.world
        _, bad = await bench.land("good", "bad")
        bench.bad.add("bad.py")
        await world.until(lambda: bool(branches(world)))
        before = branches(world)
        async with world.bot.engine.change() as change:
            await request_lost(change, repository_of(world))
        await world.pass_time(timedelta(seconds=30))
        assert branches(world) == before
        assert (await bench.found()).culprit == bad.number


@pytest.mark.parametrize("pushed", [False, True])
async def test_branch_of_a_person_under_the_name_of_a_test_stays(tmp_path: Path, pushed: bool) -> None:
    """The search takes the next name. It also leaves a branch of its own to which somebody pushed."""
    async with a_bench(tmp_path, "name", trains=False) as bench:
        world = bench.world
        good, bad = await bench.land("good", "bad")
        theirs = "imq/main/culprit-1-1"
        if not pushed:
            # At the commit that IMQ tests first, so that its tip is no proof.
            world.repository.create_branch(theirs, good.record.merge_commit_sha, by="mona")
        bench.bad.add("bad.py")
        if pushed:
            await world.until(lambda: bool(branches(world)))
            assert branches(world) == [theirs]
            world.repository.push(theirs, {"mine.py": "mine\n"}, "Mine", by="mona")
        tip = world.repository.sha(theirs)
        assert (await bench.found()).culprit == bad.number
        assert (branches(world), world.repository.sha(theirs)) == ([theirs], tip)
