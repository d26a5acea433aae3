"""A state machine of Hypothesis over trains: people, kills, faults and lost answers at every step, on the sandbox."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sandbox.callers.errors import DropConnection
from sandbox.core.errors import ApiError
from sandbox.rest.faults import Fault
from sandbox.rest.record import RecordedCall
from tests.acceptance.train_stage import TrainWorld, a_train_world
from tests.acceptance.train_witness import TrainWitness
from tests.acceptance.world import CI_TIME, LABEL

STEPS = (
    "POST /repos/{owner}/{repo}/git/refs",
    "POST /repos/{owner}/{repo}/merges",
    "POST /repos/{owner}/{repo}/git/commits",
    "POST /repos/{owner}/{repo}/pulls",
    "PATCH /repos/{owner}/{repo}/pulls/{number}",
    "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches",
    "PUT /repos/{owner}/{repo}/pulls/{number}/merge",
    "DELETE /repos/{owner}/{repo}/git/refs/{ref}",
    "GET /repos/{owner}/{repo}/commits/{ref}/check-runs",
    "POST /graphql",
    "POST /repos/{owner}/{repo}/issues/{number}/comments",
)
"""The requests of building, publishing, passing, landing and cleaning."""
SIZES = (0, 0, 0, 4, 7)
"""Two of the last ones together are red: they total more than ten."""
_MOST_PULLS = 10
_MOST_HOURS = 20
"""When every queue is empty at the latest, after the last act."""


class TrainMachine(RuleBasedStateMachine):
    """P1 to P6 with trains. Each rule acts and lets some time pass; a kill may hit any request in that time."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.directory = Path(tempfile.mkdtemp(prefix="imq-trains-"))
        self.trains: TrainWorld | None = None
        self.pulls: list[Any] = []
        self.acts = 0
        self.killed = 0
        self._passing: asyncio.Task[None] | None = None

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(work)

    @initialize(
        runs=st.integers(1, 3),
        on=st.sampled_from([("push", "pull_request"), ("pull_request",), ("pull_request", "dispatch")]),
        method=st.sampled_from(["merge", "merge", "squash"]),
        candidates=st.sampled_from(["auto", "auto", "dispatch"]),
        split=st.sampled_from(["bisect", "single"]),
        noticed=st.sampled_from([0, 5]),
        sizes=st.lists(st.sampled_from(SIZES), min_size=3, max_size=6),
    )
    def begin(
        self, runs: int, on: tuple[str, ...], method: str, candidates: str, split: str, noticed: int, sizes: list[int]
    ) -> None:
        """Set the world up, and queue pull requests; GitHub notices merges at once, or after seconds."""
        text = f"{{candidates: {candidates}, runs: {runs}, split: {split}}}"
        made = a_train_world(self.directory, trains=text, on=on, method=method)
        self.trains = self.run(self.stack.enter_async_context(made))
        self.witness = TrainWitness(self.world.github)
        self.world.github.timings.merged_by_push = timedelta(seconds=noticed)
        self.witness.note(f"trains: {text}, on {on}, {method}, sizes {sizes}")
        self.pulls += [self.trains.open(size) for size in sizes]
        self._pass(int(CI_TIME.total_seconds()) + 1)
        for pull in self.pulls:
            self.witness.agree(pull)

    @property
    def world(self) -> Any:
        """The world of this example."""
        assert self.trains is not None
        return self.trains.world

    @rule(sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=4), pause=st.integers(0, 400))
    def queue(self, sizes: list[int], pause: int) -> None:
        """People open pull requests, and queue them."""
        assert self.trains is not None
        for size in sizes:
            if len(self.pulls) < _MOST_PULLS:
                pull = self.trains.open(size)
                self.witness.note(f"#{pull.number} opens, size {size}")
                self.pulls.append(pull)
                self.witness.agree(pull)
        self._pass(pause)

    @rule(data=st.data(), pause=st.integers(0, 200))
    def withdraw_or_agree(self, data: st.DataObject, pause: int) -> None:
        """Somebody takes the label off, or puts it on."""
        pull = self._draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} label changes, on: {LABEL in pull.labels}")
            if LABEL in pull.labels:
                self.witness.withdraw(pull)
                pull.unlabel(LABEL, by="mona")
            else:
                self.witness.agree(pull)
            self._pass(pause)

    @rule(data=st.data(), forced=st.booleans(), pause=st.integers(0, 200))
    def push_to_member(self, data: st.DataObject, forced: bool, pause: int) -> None:
        """Somebody pushes to a pull request, queued or not."""
        pull = self._draw(data)
        if pull is not None:
            self.witness.note(f"#{pull.number} push")
            self.witness.withdraw(pull)
            push = pull.force_push if forced else pull.push
            push({f"push-{self._act()}.py": "pushed\n"}, by="hubot")
            self._pass(pause)

    @rule(data=st.data(), pause=st.integers(0, 200))
    def close_or_reopen(self, data: st.DataObject, pause: int) -> None:
        """Somebody closes a pull request, or opens it again."""
        pull = self._draw(data, state="any")
        if pull is not None:
            self.witness.note(f"#{pull.number} close or reopen")
            self.witness.withdraw(pull)
            if pull.state == "open":
                pull.close(by="mona")
            else:
                pull.reopen(by="mona")
            self._pass(pause)

    @rule(pause=st.integers(0, 300))
    def push_to_base(self, pause: int) -> None:
        """An administrator pushes to the base."""
        self.witness.note("push to main")
        repository = self.world.repository
        made = repository.commit({f"base-{self._act()}.py": "moved\n"}, repository.sha(), "Move the base", by="rhea")
        self.witness.by_hand.add(made)
        repository.push_commit("main", made, by="rhea")
        self._pass(pause)

    @rule(data=st.data(), deletes=st.booleans(), pause=st.integers(0, 200))
    def meddle_with_candidate(self, data: st.DataObject, deletes: bool, pause: int) -> None:
        """Somebody pushes to a branch of a train, or deletes it."""
        assert self.trains is not None
        branches = self.trains.branches()
        if branches:
            branch = data.draw(st.sampled_from(branches))
            self.witness.note(f"{branch} is {'deleted' if deletes else 'pushed to'}")
            if deletes:
                self.world.repository.delete_branch(branch, by="rhea")
            else:
                self.world.repository.push(branch, {f"meddle-{self._act()}.py": "x\n"}, "Meddle", by="rhea")
            self._pass(pause)

    @rule(pause=st.integers(0, 100))
    def cancel_run(self, pause: int) -> None:
        """Somebody cancels a CI run of a train."""
        assert self.trains is not None
        running = [run for run in self.trains.candidate_runs() if run.suite.status != "completed"]
        if running:
            self.witness.note(f"CI of {running[0].suite.head_branch} is cancelled")
            self.world.github.actions.cancel(running[0], actor=self.world.github.actor("rhea"))
            self._pass(pause)

    @rule(template=st.sampled_from(STEPS), phase=st.sampled_from(["before", "after"]), pause=st.integers(10, 600))
    def kill_at(self, template: str, phase: str, pause: int) -> None:
        """`kill -9` hits IMQ at the next request of this kind, before or after GitHub carries it out."""
        before = self.killed

        async def hook(exchange: RecordedCall) -> None:
            if (exchange.template, exchange.phase) == (template, phase) and self._passing is not None:
                self.world.server.on_request = None
                self.witness.note(f"killed {phase} {template}")
                self.killed += 1
                self._passing.cancel()
                raise DropConnection

        self.world.server.on_request = hook
        self._pass(pause)
        self.world.server.on_request = None
        if self.killed == before:
            self.witness.note(f"no request to be killed at: {template}")

    @rule(
        template=st.sampled_from(STEPS),
        kind=st.sampled_from(["fail", "reset", "apply_then_fail", "apply_then_reset"]),
        pause=st.integers(10, 600),
    )
    def lose_an_answer(self, template: str, kind: Any, pause: int) -> None:
        """The answer to one request gets lost; it may have been carried out."""
        method, _, route = template.partition(" ")
        self.witness.note(f"{kind} at {template}")
        self.world.server.faults.add(Fault(kind=kind, method=method, route=route, status=502))
        self._pass(pause)

    @rule(seconds=st.sampled_from([1, 30, 200, 900]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self._pass(seconds)

    @invariant()
    def promises_hold(self) -> None:
        """P1, P4 as the witness saw them; P6: one comment; P3: places without gaps."""
        if self.trains is not None:
            assert not self.witness.complaints, self.witness.report
            assert all(self.world.spoken(pull) <= 1 for pull in self.pulls), self.witness.report

    def teardown(self) -> None:
        """Let the rest come to its end: each queued pull request lands, or leaves with a reason; branches are gone."""
        try:
            if self.trains is not None:
                self._finish()
        finally:
            self.run(self.stack.aclose())
            self.run(self.loop.shutdown_asyncgens())
            self.loop.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _finish(self) -> None:
        assert self.trains is not None
        self.world.server.on_request = None
        self.world.server.faults.clear()
        for _ in range(_MOST_HOURS):
            self._pass(3600)
            if not self.run(self.world.entries()):
                break
        queued = self.run(self.world.entries())
        assert not queued, f"{self.run(self.world.describe())}\n{self.witness.report}"
        self.promises_hold()
        assert self.trains.branches() == [], self.witness.report
        drafts = [each.number for each in self.world.repository.record.pulls.values() if self._is_own_draft(each)]
        assert drafts == [], self.witness.report

    def _is_own_draft(self, record: Any) -> bool:
        return bool(record.state == "open" and record.head_branch.startswith("imq/"))

    def _draw(self, data: st.DataObject, *, state: str = "open") -> Any | None:
        found = [pull for pull in self.pulls if not pull.merged and state in ("any", pull.state)]
        return data.draw(st.sampled_from(found)) if found else None

    def _act(self) -> int:
        self.acts += 1
        return self.acts

    def _pass(self, seconds: int) -> None:
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
