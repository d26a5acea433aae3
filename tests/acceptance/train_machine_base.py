"""The ground of the state machine over trains: a world by chance, time that passes, kills, and what must hold."""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from github_emulator import ApiError
from queue_engine.domain.run import RunState
from queue_engine.rules.transitions import check_queue
from tests.acceptance.train_stage import CHECK, TrainWorld, a_train_world
from tests.acceptance.train_witness import BASES, TrainWitness
from tests.acceptance.world import CI_TIME, LABEL, REPOSITORY

SIZES = (0, 0, 0, 4, 7)
"""Two of the last ones together are red: they total more than ten."""
MOST_PULLS = 10
LONGEST_LAG = timedelta(seconds=5)
MORE = (
    "priority: {labels: {hotfix: {priority: 100, hotfix: true, preempts: true}, "
    "merge-queue-fix: {priority: 0, fixes_base: true}}}\n"
    "branches: [{match: release, trains: off}]\n"
)
UPDATE = "keep-updated"
MEDDLED = "meddle-"
"""How the files begin that somebody pushes to a branch of a train."""
FEATURES = {
    "auto_merge": "auto_merge: queue\n",
    "capacity": f"capacity: [{{name: gpu, checks: {CHECK}, runs: 1}}]\n",
    "culprit": "culprit: revert\n",
    "flaky": f"checks: {{flaky: [{{name: {CHECK}, until: 2027-01-01}}]}}\n",
    "update_label": f"update_label: {UPDATE}\n",
}
"""Sections of the configuration, each of which an example has or lacks."""
_MOST_HOURS = 20
"""When every queue is empty at the latest, after the last act."""
_MOST_STARTED = 60
"""How many CI runs may begin after one act at most."""
_MOST_REQUESTS = 600
"""How many requests one act and what follows may cost at most: beyond that IMQ works in circles (P7)."""


@dataclass(frozen=True)
class Ground:
    """What an example begins with."""

    runs: int
    on: tuple[str, ...]
    method: str
    candidates: str
    split: str
    noticed: int
    """Seconds until GitHub notices that a push brought a pull request's head into the base."""
    lags: bool
    """Whether each read shows a state of the last five seconds."""
    rules: str
    """Of the base: `classic`, `strict`, or a ruleset, with the mode in which IMQ may bypass it."""
    apps_bypass: bool
    """Whether GitHub lets an App in the mode `always` push to a branch that needs pull requests."""
    known_judged: bool
    beside: bool
    """Whether `release` has a queue, too, in which one pull request is tested after the other."""
    features: frozenset[str] = frozenset()
    """The keys of `FEATURES` that the configuration has."""

    @property
    def trains(self) -> str:
        """The section of the configuration."""
        return (
            "off"
            if self.candidates == "off"
            else f"{{candidates: {self.candidates}, runs: {self.runs}, split: {self.split}}}"
        )


GROUNDS = st.builds(
    Ground,
    runs=st.integers(1, 3),
    on=st.sampled_from([("push", "pull_request"), ("pull_request",), ("pull_request", "dispatch")]),
    method=st.sampled_from(["merge", "merge", "squash", "rebase"]),
    candidates=st.sampled_from(["auto", "auto", "dispatch", "off"]),
    split=st.sampled_from(["bisect", "single"]),
    noticed=st.sampled_from([0, 5, 900]),
    lags=st.booleans(),
    rules=st.sampled_from(["classic", "classic", "strict", "always", "exempt", "pull_request", "none"]),
    apps_bypass=st.booleans(),
    known_judged=st.booleans(),
    beside=st.booleans(),
    features=st.frozensets(st.sampled_from(sorted(FEATURES)), max_size=3),
)


class TrainMachineBase(RuleBasedStateMachine):
    """The world of one example. Each rule acts and lets some time pass; a kill may hit any request in that time."""

    lend: Callable[[], AbstractContextManager[str]] | None = None
    """Lends each example a migrated database, by its URL; None: a file of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.directory = Path(tempfile.mkdtemp(prefix="imq-trains-"))
        self.trains: TrainWorld | None = None
        self.pulls: list[Any] = []
        self.homes: dict[int, str] = {}
        """The base branch of each pull request."""
        self.acts = 0
        self.killed = 0
        self.most_runs = 0
        self.flakes = 0
        self.broken = ""
        """The name of what has failed since some instant after it landed, if anything does."""
        self.shadowed = False
        self.at_rest = False
        self._requests = self._started = 0
        self._passing: asyncio.Task[None] | None = None

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(work)

    @initialize(ground=GROUNDS, sizes=st.lists(st.sampled_from(SIZES), min_size=3, max_size=6))
    def begin(self, ground: Ground, sizes: list[int]) -> None:
        """Set the world up, and queue pull requests."""
        self.ground = ground
        made = a_train_world(
            self.directory,
            trains=ground.trains,
            on=ground.on,
            method=ground.method,
            strict=ground.rules == "strict",
            more=self.more,
            settings=None if self.lend is None else {"DATABASE_URL": self.stack.enter_context(self.lend())},
        )
        self.trains = self.run(self.stack.enter_async_context(made))
        self.trains.judges.append(self._flakes)
        self.trains.judges.append(
            lambda files: not self.broken or not any(path.startswith(f"{self.broken}.") for path in files)
        )
        self.most_runs = ground.runs
        self.world.repository.record.allow_auto_merge = True
        self.world.repository.push("release", {"release.py": "1\n"}, "Release", by="rhea")
        app = self.world.github.actions.app(self.world.repository.record)
        self.world.repository.protect("release", required_checks=[(CHECK, app.id)], by="rhea")
        self.witness = TrainWitness(self.world.github)
        self.witness.reverts_itself = "culprit" in ground.features
        self.witness.note(f"{ground}, sizes {sizes}")
        github = self.world.github
        github.timings.merged_by_push = timedelta(seconds=ground.noticed)
        github.behaviour.apps_bypass_updates = ground.apps_bypass
        github.behaviour.known_commits_judged = ground.known_judged
        if ground.rules not in ("classic", "strict"):
            self.world.repository.unprotect("main", by="rhea")
            self.set_rules(ground.rules)
        self.pulls += [self.open(size) for size in sizes]
        self.let_pass(int(CI_TIME.total_seconds()) + 1)
        if ground.lags:
            self.world.server.lag.between(timedelta(0), LONGEST_LAG, seed=len(sizes))
            self.witness.late = LONGEST_LAG
        for pull in self.pulls:
            self.witness.agree(pull)

    def set_rules(self, mode: str) -> None:
        """Have a ruleset demand checks and a pull request, which administrators may bypass, and IMQ in this mode."""
        app = self.world.github.actions.app(self.world.repository.record)
        bypass = {"rhea": "always"} | ({} if mode == "none" else {"imq": mode})
        self.world.repository.add_ruleset(
            "main", by="rhea", required_checks=[(CHECK, app.id)], required_approvals=1, bypass=bypass
        )

    def _flakes(self, _files: Any) -> bool:
        if self.flakes:
            self.flakes -= 1
            self.witness.note("a check flakes")
            return False
        return True

    @property
    def more(self) -> str:
        """What the configuration has beside trains and the method."""
        return MORE + "".join(FEATURES[each] for each in sorted(self.ground.features))

    @property
    def world(self) -> Any:
        """The world of this example."""
        assert self.trains is not None
        return self.trains.world

    def open(self, size: int, **more: Any) -> Any:
        """Open a pull request, which somebody approves."""
        assert self.trains is not None
        if self.ground.beside and self.trains.number % 3 == 2:
            size, more = 0, {"base": "release", **more}
        pull = self.trains.open(size, **more)
        self.homes[pull.number] = pull.record.base_branch
        pull.review("APPROVED", by="rhea")
        self.witness.note(f"#{pull.number} opens, size {size}")
        return pull

    def push_to_main(self, files: dict[str, str | None], message: str) -> None:
        """An administrator pushes to the base."""
        repository = self.world.repository
        made = repository.commit(files, repository.sha(), message, by="rhea")
        self.witness.by_hand.add(made)
        repository.push_commit("main", made, by="rhea")

    def checks_of_main(self) -> list[Any]:
        """The check runs on the tip of the base."""
        record = self.world.repository.record
        return list(record.runs_by_sha.get(self.world.repository.sha(), []))

    @invariant()
    def promises_hold(self) -> None:
        """P1, P2, P4 as the witness saw them; P3: order; P6: one comment, one check run; P7: no work in circles."""
        if self.trains is None:
            return
        report, server = self.witness.report, self.world.server
        assert not self.witness.complaints, report
        git, tips = self.world.repository.record.git, [self.world.repository.sha(base) for base in BASES]
        lost = [made for made in self.witness.by_hand if not any(git.is_ancestor(made, tip) for tip in tips)]
        assert not lost, f"a push is lost\n{report}"
        for pull in self.pulls:
            # A new comment replaces the former one, which a kill in between leaves for a while.
            most = 2 if self.killed and not self.at_rest else 1
            assert self.world.spoken(pull) <= most, f"#{pull.number} has two comments\n{report}"
            active = [run for run in pull.check_runs if run.app.slug == "imq" and run.status != "completed"]
            assert len(active) <= 1, f"#{pull.number} has {len(active)} check runs\n{report}"
        spent = len(server.requests) - self._requests
        self._requests = len(server.requests)
        routes = Counter(f"{each.method} {each.template}" for each in list(server.requests)[-spent:])
        assert spent <= _MOST_REQUESTS, f"{spent} requests: {routes}\n{report}"
        started = len(self.trains.candidate_runs())
        assert started - self._started <= _MOST_STARTED, f"{started - self._started} runs\n{report}"
        self._started = started
        self.run(self._stored_promises_hold())

    async def _stored_promises_hold(self) -> None:
        async with self.world.bot.engine.store.reading() as tx:
            for queue in await tx.queues.all():
                check_queue(await tx.entries.of_queue(queue.id))
                runs = await tx.runs.of_queue(queue.id)
                active = [run for run in runs if run.state in (RunState.BUILDING, RunState.TESTING)]
                assert len(active) <= self.most_runs, f"{len(active)} runs\n{self.witness.report}"

    def teardown(self) -> None:
        """Let the rest come to its end: each queued pull request lands, or leaves with a reason; branches are gone."""
        try:
            if self.trains is not None:
                self._finish()
        finally:
            self._close()
            self.run(self.loop.shutdown_asyncgens())
            self.loop.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _close(self) -> None:
        try:
            self.run(self.stack.aclose())
        except AssertionError as fault:
            raise AssertionError(f"{fault}\n{self.witness.report}") from fault

    def _finish(self) -> None:
        assert self.trains is not None
        self.witness.note("the end: nobody acts any more")
        self.world.server.on_request = None
        self.world.server.faults.clear()
        self.world.github.webhooks.faults.clear()
        self.flakes = 0
        self.broken = ""
        self.calm_down()
        for _ in range(_MOST_HOURS):
            self.let_pass(3600)
            self.adopt()
            self.promises_hold()
            if not self.run(self.world.entries()):
                break
            self.calm_down()
        self.let_pass(7200)
        self.at_rest = True
        queued = self.run(self.world.entries())
        assert not queued, f"{self.run(self.world.describe())}\n{self.witness.report}"
        self.promises_hold()
        # What somebody pushed to a branch of IMQ's own stays there.
        files = self.world.repository.files
        left = [each for each in self.trains.branches() if not any(path.startswith(MEDDLED) for path in files(each))]
        assert left == [], f"{left} are left\n{self.witness.report}"
        drafts = [each.number for each in self.world.repository.record.pulls.values() if self.is_own_draft(each)]
        assert drafts == [], f"drafts are left\n{self.witness.report}"
        # After shadow mode IMQ explains a label that it cannot prove to be newer than each push.
        lost = [each.number for each in self.pulls if not self.shadowed and self.run(self._is_lost(each))]
        words = [each.body for pull in self.pulls if pull.number in lost for each in pull.comments]
        assert not lost, f"{lost} have their label, and are not queued: {words}\n{self.witness.report}"
        self.judge_end()

    def waits_for_its_check(self, pull: Any) -> bool:
        """Whether a pull request waits outside the queue because a check of its own head failed."""
        runs = self.world.repository.record.runs_by_sha.get(pull.head_sha, [])
        return any(run.conclusion == "failure" for run in runs) and self.run(self._is_outside(pull))

    async def _is_outside(self, pull: Any) -> bool:
        async with self.world.bot.engine.store.reading() as tx:
            known = await tx.entries.find(pull.record.repository.id, pull.number)
        return known is not None and not known.is_ready

    async def _is_lost(self, pull: Any) -> bool:
        """Whether a pull request has its label, and IMQ does not know it."""
        async with self.world.bot.engine.store.reading() as tx:
            known = await tx.entries.find(pull.record.repository.id, pull.number)
        return pull.state == "open" and LABEL in pull.labels and known is None

    def calm_down(self) -> None:
        """End what would hold the queue for good: pauses, freezes, a red base."""

    def is_own_draft(self, record: Any) -> bool:
        """Whether a pull request is one of IMQ's candidates, and open."""
        return bool(record.state == "open" and record.head_branch.startswith("imq/"))

    def adopt(self) -> None:
        """Somebody approves the pull requests that IMQ has opened; people may act on them from now on."""
        known = {pull.number for pull in self.pulls}
        for number, record in sorted(self.world.repository.record.pulls.items()):
            if number not in known and not record.head_branch.startswith("imq/"):
                pull = self.world.github.pull(REPOSITORY, number)
                pull.review("APPROVED", by="rhea")
                self.homes[number] = record.base_branch
                self.pulls.append(pull)

    def judge_end(self) -> None:
        """Fail where something is left that has come to no end."""

    def draw(self, data: st.DataObject, *, state: str = "open") -> Any | None:
        """One of the pull requests that have not landed."""
        self.adopt()
        found = [pull for pull in self.pulls if not pull.merged and state in ("any", pull.state)]
        return data.draw(st.sampled_from(found)) if found else None

    def act(self) -> int:
        """Number what people do."""
        self.acts += 1
        return self.acts

    def kill(self) -> None:
        """`kill -9`: the present request is the last one."""
        if self._passing is not None:
            self.killed += 1
            self._passing.cancel()

    def let_pass(self, seconds: int) -> None:
        """Let time pass; a kill ends IMQ in it, and it starts again."""
        self.run(self._passed(timedelta(seconds=seconds)))

    async def _passed(self, duration: timedelta) -> None:
        end = self.world.clock.now() + duration
        while True:
            killed = self.killed
            self._passing = asyncio.ensure_future(self.world.pass_time(max(end - self.world.clock.now(), timedelta(0))))
            try:
                await self._passing
            except asyncio.CancelledError:
                if self.killed == killed:
                    raise
            except ApiError as error:
                raise AssertionError(self.witness.report) from error
            finally:
                self._passing = None
            if self.killed == killed:
                return
            await self.world.kill()
            await self.world.restart()
